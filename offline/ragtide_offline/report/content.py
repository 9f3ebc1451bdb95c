"""The content of an experiment's report, independent of its layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Plan

from ..experiments.board import Board
from ..experiments.projections import ConfigPair
from ..experiments.state import FollowedCommand, RefusedCommand


@dataclass(frozen=True, slots=True)
class ConfigPairs:
    """The differences of the best configs, each with each."""

    names: Sequence[str]
    """Compared configs, the leader first."""
    left_out: int
    """Number of scored configs that are left out, because a table of all would be too large to read."""
    confidence: float
    """Level at which the intervals outside of the race hold together."""
    confidence_each: float
    """Level of each interval outside of the race (Bonferroni)."""
    pairs: Sequence[ConfigPair]
    """Every pair once, with the config first that is higher on the leaderboard."""


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """The answer of one config to an item, and its score."""

    config: str
    score: float | None
    response: str | None
    """The shortened response; None if the call failed, or the text is no longer on the stream."""
    note: str
    """Why the score or the text is missing; empty if both are there."""


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item with the answers of all configs, to be shown."""

    place: int
    """Index in the order in which items are run, from 0."""
    item_id: str
    question: str | None
    """None if its text is no longer on the stream."""
    reference: str | None
    mean: float
    """Mean of the race's metric over the configs with a score on it."""
    spread: float
    """Highest minus lowest score."""
    scored: int
    """Configs with a score on it, over which the mean is."""
    unscored: int
    """Configs that ran on it without a score, such as a failed call."""
    answers: Sequence[ItemAnswer]


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """The configs that have one value of a parameter."""

    value: str
    configs: int
    mean: float


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with more than one value among the configs."""

    name: str
    values: Sequence[ParameterValue]


@dataclass(frozen=True, slots=True)
class ParameterEffects:
    """Means by the values of parameters, over the same items for all configs."""

    n: int
    """Items on which every config has a score."""
    parameters: Sequence[Parameter]


@dataclass(frozen=True, slots=True)
class Failure:
    """Answers that are missing for one reason."""

    kind: Literal["call failed", "not labeled"]
    reason: str
    count: int
    configs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Point:
    """The mean of a config after a number of items."""

    item: int
    mean: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The mean of a config after each of several numbers of items."""

    config: str
    points: Sequence[Point]
    stopped: bool


@dataclass(frozen=True, slots=True)
class PublishedMean:
    """A published mean of a metric, beside the mean of the experiment's best config."""

    metric: str
    system: str
    published: float
    ours: float
    lower: float | None
    """Lower end of the interval of ours; None without one."""
    upper: float | None
    """Upper end of it."""

    @property
    def points(self) -> float:
        """Ours minus the published mean, in percentage points."""
        return 100 * (self.ours - self.published)


@dataclass(frozen=True, slots=True)
class PublishedMeans:
    """Published means of one data set that the best config has scores for, too."""

    dataset: str
    sources: Sequence[str]
    config: str
    """Name of the best config."""
    means: Sequence[PublishedMean]


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """The report of an experiment."""

    info: Workspace
    plan: Plan
    board: Board
    made_at: datetime
    began_at: datetime
    last_at: datetime | None
    """End of the last call; None before the first."""
    instruments: Sequence[str]
    """Ids (name, version, profile) of the labelers that scored the answers."""
    commands: Sequence[FollowedCommand]
    refused: Sequence[RefusedCommand]
    pairs: ConfigPairs | None
    """None with fewer than two configs that have a score."""
    curves: Sequence[Curve]
    worst: Sequence[ItemView]
    """Items with the worst mean over configs."""
    disputed: Sequence[ItemView]
    """Items on which the scores of configs differ most."""
    parameters: ParameterEffects | None
    failures: Sequence[Failure]
    cautions: Sequence[str]
    published: PublishedMeans | None = None
    """None unless published means are asked for."""
