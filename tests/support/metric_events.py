"""Metric events for tests of the aggregator."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from ragtide_schemas import MetricEvent

START = datetime(2026, 11, 21, tzinfo=UTC)


def event(number: int, scores: dict[str, float], **changes: Any) -> MetricEvent:
    """Return a metric event, one second after the one before."""
    time = START + timedelta(seconds=number)
    fields: dict[str, Any] = {
        "interaction_id": f"i-{number}",
        "pipeline": "shop",
        "occurred_at": time,
        "labeled_at": time,
        "labeler": "test",
        "labeler_version": "1",
        "profile": "ragbench",
        "scores": scores,
    }
    return MetricEvent(**{**fields, **changes})


def adherence(values: Any, *, first: int = 0, **changes: Any) -> list[MetricEvent]:
    """Return one event for each value of `trace.adherence`."""
    return [event(first + i, {"trace.adherence": float(value)}, **changes) for i, value in enumerate(values)]


def beta(mean: float, n: int, seed: int = 0) -> Any:
    """Return values in [0, 1] around a mean, with a standard deviation of about 0.13."""
    return np.random.default_rng(seed).beta(10 * mean, 10 * (1 - mean), n)
