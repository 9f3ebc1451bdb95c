"""The content of an experiment's report, independent of its layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ragtide_aggregator.statistics.comparing import Difference
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Plan

from ..experiments.board import Board
from ..experiments.differences import Source
from ..experiments.state import FollowedCommand, RefusedCommand


@dataclass(frozen=True, slots=True)
class Pair:
    """One config against another, on the items both were scored on."""

    first: str
    second: str
    n: int
    """Items on which both have a score."""
    difference: Difference
    """Mean of the first minus that of the second, in the raced metric's unit."""
    source: Source
    """Where the interval is from: a `decision` of the race, the `race`, or `pairs` that did not race."""
    stopped: str | None = None
    """Which of the two the race stopped because of the other."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Every two of the best configs."""

    names: Sequence[str]
    """Configs that are compared, the leader first."""
    left_out: int
    """Configs with a score that are not among them, because a table of all would be too large to read."""
    confidence: float
    """Level at which all of the intervals that are not the race's hold together."""
    confidence_each: float
    """Level of each of them, which is higher (Bonferroni)."""
    pairs: Sequence[Pair]
    """Each two once, the first of them higher on the leaderboard."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of one config to an item, and its score."""

    config: str
    score: float | None
    response: str | None
    """Its response, shortened; None if the call failed, or the text is no longer on the stream."""
    note: str
    """Why there is no score or no text; empty if there is nothing to say."""


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item worth a look."""

    place: int
    """Its place in the permutation, from 0."""
    item_id: str
    question: str | None
    """None if its text is no longer on the stream."""
    reference: str | None
    mean: float
    """Mean of the raced metric over the configs that were scored on it."""
    spread: float
    """Highest minus lowest score."""
    answers: Sequence[Answered]


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
    """The estimate of a config after so many items of the permutation."""

    item: int
    mean: float


@dataclass(frozen=True, slots=True)
class Curve:
    """How the mean of a config went over the items."""

    config: str
    points: Sequence[Point]
    stopped: bool


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """Everything that is said of an experiment."""

    info: Workspace
    plan: Plan
    board: Board
    made_at: datetime
    began_at: datetime
    last_at: datetime | None
    """When the last call ended; None before the first."""
    instruments: Sequence[str]
    """Labelers with version and profile that scored the answers."""
    commands: Sequence[FollowedCommand]
    refused: Sequence[RefusedCommand]
    pairs: Pairs | None
    """None with fewer than two configs that have a score."""
    curves: Sequence[Curve]
    worst: Sequence[ItemView]
    """Items with the lowest quality over configs."""
    disputed: Sequence[ItemView]
    """Items about which the scores of configs differ most."""
    parameters: ParameterEffects | None
    failures: Sequence[Failure]
    cautions: Sequence[str]
    """Cautions about the numbers, one sentence each."""
