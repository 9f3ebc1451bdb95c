"""The plan of an experiment: its configs, the order of its items, and the options of its race.

Each setting of an experiment is declared here once. The TOML file, the keyword arguments (`drafts.py` in the offline
package), the options of commands and the table in docs/offline/experiments.md follow from it.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from ..base import Metadata, Name, Probability, Size, VersionedModel, WireModel
from ..criterion import Criterion
from ..declared import MetricDeclaration, declaration_of
from ..limits import LATENCY_MAX_S
from ..metric_names import MetricName
from ..metrics import Direction, Kind, MetricDefinition
from ..workspace import WorkspaceName

CONFIGS_MAX: Final = 1000
"""Most configs at the beginning of an experiment."""

OWN: Final = "own"
"""Family of the metrics that an experiment measures itself."""

OWN_SCORES: Final = "ragtide_scores"
"""Name in an interaction's metadata of the experiment's own scores, by qualified metric name."""


class Config(WireModel):
    """One variant of the pipeline: its name and its parameters."""

    name: Name
    """Unique in its experiment; also the pipeline of its interactions."""
    parameters: Metadata = Field(default_factory=dict)
    """Arguments of the function or endpoint besides the question, such as `{"top_k": 4}`."""
    parent: Name | None = None
    """Config of which this is a clone."""


class OwnMetric(WireModel):
    """A metric that the experiment measures itself, besides the metrics of the labeler."""

    name: MetricName
    """Qualified name, such as `own.token_f1`."""
    kind: Kind = Kind.ALGEBRAIC
    """`algebraic` for a mean or a proportion, `distributive` for a sum or a count."""
    lower: float = 0.0
    """Lowest possible value of one item."""
    upper: float = 1.0
    """Highest possible value of one item."""
    direction: Direction = Direction.HIGHER
    """Direction in which the metric gets better."""

    def definition(self) -> MetricDefinition:
        """Return the definition of the metric.

        Raises: ValueError if the range is empty or too large.
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
    """The options of the race."""

    enabled: bool = True
    """Whether the race stops configs; otherwise only commands do."""
    margin: Annotated[float, Field(ge=0)] = 0.02
    """Difference that does not matter, in the metric's unit."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Probability that no stop in the whole experiment is wrong."""
    look_every: Annotated[int, Field(ge=1)] = 5
    """Items between two comparison points."""
    finish: bool = True
    """Whether the last running config runs on all items, for an exact estimate."""


class Limits(WireModel):
    """Limits on cost and tokens, for all configs and the labeler together."""

    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    """Most US dollars, for answers and labels together; no limit unless given."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens, for answers and labels together; no limit unless given."""

    def reached(self, cost_usd: float, tokens: int) -> str | None:
        """Return a sentence about the limit that is reached; None if no limit is reached."""
        if self.max_cost_usd is not None and cost_usd >= self.max_cost_usd:
            return f"cost {cost_usd:.4f} USD of at most {self.max_cost_usd:g}: raise max_cost_usd to continue"
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return f"{tokens:,} tokens of at most {self.max_tokens:,}: raise max_tokens to continue"
        return None


class IntervalOptions(WireModel):
    """The options of the leaderboard's intervals."""

    strategy: Literal["normal", "wilson", "hoeffding", "running", "empirical_bernstein", "betting", "auto"] = "auto"
    """Strategy of the intervals; the last four hold at every look. `auto`: `betting`, or `asymptotic` for counts."""
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """Confidence level."""
    use_fpc: bool = True
    """Whether intervals use the number of items, and close once all items have a score."""


class ExperimentOptions(WireModel):
    """The settings of an experiment, in its draft and in its plan."""

    target: str = "a function"
    """Function that answers, as `module:function`, or the http(s) URL of an endpoint."""
    data: str = "items given from Python"
    """Data set with the questions: a file, or `hf:owner/name`."""
    seed: int = 0
    """Seed of the order in which items are run."""
    shards: Annotated[int, Field(ge=1)] = 8
    """Number of parts of (almost) equal size in which progress is shown; at most the number of items."""
    race: RaceOptions = RaceOptions()
    """Options of the race."""
    limits: Limits = Limits()
    """Limits on cost and tokens."""
    intervals: IntervalOptions = IntervalOptions()
    """Options of the leaderboard's intervals."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 8
    """Most calls in flight, of all configs together."""
    concurrency_per_config: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Most calls in flight of one config; no further limit unless given."""
    tries: Annotated[int, Field(ge=1, le=100)] = 3
    """Most tries of a call."""
    timeout_s: Annotated[float, Field(gt=0, le=LATENCY_MAX_S)] = 120.0
    """Most seconds of a call."""
    same_failures: Annotated[int, Field(ge=0)] = 10
    """A config is stopped after this number of calls in a row that fail with the same error; 0 stops none."""
    labeler: str = "local"
    """Labeler that scores the answers; the labeler of the settings unless given."""


class DrawnItem(WireModel):
    """How an item was drawn as a row of its data set."""

    stratum: str
    """Draw and stratum."""
    rows: Annotated[int, Field(ge=1)]
    """Number of rows that were drawn from the stratum."""
    probability: Probability
    """Probability of the draw."""
    kept: Probability = 1.0
    """Probability with which the source of the draw kept the answer from the traffic."""


class Plan(VersionedModel, ExperimentOptions):
    """The plan in the first entry of an experiment's log. It never changes; commands change the status of configs."""

    run: WorkspaceName
    """Name of the experiment, and of its workspace."""
    data_digest: str
    """Digest of the items and their order in the source."""
    population_size: Size
    """Number of items."""
    order_digest: str
    """Digest of the order in which items are run."""
    configs: Annotated[tuple[Config, ...], Field(min_length=1, max_length=CONFIGS_MAX)]
    """Configs at the beginning."""
    metric: MetricName
    """Metric by which the race and the leaderboard compare configs."""
    higher_is_better: bool = True
    """Whether the best config has the highest mean."""
    criterion: Criterion | None = None
    """The criterion of `metric`, as it was asked at the beginning; None if the metric is no criterion."""
    metrics: tuple[OwnMetric, ...] = ()
    """Metrics that the experiment measures itself."""
    target_parameters: tuple[Name, ...] | None = None
    """Names of the parameters that the target takes; None if it takes any parameter, or if the names are unknown."""
    drawn: tuple[DrawnItem | None, ...] | None = None
    """How each item was drawn, in the order in which items are run: the numbers are then those of the traffic, and
    items that were put in by hand (null) count for none. Absent for a data set that was not drawn."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        for what, names in (
            ("configs", [config.name for config in self.configs]),
            ("metrics", [m.name for m in self.metrics]),
        ):
            doubled = _first_doubled(names)
            if doubled is not None:
                raise ValueError(f"{what} has two named {doubled!r}: give each a name of its own")
        _ = self.declared  # raises for an impossible name or range
        if self.shards > self.population_size:
            raise ValueError(
                f"shards is {self.shards}, but there are {self.population_size} items: give at most one shard per item"
            )
        return self

    @property
    def declared(self) -> dict[str, MetricDeclaration]:
        """Declarations of the metrics that the experiment measures itself, and of its criterion, by name."""
        own = {metric.name: declaration_of(metric.definition(), "1") for metric in self.metrics}
        return own if self.criterion is None else {**own, self.criterion.metric: self.criterion.declaration()}

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
