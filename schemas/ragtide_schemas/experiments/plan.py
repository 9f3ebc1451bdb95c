"""The plan of an experiment: configs, a data set, the order of its items, and when a config is stopped."""

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


class Config(WireModel):
    """One variant of the pipeline that is tried: its name and its knobs."""

    name: Name
    """Unique in its experiment; the pipeline of its interactions."""
    knobs: Metadata = Field(default_factory=dict)
    """Parameters of the callable or the endpoint besides the question, such as `{"top_k": 4}`."""
    parent: Name | None = None
    """Config it was cloned from."""


class OwnMetric(WireModel):
    """A metric that the experiment measures itself, besides what the labeler scores."""

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
    """When a config is stopped because it has lost."""

    enabled: bool = True
    """Whether configs are stopped without a person."""
    margin: Annotated[float, Field(ge=0)] = 0.02
    """Difference that does not matter, in the metric's unit: a smaller one is not worth the money."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Probability that no stop in the whole experiment is wrong."""
    look_every: Annotated[int, Field(ge=1)] = 5
    """Items between two looks."""
    finish: bool = True
    """Whether the last config that is left is still run on all items, for an exact estimate of it."""


class Limits(WireModel):
    """Limits of an experiment, for all configs and the judge together."""

    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    """US dollars."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens, prompts and completions."""


class IntervalOptions(WireModel):
    """How the intervals of estimates are made while the experiment runs."""

    strategy: Literal["normal", "wilson", "hoeffding", "running", "empirical_bernstein", "betting"] = "betting"
    """Name of the strategy; the last three may be looked at as often as one likes."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence level."""
    use_fpc: bool = True
    """Whether use is made of how many items there are."""


class Plan(VersionedModel):
    """An experiment: configs, items and rules. It never changes; commands do the rest."""

    run: WorkspaceName
    """Its name, and that of its run."""
    target: str
    """Target that answers: `module:function`, an http(s) URL, or the name of a function given from Python."""
    data: str
    """Where the items come from."""
    data_digest: str
    """Changes whenever an item or their order in the source does."""
    population_size: Size
    """Number of items."""
    seed: int = 0
    """Of the permutation in which items are run."""
    order_digest: str
    """Digest of the permutation itself, recorded so that it can be checked."""
    shards: Annotated[int, Field(ge=1)] = 8
    """Into how many parts of (almost) equal size the permuted items are cut, for progress and orders."""
    configs: Annotated[tuple[Config, ...], Field(min_length=1, max_length=CONFIGS_MAX)]
    """Configs at the beginning."""
    metric: MetricName
    """Metric of the race and the leaderboard."""
    higher_is_better: bool = True
    """Whether the best config is the one with the highest mean."""
    metrics: tuple[OwnMetric, ...] = ()
    """Metrics that the experiment measures itself."""
    race: RaceOptions = RaceOptions()
    """Automatic stopping."""
    limits: Limits = Limits()
    """Its limits."""
    intervals: IntervalOptions = IntervalOptions()
    """How estimates are shown."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 8
    """Most calls at once, all configs together."""
    concurrency_per_config: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Most calls at once of one config; None for no limit of its own."""
    tries: Annotated[int, Field(ge=1, le=100)] = 3
    """How often a call that fails is tried."""
    timeout_s: Annotated[float, Field(gt=0, le=LATENCY_MAX_S)] = 120.0
    """Seconds a call may take."""
    same_failures: Annotated[int, Field(ge=0)] = 10
    """Calls of a config in a row that fail with the same error, after which the config is stopped; 0 stops none."""
    parameters: tuple[Name, ...] | None = None
    """Names of the knobs that the target takes; None if it takes any, or if that is not known."""
    labeler: str = "local"
    """Which labeler scores the answers."""

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
