"""Finds the line of a setting in a TOML file, for messages, because the parser of Python does not report it."""

import re
from collections.abc import Iterator, Sequence

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\"' -]{1,200}?)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'-]{1,200})[ \t]{0,100}=")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    r"""Return the number, from 1, of the line of a setting, or else of its table; None if neither is found.

    Args:
        text: of the file.
        path: names and, in a list of tables, places, such as `("alerts", 0, "target")`.

    >>> line_of('[judge]\nmodel = "m"', ("judge", "model"))
    2
    """
    wanted = tuple(path)
    best: tuple[int, int] | None = None
    for number, found in _settings(text):
        shared = _shared(found, wanted)
        if shared and (best is None or shared > best[0]):
            best = (shared, number)
    return None if best is None else best[1]


def _settings(text: str) -> Iterator[tuple[int, tuple[str | int, ...]]]:
    """Yield the number and the path of each header and each setting."""
    table: tuple[str | int, ...] = ()
    places: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            names = _names(header[2])
            table = names
            if header[1] == "[[":
                places[header[2]] = places.get(header[2], -1) + 1
                table = (*names, places[header[2]])
            yield number, table
        elif key := _KEY.match(line):
            yield number, (*table, *_names(key[1]))


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _shared(found: Sequence[str | int], wanted: Sequence[str | int]) -> int:
    length = min(len(found), len(wanted))
    return length if tuple(found[:length]) == tuple(wanted[:length]) else 0
