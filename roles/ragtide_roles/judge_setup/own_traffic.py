"""The traffic that a judge would sample: how much it is, and how long its texts are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.present_traffic import present_traffic
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_runtime.redis.measured_slopes import read_slopes
from ragtide_schemas import RagInteraction
from ragtide_schemas.slopes import SlopesByMetric

TYPICAL: Final = 20
"""Kept answers by whose texts the tokens of a judged answer are estimated."""


@dataclass(frozen=True, slots=True)
class OwnTraffic:
    """The traffic of now; empty while it is not known."""

    per_day: Mapping[str, float] = field(default_factory=dict)
    """Answers of a day by pipeline."""
    items: tuple[RagInteraction, ...] = ()
    """The latest answers of the uniform sample of the busiest pipeline."""
    slopes: Mapping[tuple[str, str], SlopesByMetric] = field(default_factory=dict)
    """Slopes that were measured here (`ragtide trust --store`), by labeler and version."""

    @property
    def answers_per_day(self) -> float | None:
        """Answers of all pipelines in a day; None if they are not known."""
        return sum(self.per_day.values()) or None


async def read_own_traffic(redis: Redis, deployment: Deployment) -> OwnTraffic:
    """Return the traffic of now.

    Raises:
        CheckpointError: a checkpoint cannot be read.
        DamagedFieldError: a pane of the history cannot be read.
        redis.RedisError: Redis failed.
    """
    slopes = await read_slopes(redis, deployment.settings.prefix)
    per_day = await present_traffic(deployment)
    if not per_day:
        return OwnTraffic(slopes=slopes)
    kept = await KeptSpecimens(redis, deployment.settings.layout).sample(max(per_day, key=lambda name: per_day[name]))
    return OwnTraffic(per_day, tuple(specimen.interaction for specimen in kept[:TYPICAL]), slopes)
