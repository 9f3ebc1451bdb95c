"""Sentences about an unknown name, with the name that was probably meant and the known names."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

SHOWN: Final = 10
"""Most listed names."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return a sentence about an unknown name.

    >>> unknown("pipeline", "shpo", ["shop", "search"])
    "there is no pipeline 'shpo'; did you mean 'shop'? There are: search, shop"
    """
    names = sorted(set(known))
    close = get_close_matches(name, names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else "."
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    listed = f" There are: {', '.join(names[:SHOWN])}{more}" if names else " There are none yet"
    return f"there is no {what} {name!r}{meant}{listed}"
