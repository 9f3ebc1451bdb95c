"""Scores files without Redis."""
