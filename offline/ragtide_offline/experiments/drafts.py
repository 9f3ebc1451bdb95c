"""Turns the description of an experiment (TOML or keyword arguments) into its plan and the order of items. No Redis."""

import json
import random
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ragtide_consumers.labelers.plugins import CUSTOM_METRICS_MAX
from ragtide_schemas import METRICS, Direction, Kind, describe
from ragtide_schemas.criterion import Criterion, built_in_criteria
from ragtide_schemas.experiments import OWN, Config, DrawnItem, ExperimentOptions, IntervalOptions, OwnMetric, Plan
from ragtide_schemas.suggestions import unknown
from ragtide_schemas.workspace import WorkspaceName

from .errors import ExperimentError

if TYPE_CHECKING:
    from ragtide_producers.files.items import Item

_STRATEGY_KEYS: Final = {"strategy_name": "strategy", "confidence_level": "confidence", "use_fpc": "use_fpc"}
"""Names of the interval options: in RapidFire AI, and in ragtide."""


class DeclaredMetric(BaseModel):
    """A metric as RapidFire AI declares it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    is_algebraic: bool = False
    is_distributive: bool = False
    value_range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if self.is_algebraic and self.is_distributive:
            raise ValueError("is_algebraic and is_distributive are both true: a metric is a mean or a sum")
        return self

    def named(self, name: str) -> OwnMetric:
        """Return the metric as a plan has it."""
        return OwnMetric(
            name=name,
            kind=Kind.DISTRIBUTIVE if self.is_distributive else Kind.ALGEBRAIC,
            lower=self.value_range[0],
            upper=self.value_range[1],
            direction=Direction.HIGHER if self.higher_is_better else Direction.LOWER,
        )


class Draft(ExperimentOptions):
    """An experiment as a user describes it, in a file or in Python, before its items are known."""

    name: WorkspaceName
    """Name of the experiment."""
    metric: str
    """Metric of the race and the leaderboard: a metric of the labeler, a criterion such as
    `criteria.asks_back` or `answer.relevance` with the labeler `judge`, or one of `metrics`."""
    measure: str | None = None
    """Function for the experiment's own metrics, as `module:function`."""
    metrics: dict[str, DeclaredMetric] = Field(default_factory=dict)
    """Own metrics by name, as RapidFire AI declares them."""
    configs: tuple[Config, ...] = ()
    """Configs, each with `name` and `parameters`."""
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Values by parameter: every combination is a config."""
    online_strategy_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Interval options as RapidFire AI names them, instead of `intervals`."""

    @model_validator(mode="after")
    def _has_configs(self) -> Self:
        if not self.configs and not self.grid:
            raise ValueError("configs and grid are both missing: give a list of configs, a grid of parameters, or both")
        for key in self.online_strategy_kwargs:
            if key not in _STRATEGY_KEYS:
                raise ValueError(unknown("option of online_strategy_kwargs", key, list(_STRATEGY_KEYS)))
        if self.online_strategy_kwargs and "intervals" in self.model_fields_set:
            raise ValueError("intervals and online_strategy_kwargs contradict each other: give one of them")
        return self


def read_draft(path: Path) -> Draft:
    """Return the experiment that a TOML file describes; the path of its data may be relative to the file.

    Raises:
        ExperimentError: the file cannot be read, or has an error.
    """
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"{path} cannot be read ({error.strerror}): give the path of an experiment") from None
    except ValueError as error:
        raise ExperimentError(f"{path} is not TOML ({error}): correct it") from None
    draft = draft_of(fields, str(path))
    beside = path.parent / draft.data
    return draft.model_copy(update={"data": str(beside)}) if beside.exists() else draft


def draft_of(fields: Mapping[str, Any], origin: str = "the experiment") -> Draft:
    """Return the experiment that these fields describe.

    Raises:
        ExperimentError: a field is missing, unknown or wrong.
    """
    try:
        return Draft.model_validate(dict(fields))
    except ValidationError as error:
        raise ExperimentError(f"{origin}: {describe(error)}") from None


def grid_of(parameters: Mapping[str, Sequence[Any]]) -> list[Config]:
    """Return a config for every combination of parameters, named by them.

    >>> [config.name for config in grid_of({"top_k": [1, 2], "short": [True]})]
    ['top_k=1,short=true', 'top_k=2,short=true']
    """
    combinations = [dict(zip(parameters, values, strict=True)) for values in product(*parameters.values())]
    return [Config(name=name_from(parameters), parameters=parameters) for parameters in combinations]


def name_from(parameters: Mapping[str, object]) -> str:
    """Return the name of a config that is named by its parameters."""
    return ",".join(f"{name}={value_text(value)}" for name, value in parameters.items())


def permutation(size: int, seed: int) -> list[int]:
    """Return the order in which items are run: uniformly random, and the same for a seed everywhere.

    >>> permutation(5, 7) == permutation(5, 7)
    True
    """
    order = list(range(size))
    random.Random(seed).shuffle(order)  # noqa: S311 - a sample, not a secret
    return order


def plan_of(
    draft: Draft, items: "Sequence[Item]", *, labeler: str, criteria: Iterable[Criterion] = ()
) -> "tuple[Plan, list[Item]]":
    """Return a draft's plan over items, and the items in the order in which they are run.

    Args:
        items: of the data set, in its order.
        labeler: default for a draft without a labeler.
        criteria: that the metric may be one of, beside the built-in ones.

    Raises:
        ExperimentError: there are no items, or a name or number is wrong.
    """
    from ragtide_producers.files.items import digest  # noqa: PLC0415 - the page shows experiments and begins none

    if not items:
        raise ExperimentError(f"{draft.data} has no items: an experiment needs questions")
    order = permutation(len(items), draft.seed)
    own = {qualified_name(name): metric for name, metric in draft.metrics.items()}
    if len(own) > CUSTOM_METRICS_MAX:
        raise ExperimentError(f"metrics has {len(own):,} metrics: declare at most {CUSTOM_METRICS_MAX}")
    by_metric = {criterion.metric: criterion.asked_of_all() for criterion in (*built_in_criteria(), *criteria)}
    if (wanted := by_metric.get(draft.metric)) is not None and wanted.is_of_session:
        raise ExperimentError(
            f"metric is {draft.metric}, a criterion about whole sessions, and an experiment compares single answers: "
            "name a criterion about answers"
        )
    is_known = draft.metric in METRICS or draft.metric in by_metric
    metric = draft.metric if is_known else qualified_name(draft.metric)
    if not is_known and metric not in own:
        known = unknown("metric", draft.metric, [*own, *METRICS, *by_metric])
        raise ExperimentError(f"{known}. To use a metric of your own, declare it under metrics, and give a measure")
    criterion = by_metric.get(metric)
    if metric in METRICS:
        direction = METRICS[metric].direction
    else:
        direction = own[metric].named(metric).direction if criterion is None else criterion.direction
    options = {name: getattr(draft, name) for name in ExperimentOptions.model_fields if name in draft.model_fields_set}
    fields = {
        "labeler": labeler,
        "shards": min(ExperimentOptions.model_fields["shards"].default, len(items)),
        "target": draft.target,
        "data": draft.data,
        **options,
        "run": draft.name,
        "data_digest": digest(items),
        "population_size": len(items),
        "order_digest": order_digest(order),
        "configs": (*draft.configs, *(grid_of(draft.grid) if draft.grid else ())),
        "metric": metric,
        "criterion": criterion,
        "higher_is_better": direction is not Direction.LOWER,
        "metrics": [declared.named(name) for name, declared in own.items()],
        "intervals": _intervals(draft),
    }
    if any(item.drawn is not None for item in items):
        fields["drawn"] = [_drawn(items[index]) for index in order]
    try:
        return Plan.model_validate(fields), [items[index] for index in order]
    except ValidationError as error:
        raise ExperimentError(f"experiment {draft.name}: {describe(error)}") from None


def _drawn(item: "Item") -> DrawnItem | None:
    row = item.drawn
    if row is None:
        return None
    kept = min(item.sampling_probability / row.probability, 1.0)
    stratum = " ".join(filter(None, [row.draw, row.stratum, f"of {row.of:g}"]))
    return DrawnItem(stratum=stratum, rows=row.rows, probability=row.probability, kept=kept)


def order_digest(order: Sequence[int]) -> str:
    """Return the digest of a permutation."""
    return blake2b(json.dumps(list(order)).encode(), digest_size=16).hexdigest()


def qualified_name(name: str) -> str:
    """Return the qualified name of a metric that an experiment measures itself.

    >>> qualified_name("Token F1"), qualified_name("own.recall")
    ('own.token_f1', 'own.recall')
    """
    if name.startswith(f"{OWN}."):
        return name
    return f"{OWN}.{re.sub(r'[^a-z0-9]+', '_', name.lower()).strip('_')}"


def _intervals(draft: Draft) -> IntervalOptions:
    given = {_STRATEGY_KEYS[key]: value for key, value in draft.online_strategy_kwargs.items()}
    if not given:
        return draft.intervals
    try:
        # `normal` is the default of RapidFire AI.
        return IntervalOptions.model_validate({"strategy": "normal", **given}, strict=True)
    except ValidationError as error:
        raise ExperimentError(f"online_strategy_kwargs: {describe(error)}") from None


def value_text(value: object) -> str:
    """Return the value of a parameter as text."""
    return value if isinstance(value, str) else json.dumps(value, default=str)
