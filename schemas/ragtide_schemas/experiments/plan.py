"""The plan of an experiment: its configs, its items and their order, and the rules by which configs are stopped.

Each setting of an experiment is declared here once. The file and the keyword arguments in which users write it
(`drafts.py` in the offline package), the options of commands and the table in docs/experiments.md follow from it.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from ..base import Metadata, Name, Size, VersionedModel, WireModel
from ..declared import MetricDeclaration, declaration_of
from ..limits import LATENCY_MAX_S
from ..metrics import Direction, Kind, MetricDefinition, MetricName
from ..workspace import WorkspaceName

CONFIGS_MAX: Final = 1000
"""Configs an experiment may begin with."""

OWN: Final = "own"
"""Family of the metrics that an experiment measures itself."""

OWN_SCORES: Final = "ragtide_scores"
"""Name in an interaction's metadata under which an experiment's own scores are kept, by qualified metric name."""


class Config(WireModel):
    """One variant of the pipeline: its name and its parameters."""

    name: Name
    """Unique in its experiment; the pipeline of its interactions."""
    parameters: Metadata = Field(default_factory=dict)
    """Values that the function or the endpoint is given besides the question, such as `{"top_k": 4}`."""
    parent: Name | None = None
    """Config it was cloned from."""


class OwnMetric(WireModel):
    """A metric that the experiment measures itself, besides those of the labeler."""

    name: MetricName
    """Qualified name, such as `own.token_f1`."""
    kind: Kind = Kind.ALGEBRAIC
    """`algebraic` for a mean or a proportion, `distributive` for a sum or a count."""
    lower: float = 0.0
    """Lowest possible value of one item."""
    upper: float = 1.0
    """Highest possible value of one item."""
    direction: Direction = Direction.HIGHER
    """Which way it gets better."""

    def definition(self) -> MetricDefinition:
        """Return its definition.

        Raises: ValueError if its range is empty, or too large.
        """
        return MetricDefinition(
            name=self.name,
            lower=self.lower,
            upper=self.upper,
            direction=self.direction,
            kind=self.kind,
            meaning="Measured by the experiment itself.",
            source="the experiment's own `measure`",
        )


class RaceOptions(WireModel):
    """When the race stops a config."""

    enabled: bool = True
    """Whether the race stops configs; without it only commands do."""
    margin: Annotated[float, Field(ge=0)] = 0.02
    """Difference that does not matter, in the metric's unit."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Probability that no stop in the whole experiment is wrong."""
    look_every: Annotated[int, Field(ge=1)] = 5
    """Items between two comparison points."""
    finish: bool = True
    """Whether the last config that is left is still run on all items, for an exact estimate of it."""


class Limits(WireModel):
    """Limits on cost and tokens, for all configs and the labeler together."""

    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    """Most US dollars, for answers and labels together; no limit unless given."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens, for answers and labels together; no limit unless given."""

    def reached(self, cost_usd: float, tokens: int) -> str | None:
        """Return the limit that a cost reaches, as a sentence; None if it reaches none."""
        if self.max_cost_usd is not None and cost_usd >= self.max_cost_usd:
            return f"cost {cost_usd:.4f} USD of at most {self.max_cost_usd:g}: raise max_cost_usd to go on"
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return f"{tokens:,} tokens of at most {self.max_tokens:,}: raise max_tokens to go on"
        return None


class IntervalOptions(WireModel):
    """How the leaderboard computes its intervals."""

    strategy: Literal["normal", "wilson", "hoeffding", "running", "empirical_bernstein", "betting", "auto"] = "auto"
    """Strategy of the intervals; the last four hold at every look. `auto`: `betting`, or `asymptotic` for counts."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence level."""
    use_fpc: bool = True
    """Whether intervals make use of the number of items, and close when all have a score."""


class ExperimentOptions(WireModel):
    """The settings of an experiment: a draft has them, and its plan keeps them."""

    target: str = "a function"
    """Function that answers, as `module:function`, or the http(s) URL of an endpoint."""
    data: str = "items given from Python"
    """Data set with the questions: a file, or `hf:owner/name`."""
    seed: int = 0
    """Seed of the order in which items are run."""
    shards: Annotated[int, Field(ge=1)] = 8
    """Number of parts of (almost) equal size in which progress is shown; at most the number of items."""
    race: RaceOptions = RaceOptions()
    """When the race stops a config."""
    limits: Limits = Limits()
    """Limits on cost and tokens."""
    intervals: IntervalOptions = IntervalOptions()
    """How the leaderboard computes its intervals."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 8
    """Most calls at once, all configs together."""
    concurrency_per_config: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Most calls at once of one config; no limit of its own unless given."""
    tries: Annotated[int, Field(ge=1, le=100)] = 3
    """How often a call that fails is tried."""
    timeout_s: Annotated[float, Field(gt=0, le=LATENCY_MAX_S)] = 120.0
    """Seconds a call may take."""
    same_failures: Annotated[int, Field(ge=0)] = 10
    """Calls of a config in a row that fail with the same error, after which the config is stopped; 0 stops none."""
    labeler: str = "local"
    """Labeler that scores the answers; the one of the settings unless given."""


class Plan(VersionedModel, ExperimentOptions):
    """An experiment as its log begins with it. A plan never changes: commands change the rest."""

    run: WorkspaceName
    """Name of the experiment, and of its workspace."""
    data_digest: str
    """Changes whenever an item or their order in the source does."""
    population_size: Size
    """Number of items."""
    order_digest: str
    """Digest of the order of the items, so that the order can be checked."""
    configs: Annotated[tuple[Config, ...], Field(min_length=1, max_length=CONFIGS_MAX)]
    """Configs at the beginning."""
    metric: MetricName
    """Metric by which the race and the leaderboard compare configs."""
    higher_is_better: bool = True
    """Whether the best config is the one with the highest mean."""
    metrics: tuple[OwnMetric, ...] = ()
    """Metrics that the experiment measures itself."""
    target_parameters: tuple[Name, ...] | None = None
    """Names of the parameters that the target takes; None if it takes any, or if that is not known."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for what, names in (
            ("configs", [one.name for one in self.configs]),
            ("metrics", [m.name for m in self.metrics]),
        ):
            doubled = _first_doubled(names)
            if doubled is not None:
                raise ValueError(f"{what} has two named {doubled!r}: give each a name of its own")
        _ = self.declared  # raises for a name or a range that cannot be
        if self.shards > self.population_size:
            raise ValueError(
                f"shards is {self.shards}, but there are {self.population_size} items: give at most one shard an item"
            )
        return self

    @property
    def declared(self) -> dict[str, MetricDeclaration]:
        """Declarations of the metrics that the experiment measures itself, by name."""
        return {metric.name: declaration_of(metric.definition(), "1") for metric in self.metrics}

    def shard_ends(self) -> list[int]:
        """Return the number of items up to the end of each shard; sizes differ by at most one.

        With 10 items in 3 shards: [4, 7, 10].
        """
        size, longer = divmod(self.population_size, self.shards)
        return [size * number + min(number, longer) for number in range(1, self.shards + 1)]


def _first_doubled(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
