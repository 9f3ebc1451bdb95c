"""Submitted items that cannot be sent: each kind of mistake is logged once. No I/O but the log."""

import logging
from typing import Final

from pydantic import ValidationError

from ragtide_schemas import InvalidEntryError, Reason
from ragtide_schemas.base import describe, reason_of

log: Final = logging.getLogger("ragtide.producer")

MOST_KINDS: Final = 20
"""Kinds of mistakes that are logged; more are only counted, since their number is the application's."""


class Mistakes:
    """Logs the first mistake of each kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._said: set[object] = set()

    def say(self, error: Exception) -> None:
        """Log a mistake with field and remedy, if none of its kind was logged before."""
        kind = _kind_of(error)
        if kind in self._said or len(self._said) >= MOST_KINDS:
            return
        self._said.add(kind)
        last = " (further kinds of mistakes are counted and not logged)" if len(self._said) == MOST_KINDS else ""
        log.warning(
            "one of the submitted %s is invalid and dropped: %s; others of this kind are only counted, as "
            "counts.dropped['invalid']%s",
            self._kind,
            refused(error).detail,
            last,
        )


def refused(error: Exception) -> InvalidEntryError:
    """Return an error in the words of the contract: field, value and remedy."""
    if isinstance(error, InvalidEntryError):
        return error
    if isinstance(error, ValidationError):
        return InvalidEntryError(reason_of(error), describe(error))
    return InvalidEntryError(Reason.INVALID, f"{type(error).__name__}: {error}")


def _kind_of(error: Exception) -> object:
    if isinstance(error, ValidationError):
        details = error.errors(include_url=False, include_input=False, include_context=False)
        # The place in a list is left out: ten documents without a text are one kind of mistake.
        found = {(tuple(part for part in one["loc"] if isinstance(part, str)), one["type"]) for one in details[:10]}
        return frozenset(found)
    return error.reason if isinstance(error, InvalidEntryError) else type(error)
