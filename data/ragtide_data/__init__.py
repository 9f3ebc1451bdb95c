"""The data of ragtide, as files of this folder. Nothing in it runs."""
