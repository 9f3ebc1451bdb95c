"""What the page has of the laboratory: the screens of experiments, and the functions behind other screens."""

from typing import Final

from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_web.reading.laboratory import Laboratory

from ..demo import demo_interactions
from ..report.labelings import Compared
from ..report.pipelines import PipelineSide, read_comparison
from .experiments.reading import ExperimentsReading
from .experiments.route import router


async def compare(redis: Redis, deployment: Deployment, first: str, second: str) -> list[Compared]:
    """Return the differences of two pipelines as wholes."""
    sides = PipelineSide(deployment, first), PipelineSide(deployment, second)
    comparisons = await read_comparison(redis, sides, window="all")
    return [comparison for comparison in comparisons if comparison.key.segment is None]


LABORATORY: Final = Laboratory(
    routers=(router,),
    folders=((__package__, "experiments"),),
    experiments=ExperimentsReading,
    compare=compare,
    examples=demo_interactions,
    rule_replay="from ragtide_offline.pages.rule_replay import serve; serve()",
)
