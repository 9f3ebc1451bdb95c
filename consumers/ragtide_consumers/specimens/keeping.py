"""Keeps specimens: chooses interactions, makes their specimens, and gives the arguments of the script."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from ragtide_runtime.redis.keys import SPECIMEN_SAMPLE, Streams, interaction_digest
from ragtide_runtime.redis.scripts import Argument
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import MetricEvent, RagInteraction

from ..labelers.protocol import Labeling
from ..redaction.process import NotRedactedError, RedactionAbortedError, RedactionError
from ..redaction.redaction import Redaction
from .building import characters, specimen
from .lists import ListPlace, SpecimenLists

TOO_LARGE: Final = "too_large"
NOT_REDACTED: Final = "not_redacted"
FAILED: Final = "failed"

HEAVY_CHARS: Final = 50_000
"""Characters above which a specimen is made in a thread, because it would block the worker's event loop."""

OUTCOMES: Final = ("kept", "unneeded", "full", TOO_LARGE, NOT_REDACTED, FAILED)
"""Outcomes of a specimen: the first three are the script's."""

log = structlog.get_logger("ragtide.specimens")


@dataclass(frozen=True, slots=True)
class ProposedSpecimen:
    """A specimen that is ready to be stored, and the places for which it is proposed."""

    payload: bytes
    """The stored form of the specimen."""
    places: Sequence[ListPlace]
    limits: SpecimenSettings
    """How long it is kept, and beside how many others."""


class SpecimenKeeper:
    """Proposes specimens of one worker process.

    Args:
        settings: of the deployment or the workspace.
        count: called with the outcome of each specimen that is not proposed.

    Raises:
        ConfigurationError: the function that redacts cannot be loaded.
    """

    def __init__(self, settings: Settings, count: Callable[[str], None] = lambda _: None) -> None:
        self._settings = settings.specimens
        self._lists = SpecimenLists(settings.specimens, settings.alerts)
        self._redaction = Redaction.of("specimens", settings.specimens, patterns_here=True)
        self._count = count
        self._log_limit = LogLimit()

    @classmethod
    def of(cls, settings: Settings, count: Callable[[str], None]) -> "SpecimenKeeper | None":
        """Return the keeper that the settings ask for; None if they keep no specimens here."""
        return cls(settings, count) if settings.keeps_specimens else None

    def take_rules(self, settings: Settings) -> None:
        """Take the alert rules of other settings."""
        self._lists.take_rules(settings.alerts)

    async def proposed(
        self, interaction: RagInteraction, labeling: Labeling, event: MetricEvent, *, trace_id: str | None
    ) -> ProposedSpecimen | None:
        """Return the specimen of an interaction that qualifies; None for other interactions, and after a failure.

        It raises no error, because no specimen may keep a result from being published.
        """
        if interaction.run is not None and not self._settings.offline:
            return None
        try:
            places = self._lists.places(event)
            return await self._made(interaction, labeling, event, places, trace_id) if places else None
        except (NotRedactedError, RedactionError, RedactionAbortedError) as error:
            self._not_kept(NOT_REDACTED, str(error))
        except Exception as error:  # noqa: BLE001 - without its message, which may hold a text
            self._not_kept(FAILED, type(error).__name__)
        return None

    async def _made(
        self,
        interaction: RagInteraction,
        labeling: Labeling,
        event: MetricEvent,
        places: Sequence[ListPlace],
        trace_id: str | None,
    ) -> ProposedSpecimen | None:
        names = [place.name for place in places]
        sample = self._settings.sample if SPECIMEN_SAMPLE in names else None

        def payload() -> bytes:
            made = specimen(
                interaction, labeling, event, self._redaction, lists=names, sample=sample, trace_id=trace_id
            )
            return made.to_stored()

        size = characters(interaction)
        stored = b""
        if size <= self._settings.item_bytes:
            # A thread costs more than a short text, and a text that a child process redacts would block the event loop.
            aside = size > HEAVY_CHARS or self._redaction.waits
            stored = await asyncio.to_thread(payload) if aside else payload()
        if not stored or len(stored) > self._settings.item_bytes:
            self._count(TOO_LARGE)
            return None
        return ProposedSpecimen(stored, places, self._settings)

    def _not_kept(self, outcome: str, because: str) -> None:
        self._count(outcome)
        self._log_limit.warning(log, outcome, "a specimen is not kept", outcome=outcome, because=because)

    def close(self) -> None:
        """End the process that redacts, if there is one."""
        self._redaction.close()


def specimen_keys(streams: Streams, event: MetricEvent, proposed: ProposedSpecimen) -> tuple[str, ...]:
    """Return the keys with which a script keeps a specimen."""
    lists = (streams.specimens_of(event.pipeline, place.name) for place in proposed.places)
    return (*streams.specimen_keys(event.pipeline, event.interaction_id), *lists)


def specimen_arguments(streams: Streams, event: MetricEvent, proposed: ProposedSpecimen) -> tuple[Argument, ...]:
    """Return the arguments of `keep_specimen` in `scripts/shared/specimens.lua`."""
    places = (
        argument
        for place in proposed.places
        for argument in (place.name, "" if place.score is None else repr(place.score), place.most)
    )
    limits = proposed.limits
    return (
        interaction_digest(event.pipeline, event.interaction_id),
        streams.specimen(""),
        proposed.payload,
        int(limits.keep_s * 1000),
        limits.count,
        limits.bytes,
        limits.partition_bytes,
        event.pipeline,
        *places,
    )
