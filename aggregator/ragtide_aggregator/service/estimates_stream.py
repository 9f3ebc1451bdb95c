"""Which keys' estimates go on the stream with the next commit. No clock, no I/O.

An estimate costs more time than the state behind it, and a commit that rendered thousands of them would keep all
pipelines waiting. So a commit shows as many keys as fit into a fixed time: those of whole pipelines first, then those
of segment values, the longest owed first. The other keys are owed and come with the next commits. The checkpoint is
complete with every commit, whatever the stream still lacks.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from ..estimates.estimates import estimates
from ..events.keys import EstimateKey
from ..state.state import AggregatorState
from .pace import FEW, learned

SHOW_S: Final = 0.25
"""Seconds that a commit may take for rendering estimates."""

BEHIND_S: Final = 0.05
"""The same while there are more events to read: they come first."""

FIRST_GUESS_S: Final = 0.00025
"""Seconds that the estimates of a key cost, before any were measured."""

OWED: Final = "owed"
"""Field of the checkpoint that is there while estimates are owed: the next owner then owes those of all keys."""


def rendered(
    state: AggregatorState, chosen: Sequence[EstimateKey], changed: Iterable[EstimateKey], *, confidence: float
) -> tuple[list[bytes], dict[EstimateKey, Exception]]:
    """Return the estimates of keys as they go on the stream, and keys whose estimates failed.

    Args:
        state: of the partition.
        chosen: keys to show.
        changed: those that changed since the last commit; a failure of these is raised, because an entry of this step
            is to blame. A failure of a key that changed earlier is no reason to refuse this step.
        confidence: level of the intervals.
    """
    new = set(changed)
    found = [one.encode() for one in estimates(state, keys=[k for k in chosen if k in new], confidence=confidence)]
    old = [key for key in chosen if key not in new]
    try:
        return found + [one.encode() for one in estimates(state, keys=old, confidence=confidence)], {}
    except Exception:  # noqa: BLE001 - which key it is, and how it fails, is found below
        return _each(state, old, found, confidence)


def _each(
    state: AggregatorState, keys: Iterable[EstimateKey], found: list[bytes], confidence: float
) -> tuple[list[bytes], dict[EstimateKey, Exception]]:
    failed: dict[EstimateKey, Exception] = {}
    for key in keys:
        try:
            found += [one.encode() for one in estimates(state, keys=[key], confidence=confidence)]
        except Exception as error:  # noqa: BLE001 - reported by the caller
            failed[key] = error
    return found, failed


class Showing:
    """Keys whose estimates are owed."""

    def __init__(self, everything: Iterable[EstimateKey] = ()) -> None:
        self._whole: dict[EstimateKey, None] = {}
        self._values: dict[EstimateKey, None] = {}
        self._key_s = FIRST_GUESS_S
        self._owe(everything)
        self._told = bool(self)

    def __bool__(self) -> bool:
        return bool(self._whole or self._values)

    def _owe(self, keys: Iterable[EstimateKey]) -> None:
        for key in keys:
            (self._whole if key.segment is None else self._values).setdefault(key)

    def take(self, changed: Iterable[EstimateKey], *, seconds: float = SHOW_S) -> list[EstimateKey]:
        """Return the keys to show now, in so many seconds, after these have changed."""
        self._owe(changed)
        left = max(int(seconds / self._key_s), 1)
        chosen: list[EstimateKey] = []
        for owed in (self._whole, self._values):
            some = list(islice(owed, left - len(chosen)))
            for key in some:
                del owed[key]
            chosen += some
        return chosen

    def took(self, shown: int, seconds: float) -> None:
        """Take note of how long it took to show so many keys."""
        if shown:
            self._key_s = learned(self._key_s, seconds / shown, few=shown < FEW)

    def take_changes(self) -> tuple[dict[str, bytes], Sequence[str]]:
        """Return fields to write and fields to remove in the checkpoint since the last call."""
        before, self._told = self._told, bool(self)
        if before == self._told:
            return {}, ()
        return ({OWED: b"1"}, ()) if self._told else ({}, (OWED,))
