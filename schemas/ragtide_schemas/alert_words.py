"""Numbers, names and times in words, as every text about an alert has them. Pure.

The texts are English, in plain text without markup. Names come from outside: each is shortened and escaped.
"""

import re
from datetime import datetime, timedelta
from typing import Final

from .printable import printable

LONGEST_SENTENCE: Final = 600
"""Most characters of a sentence."""

LONGEST_NAME: Final = 80
"""Most characters of a name from outside, such as a segment value."""


def short_name(name: str) -> str:
    """Return a name from outside, shortened, without control characters and links."""
    return cut(without_links(printable(name[: 2 * LONGEST_NAME])), LONGEST_NAME)


def without_links(text: str) -> str:
    """Return a text in which no program of a reader finds an address to make a link of.

    >>> without_links("see https://evil.example or www.evil.example")
    'see https[:]//evil.example or www[.]evil.example'
    """
    return re.sub(r"(?i)\bwww\.", lambda match: f"{match[0][:3]}[.]", text.replace("://", "[:]//"))


def number(value: float | None) -> str:
    """Return a number in the unit of a metric, in at most four digits.

    >>> [number(value) for value in (0.7453, 0.0004, 12345.6, None)]
    ['0.745', '0.0004', '12,346', 'not known']
    """
    if value is None:
        return "not known"
    if value and abs(value) < 0.001:
        return f"{value:.2g}"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def signed(value: float) -> str:
    """Return a difference with its sign.

    >>> signed(0.04), signed(-0.2051)
    ('+0.040', '-0.205')
    """
    return f"{'+' if value > 0 else ''}{number(value)}"


def time(at: datetime) -> str:
    """Return a time in UTC, to the minute."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def exact_time(at: datetime) -> str:
    """Return a time in UTC, to the minute if it is a whole minute, and otherwise to the second.

    >>> exact_time(datetime(2026, 5, 4, 10, 30)), exact_time(datetime(2026, 5, 4, 10, 30, 5))
    ('2026-05-04 10:30 UTC', '2026-05-04 10:30:05 UTC')
    """
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at.second else time(at)


def length(duration: timedelta) -> str:
    """Return a duration in words.

    >>> [length(timedelta(seconds=seconds)) for seconds in (0, 59, 60, 5_400, 172_800)]
    ['0 s', '59 s', '1 min', '1 h 30 min', '2 d']
    """
    seconds = int(duration.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def line(text: str) -> str:
    """Return a sentence from outside in one line, bounded, without control characters and links."""
    return without_links(printable(text[: 4 * LONGEST_SENTENCE]))


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def percent(share: float) -> str:
    """Return a share in percent, in at most three digits.

    >>> [percent(share) for share in (0.3141, 0.004, 1.0, 0.00001)]
    ['31.4%', '0.4%', '100%', '0.001%']
    """
    return f"{100 * share:.3g}%"
