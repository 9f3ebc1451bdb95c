"""Sentences for a name that is unknown: the name that was probably meant, and the names that there are."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

SHOWN: Final = 10
"""Most names that are listed."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return a sentence that a name is unknown, with the one that was probably meant.

    >>> unknown("pipeline", "shpo", ["shop", "search"])
    "there is no pipeline 'shpo'; did you mean 'shop'? There are: search, shop"
    """
    names = sorted(set(known))
    close = get_close_matches(name, names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else "."
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    listed = f" There are: {', '.join(names[:SHOWN])}{more}" if names else " There are none yet"
    return f"there is no {what} {name!r}{meant}{listed}"
