"""Metric formulas, which compute scores from labels. Pure."""
