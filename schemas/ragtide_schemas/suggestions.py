"""Sentences about an unknown name, with the name that was probably meant and the known names.

Names may come from other applications, so a long name and a great number of names take linear time.
"""

from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import takewhile
from operator import eq
from typing import Final

from .printable import shortened

SHOWN: Final = 12
"""Most listed names."""

LONGEST: Final = 256
"""Most characters of a name that is compared with others; a longer name gets no suggestion."""

COMPARED: Final = 50
"""Most names that are compared letter by letter: of more names, those whose ends are most alike."""


def closest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return the known name that was probably meant; None if no name is close. Capital letters do not matter.

    Args:
        name: the unknown name.
        known: the names of that kind.
        likeness: least share of equal letters, from 0 to 1.

    >>> closest("estimate", ["estimates", "alerts"]), closest("Shop", ["shop"]), closest("x", ["estimates"])
    ('estimates', 'shop', None)
    """
    if len(name) > LONGEST:
        return None
    wanted = name.casefold()
    # Names of too different a length cannot be alike.
    shortest, longest = likeness / (2 - likeness) * len(name), (2 - likeness) / likeness * len(name)
    fitting = sorted((name for name in set(known) if shortest <= len(name) <= min(longest, LONGEST)), reverse=True)
    names = {name.casefold(): name for name in fitting}
    alike = list(names) if len(names) <= COMPARED else nlargest(COMPARED, names, lambda name: _alike(name, wanted))
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    near = get_close_matches(wanted, sorted(alike), n=1, cutoff=likeness)
    return names[near[0]] if near else None


def _alike(name: str, other: str) -> int:
    ends = ((name, other), (name[::-1], other[::-1]))
    return sum(sum(takewhile(bool, map(eq, *pair))) for pair in ends) - abs(len(name) - len(other))


def suggestion(name: str, known: Iterable[str], *, listed_by: str | None = None) -> str:
    """Return the end of a sentence about an unknown name: the name that was probably meant, and the known names.

    Args:
        name: the unknown name.
        known: the names of that kind; a sequence keeps its order.
        listed_by: command that lists the names; the sentence then lists none.

    >>> suggestion("tme", ["time", "random"])
    "; did you mean 'time'? There are: time, random"
    """
    names = list(dict.fromkeys(known)) if isinstance(known, Sequence) else sorted(set(known))
    close = closest(name, names)
    meant = f"; did you mean {close!r}?" if close else "."
    if listed_by is not None:
        return f"{meant} To list them: {listed_by}"
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return meant + (f" There are: {', '.join(names[:SHOWN])}{more}" if names else " There are none yet")


def unknown(what: str, name: str, known: Iterable[str], *, listed_by: str | None = None) -> str:
    """Return a sentence about an unknown name.

    Args:
        what: kind of the name, such as pipeline.
        name: the unknown name.
        known: the names of that kind; a sequence keeps its order.
        listed_by: command that lists the names; the sentence then lists none.

    >>> unknown("pipeline", "shpo", {"shop", "search"})
    "there is no pipeline 'shpo'; did you mean 'shop'? There are: search, shop"
    >>> unknown("workspace", "tets", ["test"], listed_by="ragtide replay workspaces")
    "there is no workspace 'tets'; did you mean 'test'? To list them: ragtide replay workspaces"
    """
    return f"there is no {what} {shortened(name)!r}{suggestion(name, known, listed_by=listed_by)}"
