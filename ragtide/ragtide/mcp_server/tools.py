"""The tools: each reads the HTTP service and returns its records. None changes anything."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import getdoc
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import Field, TypeAdapter

from ragtide.cli.printing.estimates import unmet_option
from ragtide.cli.printing.pages import KnownMetrics
from ragtide_runtime.errors import RagtideError
from ragtide_runtime.service_client import ServiceClient
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, Headline
from ragtide_schemas.details import FLEET, AlertDetails, InteractionFate, KeptItem, KeptItemLine
from ragtide_schemas.headline import HeadlineState

from .answers import (
    NAME_CHARS,
    Limit,
    Text,
    ToolArguments,
    alert_fields,
    fields_of,
    number_fields,
    with_asked_criteria,
)
from .rule_testing import OpenTest, RuleTestArguments, RuleTester


class FleetArguments(ToolArguments):
    """Which pipelines."""

    name: Annotated[str, Field(max_length=200)] = ""
    """Only pipelines whose name contains this text."""
    state: HeadlineState | None = None
    """Only pipelines in this state."""
    last: Literal["", "1h", "24h", "7d", "60d", "all"] = ""
    """Range of time; empty takes the last 24 hours, or the time since the last change or version."""
    limit: Limit = 30
    """Most pipelines of the answer."""


async def fleet(service: ServiceClient, asked: FleetArguments) -> dict[str, Any]:
    """List the pipelines, the worst first, with their state and their most important numbers.

    Begin here to see what needs attention. States, the worst first: firing (an alert fires), suspicious (a rule is near
    its alarm), moved (the level changed and nobody was notified), silent (no value for a day), too few (the interval is
    too wide to conclude anything), learning, steady, unwatched.
    """
    found = await service.get("/v1/fleet", FLEET, q=asked.name, state=asked.state, range=asked.last)
    shown = []
    for each in found[: asked.limit]:
        numbers = [number_fields(headline) for headline in each.headlines]
        shown.append(fields_of(each, exclude={"headlines"}) | ({"numbers": numbers} if numbers else {}))
    return {"pipelines": shown, "left_out": len(found) - len(shown)}


class AlertsArguments(ToolArguments):
    """Which alerts."""

    firing: bool = False
    """Only alerts that fire now."""
    pipeline: Text | None = None
    """Only this pipeline."""
    rule: Text | None = None
    """Only alerts of this rule."""
    limit: Limit = 20
    """Most alerts of the answer."""


async def alerts(service: ServiceClient, asked: AlertsArguments) -> dict[str, Any]:
    """List the alerts, those that fire first, each in one line with its id for the tool `alert`."""
    found = await service.get("/v1/alerts", _ALERTS, firing=asked.firing, pipeline=asked.pipeline, rule=asked.rule)
    ordered = sorted(found, key=lambda alert: (alert.status != "resolved", alert.fired_at), reverse=True)
    shown = [alert_fields(alert) for alert in ordered[: asked.limit]]
    return {"alerts": shown, "left_out": len(ordered) - len(shown)}


class AlertArguments(ToolArguments):
    """Which alert."""

    alert_id: Text
    """Id of the alert, from the tool `alerts`."""
    chars: Annotated[int, Field(ge=100, le=10_000)] = 1_500
    """Most characters of the texts of each of its worst answers."""


async def alert(service: ServiceClient, asked: AlertArguments) -> dict[str, Any]:
    """Explain one alert: the change, since when, how it is now, likely causes, how sure it is, and the worst answers.

    `facts` has each in a sentence: say these instead of conclusions of your own. The worst answers have their sentences
    with marks; their texts are null if the token may not see texts.
    """
    found = await service.get("/v1/alert", _ALERT, alert_id=asked.alert_id, chars=asked.chars)
    return fields_of(found)


class EstimateArguments(ToolArguments):
    """Which numbers."""

    pipeline: Text | None = None
    """Only this pipeline."""
    metric: Text | None = None
    """Only this metric by its qualified name, such as `trace.adherence`."""
    segment: Text | None = None
    """Of this segment value, such as `lang=de`, in place of whole pipelines."""
    segments: bool = False
    """Whether to return the numbers of all segment values, too."""
    labeler: Text | None = None
    """Numbers of this labeler in place of the recommended ones."""
    last: Annotated[str, Field(pattern=r"^(default|all|[1-9][0-9]{0,5}[mhd])$")] = "default"
    """Range of time: `1h`, `24h`, `7d` or another length, `all`, or `default`: the last 24 hours, or the time since the
    last change or version."""
    limit: Limit = 50
    """Most numbers of the answer."""


async def estimate(service: ServiceClient, asked: EstimateArguments) -> dict[str, Any]:
    """Return numbers with their intervals: the one number of each metric that counts now, by pipeline and segment.

    Always state the interval, n and the range with a number. Two numbers differ for sure only if their intervals do not
    overlap. A number without values is null, which is not 0.
    """
    choice = {"segment": asked.segment, "segments": asked.segments, "labeler": asked.labeler, "last": asked.last}
    found = await service.get("/v1/headlines", _HEADLINES, pipeline=asked.pipeline, metric=asked.metric, **choice)
    if not found:
        everything = await service.get("/v1/headlines", _HEADLINES, segments=asked.segment is not None, last=asked.last)
        sentence = unmet_option(
            everything,
            pipeline=asked.pipeline,
            metric=asked.metric,
            segment=asked.segment,
            labeler=asked.labeler,
        )
        if sentence is not None:
            raise RagtideError(sentence)
    shown = [number_fields(headline) for headline in found[: asked.limit]]
    return {"numbers": shown, "left_out": len(found) - len(shown)}


class ExplainArguments(ToolArguments):
    """Which metric."""

    metric: Text
    """Name of the metric, such as `trace.adherence` or `adherence`."""
    pipeline: Text | None = None
    """Only the numbers of this pipeline."""


async def explain_metric(
    service: ServiceClient, asked: ExplainArguments, settings: Settings, metrics: KnownMetrics
) -> dict[str, Any]:
    """Explain a metric: meaning, formula, direction and what it does not show, and its numbers now.

    Use it before you interpret a number: `does_not_tell` lists the conclusions that the metric does not support.
    """
    if not metrics.knows(asked.metric):
        metrics = KnownMetrics.of(await with_asked_criteria(service, settings))
    name = metrics.named(asked.metric)
    found = await service.get("/v1/headlines", _HEADLINES, metric=name, pipeline=asked.pipeline)
    return {"definition": metrics.fields(name), "numbers": [number_fields(headline) for headline in found[:50]]}


class ItemsArguments(ToolArguments):
    """Which kept items."""

    list: Annotated[str, Field(min_length=1, max_length=NAME_CHARS)] = "newest"
    """`worst` (of a metric), `newest`, `sample` (at random), or another kept list such as `beyond:RULE`."""
    pipeline: Text | None = None
    """The pipeline; needed for every list but `newest`."""
    metric: Text | None = None
    """Metric of the worst items, such as `trace.adherence`."""
    labeler: Text | None = None
    """Labeler of the worst items."""
    limit: Limit = 10
    """Most items of the answer."""


async def items(service: ServiceClient, asked: ItemsArguments) -> dict[str, Any]:
    """List kept answers by their ids: the worst of a metric, the newest, or the random sample.

    Only a few answers of each pipeline are kept, so counts of a list say nothing about the traffic: use `estimate`.
    """
    found = await service.get(
        "/v1/items",
        _LINES,
        list=asked.list,
        pipeline=asked.pipeline,
        metric=asked.metric,
        labeler=asked.labeler,
        limit=asked.limit,
    )
    return {"items": [fields_of(line) for line in found]}


class ItemArguments(ToolArguments):
    """Which item."""

    interaction_id: Text
    """Id of the interaction."""
    pipeline: Text | None = None
    """Its pipeline; needed if several pipelines have the id."""
    labeler: Text | None = None
    """Labeler whose marks are returned; by default the last one that marks sentences, such as the judge."""
    chars: Annotated[int, Field(ge=100, le=40_000)] = 8_000
    """Most characters of all its texts."""


async def item(service: ServiceClient, asked: ItemArguments) -> dict[str, Any]:
    """Show one kept answer: question, response and documents with marked sentences, and the scores of each labeler.

    Texts are null if the token may not see texts; marks and scores are there in any case.
    """
    choice = {"pipeline": asked.pipeline, "marks": asked.labeler, "chars": asked.chars}
    found = await service.get("/v1/item", _ITEM, interaction_id=asked.interaction_id, **choice)
    return fields_of(found)


class WhyArguments(ToolArguments):
    """Which interaction."""

    interaction_id: Text
    """Id of the interaction, or of the trace that it came with."""
    pipeline: Text | None = None
    """Its pipeline; faster, and needed for old ids of pipelines without numbers."""


async def why_not_scored(service: ServiceClient, asked: WhyArguments) -> dict[str, Any]:
    """Say why an interaction was scored, scored in part, or not scored: `explanation` has the reason and the remedy.

    Outcomes: scored; scored in part (metrics are absent with their reasons, or it was not in a judge's sample); dead
    letter (it could not be used); waiting (no worker has finished it); lost; unknown (never published, not in the
    producer's sample, dropped, or too old).
    """
    found = await service.get("/v1/why", _FATE, interaction_id=asked.interaction_id, pipeline=asked.pipeline)
    return fields_of(found)


Q = TypeVar("Q", bound=ToolArguments)


@dataclass(frozen=True, slots=True)
class ReadingTool(Generic[Q]):
    """A tool that reads."""

    name: str
    arguments: type[Q]
    call: Callable[[ServiceClient, Q], Awaitable[dict[str, Any]]]

    @property
    def description(self) -> str:
        """What it is for, for a model: the docstring of its function."""
        return getdoc(self.call) or ""


def tools_of(settings: Settings, open_test: OpenTest | None = None) -> Sequence[ReadingTool[Any]]:
    """Return the tools.

    Args:
        settings: of this process: its own metrics, and what a test of rules depends on.
        open_test: opens a recording for the test of a rule; without it there is no `test_rule`.
    """
    metrics = KnownMetrics.of(settings)

    async def explain(service: ServiceClient, asked: ExplainArguments) -> dict[str, Any]:
        return await explain_metric(service, asked, settings, metrics)

    explain.__doc__ = explain_metric.__doc__
    found: list[ReadingTool[Any]] = [
        ReadingTool("fleet", FleetArguments, fleet),
        ReadingTool("alerts", AlertsArguments, alerts),
        ReadingTool("alert", AlertArguments, alert),
        ReadingTool("estimate", EstimateArguments, estimate),
        ReadingTool("explain_metric", ExplainArguments, explain),
        ReadingTool("items", ItemsArguments, items),
        ReadingTool("item", ItemArguments, item),
        ReadingTool("why_not_scored", WhyArguments, why_not_scored),
    ]
    if open_test is not None:
        tester = RuleTester(settings, open_test)
        found.append(ReadingTool("test_rule", RuleTestArguments, tester.test_rule))
    return found


_ALERTS: Final = TypeAdapter(list[Alert])
_ALERT: Final = TypeAdapter(AlertDetails)
_HEADLINES: Final = TypeAdapter(list[Headline])
_LINES: Final = TypeAdapter(list[KeptItemLine])
_ITEM: Final = TypeAdapter(KeptItem)
_FATE: Final = TypeAdapter(InteractionFate)
