"""Interactions and experiment items from files of many formats."""
