"""The versions of a pipeline that answer: which of them serve at present, and which serves most. No clock, no I/O.

All numbers are whole numbers of answers and milliseconds of event time, so answers that are added at once give the same
numbers as one after the other.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np

from ..events.batch import Times
from ..statistics.tables.batches import Rows
from .version_watch import LEAST_SILENT, SILENT_GAPS

SILENT_MS: Final = 600_000
"""Least milliseconds since the last answer of a version that does not serve any more. An answer that is so much older
than the newest one says nothing about the present."""

HALVED_AFTER: Final = 256
"""Answers of the pipeline after which the recent answers of each version are halved."""

MOST_VERSIONS: Final = 16
"""Most versions of a pipeline that are known, those of most recent answers."""


@dataclass(slots=True)
class _Served:
    """A version. The ratio of `of` to `own` is the mean number of answers between two of its answers."""

    recent: int = 0
    at: int = 0
    last_ms: int = 0
    own: int = 1
    of: int = 1


class ServedVersions:
    """The versions of a pipeline.

    Attributes:
        answers: answers of the pipeline since its first version.
    """

    def __init__(self) -> None:
        self.answers = 0
        self._recent = 0
        self._versions: dict[str, _Served] = {}

    def serves(self, version: str, now_ms: int) -> bool:
        """Return whether a version serves: its silence may be chance, or is short."""
        served = self._versions.get(version)
        if served is None:
            return False
        silent = self.answers - served.at
        return (
            silent < LEAST_SILENT
            or silent * served.own < SILENT_GAPS * served.of
            or now_ms - served.last_ms < SILENT_MS
        )

    def main(self, now_ms: int, *, but: str) -> str | None:
        """Return the version that serves most at present; None if none does, apart from one."""
        serving = [version for version in self._versions if version != but and self.serves(version, now_ms)]
        return max(serving, key=self._rank, default=None)

    def _rank(self, version: str) -> tuple[int, int, str]:
        served = self._versions[version]
        return served.recent, served.at, version

    def add(self, version: str | None, time_ms: int, *, kept: Collection[str] = ()) -> None:
        """Add an answer.

        Args:
            version: that gave it; None if it says none.
            time_ms: time of the answer.
            kept: versions that are not forgotten for a new one.
        """
        self.answers += 1
        self._recent += 1
        if version is not None:
            served = self._versions.get(version)
            if served is None:
                self._forget({version, *kept})
                served = self._versions[version] = _Served(last_ms=time_ms)
            self._note(served, 1, self.answers, self._recent, time_ms)
        if self.answers % HALVED_AFTER == 0:
            self._halve()

    def add_all(self, versions: Mapping[int, str], codes: Rows, times_ms: Times) -> bool:
        """Add answers in order; return False without adding them if one of their versions may begin to serve.

        Args:
            versions: the version of each code.
            codes: of the version of each answer; -1 if it says none.
            times_ms: times of the answers.
        """
        numbers = np.arange(1, codes.size + 1) + self.answers
        places = {code: np.flatnonzero(codes == code) for code in versions}
        for code, mine in places.items():
            served = self._versions.get(versions[code])
            if served is None or np.diff(numbers[mine], prepend=served.at).max(initial=0) > LEAST_SILENT:
                return False
        start = 0
        while start < codes.size:
            end = min(start + HALVED_AFTER - self.answers % HALVED_AFTER, codes.size)
            for code, mine in places.items():
                first, last = np.searchsorted(mine, (start, end)).tolist()
                if first < last:
                    place, newest = int(mine[last - 1]), int(times_ms[mine[first:last]].max())
                    number, recent = int(numbers[place]), self._recent + place + 1 - start
                    self._note(self._versions[versions[code]], last - first, number, recent, newest)
            self.answers += end - start
            self._recent += end - start
            if self.answers % HALVED_AFTER == 0:
                self._halve()
            start = end
        return True

    @staticmethod
    def _note(served: _Served, count: int, number: int, recent: int, time_ms: int) -> None:
        served.recent += count
        served.at, served.last_ms = number, max(served.last_ms, time_ms)
        served.own, served.of = served.recent, recent

    def _halve(self) -> None:
        self._recent //= 2
        for served in self._versions.values():
            served.recent //= 2

    def _forget(self, kept: Collection[str]) -> None:
        if len(self._versions) >= MOST_VERSIONS:
            del self._versions[min((version for version in self._versions if version not in kept), key=self._rank)]

    def begin(self, n: Mapping[str, int], updated_ms: Mapping[str, int], newest_ms: int) -> None:
        """Begin with the versions in the counts of an older release of ragtide: those with an answer shortly before.

        Args:
            n: answers by version.
            updated_ms: time of the last answer by version.
            newest_ms: time of the newest answer of the pipeline.
        """
        serving = [version for version in n if newest_ms - updated_ms[version] < SILENT_MS]
        total = sum(n[version] for version in serving)
        self._recent = HALVED_AFTER
        for version in sorted(serving, key=lambda version: (-n[version], version))[:MOST_VERSIONS]:
            share = max(HALVED_AFTER * n[version] // max(total, 1), 1)
            self._versions[version] = _Served(share, 0, updated_ms[version], share, HALVED_AFTER)

    def to_bytes(self) -> bytes:
        """Return the versions as bytes."""
        versions = [[version, *astuple(served)] for version, served in self._versions.items()]
        return json.dumps([self.answers, self._recent, versions], ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "ServedVersions":
        """Return what `to_bytes` stored.

        Raises: ValueError (or another error of a damaged field) if the bytes cannot be read.
        """
        known = cls()
        known.answers, known._recent, versions = json.loads(data)
        known._versions = {version: _Served(*map(int, numbers)) for version, *numbers in versions}
        return known
