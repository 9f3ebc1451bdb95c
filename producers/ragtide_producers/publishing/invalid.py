"""Logs the mistakes of submitted items that cannot be sent, each kind of mistake once."""

import logging
from typing import Final

from pydantic import ValidationError

from ragtide_schemas import InvalidEntryError, Reason
from ragtide_schemas.base import describe, reason_of

log: Final = logging.getLogger("ragtide.producer")

MOST_KINDS: Final = 20
"""Most kinds of mistakes that are logged; other kinds are only counted."""


class Mistakes:
    """Logs the first mistake of each kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._logged: set[object] = set()

    def log(self, error: Exception) -> None:
        """Log a mistake with field and remedy, if it is the first of its kind."""
        kind = _kind_of(error)
        if kind in self._logged or len(self._logged) >= MOST_KINDS:
            return
        self._logged.add(kind)
        last = " (other kinds of mistakes are counted and not logged)" if len(self._logged) == MOST_KINDS else ""
        log.warning(
            "one of the submitted %s is invalid and dropped: %s; further mistakes of this kind are only counted, as "
            "counts.dropped['invalid']%s",
            self._kind,
            refused(error).detail,
            last,
        )


def refused(error: Exception) -> InvalidEntryError:
    """Return an error as an InvalidEntryError with field, value and remedy."""
    if isinstance(error, InvalidEntryError):
        return error
    if isinstance(error, ValidationError):
        return InvalidEntryError(reason_of(error), describe(error))
    return InvalidEntryError(Reason.INVALID, f"{type(error).__name__}: {error}")


def _kind_of(error: Exception) -> object:
    if isinstance(error, ValidationError):
        details = error.errors(include_url=False, include_input=False, include_context=False)
        # Without the index in a list, because ten documents without a text are one kind of mistake.
        found = {(tuple(part for part in one["loc"] if isinstance(part, str)), one["type"]) for one in details[:10]}
        return frozenset(found)
    return error.reason if isinstance(error, InvalidEntryError) else type(error)
