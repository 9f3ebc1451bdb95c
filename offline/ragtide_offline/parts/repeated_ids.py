"""Counts the rows of all parts that repeat an id, in a sample of the ids: those with the smallest digests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ragtide_runtime.redis.keys import identity_digest

KEPT: Final = 512
"""Most ids of the sample; with fewer ids the count is exact."""


class IdSample:
    """How often the ids with the smallest digests come. All parts keep the same ids, so samples are merged exactly."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, pipeline: str, interaction_id: str) -> None:
        """Count a row."""
        self._counts[int.from_bytes(identity_digest(pipeline, interaction_id)[:6])] += 1
        if len(self._counts) >= 8 * KEPT:
            self._counts = Counter(dict(self.kept()))

    def kept(self) -> Sequence[tuple[int, int]]:
        """Return the digests of the sample, each with the number of its rows."""
        return sorted(self._counts.items())[:KEPT]

    def merge(self, kept: Iterable[tuple[int, int]]) -> None:
        """Add the sample of other rows."""
        for digest, count in kept:
            self._counts[digest] += count
        self._counts = Counter(dict(self.kept()))

    def repeats(self, rows: int) -> int:
        """Return about how many of so many rows repeat the id of another row."""
        counted, ids = self._counts.total(), len(self._counts)
        return counted - ids if ids < KEPT else round(rows * (counted - ids) / counted)
