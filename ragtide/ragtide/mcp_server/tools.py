"""The tools: each reads the HTTP service and returns its records. None changes anything."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter

from ragtide.cli.printing.estimates import unmet_option
from ragtide.cli.printing.pages import KnownMetrics
from ragtide_runtime.errors import RagtideError
from ragtide_runtime.service_client import ServiceClient
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, Headline
from ragtide_schemas.details import FLEET, AlertDetails, InteractionFate, KeptItem, KeptItemLine
from ragtide_schemas.headline import HeadlineState
from ragtide_schemas.release import Release

from .answers import (
    NAME_CHARS,
    Limit,
    OnlyPipeline,
    Text,
    Tool,
    alert_fields,
    fields_of,
    number_fields,
    with_asked_criteria,
)
from .rule_testing import OpenTest, rule_test_tool


async def fleet(
    service: ServiceClient,
    *,
    name: Annotated[str, Field(max_length=200, description="Only pipelines whose name contains this text.")] = "",
    state: Annotated[HeadlineState | None, Field(description="Only pipelines in this state.")] = None,
    last: Annotated[
        Literal["", "1h", "24h", "7d", "60d", "all"],
        Field(description="Range; empty: the last 24 hours, or since the last change or version."),
    ] = "",
    limit: Annotated[Limit, Field(description="Most pipelines of the answer.")] = 30,
) -> dict[str, Any]:
    """List the pipelines, the worst first, with their state and their most important numbers.

    Begin here to see what needs attention. States, the worst first: firing (an alert fires), suspicious (a rule is near
    its alarm), moved (the level changed and nobody was notified), silent (no value for a day), too few (the interval is
    too wide to conclude anything), learning, steady, unwatched.
    """
    rows = await service.get("/v1/fleet", FLEET, q=name, state=state, range=last)
    pipelines = []
    for row in rows[:limit]:
        numbers = [number_fields(headline) for headline in row.headlines]
        pipelines.append(fields_of(row, exclude={"headlines"}) | ({"numbers": numbers} if numbers else {}))
    return {"pipelines": pipelines, "left_out": len(rows) - len(pipelines)}


async def alerts(
    service: ServiceClient,
    *,
    firing: Annotated[bool, Field(description="Only alerts that fire now.")] = False,
    pipeline: OnlyPipeline = None,
    rule: Annotated[Text | None, Field(description="Only alerts of this rule.")] = None,
    limit: Annotated[Limit, Field(description="Most alerts of the answer.")] = 20,
) -> dict[str, Any]:
    """List the alerts, those that fire first, each in one line with its id for the tool `alert`."""
    listed = await service.get("/v1/alerts", _ALERTS, firing=firing, pipeline=pipeline, rule=rule)
    ordered = sorted(listed, key=lambda alert: (alert.status != "resolved", alert.fired_at), reverse=True)
    lines = [alert_fields(alert) for alert in ordered[:limit]]
    return {"alerts": lines, "left_out": len(ordered) - len(lines)}


async def alert(
    service: ServiceClient,
    *,
    alert_id: Annotated[Text, Field(description="Id of the alert, from the tool `alerts`.")],
    chars: Annotated[
        int, Field(ge=100, le=10_000, description="Most characters of the texts of each of its worst answers.")
    ] = 1_500,
) -> dict[str, Any]:
    """Explain one alert: the change, since when, how it is now, likely causes, how sure it is, and the worst answers.

    `facts` has each in a sentence: say these instead of conclusions of your own. The worst answers have their sentences
    with marks; their texts are null if the token may not see texts.
    """
    details = await service.get("/v1/alert", _ALERT, alert_id=alert_id, chars=chars)
    return fields_of(details)


async def estimate(
    service: ServiceClient,
    *,
    pipeline: OnlyPipeline = None,
    metric: Annotated[Text | None, Field(description="Only this metric, such as `trace.adherence`.")] = None,
    segment: Annotated[Text | None, Field(description="Of this segment value, such as `lang=de`.")] = None,
    segments: Annotated[bool, Field(description="Whether to return the numbers of all segment values, too.")] = False,
    labeler: Annotated[
        Text | None, Field(description="Numbers of this labeler in place of the recommended ones.")
    ] = None,
    last: Annotated[
        str,
        Field(
            pattern=r"^(default|all|[1-9][0-9]{0,5}[mhd])$",
            description="Range such as `1h`; `all`; or `default`: last 24 hours, or since the last change or version.",
        ),
    ] = "default",
    limit: Annotated[Limit, Field(description="Most numbers of the answer.")] = 50,
) -> dict[str, Any]:
    """Return numbers with their intervals: the one number of each metric that counts now, by pipeline and segment.

    Always state the interval, n and the range with a number. Two numbers differ for sure only if their intervals do not
    overlap. A number without values is null, which is not 0.
    """
    choice = {"pipeline": pipeline, "metric": metric, "segment": segment, "labeler": labeler}
    headlines = await service.get("/v1/headlines", _HEADLINES, segments=segments, last=last, **choice)
    if not headlines:
        everything = await service.get("/v1/headlines", _HEADLINES, segments=segment is not None, last=last)
        sentence = unmet_option(everything, **choice)
        if sentence is not None:
            raise RagtideError(sentence)
    numbers = [number_fields(headline) for headline in headlines[:limit]]
    return {"numbers": numbers, "left_out": len(headlines) - len(numbers)}


async def verdict(
    service: ServiceClient,
    *,
    pipeline: Annotated[Text, Field(description="The pipeline.")],
    from_version: Annotated[Text | None, Field(description="The version that served before.")] = None,
    to_version: Annotated[
        Text | None, Field(description="The new version; both versions are found unless given.")
    ] = None,
    metric: Annotated[Text | None, Field(description="Only this metric, such as `trace.adherence`.")] = None,
) -> dict[str, Any]:
    """Say whether the new version of a pipeline is worse than the one beside which it serves, with each metric.

    `sentence` has the verdict with both numbers: worse, not_worse, undecided, or not_comparable with the reason. It
    holds at every look. `answers_to_go` says how many more scored answers a verdict needs.
    """
    versions = {"from": from_version, "to": to_version}
    release = await service.get("/v1/verdict", _VERDICT, pipeline=pipeline, metric=metric, **versions)
    return fields_of(release, exclude={"metrics": {"__all__": {"points"}}})


async def items(
    service: ServiceClient,
    *,
    list: Annotated[  # noqa: A002 - the name of the argument
        str,
        Field(
            min_length=1,
            max_length=NAME_CHARS,
            description="`worst` (of a metric), `newest`, `sample` (at random), or another such as `beyond:RULE`.",
        ),
    ] = "newest",
    pipeline: Annotated[Text | None, Field(description="The pipeline; needed for every list but `newest`.")] = None,
    metric: Annotated[Text | None, Field(description="Metric of the worst items, such as `trace.adherence`.")] = None,
    labeler: Annotated[Text | None, Field(description="Labeler of the worst items.")] = None,
    limit: Annotated[Limit, Field(description="Most items of the answer.")] = 10,
) -> dict[str, Any]:
    """List kept answers by their ids: the worst of a metric, the newest, or the random sample.

    Only a few answers of each pipeline are kept, so counts of a list say nothing about the traffic: use `estimate`.
    """
    lines = await service.get(
        "/v1/items",
        _LINES,
        list=list,
        pipeline=pipeline,
        metric=metric,
        labeler=labeler,
        limit=limit,
    )
    return {"items": [fields_of(line) for line in lines]}


async def item(
    service: ServiceClient,
    *,
    interaction_id: Annotated[Text, Field(description="Id of the interaction.")],
    pipeline: Annotated[
        Text | None, Field(description="Its pipeline; needed if several pipelines have the id.")
    ] = None,
    labeler: Annotated[
        Text | None,
        Field(description="Labeler whose marks are returned; by default the last one that marks sentences."),
    ] = None,
    chars: Annotated[int, Field(ge=100, le=40_000, description="Most characters of all its texts.")] = 8_000,
) -> dict[str, Any]:
    """Show one kept answer: question, response and documents with marked sentences, and the scores of each labeler.

    Texts are null if the token may not see texts; marks and scores are there in any case.
    """
    choice = {"pipeline": pipeline, "marks": labeler, "chars": chars}
    kept = await service.get("/v1/item", _ITEM, interaction_id=interaction_id, **choice)
    return fields_of(kept)


async def why_not_scored(
    service: ServiceClient,
    *,
    interaction_id: Annotated[Text, Field(description="Id of the interaction, or of the trace that it came with.")],
    pipeline: Annotated[
        Text | None, Field(description="Its pipeline; faster, and needed for old ids of pipelines without numbers.")
    ] = None,
) -> dict[str, Any]:
    """Say why an interaction was scored, scored in part, or not scored: `explanation` has the reason and the remedy.

    Outcomes: scored; scored in part (metrics are absent with their reasons, or it was not in a judge's sample); dead
    letter (it could not be used); waiting (no worker has finished it); lost; unknown (never published, not in the
    producer's sample, dropped, or too old).
    """
    fate = await service.get("/v1/why", _FATE, interaction_id=interaction_id, pipeline=pipeline)
    return fields_of(fate)


def tools_of(settings: Settings, open_test: OpenTest | None = None) -> Sequence[Tool]:
    """Return the tools.

    Args:
        settings: of this process: its own metrics, and what a test of rules depends on.
        open_test: opens a recording for the test of a rule; without it there is no `test_rule`.
    """
    known = KnownMetrics.of(settings)

    async def explain_metric(
        service: ServiceClient,
        *,
        metric: Annotated[Text, Field(description="Name of the metric, such as `trace.adherence` or `adherence`.")],
        pipeline: Annotated[Text | None, Field(description="Only the numbers of this pipeline.")] = None,
    ) -> dict[str, Any]:
        """Explain a metric: meaning, formula, direction and what it does not show, and its numbers now.

        Use it before you interpret a number: `does_not_tell` lists the conclusions that the metric does not support.
        """
        metrics = known
        if not metrics.knows(metric):
            metrics = KnownMetrics.of(await with_asked_criteria(service, settings))
        name = metrics.named(metric)
        headlines = await service.get("/v1/headlines", _HEADLINES, metric=name, pipeline=pipeline)
        return {"definition": metrics.fields(name), "numbers": [number_fields(headline) for headline in headlines[:50]]}

    tools: list[Tool] = [fleet, alerts, alert, estimate, verdict, explain_metric, items, item, why_not_scored]
    return tools if open_test is None else [*tools, rule_test_tool(settings, open_test)]


_ALERTS: Final = TypeAdapter(list[Alert])
_ALERT: Final = TypeAdapter(AlertDetails)
_HEADLINES: Final = TypeAdapter(list[Headline])
_VERDICT: Final = TypeAdapter(Release)
_LINES: Final = TypeAdapter(list[KeptItemLine])
_ITEM: Final = TypeAdapter(KeptItem)
_FATE: Final = TypeAdapter(InteractionFate)
