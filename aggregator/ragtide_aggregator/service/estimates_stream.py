"""Selects the estimates for the `estimates` stream: at most one entry for each key and interval. No clock.

The stream is for clients that want to be notified of changes; every command of ragtide reads the checkpoint instead.
The stream has only the keys of whole pipelines, over all time. A key that changed is owed an entry. At the end of the
interval all owed keys become due. The next commits publish them, a part each, because a commit waits for them. The
checkpoint stores that estimates are owed, but not their keys, so the next owner owes all keys.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

import structlog

from ragtide_runtime.redis.keys import CheckpointField

from ..estimates.estimates import estimates
from ..events.keys import EstimateKey
from ..state.state import AggregatorState
from .key_turns import KeyTurns

COMMITS: Final = 20
"""Commits over which the keys of an interval are spread."""
KEYS_AT_LEAST: Final = 50
"""Keys that one commit publishes if there are fewer than `COMMITS` times as many."""
KEYS_AT_MOST: Final = 500
"""Keys that one commit publishes if there are very many."""

log = structlog.get_logger("ragtide.aggregator")


class EstimatesStream:
    """The keys whose estimates are owed to the stream of one partition.

    Args:
        interval_s: seconds between two entries of a key.
        now_s: monotonic time, as in all calls.
        owed: keys that the previous owner owed.
    """

    def __init__(self, interval_s: float, now_s: float, owed: Iterable[EstimateKey] = ()) -> None:
        self._interval_s = interval_s
        self._ends_s = now_s + interval_s
        self._owed: dict[EstimateKey, None] = {}
        self._due = KeyTurns()
        self._at_once = KEYS_AT_LEAST
        self.changed(owed)
        self._stored = bool(self._owed)

    def changed(self, keys: Iterable[EstimateKey]) -> None:
        """Mark the keys of whole pipelines among these as owed."""
        # A key that is due will be published with its newest value.
        self._owed |= dict.fromkeys(key for key in keys if key.segment is None and key not in self._due)

    def is_due(self, now_s: float, *, last: bool = False) -> bool:
        """Return whether the next commit publishes estimates.

        Args:
            now_s: the time.
            last: whether the owner is about to end, so that all owed keys are due.
        """
        if now_s >= self._ends_s or last:
            self._due.add(self._owed)
            self._owed = {}
            self._ends_s = now_s + self._interval_s
            # The last commits of an owner have nothing that waits for them.
            share = KEYS_AT_MOST if last else ceil(len(self._due) / COMMITS)
            self._at_once = min(max(share, KEYS_AT_LEAST), KEYS_AT_MOST)
        return len(self._due) > 0

    def take(self, state: AggregatorState, *, confidence: float) -> list[bytes]:
        """Return the entries of the next commit; a key whose estimates fail is logged and left out."""
        keys = self._due.take(self._at_once)
        try:
            return _encoded(state, keys, confidence)
        except Exception:  # noqa: BLE001 - the failing key is found and logged below
            return [entry for key in keys for entry in _encoded_alone(state, key, confidence)]

    def take_changes(self) -> tuple[dict[str, bytes], Sequence[str]]:
        """Return fields to write and fields to remove in the checkpoint since the last call."""
        before, self._stored = self._stored, bool(self._owed or self._due)
        if before == self._stored:
            return {}, ()
        return ({CheckpointField.ESTIMATES_OWED: b"1"}, ()) if self._stored else ({}, (CheckpointField.ESTIMATES_OWED,))


def _encoded(state: AggregatorState, keys: Sequence[EstimateKey], confidence: float) -> list[bytes]:
    return [estimate.encode() for estimate in estimates(state, keys=keys, confidence=confidence, windows=False)]


def _encoded_alone(state: AggregatorState, key: EstimateKey, confidence: float) -> list[bytes]:
    try:
        return _encoded(state, [key], confidence)
    except Exception as error:  # one key must not keep the others from the stream, nor end the role
        log.exception("the estimates of a key cannot be computed", key=key.encode(), error=str(error))
        return []
