"""One metric, by one labeler, of a release: both versions compared within the same time and the same segment values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log, log10, sqrt
from typing import Any, Final, NamedTuple

from ragtide_schemas import Direction, from_milliseconds
from ragtide_schemas.headline import MeanOfAll
from ragtide_schemas.metric_definitions import ANSWER_COST, ANSWER_LATENCY
from ragtide_schemas.release import MetricVerdict, ReleasePoint, Verdict

from ..events.keys import EstimateKey
from ..statistics.comparisons.same_time import LEAST_OF_A_BLOCK, MOST_OF_A_SIDE, SameTimeDifference
from ..statistics.intervals.running import FIRST_GUESS, running_interval

RELATIVE: Final = frozenset({ANSWER_LATENCY.name, ANSWER_COST.name})
"""Metrics whose margin is a share of their mean, and whose highest values are capped."""

CAP: Final = 6.0
"""Higher values of a relative metric count as so many times the mean of the old version: a few very long answers would
hide all else."""

LEARNED: Final = 20
"""Values of the old version from which this mean is learned."""

REMEMBERED: Final = 200
"""About so many values of a stratum predict the next ones."""

MOST_STRATA: Final = 32
"""Combinations of segment values that are compared by themselves; further ones are compared together."""

MOST_POINTS: Final = 24
"""Most points of a metric over time."""

LEAST_KNOWN: Final = 8
"""Compared values of the new version from which a forecast is made."""

FORECAST_MOST: Final = 1_000_000
"""Answers to go beyond which none are stated."""


class ReleaseLimits(NamedTuple):
    """Error probabilities and margins by which a verdict is given."""

    worse: float
    """Probability of a wrong `worse` on the metric."""
    not_worse: float
    """Probability of a wrong `not_worse`."""
    share: float
    """Margin, as a share of the range of a score."""
    relative: float
    """Margin of a relative metric, as a share of its mean."""
    margin: float | None = None
    """Margin in the metric's unit, in place of these."""


class _Mean:
    """Number, sum and intrinsic time of values in [0, 1]."""

    def __init__(self, n: int = 0, total: float = 0.0, v: float = 0.0) -> None:
        self.n, self.total, self.v = n, total, v

    def add(self, value: float) -> None:
        self.v += (value - (self.total / self.n if self.n else FIRST_GUESS)) ** 2
        self.n += 1
        self.total += value

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else FIRST_GUESS

    def shown(self, lowest: float, width: float, confidence: float) -> MeanOfAll | None:
        if not self.n:
            return None
        lower, upper = (float(end) for end in running_interval(self.mean, self.n, self.v, confidence=confidence))
        return MeanOfAll(
            n=self.n, estimate=lowest + width * self.mean, lower=lowest + width * lower, upper=lowest + width * upper
        )


@dataclass(slots=True)
class _OpenBlock:
    """The answers with the same segment values that no block has yet, and what predicts the old version's."""

    second: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    n: int = 0
    mean: float = 0.0

    def learn(self, value: float) -> None:
        self.n = min(self.n + 1, REMEMBERED)
        self.mean += (value - self.mean) / self.n

    def center(self, overall: float) -> float:
        return (self.n * self.mean + 4 * overall) / (self.n + 4)


class ReleaseMetric:
    """One metric of a release. It takes the values of both versions in the order in which they were scored.

    Args:
        key: metric and labeler, without a scope.
    """

    def __init__(self, key: EstimateKey) -> None:
        self.key = key
        self.compared = SameTimeDifference()
        self._cap = None if key.metric in RELATIVE else 1.0
        self._means = _Mean(), _Mean()
        self._strata: dict[int, _OpenBlock] = {}
        # Values of a relative metric that came before its mean was known: version, stratum, value.
        self._waiting: list[tuple[bool, int, float]] = []
        self._points: list[list[float]] = []
        self._next, self._step = 1, 4

    @property
    def n(self) -> tuple[int, int]:
        """Number of values of the old and of the new version."""
        waiting = sum(second for second, _, _ in self._waiting)
        return self._means[0].n + len(self._waiting) - waiting, self._means[1].n + waiting

    @property
    def scale(self) -> float:
        """The unit of the compared values, as a share of the metric's range."""
        return self._cap or 1.0

    def take(self, *, second: bool, stratum: int, value: float, time_ms: int) -> bool:
        """Add a value in [0, 1], and return whether something was compared.

        Args:
            second: whether it is of the new version.
            stratum: code of the other segment values.
            value: the value, as a share of the metric's range.
            time_ms: time of the answer.
        """
        if self._cap is not None:
            return self._add(second, stratum, value, time_ms)
        self._waiting.append((second, stratum, value))
        known = [other for of_second, _, other in self._waiting if not of_second]
        if len(known) < LEARNED or not sum(known):
            del self._waiting[: -10 * LEARNED]
            return False
        self._cap = min(CAP * sum(known) / len(known), 1.0)
        self.compared = SameTimeDifference(min(sum(known) / len(known) / self._cap, 1.0))
        waiting, self._waiting = self._waiting, []
        compared = [self._add(*waited, time_ms) for waited in waiting]
        return any(compared)

    def take_session(self, *, second: float, first: float, sizes: tuple[int, int], time_ms: int) -> bool:
        """Add a session that both versions answered, by the means of its values; return whether it was compared."""
        if self._cap is None:
            return False
        both = [min(value / self._cap, 1.0) for value in (first, second)]
        for mean, value in zip(self._means, both, strict=True):
            mean.add(value)
        self.compared.add_session(second=both[1], first=both[0], sizes=sizes)
        self._note(time_ms)
        return True

    def _add(self, second: bool, code: int, value: float, time_ms: int) -> bool:
        value = min(value / self.scale, 1.0)
        overall = self._means[0].mean
        self._means[second].add(value)
        if code not in self._strata and len(self._strata) >= MOST_STRATA:
            code = 0
        stratum = self._strata.setdefault(code, _OpenBlock())
        side = stratum.second if second else stratum.first
        side.append(value)
        if len(side) > MOST_OF_A_SIDE:
            oldest = side.pop(0)
            if not second:
                stratum.learn(oldest)
        if not (stratum.second and stratum.first) or len(stratum.second) + len(stratum.first) < LEAST_OF_A_BLOCK:
            return False
        self.compared.add(second=stratum.second, first=stratum.first, center=stratum.center(overall))
        for known in stratum.first:
            stratum.learn(known)
        stratum.second, stratum.first = [], []
        self._note(time_ms)
        return True

    def verdict(self, limits: ReleaseLimits) -> Verdict:
        """Return the verdict by the values so far; `undecided` without any."""
        if self.compared.estimate is None:
            return "undecided"
        falls = self.key.better is Direction.HIGHER
        margin = self._margin(limits)
        if falls:
            against, within = self.compared.log_evidence(0.0, -margin)
        else:
            within, against = self.compared.log_evidence(margin, 0.0)
        if within >= -log(limits.not_worse):
            return "not_worse"
        return "worse" if against >= -log(limits.worse) else "undecided"

    def _margin(self, limits: ReleaseLimits) -> float:
        if limits.margin is not None:
            lowest, highest = self.key.value_range
            return limits.margin / (highest - lowest) / self.scale
        if self.key.metric in RELATIVE:
            return limits.relative * self.compared.unit
        return limits.share

    def record(
        self, limits: ReleaseLimits, *, an_hour: float | None, answers: int, confidence: float, points: bool
    ) -> MetricVerdict:
        """Return the numbers and the verdict.

        Args:
            limits: of the verdict.
            an_hour: answers of the new version an hour; None if that is not known.
            answers: answers of the new version so far, with and without a value.
            confidence: level of the intervals of both means.
            points: whether to return the points over time.
        """
        lowest, highest = self.key.value_range
        width = (highest - lowest) * self.scale
        falls = self.key.better is Direction.HIGHER
        ends = (limits.not_worse, limits.worse) if falls else (limits.worse, limits.not_worse)
        interval = self.compared.interval(*ends)
        before, after = (mean.shown(lowest, width, confidence) for mean in self._means)
        margin = self._margin(limits)
        to_go = would_see = None
        n = self.compared.n_second
        if interval is not None and n >= LEAST_KNOWN:
            loss = -interval.estimate if falls else interval.estimate
            sides = interval.upper - interval.estimate, interval.estimate - interval.lower
            until_worse, until_fine = sides if falls else sides[::-1]
            to_go = _to_go(n, loss, margin, until_worse, until_fine)
            if an_hour is not None and self._ends_known(interval.lower, interval.upper, falls):
                later = n + an_hour * self.n[1] / max(answers, 1)
                in_errors = sqrt(2 * (1 - log(limits.worse)))
                would_see = width * until_worse * sqrt(n / later) * (1 + 1.28 / in_errors)
        scaled = (None, None) if interval is None else (width * interval.lower, width * interval.upper)
        plain = None
        if all(mean.n for mean in self._means):
            plain = width * (self._means[1].mean - self._means[0].mean)
        verdict = self.verdict(limits)
        return MetricVerdict(
            metric=self.key.metric, metric_version=self.key.version, profile=self.key.profile,
            labeler=self.key.labeler, labeler_version=self.key.labeler_version, direction=self.key.better,
            verdict=verdict, before=before, after=after,
            difference=None if interval is None else width * interval.estimate, lower=scaled[0], upper=scaled[1],
            plain_difference=plain,
            n_compared=(self.compared.n_first, n), margin=width * margin,
            highest_counted=lowest + width if self.scale < 1 else None, alpha=limits.worse,
            answers_to_go=to_go if verdict == "undecided" else None, would_see=would_see,
            points=tuple(self._shown_points(lowest, width)) if points else (),
        )  # fmt: skip

    @staticmethod
    def _ends_known(lower: float, upper: float, falls: bool) -> bool:
        return upper < 1 if falls else lower > -1

    def _note(self, time_ms: int) -> None:
        n = self.compared.n_second
        if n < self._next:
            return
        first, second = (
            [float(end) for end in (mean.mean, *running_interval(mean.mean, mean.n, mean.v, confidence=0.95))]
            for mean in self._means
        )
        interval = self.compared.interval(0.025, 0.025)
        ends = [0.0, 0.0] if interval is None else [interval.lower, interval.upper]
        self._points.append([time_ms, self._means[0].n, self._means[1].n, *first, *second, *ends])
        if len(self._points) > MOST_POINTS:
            self._points, self._step = self._points[1::2], 2 * self._step
        self._next = n + self._step

    def _shown_points(self, lowest: float, width: float) -> Sequence[ReleasePoint]:
        points = []
        for time_ms, n_first, n_second, *numbers in self._points:
            *means, lower, upper = (width * number for number in numbers)
            old, new = (
                MeanOfAll(n=int(n), estimate=lowest + mean, lower=lowest + low, upper=lowest + high)
                for n, (mean, low, high) in ((n_first, means[:3]), (n_second, means[3:]))
            )
            at = from_milliseconds(int(time_ms))
            points.append(ReleasePoint(at=at, n=int(n_second), before=old, after=new, lower=lower, upper=upper))
        return points

    def turned(self) -> "ReleaseMetric":
        """Return the numbers with the versions in the other order, to be read."""
        turned = ReleaseMetric(self.key)
        turned.compared, turned._cap, turned._means = self.compared.turned(), self._cap, self._means[::-1]
        turned._waiting = [(not of_second, code, value) for of_second, code, value in self._waiting]
        turned._points = [
            [time_ms, n_second, n_first, *means[3:], *means[:3], -upper, -lower]
            for time_ms, n_first, n_second, *means, lower, upper in self._points
        ]
        return turned

    def dump(self) -> tuple[list[Any], bytes]:
        """Return the metric as values that JSON can hold, and as bytes."""
        strata = [[code, s.second, s.first, s.n, s.mean] for code, s in self._strata.items()]
        means = [[mean.n, mean.total, mean.v] for mean in self._means]
        parts = [self.key.parts(), self._cap, means, strata, self._waiting, self._points, self._next, self._step]
        return parts, self.compared.to_bytes()

    @classmethod
    def read(cls, parts: list[Any], data: bytes) -> "ReleaseMetric":
        """Return the metric that `dump` returned.

        Raises: ValueError if the bytes are damaged.
        """
        key, cap, means, strata, waiting, points, following, step = parts
        metric = cls(EstimateKey.read(key))
        metric.compared = SameTimeDifference.from_bytes(data)
        metric._cap, metric._points, metric._next, metric._step = cap, points, following, step
        first, second = (_Mean(*mean) for mean in means)
        metric._means = first, second
        metric._strata = {code: _OpenBlock(*stratum) for code, *stratum in strata}
        metric._waiting = [(bool(of_second), code, value) for of_second, code, value in waiting]
        return metric


def _to_go(n: int, loss: float, margin: float, until_worse: float, until_fine: float) -> int | None:
    """Return the values of the new version until a verdict, if the loss stays as it is."""
    needed = [
        n * (half / distance) ** 2
        for half, distance in ((until_worse, loss), (until_fine, margin - loss))
        if distance > 0
    ]
    more = min(needed, default=FORECAST_MOST) - n
    if more >= FORECAST_MOST:
        return None
    size = int(10 ** max(floor(log10(max(more, 1))) - 1, 0))
    return max(ceil(more / size) * size, 1)
