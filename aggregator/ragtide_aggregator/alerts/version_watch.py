"""Decides when the version that a firing alert is about has ended: its pipeline continues, and it has no more values.

An interaction without a value is no sign by itself: a version may score a sample, or a part of the traffic. So the
silence is compared with the number of interactions between two values, and with a day. Interactions and their times
count, and no clock. No I/O.
"""

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from ..events.keys import EstimateKey
from ..statistics.drift.seasons import HOUR_MS
from .stored_form import InOrder

LEAST_SILENT: Final = 100
"""Least interactions of the pipeline after the last value of a version that has ended."""

SILENT_GAPS: Final = 20
"""The same, in mean numbers of interactions between two of its values. A version that scores a sample is
silent for so long by chance with a probability of about exp(-20)."""

KNOWN_GAPS: Final = 10
"""Values since the alert fired from which this mean number is taken; with fewer it is taken over all time."""

SILENT_MS: Final = 24 * HOUR_MS
"""Least milliseconds since the last value: a whole day, because a part of the traffic may rest at night, and a judge
may be away."""

REPLACED_MS: Final = HOUR_MS
"""The same, if another version of the metric had its first value after the alert fired."""


@dataclass(slots=True)
class VersionWatch(InOrder):
    """The interactions and scores of the version that an alert is about, since the alert fired."""

    fired: int
    """Interactions of the pipeline when the alert fired."""
    values: int
    """Values of the version at that time."""
    last: int
    """Interactions of the pipeline at the last value of the version, or when it was last absent for a reason."""
    others: frozenset[str]
    """Digests of the other versions that had values when the alert fired."""

    def silence(self, interactions: int) -> int:
        """Return the interactions of the pipeline since the last value, given those so far."""
        return interactions - self.last

    def is_silent(self, interactions: int, values: int) -> bool:
        """Return whether so few values are not chance, given the interactions of the pipeline and the values so far."""
        since = values - self.values
        gap = (self.last - self.fired) / since if since >= KNOWN_GAPS else self.last / max(values, 1)
        return self.silence(interactions) >= max(LEAST_SILENT, SILENT_GAPS * gap)

    def is_new(self, other: EstimateKey) -> bool:
        """Return whether another version had no value yet when the alert fired."""
        return version_digest(other) not in self.others


def version_digest(key: EstimateKey) -> str:
    """Return a short digest of labeler, profile and version of a key."""
    return blake2b(key.encode().encode(), digest_size=6).hexdigest()


def digests(keys: Collection[EstimateKey]) -> frozenset[str]:
    """Return the digests of keys."""
    return frozenset(version_digest(key) for key in keys)
