"""The ranges of event time that a headline may have; whoever names one imports no NumPy. No clock, no I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ragtide_schemas.alert_rule import duration_ms

RANGES: Final[Mapping[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "60d": timedelta(days=60),
}
"""Ranges by name, up to now."""

DEFAULT_RANGE: Final = "24h"

LENGTH: Final = re.compile("[1-9][0-9]{0,4}[mhd]")
"""The length of a range up to now."""


@dataclass(frozen=True, slots=True)
class HeadlineRange:
    """The range of event time that a reader chose."""

    name: str
    """A length such as `24h`, `since`, `since change`, `since version` or `all`."""
    start: datetime | None
    """None for `all`."""
    end: datetime | None = None
    """None for a range that reaches until now."""
    shortens: bool = False
    """Whether values before the last change, or before the newest version, are left out."""
    version: str | None = None
    """Version with whose first value it starts."""

    @property
    def is_since(self) -> bool:
        """Whether it reaches from a moment until now, and no value from before the moment counts."""
        return self.name.startswith("since") and self.end is None


def headline_range(name: str, now: datetime) -> HeadlineRange:
    """Return the range of a name: a length such as `24h`; `all`; or `default`, 24 hours or since the last change.

    Raises:
        ValueError: the name is no length of time.

    >>> headline_range("all", datetime(2026, 1, 1)).start is None
    True
    >>> headline_range("6h", datetime(2026, 1, 1)).start
    datetime.datetime(2025, 12, 31, 18, 0)
    """
    if name == "all":
        return HeadlineRange("all", None)
    chosen = DEFAULT_RANGE if name == "default" else name
    if LENGTH.fullmatch(chosen) is None:
        raise ValueError(f"range {name!r} is no length of time: give one such as {', '.join(RANGES)}, or all")
    return HeadlineRange(chosen, now - timedelta(milliseconds=duration_ms(chosen)), shortens=name == "default")
