"""What a metric means: formula, direction, limits, labelers and measured failures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ragtide_consumers.labelers.plugins import custom_metrics
from ragtide_consumers.labelers.published import criteria_metrics, labelers_of
from ragtide_consumers.metrics.optional import optional_metrics
from ragtide_runtime.errors import RagtideError
from ragtide_schemas import METRICS, Bands, Direction, MetricDefinition
from ragtide_schemas.fitness import Failures, failures_in_words, failures_of
from ragtide_schemas.metric_definitions import CRITERIA_FAMILY, definitions_of_errors
from ragtide_schemas.printable import printable
from ragtide_schemas.seen_failures import SEEN
from ragtide_schemas.suggestions import unknown

from .console import out
from .fitting import Column, fitted
from .groups import short_name

if TYPE_CHECKING:
    from ragtide_runtime.settings.model import Settings

TEXT_WIDTH: Final = 110
"""Most characters of a line of a long text on a terminal."""


def full_name(metric: str, known: Mapping[str, MetricDefinition]) -> str | None:
    """Return the qualified name of a metric that is named as in tables or without its family; None if it is unknown.

    A name of several families is the metric of the first family in the registry.
    """
    if metric in known:
        return metric
    return next(
        (name for form in (short_name, _last) for name in known if form(name) == metric),
        None,
    )


def _last(metric: str) -> str:
    return metric.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class KnownMetrics:
    """The metrics that this process can explain."""

    listed: Mapping[str, MetricDefinition]
    """By qualified name."""
    own: Mapping[str, MetricDefinition]
    """Those that the settings or installed packages name."""
    optional: Mapping[str, MetricDefinition]
    """Those that exist only if the setting `metrics` names them."""

    @classmethod
    def of(cls, settings: "Settings") -> "KnownMetrics":
        """Return the metrics of ragtide, and those of the settings.

        Raises:
            ConfigurationError: a metric that the settings name cannot be loaded.
        """
        own = {custom.definition.name: custom.definition for custom in custom_metrics(settings)}
        optional = {name: plugin.definition for name, plugin in optional_metrics().items()}
        return cls({**METRICS, **criteria_metrics(settings), **optional, **own}, own, optional)

    @property
    def known(self) -> Mapping[str, MetricDefinition]:
        """All of them, and the errors against gold scores."""
        return {**self.listed, **definitions_of_errors(METRICS)}

    def knows(self, metric: str) -> bool:
        """Return whether there is a metric that is named as in tables or without its family."""
        return full_name(metric, self.known) is not None

    def named(self, metric: str) -> str:
        """Return the qualified name of a metric that is named as in tables or without its family.

        Raises:
            UnknownMetricError: there is none of this name.
        """
        known = self.known
        name = full_name(metric, known)
        if name is None:
            if metric.startswith(f"{CRITERIA_FAMILY}."):
                criteria = [each for each in known if each.startswith(f"{CRITERIA_FAMILY}.")]
                message = unknown("criterion", metric, criteria, listed_by="ragtide criteria list")
                raise UnknownMetricError(f"{message}; to add it: ragtide criteria add")
            raise UnknownMetricError(unknown("metric", metric, known if "." in metric else map(short_name, known)))
        return name

    def fields(self, name: str) -> dict[str, object]:
        """Return the definition of a metric as values that JSON can hold."""
        return fields_of_metric(self.known[name], self.own, self.optional)


class UnknownMetricError(RagtideError):
    """There is no metric of this name."""


def given_by(name: str, own: Mapping[str, object], optional: Mapping[str, object]) -> list[str]:
    """Return the sources of a metric, in words."""
    if name in own:
        return ["every labeler, because the settings or an installed package name it"]
    if name in optional:
        return ["judge or labels stored in a file, if the setting metrics names it"]
    return labelers_of(name) or ["every labeler, for interactions with gold scores"]


def fields_of_metric(
    metric: MetricDefinition, own: Mapping[str, object], optional: Mapping[str, object]
) -> dict[str, object]:
    """Return a definition as values that JSON can hold."""
    bands = metric.bands
    return {
        "metric": metric.name,
        "meaning": metric.meaning,
        "formula": metric.definition,
        "range": [metric.lower, metric.upper],
        "direction": metric.direction.value,
        "kind": metric.kind.value,
        "bands": None
        if bands is None
        else {"acceptable": bands.minimum, "good": bands.good, "excellent": bands.excellent},
        "needs": list(metric.needs),
        "labelers": given_by(metric.name, own, optional),
        "failures": {labeler: dict(found) for labeler, found in measured_failures(metric.name).items()},
        "does_not_tell": metric.does_not_tell,
        "related": list(metric.related),
        "source": metric.source,
    }


def explanation(metric: MetricDefinition, labelers: list[str]) -> RenderableType:
    """Return the definition of a metric as lines with names."""
    table = Table(
        title=Text(metric.name, style="bold"), title_justify="left", show_header=False, box=None, pad_edge=False
    )
    table.add_column(style="bright_black", no_wrap=True)
    table.add_column(overflow="fold", max_width=TEXT_WIDTH if out.is_terminal else None)
    for name, text in (
        ("meaning", metric.meaning),
        ("formula", metric.definition),
        ("range", f"{metric.lower:g} to {metric.upper:g}"),
        ("better", metric.direction.in_words),
        ("bands", "" if metric.bands is None else bands_in_words(metric.bands, metric.direction)),
        ("needs", ", ".join(metric.needs)),
        ("given by", ", ".join(labelers)),
        *((labeler, failures_in_words(failures)) for labeler, failures in measured_failures(metric.name).items()),
        ("does not tell", metric.does_not_tell),
        ("read also", ", ".join(metric.related)),
        ("source", metric.source),
    ):
        if text:
            table.add_row(name, Text(printable(text)))
    return table


def measured_failures(metric: str) -> dict[str, Failures]:
    """Return which failures the shipped labelers' numbers of a metric follow, by the labeler that was measured."""
    return {labeler: found for labeler in SEEN if (found := failures_of(labeler, metric))}


def bands_in_words(bands: Bands, direction: Direction) -> str:
    """Return the limits of the three levels of quality.

    >>> bands_in_words(Bands(0.15, 0.1, 0.05), Direction.LOWER)
    'acceptable up to 0.15, good up to 0.1, excellent up to 0.05; rules of thumb, which decide nothing'
    """
    limit = "up to" if direction is Direction.LOWER else "from"
    levels = (("acceptable", bands.minimum), ("good", bands.good), ("excellent", bands.excellent))
    return f"{', '.join(f'{name} {limit} {value:g}' for name, value in levels)}; rules of thumb, which decide nothing"


def metrics_table(metrics: Mapping[str, MetricDefinition], width: int) -> RenderableType:
    """Return the metrics as a table with direction and meaning."""
    columns = [
        Column("metric", list(metrics), yields=3, shortest=20),
        Column("reading", [metric.rule for metric in metrics.values()]),
        Column("meaning", [metric.meaning for metric in metrics.values()], yields=1),
    ]
    return fitted(columns, width)
