"""Traffic of which a judge scores a sample, and the mean of all of it by definition: item by item, from raw events."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple

import numpy as np
from tests.support.metric_events import event

from ragtide_schemas import JudgedScores, MetricEvent

METRIC = "trace.adherence"


@dataclass(frozen=True, slots=True)
class Judged:
    """What the traffic is like; the numbers are shares, and probabilities of yes."""

    english: float = 0.74
    dutch: float = 0.13
    """Of answers in a language that the proxy cannot score."""
    absent: float = 0.35
    """Share of Dutch answers."""
    rates: tuple[float, float] = (0.4, 0.4)
    """Rate of the judge in the first half and in the second."""
    dutch_factor: float = 1.0
    """Part of the rate at which Dutch answers are judged."""
    cannot_tell: tuple[float, float] = (0.0, 0.0)
    """Share of the yes, and of the no, of which the judge cannot tell."""
    away: float = 0.0
    """Share of the chosen answers that the judge is never asked about."""
    sessions: int = 0
    """Answers of a session; 0 for none."""


class Truth(NamedTuple):
    """What the judge would say of every answer: its mean over those that it can tell, and their share."""

    mean: float
    share: float


def judged_events(traffic: Judged, n: int, seed: int, **changes: Any) -> tuple[list[MetricEvent], Truth]:
    """Return the events of n answers, and what the judge would say of all of them."""
    rng = np.random.default_rng(seed)
    found, told = [], []
    session_dutch = rng.random(n) < traffic.absent
    for number in range(n):
        session = number // traffic.sessions if traffic.sessions else number
        dutch = bool(session_dutch[session])
        score = float(rng.random() < (traffic.dutch if dutch else traffic.english))
        tells = rng.random() >= traffic.cannot_tell[0 if score else 1]
        if tells:
            told.append(score)
        rate = traffic.rates[2 * number >= n] * (traffic.dutch_factor if dutch else 1.0)
        fields: dict[str, Any] = {"labeler": "local", "segments": {"lang": "nl" if dutch else "en"}}
        if traffic.sessions:
            fields["session_id"] = f"s-{session}"
        if rng.random() < rate:
            absent = {} if tells else {METRIC: "judge_cannot_tell"}
            if rng.random() < traffic.away:
                absent = {METRIC: "over_budget"}
            fields["judged"] = JudgedScores(
                labeler="judge", labeler_version="m", profile="ragbench", scores={} if absent else {METRIC: score},
                absent=absent, inclusion_probability=rate, uniform=traffic.dutch_factor == 1.0,
                uniform_probability=rate if traffic.dutch_factor == 1.0 else None,
            )  # fmt: skip
        proxy = float(np.clip(0.5 + 0.3 * (score - 0.5) + 0.2 * rng.standard_normal(), 0, 1))
        scores = {} if dutch else {METRIC: proxy}
        absent = {METRIC: "language_not_supported"} if dutch else {}
        found.append(event(number, scores, absent=absent, **{**fields, **changes}))
    return found, Truth(float(np.mean(told)), len(told) / n)


class ByDefinition(NamedTuple):
    """The numbers of one estimator."""

    estimate: float
    coverage: float
    n: int
    n_absent: int


def weighted_by_definition(events: Sequence[MetricEvent]) -> ByDefinition:
    """Return the mean of all judged answers, each with the inverse of its probability."""
    y, _, w = _columns(events)
    told = ~np.isnan(y)
    return ByDefinition(np.average(y[told], weights=w[told]), np.average(told, weights=w), told.sum(), (~told).sum())


def powered_by_definition(events: Sequence[MetricEvent]) -> ByDefinition:
    """Return the prediction-powered mean: each stratum by itself, added with the counts of all answers."""
    y, f, w = _columns(events)
    every = np.array([one.scores.get(METRIC, nan) for one in events])
    sums = {"told": 0.0, "score": 0.0}
    for stratum, of_all in ((~np.isnan(f), ~np.isnan(every)), (np.isnan(f), np.isnan(every))):
        if not stratum.any():
            continue
        told = ~np.isnan(y[stratum])
        for name, z in (("told", told.astype(float)), ("score", np.where(told, y[stratum], 0.0))):
            mean = np.average(z, weights=w[stratum])
            if not np.isnan(every[of_all]).any():
                slope = np.cov(z, f[stratum], aweights=w[stratum], ddof=0)
                mean += slope[0, 1] / slope[1, 1] * (every[of_all].mean() - np.average(f[stratum], weights=w[stratum]))
            sums[name] += of_all.mean() * mean
    told = ~np.isnan(y)
    return ByDefinition(sums["score"] / sums["told"], sums["told"], told.sum(), (~told).sum())


def _columns(events: Sequence[MetricEvent]) -> tuple[Any, Any, Any]:
    """Return score of the judge, score of the proxy, and weight of every answer that the judge was asked about."""
    asked = [
        (one.judged.scores.get(METRIC, nan), one.scores.get(METRIC, nan), 1 / one.judged.inclusion_probability)
        for one in events
        if one.judged is not None and "over_budget" not in one.judged.absent.values()
    ]
    y, f, w = np.array(asked).T
    return y, f, w
