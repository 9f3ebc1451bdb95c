"""Spans that arrive over the network become interactions: stored by trace, read when due, published once."""
