"""Scores, dollars and durations in words, the same on the page and in reports."""

from typing import Final

NOTHING: Final = "–"
"""Stands for a value that is not known."""


def number(value: float | None) -> str:
    """Return a score with three decimals, or fewer if it is large.

    >>> number(0.12345), number(-1234.5), number(-1e-17), number(None)
    ('0.123', '-1,234.5', '0.000', '–')
    """
    if value is None:
        return NOTHING
    return f"{value:z.3f}" if abs(value) < 100 else f"{value:,.1f}"


def usd(value: float) -> str:
    """Return US dollars: cents, or two digits of small amounts.

    >>> usd(0.0), usd(1234.5), usd(0.000123)
    ('$0', '$1,234.50', '$0.00012')
    """
    if not value:
        return "$0"
    return f"${value:,.2f}" if value >= 0.1 else f"${value:.2g}"


def seconds(value: float | None) -> str:
    """Return a duration.

    >>> seconds(0.0123), seconds(2.5), seconds(None)
    ('12 ms', '2.50 s', '–')
    """
    if value is None:
        return NOTHING
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.2f} s"
