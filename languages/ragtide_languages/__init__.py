"""The arrays of ragtide's language model, as files of this folder. Nothing in it runs."""
