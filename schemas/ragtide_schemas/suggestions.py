"""Sentences about an unknown name, with the name that was probably meant and the known names."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

SHOWN: Final = 10
"""Most listed names."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant; None if no name is close.

    >>> closest("estimate", ["estimates", "alerts"]), closest("x", ["estimates"])
    ('estimates', None)
    """
    return next(iter(get_close_matches(name, sorted(set(known)), n=1)), None)


def unknown(what: str, name: str, known: Iterable[str], *, listed_by: str | None = None) -> str:
    """Return a sentence about an unknown name.

    Args:
        what: kind of the name, such as pipeline.
        name: the unknown name.
        known: the names of that kind.
        listed_by: command that lists the names; the sentence then lists none.

    >>> unknown("pipeline", "shpo", ["shop", "search"])
    "there is no pipeline 'shpo'; did you mean 'shop'? There are: search, shop"
    >>> unknown("workspace", "tets", ["test"], listed_by="ragtide workspaces")
    "there is no workspace 'tets'; did you mean 'test'? To list them: ragtide workspaces"
    """
    names = sorted(set(known))
    close = closest(name, names)
    meant = f"; did you mean {close!r}?" if close else "."
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    listed = f" There are: {', '.join(names[:SHOWN])}{more}" if names else " There are none yet"
    if listed_by is not None:
        listed = f" To list them: {listed_by}"
    return f"there is no {what} {name!r}{meant}{listed}"
