"""Counts of the calls of a labeler: outcomes, seconds, dollars, and answers saved. No clock, no I/O."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from ..redis.keys import CallField

N = TypeVar("N", int, float)

STEP: Final = 1.1
"""Ratio of the ends of a class of seconds; a quantile is within 5% of its value."""
SHORTEST_S: Final = 0.001
LONGEST_CLASS: Final = 145
"""Class of all calls of about 1,000 seconds and more."""


def latency_class(latency_s: float) -> int:
    """Return the class of a call's seconds, from 0 (a millisecond and less) to `LONGEST_CLASS`."""
    return min(max(0, math.ceil(math.log(max(latency_s, SHORTEST_S) / SHORTEST_S, STEP))), LONGEST_CLASS)


@dataclass(slots=True)
class CallCounts:
    """Counts of calls: of a process since it wrote them last, or of one or more hours."""

    whole: Counter[str] = field(default_factory=Counter)
    """Whole numbers by field."""
    dollars: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Dollars by field."""

    def answered(self, latency_s: float) -> None:
        """Count a call that was answered."""
        self.failed("answered")
        self.whole[f"{CallField.LATENCY}{latency_class(latency_s)}"] += 1

    def failed(self, outcome: str) -> None:
        """Count a call by its outcome."""
        self.whole[f"{CallField.OUTCOME}{outcome}"] += 1

    def found(self, saved_usd: float) -> None:
        """Count an answer from the cache, and the probable price of the call that was not made."""
        self.whole[CallField.CACHE_HITS] += 1
        if saved_usd:
            self.dollars[CallField.SAVED_USD] += saved_usd

    def spent(
        self,
        cost_usd: float,
        prompt_tokens: int,
        completion_tokens: int,
        *,
        model: str,
        purpose: str,
        pipeline: str = "",
    ) -> None:
        """Count the price and the tokens of a call for an interaction of a pipeline; empty if it is not known."""
        self.whole[CallField.PROMPT_TOKENS] += prompt_tokens
        self.whole[CallField.COMPLETION_TOKENS] += completion_tokens
        if cost_usd:
            self.dollars[f"{CallField.PURPOSE_USD}{purpose}"] += cost_usd
            self.dollars[f"{CallField.MODEL_USD}{model}"] += cost_usd
            if pipeline:
                self.dollars[f"{CallField.PIPELINE_USD}{pipeline}"] += cost_usd

    def add(self, other: "CallCounts") -> None:
        """Add further counts."""
        self.whole.update(other.whole)
        for name, amount in other.dollars.items():
            self.dollars[name] += amount

    def take(self) -> "CallCounts":
        """Return the counts, and begin again with none."""
        taken = CallCounts(self.whole, self.dollars)
        self.whole, self.dollars = Counter(), defaultdict(float)
        return taken

    def __bool__(self) -> bool:
        """Return whether anything was counted."""
        return bool(self.whole or self.dollars)

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of calls by outcome, the most frequent first."""
        counts = _family(self.whole, CallField.OUTCOME)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def cost_usd(self) -> float:
        """Dollars of all calls."""
        return sum(self.by_purpose.values())

    @property
    def by_purpose(self) -> dict[str, float]:
        """Dollars by purpose: `live` traffic, or `runs` (replays and experiments)."""
        return _family(self.dollars, CallField.PURPOSE_USD)

    @property
    def by_model(self) -> dict[str, float]:
        """Dollars by model."""
        return _family(self.dollars, CallField.MODEL_USD)

    @property
    def by_pipeline(self) -> dict[str, float]:
        """Dollars by pipeline, the most expensive first; an hour or a day has the first `PIPELINES_MAX` pipelines."""
        dollars = _family(self.dollars, CallField.PIPELINE_USD)
        return dict(sorted(dollars.items(), key=lambda item: (-item[1], item[0])))

    def latency_s(self, quantile: float) -> float | None:
        """Return a quantile of the seconds of answered calls, within 5%; None without such a call."""
        classes = sorted((int(name), count) for name, count in _family(self.whole, CallField.LATENCY).items())
        wanted = quantile * sum(count for _, count in classes)
        for number, count in classes:
            wanted -= count
            if wanted <= 0:
                return float(SHORTEST_S * STEP ** (number - 0.5))
        return None


def _family(numbers: Mapping[str, N], family: CallField) -> dict[str, N]:
    return {name.removeprefix(family): number for name, number in numbers.items() if name.startswith(family)}


@dataclass(frozen=True, slots=True)
class CallHistory:
    """The calls of one labeler by clock hour and by day (UTC), the oldest first."""

    hours: Mapping[datetime, CallCounts]
    days: Mapping[datetime, CallCounts]

    @property
    def total(self) -> CallCounts:
        """Counts of all hours together."""
        return _together(self.hours.values())

    @property
    def all_days(self) -> CallCounts:
        """Counts of all days together."""
        return _together(self.days.values())

    def newest(self, hours: int) -> CallCounts:
        """Return the counts of the newest hours together, the present one included."""
        return _together(list(self.hours.values())[-hours:])


def _together(counts: Iterable[CallCounts]) -> CallCounts:
    total = CallCounts()
    for part in counts:
        total.add(part)
    return total
