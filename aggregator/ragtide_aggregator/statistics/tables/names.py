"""Names that stored and printed numbers have; whoever prints them imports no NumPy."""

from typing import Final

ALL_TIME: Final = "all"
"""Name of the window of all values."""
