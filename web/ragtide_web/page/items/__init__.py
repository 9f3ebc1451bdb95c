"""The screens of specimens: lists, an item with its labels, and the opinions of users."""
