"""A release: two versions of a pipeline that serve at the same time, compared metric by metric. No clock, no I/O."""

import json
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Final

from ragtide_schemas import METRICS, from_milliseconds
from ragtide_schemas.alert_rule import Severity
from ragtide_schemas.alert_words import number, signed
from ragtide_schemas.headline import is_folded, labeler_phrase
from ragtide_schemas.printable import printable
from ragtide_schemas.release import SLOTS, MetricVerdict, Release, ReleaseEnd, Verdict
from ragtide_schemas.suggestions import unknown

from ..events.keys import EstimateKey
from ..statistics.drift.seasons import HOUR_MS
from .release_metric import LEAST_KNOWN, RELATIVE, ReleaseLimits, ReleaseMetric

ONE_SIDED: Final = 50
"""Answers of a version without a value of a metric, from which the metric cannot be compared."""

KNOWN_MS: Final = 60_000
"""Milliseconds from the opening from which the traffic of an hour is stated."""

_CONFIDENCE: Final = 0.95
_WORST_FIRST: Final[tuple[Verdict, ...]] = ("worse", "undecided", "not_comparable", "not_worse")
_SIZE: Final = struct.Struct("<I")
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """How releases are watched."""

    margin: float = 0.05
    """Largest loss of a score that `not_worse` allows, as a share of its range."""
    margin_relative: float = 0.2
    """Largest rise of latency and cost that it allows, as a share of their mean."""
    alpha: float = 0.05
    """Budget of wrong verdicts of a release."""
    until_ms: int = 24 * HOUR_MS
    """Longest time of a release, in milliseconds."""
    severity: Severity = "page"
    """Severity of the alert that the new version is worse."""


def is_compared(key: EstimateKey) -> bool:
    """Return whether a release compares a metric: a score that is a headline and has a better direction, or usage."""
    if key.metric in RELATIVE:
        return True
    if key.measure is not None:
        return key.better is not None and key.better.value != "neither" and not key.holds_counts
    definition = METRICS.get(key.metric)
    # The supported fraction moves with adherence, and would take a part of the budget.
    if definition is None or definition.bands is None or key.metric == "trace.supported_fraction":
        return False
    return not is_folded(key.metric, 1.0)


class WatchedRelease:
    """A release. It takes the answers of both versions in the order in which they were scored.

    Args:
        pipeline: name of the pipeline.
        from_version: the version that served before.
        to_version: the new version.
        opened_ms: time of its first answer.
        options: how it is watched.
    """

    def __init__(
        self, pipeline: str, from_version: str, to_version: str, opened_ms: int, options: ReleaseOptions
    ) -> None:
        self.pipeline, self.from_version, self.to_version = pipeline, from_version, to_version
        self.opened_ms = opened_ms
        self.ended_ms: int | None = None
        self.end: ReleaseEnd | None = None
        self.decided_ms: int | None = None
        self.verdict: Verdict = "undecided"
        self.decided_by: str | None = None
        self.n, self.last_ms = [0, 0], [opened_ms, opened_ms]
        """Answers of the old and of the new version, and the time of the last of each."""
        self._options = options
        # Answers of each version, of which those of an hour ago count half.
        self._recent, self._recent_ms = [0.0, 0.0], opened_ms
        self._metrics: dict[EstimateKey, ReleaseMetric] = {}
        # Metrics that compared something since the last decision, and the verdicts before.
        self._news: set[EstimateKey] = set()
        self._verdicts: dict[EstimateKey, Verdict] = {}

    def take(self, *, second: bool, stratum: int, values: Sequence[tuple[EstimateKey, float]], time_ms: int) -> None:
        """Add the scores of an answer, or of a closed session of one version.

        Args:
            second: whether it is of the new version.
            stratum: code of its other segment values.
            values: keys without scope, and values in [0, 1] as shares of the range of their metric.
            time_ms: time of the answer.
        """
        for key, value in values:
            metric = self._metric(key)
            if metric is not None and metric.take(second=second, stratum=stratum, value=value, time_ms=time_ms):
                self._news.add(metric.key)

    def take_session(
        self, *, values: Sequence[tuple[EstimateKey, float, float, tuple[int, int]]], time_ms: int
    ) -> None:
        """Add a closed session with answers of both versions.

        Args:
            values: keys without scope, means of the new and of the old version, and number of values of each.
            time_ms: time of its last answer.
        """
        for key, second, first, sizes in values:
            metric = self._metric(key)
            if metric is not None and metric.take_session(second=second, first=first, sizes=sizes, time_ms=time_ms):
                self._news.add(metric.key)

    def _metric(self, key: EstimateKey) -> ReleaseMetric | None:
        metric = self._metrics.get(key)
        if metric is None and is_compared(key) and len(self._metrics) < len(SLOTS):
            # What no labeler decides is the same by each of them.
            definition = METRICS.get(key.metric)
            measured = definition is not None and not definition.from_labels and key.measure is None
            if measured and any(other.metric == key.metric for other in self._metrics):
                return None
            metric = self._metrics[key] = ReleaseMetric(key)
        return metric

    def count(self, *, second: bool, time_ms: int, answers: int = 1) -> None:
        """Count answers of a version, whether or not they have scores."""
        self.n[second] += answers
        self.last_ms[second] = max(self.last_ms[second], time_ms)
        later = max(time_ms - self._recent_ms, 0)
        if later:
            self._recent = [number * 0.5 ** (later / HOUR_MS) for number in self._recent]
            self._recent_ms += later
        self._recent[second] += answers

    def decide(self, time_ms: int) -> bool:
        """Return whether the answers that were added since the last call gave the release its verdict.

        Args:
            time_ms: time of the answer.
        """
        news, self._news = self._news, set()
        if self.decided_ms is not None or not news:
            return False
        for part, (key, metric) in zip(SLOTS, self._metrics.items(), strict=False):
            if key in news or key not in self._verdicts:
                self._verdicts[key] = metric.verdict(self._limits(part))
        verdict = self._verdict(self._verdicts)
        if verdict in {"worse", "not_worse"}:
            self.verdict, self.decided_ms = verdict, time_ms
            self.decided_by = next((key.metric for key in self._metrics if self._verdicts.get(key) == "worse"), None)
        return self.decided_ms is not None

    def finish(self, end: ReleaseEnd, time_ms: int) -> None:
        """End the release: a version has no traffic any more, or the longest time has passed."""
        self.end, self.ended_ms = end, time_ms

    def is_over(self, time_ms: int) -> bool:
        """Return whether the longest time has passed."""
        return time_ms - self.opened_ms >= self._options.until_ms

    def _limits(self, part: float, margin: float | None = None, alpha: float | None = None) -> ReleaseLimits:
        budget, options = alpha or self._options.alpha, self._options
        return ReleaseLimits(budget * part, budget, options.margin, options.margin_relative, margin)

    def _verdict(self, verdicts: Mapping[EstimateKey, Verdict]) -> Verdict:
        compared = {key: verdict for key, verdict in verdicts.items() if not self._one_sided(self._metrics[key])}
        if "worse" in compared.values():
            return "worse"
        if not compared:
            return "not_comparable" if verdicts else "undecided"
        # A score that no labeler gave to both versions is not known to be as good.
        scores = {key.metric for key in verdicts} - RELATIVE
        fine = all(verdict == "not_worse" for verdict in compared.values())
        return "not_worse" if fine and scores <= {key.metric for key in compared} else "undecided"

    def _one_sided(self, metric: ReleaseMetric) -> bool:
        return any(not mine and answers >= ONE_SIDED for mine, answers in zip(metric.n, self.n, strict=True))

    def _why(self, metric: ReleaseMetric) -> str:
        side = 0 if not metric.n[0] else 1
        version = printable((self.from_version, self.to_version)[side])
        others = [
            other.key
            for other in self._metrics.values()
            if other.key.metric == metric.key.metric and other is not metric and other.n[side]
        ]
        if others:
            return f"another labeler scored {version}: {others[0].labeler} {others[0].labeler_version}"
        return f"{version} has no score of it by {labeler_phrase(metric.key.labeler)}"

    def record(
        self,
        *,
        metrics: Collection[str] | None = None,
        margin: float | None = None,
        alpha: float | None = None,
        points: bool = True,
        at_ms: int | None = None,
    ) -> Release:
        """Return the release with its numbers.

        Args:
            metrics: names of metrics with or without family; the budget is divided among these. All unless given.
            margin: largest loss that `not_worse` allows, in the unit of each metric; that of the options unless given.
            alpha: budget; that of the options unless given.
            points: whether to return the metrics over time.
            at_ms: time of the reader; that of the last answer unless given.

        Raises:
            ValueError: a metric is unknown; the message has what was meant.
        """
        chosen = self._chosen(metrics)
        parts = SLOTS if metrics is None else [1 / max(len(chosen), 1)] * len(chosen)
        at_ms = max(self._recent_ms, at_ms or 0)
        share, an_hour = self._traffic(at_ms)
        rows, verdicts = list[MetricVerdict](), dict[EstimateKey, Verdict]()
        for part, metric in zip(parts, chosen, strict=False):
            limits = self._limits(part, margin, alpha)
            row = metric.record(limits, an_hour=an_hour, answers=self.n[1], confidence=_CONFIDENCE, points=points)
            verdicts[metric.key] = row.verdict
            if self._one_sided(metric):
                row = row.model_copy(update={"verdict": "not_comparable", "reason": self._why(metric)})
            rows.append(row)
        rows.sort(key=lambda row: (_WORST_FIRST.index(row.verdict), row.metric in RELATIVE))
        verdict = self._verdict(verdicts)
        if metrics is None and margin is None and alpha is None and self.decided_ms is not None:
            verdict = self.verdict
        reason = None
        if verdict == "not_comparable":
            reason = "; ".join(dict.fromkeys(f"{row.metric}: {row.reason}" for row in rows if row.reason))
        decided = None if self.decided_ms is None else from_milliseconds(self.decided_ms)
        return Release(
            pipeline=self.pipeline, from_version=self.from_version, to_version=self.to_version, verdict=verdict,
            reason=reason, sentence=self._sentence(verdict, rows, reason), alpha=alpha or self._options.alpha,
            opened_at=from_milliseconds(self.opened_ms), decided_at=decided, decided_by=self.decided_by,
            ended_at=None if self.ended_ms is None else from_milliseconds(self.ended_ms), end=self.end,
            n=(self.n[0], self.n[1]), share=share, an_hour=an_hour,
            last_at=from_milliseconds(self.last_ms[1]), metrics=tuple(rows),
        )  # fmt: skip

    def turned(self) -> "WatchedRelease":
        """Return the release with the versions in the other order and without its verdict, to be read."""
        turned = WatchedRelease(self.pipeline, self.to_version, self.from_version, self.opened_ms, self._options)
        turned.ended_ms, turned.end = self.ended_ms, self.end
        turned.n, turned.last_ms = self.n[::-1], self.last_ms[::-1]
        turned._recent, turned._recent_ms = self._recent[::-1], self._recent_ms
        turned._metrics = {key: metric.turned() for key, metric in self._metrics.items()}
        return turned

    def _chosen(self, names: Collection[str] | None) -> list[ReleaseMetric]:
        if names is None:
            return [*self._metrics.values()]
        known = {key.metric for key in self._metrics}
        wanted = set[str]()
        for name in names:
            meant = {metric for metric in known if name in (metric, metric.rpartition(".")[2])}
            if not meant:
                raise ValueError(unknown("metric", name, sorted(known)))
            wanted |= meant
        return [metric for key, metric in self._metrics.items() if key.metric in wanted]

    def _traffic(self, at_ms: int) -> tuple[float | None, float | None]:
        """Return the share of the new version and its answers an hour, at a time."""
        first, second = self._recent
        elapsed = at_ms - self.opened_ms
        share = second / (first + second) if first + second else None
        if elapsed < KNOWN_MS or self.n[1] < LEAST_KNOWN:
            return share, None
        halved = 0.5 ** ((at_ms - self._recent_ms) / HOUR_MS)
        return share, second * halved * log(2) / (1 - 0.5 ** (elapsed / HOUR_MS))

    def _sentence(self, verdict: Verdict, rows: Sequence[MetricVerdict], reason: str | None) -> str:
        old, new = printable(self.from_version), printable(self.to_version)
        if verdict == "not_comparable":
            return f"{new} cannot be compared with {old}: {reason}."
        compared = [row for row in rows if row.difference is not None]
        if verdict == "worse":
            worst = next((row for row in compared if row.metric == self.decided_by), next(iter(compared), None))
            numbers = "" if worst is None else f": {_numbers(worst, old, new)}"
            return f"{new} is worse than {old}{numbers}."
        if verdict == "not_worse":
            closest = max(compared, key=_use_of_margin, default=None)
            numbers = (
                ""
                if closest is None
                else f" The closest is {_numbers(closest, old, new)}, margin {closest.margin:.2g}."
            )
            return f"{new} is not worse than {old} by more than the margins.{numbers}"
        waits = [row.answers_to_go for row in rows if row.verdict == "undecided"]
        known = [wait for wait in waits if wait is not None]
        more = (
            f", about {max(known):,} more scored answers of {new} decide it"
            if known and len(known) == len(waits)
            else ""
        )
        widest = next(iter(compared), None)
        numbers = "" if widest is None else f" ({_numbers(widest, old, new)})"
        return f"It is undecided whether {new} is worse than {old}{more}{numbers}."

    def to_bytes(self) -> bytes:
        """Return the release as bytes, exactly."""
        metrics = [metric.dump() for metric in self._metrics.values()]
        head: dict[str, Any] = {
            "version": _VERSION, "pipeline": self.pipeline, "from": self.from_version, "to": self.to_version,
            "opened_ms": self.opened_ms, "ended_ms": self.ended_ms, "end": self.end, "decided_ms": self.decided_ms,
            "verdict": self.verdict, "decided_by": self.decided_by, "n": self.n, "last_ms": self.last_ms,
            "recent": self._recent, "recent_ms": self._recent_ms, "metrics": [parts for parts, _ in metrics],
        }  # fmt: skip
        text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
        return b"".join([_SIZE.pack(len(text)), text, *(_SIZE.pack(len(data)) + data for _, data in metrics)])

    @classmethod
    def from_bytes(cls, data: bytes, options: ReleaseOptions) -> "WatchedRelease":
        """Return the release that `to_bytes` stored.

        Raises: ValueError (or another error of a damaged field) if the bytes cannot be read.
        """
        pieces, at = list[bytes](), 0
        while at < len(data):
            (size,) = _SIZE.unpack_from(data, at)
            pieces.append(data[at + _SIZE.size : at + _SIZE.size + size])
            at += _SIZE.size + size
        head = json.loads(pieces[0])
        if head["version"] != _VERSION:
            raise ValueError(f"a release of version {head['version']}")
        release = cls(head["pipeline"], head["from"], head["to"], head["opened_ms"], options)
        release.ended_ms, release.end, release.decided_ms = head["ended_ms"], head["end"], head["decided_ms"]
        release.verdict, release.decided_by = head["verdict"], head["decided_by"]
        release.n, release.last_ms = head["n"], head["last_ms"]
        release._recent, release._recent_ms = head["recent"], head["recent_ms"]
        for parts, compared in zip(head["metrics"], pieces[1:], strict=True):
            metric = ReleaseMetric.read(parts, compared)
            release._metrics[metric.key] = metric
        return release


def _numbers(row: MetricVerdict, old: str, new: str) -> str:
    """Return both numbers and the difference, such as `trace.adherence 0.810 of v2 beside 0.900 of v1, ...`."""
    before, after = row.before, row.after
    means = ""
    if before is not None and after is not None:
        means = f" {number(after.estimate)} of {new} beside {number(before.estimate)} of {old},"
    ends = "" if row.lower is None or row.upper is None else f" ({signed(row.lower)} to {signed(row.upper)})"
    difference = f"{signed(row.difference or 0.0)}{ends}"
    return f"{row.metric}{means} difference {difference}, n {row.n_compared[1]:,} and {row.n_compared[0]:,}"


def _use_of_margin(row: MetricVerdict) -> float:
    end = row.lower if row.direction == "higher" else row.upper
    return 0.0 if end is None else abs(end) / max(row.margin, 1e-12)
