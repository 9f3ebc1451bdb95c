"""Removes from texts the parts that must not be stored, before the page shows texts that no worker has redacted.

A dead letter holds the entry as it was sent. The page redacts it as workers redact specimens and texts for a judge, and
as a recorder redacts its files, so that a screen shows no more than these copies do.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from pydantic_core import from_json, to_json

from ragtide_consumers.redaction.process import NotRedactedError, RedactionAbortedError, RedactionError
from ragtide_consumers.redaction.redaction import Redaction
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

REDACTION_ERRORS: Final = (RedactionError, NotRedactedError, RedactionAbortedError, ConfigurationError)


class TextHiding:
    """The redactions of specimens, of the recorder and of the judge, one after the other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._redactions: list[Redaction] | None = None

    @property
    def hides(self) -> bool:
        """Whether the settings name anything that must not be stored."""
        tables = (self._settings.specimens, self._settings.recorder, self._settings.judge)
        return any(table.redact or table.redact_function for table in tables)

    async def payload(self, payload: bytes) -> bytes | None:
        """Return the payload of an entry without the parts that must not be stored; None if it cannot be redacted."""

        def redact() -> bytes | None:
            readable: bytes | None = payload
            try:
                for redaction in self._used():
                    if readable is not None:
                        readable = redaction.unreadable(readable)
            except REDACTION_ERRORS:
                return None
            return readable

        return await asyncio.to_thread(redact)

    async def texts(self, texts: Sequence[str]) -> list[str] | None:
        """Return texts without the parts that must not be stored; None if they cannot be redacted."""

        def redact() -> list[str] | None:
            redacted = list(texts)
            try:
                for redaction in self._used():
                    redacted = redaction.texts(redacted)
            except REDACTION_ERRORS:
                return None
            return redacted

        return await asyncio.to_thread(redact)

    def close(self) -> None:
        """End the processes that redact."""
        for redaction in self._redactions or ():
            redaction.close()

    def _used(self) -> list[Redaction]:
        if self._redactions is None:
            new_redaction, settings = partial(Redaction.of, patterns_here=True), self._settings
            self._redactions = [
                new_redaction("specimens", settings.specimens),
                new_redaction("recorder", settings.recorder),
                new_redaction("judge", settings.judge),
            ]
        return self._redactions


def indented(payload: bytes) -> str | None:
    """Return JSON on several lines; None for a payload that is not JSON."""
    try:
        return to_json(from_json(payload), indent=2).decode()
    except ValueError:
        return None
