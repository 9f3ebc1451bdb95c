"""The traffic of now: the interactions of a day by pipeline, for prices and waiting times."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from ragtide_schemas.headline import Headline

from .deployment import Deployment

HOURS: Final = 24
"""Hours of a day."""


async def present_traffic(deployment: Deployment) -> dict[str, float]:
    """Return the interactions of a day of each pipeline with traffic in the last 24 hours.

    It is the count of the last 24 hours. Of a pipeline whose traffic began within the last hour it is 24 times that.

    Raises:
        CheckpointError: a checkpoint cannot be read.
        DamagedFieldError: a pane of the history cannot be read.
    """
    day, hour = _counts(await deployment.headlines("24h")), _counts(await deployment.headlines("1h"))
    return {pipeline: n if n > hour[pipeline] else float(HOURS * n) for pipeline, n in day.items() if n}


def _counts(headlines: Iterable[Headline]) -> defaultdict[str, int]:
    counts: defaultdict[str, int] = defaultdict(int)
    for headline in headlines:  # a metric counts the interactions that it was asked about
        counts[headline.pipeline] = max(counts[headline.pipeline], headline.n + headline.n_absent)
    return counts
