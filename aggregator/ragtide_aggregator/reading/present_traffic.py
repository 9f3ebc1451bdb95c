"""The traffic of now: the interactions of a day by pipeline, for prices and waiting times."""

from typing import Final

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
    return {pipeline: HOURS * an_hour for pipeline, an_hour in (await deployment.traffic()).items() if an_hour}
