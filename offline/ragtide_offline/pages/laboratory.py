"""What the page has of the laboratory: the screens of experiments, and the functions behind other screens."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_schemas import RagInteraction
from ragtide_web.reading.laboratory import Laboratory

from .experiments.reading import ExperimentsReading
from .experiments.route import router

if TYPE_CHECKING:
    from ..report.labelings import Compared


async def compare(redis: Redis, deployment: Deployment, first: str, second: str) -> "list[Compared]":
    """Return the differences of two pipelines as wholes."""
    from ..report.pipelines import PipelineSide, read_comparison  # noqa: PLC0415 - no screen needs it at the start

    sides = PipelineSide(deployment, first), PipelineSide(deployment, second)
    comparisons = await read_comparison(redis, sides, window="all")
    return [comparison for comparison in comparisons if comparison.key.segment is None]


def examples() -> Sequence[RagInteraction]:
    """Return the interactions of the demo."""
    from ..demo import demo_interactions  # noqa: PLC0415 - as above

    return demo_interactions()


LABORATORY: Final = Laboratory(
    routers=(router,),
    folders=((__package__, "experiments"),),
    experiments=ExperimentsReading,
    compare=compare,
    examples=examples,
    rule_replay="from ragtide_offline.pages.rule_replay import serve; serve()",
)
