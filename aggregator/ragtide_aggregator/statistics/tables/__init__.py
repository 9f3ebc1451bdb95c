"""Columns of float64 with a row a key, and the arrays that statistics take."""
