"""Finds the rows that count absences of a metric by reason, for whole pipelines. No clock, no I/O."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from ..events.keys import EstimateKey, absence_of

MOST_REASONS: Final = 32
"""Most reasons of one metric with a count of their own; other reasons count as `other`."""

OTHER: Final = "other"
"""The reason as which other reasons count."""


class AbsenceRows:
    """The rows of each metric's reasons, of which there are at most `MOST_REASONS` and `other`."""

    def __init__(self) -> None:
        self._rows: defaultdict[EstimateKey, dict[str, int]] = defaultdict(dict)
        self._reasons: defaultdict[str, set[str]] = defaultdict(set)

    def known(self, absent: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return absent metrics with the reasons as which they count."""
        return tuple((metric, self._known(metric, reason)) for metric, reason in absent.items()) if absent else ()

    def _known(self, metric: str, reason: str) -> str:
        reasons = self._reasons[metric]
        if reason not in reasons:
            if len(reasons) >= MOST_REASONS:
                return OTHER
            reasons.add(reason)
        return reason

    def add(self, key: EstimateKey, row: int) -> None:
        """Add a new row if it counts absences."""
        absence = absence_of(key.metric)
        if absence is not None:
            metric, reason = absence
            self._rows[key._replace(metric=metric)][reason] = row
            self._reasons[metric].add(reason)

    def of(self, key: EstimateKey) -> Mapping[str, int]:
        """Return the rows of a metric's reasons, by reason; empty for a segment value."""
        return self._rows.get(key, {})

    def __iter__(self) -> Iterator[tuple[EstimateKey, Mapping[str, int]]]:
        """Iterate over the keys of absent metrics, with the rows of their reasons."""
        return iter(list(self._rows.items()))
