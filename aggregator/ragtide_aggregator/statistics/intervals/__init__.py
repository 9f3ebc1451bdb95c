"""Intervals of a mean, a sum or a quantile, at a fixed time or at every time."""
