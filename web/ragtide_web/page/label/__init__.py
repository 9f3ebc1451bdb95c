"""The screen on which a user labels an item."""
