"""Names that stored and printed numbers have; whoever prints them imports no NumPy."""

from typing import Final

ALL_TIME: Final = "all"
"""Name of the window of all values."""

AUTO: Final = "auto"
"""Name of the strategy `running`, or `asymptotic` for counts once there are enough values (`count_interval`)."""
