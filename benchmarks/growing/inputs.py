"""Metric events of any number of pipelines and sessions, with the scores that the local labeler gives."""

import asyncio
from datetime import timedelta
from functools import cache

from ragtide import LocalLabeler, MetricEvent
from ragtide_offline.capacity.judging import example_interactions
from ragtide_schemas import utc_now

TEMPLATES = 40
"""Interactions whose scores the events have in turn."""


@cache
def _scores() -> list[dict[str, float]]:
    async def label() -> list[dict[str, float]]:
        labeler = LocalLabeler()
        return [dict((await labeler.label(row)).scores) for row in example_interactions(TEMPLATES)]

    return asyncio.run(label())


def metric_events(count: int, *, pipelines: int, first: int = 0, sessions: int = 0) -> list[MetricEvent]:
    """Return metric events of pipelines that take turns.

    Args:
        count: number of events.
        pipelines: number of pipelines.
        first: number of the first event, so that ids differ between calls.
        sessions: number of sessions of each pipeline, which take turns; 0 for events without a session.
    """
    now, scores = utc_now(), _scores()
    return [
        MetricEvent(
            interaction_id=f"e{number}",
            pipeline=f"pipeline-{number % pipelines}",
            occurred_at=now - timedelta(seconds=1),
            labeled_at=now,
            labeler="local",
            labeler_version="1",
            profile="ragbench",
            scores=scores[number // pipelines % len(scores)],
            session_id=f"s{number // pipelines % sessions}" if sessions else None,
            latency_s=0.001 * (number % 50),
        )
        for number in range(first, first + count)
    ]
