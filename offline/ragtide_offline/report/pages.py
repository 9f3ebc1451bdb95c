"""Renders reports as pages: HTML in one file without scripts. `templates/` has the layouts."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ragtide_aggregator.statistics.intervals.intervals import Interval
from ragtide_runtime import __version__
from ragtide_schemas.experiments import Command, Evidence
from ragtide_schemas.printable import printable
from ragtide_web.look import PACKAGE, style_sheet
from ragtide_web.look.amounts import NOTHING, number, seconds, usd

from ..experiments.projections import Projection
from .findings import parameter_value


def page(template: str, content: Mapping[str, Any]) -> str:
    """Return a report as a page.

    Args:
        template: name of the template without its ending, such as `experiment`.
        content: values for the template.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("ragtide_offline.report"), PackageLoader(PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_fit_for_a_terminal,
    )
    environment.filters |= {
        "number": number,
        "share": lambda value: f"{value:.1%}",
        "count": lambda value: f"{value:,}",
        "usd": usd,
        "seconds": seconds,
        "when": when,
        "parameters": parameters,
        "lasting": lasting,
        "bar": bar,
        "details": details,
        "ends": ends,
        "label": label,
        "why": why,
        "value": parameter_value,
    }
    style = Markup(style_sheet())  # noqa: S704 - a file of ragtide
    return environment.get_template(f"{template}.html").render(**content, version=__version__, style=style)


def _fit_for_a_terminal(value: Any) -> Any:
    # The markup that a macro returns is escaped already.
    return printable(value, keep="\n\t") if isinstance(value, str) and not isinstance(value, Markup) else value


def ends(value: Projection | Interval[float, float] | Evidence, n: int | None = None, things: str = "questions") -> str:
    """Return an interval as its ends; a closed interval has words in their place, because it says nothing of others.

    Args:
        n: number of questions of a difference; the others know it.
        things: word for the scored objects.

    >>> ends(Interval(0.5, 0.25, 0.75)), ends(Interval(0.5, 0.5, 0.5), 146)
    ('0.250 to 0.750', 'of these 146 questions, exactly')
    """
    exact = value.exact if isinstance(value, Projection) else value.lower == value.upper
    if not exact:
        return f"{number(value.lower)} to {number(value.upper)}"
    count = value.n if isinstance(value, Projection | Evidence) else n
    return f"of these {things}, exactly" if count is None else f"of these {count:,} {things}, exactly"


def label(name: str | None, labels: Mapping[str, str]) -> str:
    """Return the label of a config; a deleted config has only its name.

    >>> label("top_k=1", {"top_k=1": "#0"}), label("gone", {}), label(None, {})
    ('#0', 'gone', '')
    """
    return labels.get(name, name) if name else ""


def why(command: Command, labels: Mapping[str, str]) -> str:
    """Return the reason of a command; a stop by the race has its evidence beside it."""
    evidence = command.evidence
    if evidence is None:
        return command.reason
    return f"{label(evidence.by, labels)} leads by {number(abs(evidence.difference))}"


def when(value: datetime | None) -> str:
    """Return a time, to the second, in UTC."""
    return NOTHING if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def lasting(value: timedelta) -> str:
    """Return a time span.

    >>> lasting(timedelta(seconds=3725))
    '1:02:05'
    """
    return str(timedelta(seconds=round(value.total_seconds())))


def parameters(values: Mapping[str, Any]) -> str:
    """Return parameters in one line.

    >>> parameters({"top_k": 4, "style": "short"})
    'top_k=4, style=short'
    """
    return ", ".join(f"{name}={parameter_value(value)}" for name, value in values.items())


def details(command: Command) -> str:
    """Return the details of a command besides its operation and its config.

    >>> from ragtide_schemas.experiments import Limits
    >>> details(Command(op="limits", limits=Limits(max_cost_usd=5.0)))
    'max_cost_usd=5.0'
    >>> details(Command(op="resume", config="a", keep=True))
    'the race must not stop it again'
    """
    if command.limits is not None:
        return parameters(command.limits.model_dump(exclude_none=True)) or "no limits"
    return "the race must not stop it again" if command.keep else parameters(command.parameters)


def bar(low: float, value: float | None, high: float, scale: tuple[float, float]) -> list[float]:
    """Return lower end, estimate and upper end of an interval as positions on a bar from 0 to 100.

    >>> bar(0.2, 0.5, 0.6, (0.0, 1.0))
    [20.0, 50.0, 60.0]
    """
    lowest, highest = scale
    span = (highest - lowest) or 1.0
    ends = (low, (low + high) / 2 if value is None else value, high)
    return [round(100 * min(max((end - lowest) / span, 0.0), 1.0), 1) for end in ends]
