"""Metric formulas: labels in, scores out. Pure."""
