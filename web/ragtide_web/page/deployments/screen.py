"""Other deployments: one table for each, with the interval of each shown metric. No clock, no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ragtide_schemas.details import FederatedDeployment, FleetPipeline
from ragtide_schemas.headline import HEADLINE_STATES

from ...reading.fleet import Cell, cell_of, importance, important


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """A pipeline of a deployment."""

    pipeline: FleetPipeline
    cells: Mapping[str, Cell]
    """Interval by metric."""


@dataclass(frozen=True, slots=True)
class ShownDeployment:
    """A deployment."""

    name: str
    url: str
    answered_at: datetime | None
    problem: str | None
    rows: Sequence[DeploymentRow]
    """The worst pipeline first."""
    metrics: Sequence[str]
    """Metrics of the columns."""
    has_more: bool

    @property
    def firing(self) -> int:
        """Number of its alerts that fire."""
        return sum(len(row.pipeline.firing) for row in self.rows)


def shown_deployments(deployments: Sequence[FederatedDeployment]) -> list[ShownDeployment]:
    """Return the deployments, those that do not answer first, then by their worst pipeline.

    Args:
        deployments: as they answered.
    """
    return sorted(map(_shown, deployments), key=_rank)


def _rank(shown: ShownDeployment) -> tuple[int, str]:
    if shown.problem is not None:
        return -1, shown.name
    worst = min((HEADLINE_STATES.index(row.pipeline.state) for row in shown.rows), default=len(HEADLINE_STATES))
    return worst, shown.name


def _shown(deployment: FederatedDeployment) -> ShownDeployment:
    rows = [
        DeploymentRow(
            pipeline,
            {headline.metric: cell for headline in pipeline.headlines if (cell := cell_of(headline)) is not None},
        )
        for pipeline in deployment.pipelines
    ]
    metrics = important(sorted({name for row in rows for name in row.cells}, key=importance))
    return ShownDeployment(
        deployment.name,
        deployment.url,
        deployment.answered_at,
        deployment.problem,
        rows,
        metrics,
        deployment.has_more,
    )
