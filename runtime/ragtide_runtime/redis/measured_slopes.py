"""Slopes of labelers that were measured by this deployment, in Redis: of a model that the operator chose."""

import json
from dataclasses import astuple

from redis.asyncio import Redis

from ragtide_schemas.slopes import Slope, SlopesByMetric

from .keys import Streams


async def store_slopes(redis: Redis, prefix: str, labeler: str, version: str, slopes: SlopesByMetric) -> None:
    """Store the slopes of a version of a labeler; they replace earlier ones of the same version.

    Args:
        redis: client.
        prefix: of the deployment's keys.
        labeler: its name.
        version: its version.
        slopes: by metric.
    """
    values = {metric: [astuple(slope) for slope in of_metric] for metric, of_metric in slopes.items()}
    await redis.hset(Streams(prefix, 0).slopes, json.dumps([labeler, version]), json.dumps(values))


async def read_slopes(redis: Redis, prefix: str) -> dict[tuple[str, str], SlopesByMetric]:
    """Return the stored slopes by labeler and version; of a field that cannot be read nothing is known.

    Args:
        redis: client.
        prefix: of the deployment's keys.
    """
    slopes: dict[tuple[str, str], SlopesByMetric] = {}
    for field, stored in (await redis.hgetall(Streams(prefix, 0).slopes)).items():
        try:
            labeler, version = json.loads(field)
            slopes[labeler, version] = {
                metric: tuple(Slope(*values) for values in of_metric)
                for metric, of_metric in json.loads(stored).items()
            }
        except (ValueError, TypeError, AttributeError):
            continue
    return slopes
