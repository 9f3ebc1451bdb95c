"""Notifies people and machines of alerts."""
