"""Scoring files without Redis."""
