"""The screen of a kept item with its labels, and the opinions of users."""
