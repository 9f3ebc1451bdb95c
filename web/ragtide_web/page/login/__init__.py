"""The form for a token."""
