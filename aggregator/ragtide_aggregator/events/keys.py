"""The key of an estimate: its scope, its metric, and the labeler that measured it."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ragtide_schemas import (
    METRICS,
    AlertRule,
    Direction,
    Estimate,
    Kind,
    Measure,
    MetricDeclaration,
    MetricDefinition,
    MetricEvent,
    range_of,
)

SQUARED_ERROR: Final = "squared_error."
"""Family of squared differences from the gold score, in units of the metric's range."""

GOLD: Final = "gold."
"""Family of gold scores; their spread is the error of always predicting their mean."""

SHARE: Final = "share."
"""Family of shares: whether a score is at or below an edge, or above one. Edges are those of the metric's distribution,
and the targets of rules on quantiles."""

ABSENT: Final = "absent."
"""Family of absences of a metric for one reason, counted for whole pipelines."""

HIDDEN: Final = (SQUARED_ERROR, GOLD, SHARE, ABSENT)
"""Families from which estimates are computed, and which are no estimates themselves."""

LATENCY: Final = "labeling.latency_s"
"""Seconds of labeling."""

COST: Final = "labeling.cost_usd"
"""US dollars of labeling, of the interactions that went to a judge."""

UNBOUNDED: Final = (LATENCY, COST)
"""Metrics without a highest value: they have means and quantiles, but no interval."""

VERSION: Final = "version"
"""Name of the segment that says which version of the application answered. Its mix is a change of the system."""

GOLD_LABELER: Final = "gold"
"""Name of the labeler of gold scores, which people give."""


def share_name(metric: str, edge: float) -> str:
    """Return the name of the share of scores at or below an edge.

    >>> share_name("trace.rmse_aggregation", 0.15)
    'share.trace.rmse_aggregation<=0.15'
    """
    return f"{SHARE}{metric}<={edge:g}"


def above_name(metric: str, edge: float) -> str:
    """Return the name of the share of scores above an edge.

    >>> above_name("answer.latency_s", 5)
    'share.answer.latency_s>5'
    """
    return f"{SHARE}{metric}>{edge:g}"


def rule_share(rule: AlertRule, better: Direction | None) -> str:
    """Return the name of the share that a rule on a quantile compares: of answers on the bad side of its target.

    Args:
        better: direction in which its metric gets better; None if it is not known.
    """
    assert rule.target is not None  # noqa: S101 - the rule checks it
    return (above_name if rule.side(better) == "above" else share_name)(rule.metric, rule.target)


def absent_name(metric: str, reason: str) -> str:
    """Return the name under which absences of a metric for a reason are counted.

    >>> absent_name("trace.adherence", "judge_unusable")
    'absent.trace.adherence<=judge_unusable'
    """
    return f"{ABSENT}{metric}<={reason}"


def absence_of(name: str) -> tuple[str, str] | None:
    """Return metric and reason of a name from `absent_name`; None for other names.

    >>> absence_of("absent.trace.adherence<=judge_unusable"), absence_of("trace.adherence")
    (('trace.adherence', 'judge_unusable'), None)
    """
    if not name.startswith(ABSENT):
        return None
    metric, _, reason = name.removeprefix(ABSENT).partition("<=")
    return metric, reason


@lru_cache(maxsize=10_000)
def scored_metric(name: str) -> str:
    """Return the metric whose scores are counted under a name.

    >>> scored_metric("share.trace.rmse_aggregation<=0.15"), scored_metric("squared_error.mine.words")
    ('trace.rmse_aggregation', 'mine.words')
    """
    for family in HIDDEN:
        if name.startswith(family):
            return name.removeprefix(family).partition("<=")[0].partition(">")[0]
    return name


@lru_cache(maxsize=4096)
def _definition_of(metric: str) -> MetricDefinition | None:
    return METRICS.get(scored_metric(metric))


@lru_cache(maxsize=4096)
def _range_of(metric: str, measure: Measure | None) -> tuple[float, float]:
    return (0.0, 1.0) if metric.startswith(SHARE) else range_of(scored_metric(metric), measure)


@lru_cache(maxsize=4096)
def _holds_counts(metric: str, measure: Measure | None) -> bool:
    if metric.startswith(SHARE):
        return False
    definition = _definition_of(metric)
    kind = definition.kind if definition is not None else None
    return (kind if measure is None else measure.kind) is Kind.DISTRIBUTIVE


class EstimateKey(NamedTuple):
    """Scope (pipeline, run, segment value), metric, and labeler (profile, name and version).

    Scores of different profiles or labelers are never mixed: they are different measurements under one name. The same
    holds for a declared metric's version, range, direction and kind.
    """

    pipeline: str
    run: str | None
    segment: str | None
    metric: str
    profile: str
    labeler: str
    labeler_version: str
    measure: Measure | None = None
    """Version, range, direction and kind of a declared metric; None for ragtide's own."""

    @classmethod
    def of(cls, estimate: Estimate) -> "EstimateKey":
        """Return the key of an estimate; of a prediction-powered mean that of its reference scores."""
        e, measure = estimate, None
        if e.metric_version is not None and e.direction is not None and e.kind is not None:
            measure = Measure(e.metric_version, *e.value_range, e.direction, e.kind)
        return cls(e.pipeline, e.run, e.segment, e.metric, e.profile, e.labeler, e.labeler_version, measure)

    @property
    def unscoped(self) -> "EstimateKey":
        """The key without its scope: metric and labeler alone."""
        return self._replace(pipeline="", run=None, segment=None)

    @property
    def group(self) -> "EstimateKey":
        """The key without its metric: scope and labeler alone."""
        return self._replace(metric="", measure=None)

    @property
    def version(self) -> str | None:
        """Version of the metric's formula; None for ragtide's own metrics."""
        return None if self.measure is None else self.measure.version

    @property
    def names(self) -> dict[str, Any]:
        """The key as the fields of a record."""
        names = dict(zip(self._fields, self[:-1], strict=False))
        names["metric_version"] = self.version
        return names

    @property
    def definition(self) -> MetricDefinition | None:
        """What is known about the metric whose scores it counts; None for a metric without a definition."""
        if self.measure is None:
            return _definition_of(self.metric)
        metric = scored_metric(self.metric)
        return MetricDeclaration(**self.measure._asdict()).definition(metric)

    @property
    def value_range(self) -> tuple[float, float]:
        """Lowest and highest possible value: a score of the metric, or a share."""
        return _range_of(self.metric, self.measure)

    @property
    def better(self) -> Direction | None:
        """The direction in which the metric gets better; None if it is not known."""
        if self.measure is not None:
            return self.measure.direction
        definition = _definition_of(self.metric)
        return None if definition is None else definition.direction

    @property
    def holds_counts(self) -> bool:
        """Whether the values are counts, or errors of counts: values of a distributive metric."""
        return _holds_counts(self.metric, self.measure)

    @property
    def count_unit(self) -> float:
        """One on the scale of the key's counts, which is [0, 1]; 0 for values that are no counts."""
        lowest, highest = self.value_range
        return 1 / (highest - lowest) if self.holds_counts else 0.0

    def parts(self) -> list[Any]:
        """Return the key as a list, for a field of the checkpoint; the measure is left out if it is None."""
        return list(self if self.measure is not None else self[:-1])

    @classmethod
    def read(cls, parts: list[Any]) -> "EstimateKey":
        """Return the key that `parts` returned."""
        *names, measure = parts if len(parts) == len(cls._fields) else [*parts, None]
        pipeline, run, segment, metric, profile, labeler, labeler_version = names
        own = None if measure is None else Measure.read(measure)
        return cls(pipeline, run, segment, metric, profile, labeler, labeler_version, own)

    def encode(self) -> str:
        """Return the key as text, for a field of the checkpoint."""
        return json.dumps(self.parts(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> "EstimateKey":
        """Return the key that `encode` wrote."""
        return cls.read(json.loads(text))

    @classmethod
    def decode_all(cls, texts: Sequence[str]) -> list["EstimateKey"]:
        """Return the keys of many texts that `encode` wrote, in less time.

        Raises:
            ValueError: some text is no key; `decode` of each says which.
        """
        lists: list[Any] = json.loads(f"[{','.join(texts)}]")
        # A text that is no list by itself could join its neighbours.
        if len(lists) != len(texts) or not all(text[0] == "[" and text[-1] == "]" for text in texts):
            raise ValueError("some text is no key")
        without_measure = len(cls._fields) - 1
        return [cls._make([*parts, None]) if len(parts) == without_measure else cls.read(parts) for parts in lists]


class PairKey(NamedTuple):
    """The key of pairs of a reference and a proxy score: the same scope and metric, measured by two labelers."""

    proxy: EstimateKey
    reference: EstimateKey

    @classmethod
    def of(cls, proxy: EstimateKey, labeler: str, labeler_version: str, profile: str) -> "PairKey":
        """Return the key of pairs of a proxy score and the score of another labeler."""
        return cls(proxy, proxy._replace(labeler=labeler, labeler_version=labeler_version, profile=profile))

    def encode(self) -> str:
        """Return the key as text, for a field of the checkpoint."""
        by = self.reference
        parts = [self.proxy.parts(), by.labeler, by.labeler_version, by.profile]
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> "PairKey":
        """Return the key that `encode` wrote."""
        proxy, *labeler = json.loads(text)
        return cls.of(EstimateKey.read(proxy), *labeler)


def segment_values(event: MetricEvent) -> list[str]:
    """Return the event's segments as `name=value`, in order of their names."""
    return [f"{name}={value}" for name, value in sorted(event.segments.items())]
