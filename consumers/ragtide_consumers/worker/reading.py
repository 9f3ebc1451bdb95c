"""Reads the interactions in entries: an entry, and a few that follow it in the queue of the worker."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import islice
from typing import Final

import structlog

from ragtide_runtime.redis.entries import order
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import InvalidEntryError, RagInteraction, Reason, from_milliseconds, utc_now

from .results import StreamEntry
from .telemetry import WorkerTelemetry

log = structlog.get_logger("ragtide.worker")

AHEAD: Final = timedelta(seconds=60)
"""Time by which an entry's id may be ahead of this machine's clock before its time counts as wrong."""

TOGETHER: Final = 32
"""Most entries that are read one after the other, because code that just ran runs faster."""

TOGETHER_BYTES: Final = 256 * 1024
"""Bytes after which no further entry is read with another."""


class RejectedError(Exception):
    """An entry becomes a dead letter."""

    def __init__(self, reason: Reason, detail: str, interaction_id: str | None = None) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.interaction_id = reason, detail, interaction_id


class InteractionReader:
    """Reads the interactions of one partition.

    Args:
        user_ids: whether the ids of users are hashed.
        telemetry: counts the values that are left out.
    """

    def __init__(self, user_ids: UserIds, telemetry: WorkerTelemetry) -> None:
        self._user_ids = user_ids
        self._telemetry = telemetry
        self._log_limit = LogLimit()
        self._read: dict[str, RagInteraction | RejectedError] = {}
        """Outcomes of entries that were read ahead of their turn, by entry."""

    def read(self, entry: StreamEntry, following: Iterable[StreamEntry] = ()) -> RagInteraction:
        """Return the interaction in an entry.

        Args:
            entry: to read.
            following: entries whose turn is next, of which some are read now. None that was delivered before is: it may
                have crashed a worker.

        Raises:
            RejectedError: the entry has no valid interaction.
        """
        outcome = self._read.pop(entry.entry_id, None)
        if outcome is None:
            outcome = self._outcome(entry)
            self._read_ahead(following, entry.size_bytes)
        if isinstance(outcome, RejectedError):
            raise outcome
        return outcome

    def forget(self) -> None:
        """Forget the entries that were read ahead."""
        self._read.clear()

    def _read_ahead(self, following: Iterable[StreamEntry], size_bytes: int) -> None:
        for entry in islice(following, TOGETHER - 1):
            size_bytes += entry.size_bytes
            if entry.deliveries > 1 or size_bytes > TOGETHER_BYTES:
                return
            try:
                self._read[entry.entry_id] = self._outcome(entry)
            except Exception:  # noqa: BLE001 - a bug in ragtide, which is reported when the entry has its turn
                return

    def _outcome(self, entry: StreamEntry) -> RagInteraction | RejectedError:
        try:
            return self._interaction(entry)
        except RejectedError as rejected:
            return rejected

    def _interaction(self, entry: StreamEntry) -> RagInteraction:
        if not entry.fields:
            raise RejectedError(
                Reason.DELETED,
                "the entry was deleted from the stream before it was labeled: trim only labeled entries",
            )
        try:
            # A plain XADD may hold the id of a user as it is.
            interaction = self._user_ids.with_pseudonym(RagInteraction.from_entry(entry.entry_id, entry.payload()))
        except InvalidEntryError as error:
            raise RejectedError(error.reason, error.detail) from None
        if interaction.has_left_out:
            left_out = interaction.left_out
            self._telemetry.left_out(left_out)
            self._log_limit.warning(
                log,
                "left_out",
                "values without a plain meaning are left out of an interaction",
                entry_id=entry.entry_id,
                names=sorted(left_out),
            )
        now = utc_now()
        if interaction.occurred_at > now + AHEAD and interaction.occurred_at == from_milliseconds(
            order(entry.entry_id)[0]
        ):
            # The clock of Redis was ahead and has been set back: the windows of that time would count it.
            interaction = interaction.model_copy(update={"occurred_at": now})
        return interaction
