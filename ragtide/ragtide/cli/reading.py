"""Reading estimates and states from the checkpoints, over all partitions."""

import asyncio
from collections.abc import Sequence

from redis.asyncio import Redis

from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.service.checkpoint import load_checkpoint
from ragtide_aggregator.state.merging import merged
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.strategies import AUTO
from ragtide_roles.state_options import panes_of
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Estimate, Streams


async def read_estimates(
    redis: Redis,
    settings: Settings,
    *,
    strategy: str = AUTO,
    confidence: float | None = None,
    ongoing: bool = False,
) -> list[Estimate]:
    """Return every estimate, computed from the checkpoints: complete, and as fresh as the last commit.

    Args:
        redis: client.
        settings: of the deployment, or of a run.
        strategy: method of the intervals.
        confidence: their level; that of the settings unless given.
        ongoing: whether the interactions are a sample of traffic that goes on, even in runs whose size is known.
    """
    level = settings.confidence if confidence is None else confidence
    states = await read_states(redis, settings, settings.layout.all())
    if ongoing:
        for state in states:
            state.rows.population[:] = 0
    return [estimate for state in states for estimate in estimates(state, strategy=strategy, confidence=level)]


async def read_states(redis: Redis, settings: Settings, of: Sequence[Streams]) -> list[AggregatorState]:
    """Return the state of each partition from its checkpoint; one merged state if pipelines are split over them."""
    # Without rules: their alerts are not read from here.
    options = StateOptions(panes=panes_of(settings), segments=settings.segments, quantiles=settings.quantiles)
    checkpoints = await asyncio.gather(*(load_checkpoint(redis, streams, options) for streams in of))
    states = [checkpoint.state for checkpoint in checkpoints]
    return [merged(states, options)] if settings.splits and len(states) > 1 else states
