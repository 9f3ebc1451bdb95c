"""Ownership: at most one process works on a partition."""
