"""Specimens: which interactions are kept to be looked at, and how they are made."""
