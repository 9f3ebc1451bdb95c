"""Text for labelers: its language, its sentences and their keys, its parts and tokens."""
