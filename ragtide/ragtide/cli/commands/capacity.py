"""`ragtide capacity` and `ragtide plan`: what to buy for a traffic, and how many judged items a width costs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..command import command
from ..console import out, print_json, warn
from ..options import ConfidenceOption, JsonOption, given


class CountedLabeler(StrEnum):
    """The labeler of all interactions whose cost is known."""

    LOCAL = "local"
    JUDGE = "judge"


@command(
    "ragtide capacity --rate 500",
    "ragtide capacity --rate 500 --documents 5 --judge-share 0.1 --judge-model gpt-4.1-mini",
    "ragtide --partitions 64 capacity --rate 20000 --pipelines 10000 --retention 1d --json",
)
def capacity(
    context: typer.Context,
    rate: Annotated[float, typer.Option(min=0.001, max=1e9, help="Interactions a second, of all pipelines.")],
    documents: Annotated[float, typer.Option(min=0, max=1000, help="Documents of an interaction.")] = 5.0,
    document_size: Annotated[
        float, typer.Option("--document-size", min=1, max=1_000_000, help="Characters of a document.")
    ] = 1024.0,
    pipelines: Annotated[int, typer.Option(min=1, max=1_000_000, help="Pipelines, all with the same rate.")] = 1,
    keys: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Keys of a pipeline: its metrics times one more than its segment values; default: no segments.",
        ),
    ] = None,
    labeler: Annotated[CountedLabeler, typer.Option(help="Labeler of all interactions.")] = CountedLabeler.LOCAL,
    judge_share: Annotated[
        float, typer.Option("--judge-share", min=0, max=1, help="Share that the judge labels, besides.")
    ] = 0.0,
    judge_model: Annotated[
        str | None, typer.Option("--judge-model", help="Model of the judge [RAGTIDE_JUDGE_MODEL].")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT",
            help="Dollars for a million tokens sent, and answered, such as 0.4,1.6; default: that of the settings, or "
            "the list price.",
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time for which feedback finds its interaction, such as 12h or 7d [RAGTIDE_FEEDBACK_WINDOW_S].",
        ),
    ] = None,
    costs: Annotated[
        Path | None, typer.Option(help="File of unit costs that make capacity wrote; default: that of ragtide.")
    ] = None,
    grown: Annotated[
        bool, typer.Option("--ten-times", help="Show how full each limit is at ten times each size.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what to buy for a traffic.

    It shows processors of each role, memory and network of Redis, how full each limit is, and dollars of the judge. The
    figures come from unit costs that were measured on one machine, and from the settings: partitions, windows, commits,
    specimens. The judge's bill counts every criterion for all pipelines, and those that operators stored if Redis can
    be read. Nothing is asked, and no Redis is needed.
    """
    import asyncio

    from ragtide_offline.capacity.judging import KIB, judge_bill
    from ragtide_offline.capacity.planning import PlannedTraffic, capacity_of, ten_times
    from ragtide_offline.capacity.unit_costs import SHIPPED, read_unit_costs

    from ..asked_criteria import asked_criteria
    from ..capacity_views import capacity_view, price_of_option, seconds_of_option

    settings = given(context).settings()
    if retention is not None:
        settings = settings.model_copy(update={"feedback_window_s": seconds_of_option(retention)})
    model = judge_model or settings.judge.model
    changes: dict[str, object] = {"model": model}
    if price is not None:
        if model is None:
            raise typer.BadParameter("--price is that of a model: give --judge-model, too")
        changes["prices"] = {**settings.judge.prices, model: price_of_option(price)}
    settings = settings.model_copy(update={"judge": settings.judge.model_copy(update=changes)})
    if labeler is CountedLabeler.JUDGE:
        if judge_share:
            raise typer.BadParameter("--judge-share is for --labeler local: --labeler judge asks about everything")
        judge_share = 1.0
    if judge_share:
        asked = asked_criteria(settings)
        settings = asked.settings
        if settings.redis_address and asked.unread is not None:
            warn(asked.unread)
    traffic = PlannedTraffic(
        rate=rate,
        documents=documents,
        document_kib=document_size / KIB,
        pipelines=pipelines,
        keys=keys,
        local_share=1.0 if labeler is CountedLabeler.LOCAL else 0.0,
        judge_share=judge_share,
    )
    measured = read_unit_costs(costs or SHIPPED)
    needs = capacity_of(traffic, settings, measured)
    sizes = ten_times(traffic, measured).items() if grown else ()
    larger = {size: capacity_of(found, settings, measured) for size, found in sizes}
    bill = asyncio.run(judge_bill(traffic, settings)) if judge_share else None
    if as_json:
        origin = {"measured_on": measured.measured_on, "machine": measured.machine, "versions": measured.versions}
        tens = {"ten_times": {size: found.as_dict() for size, found in larger.items()}} if grown else {}
        print_json({**needs.as_dict(), "judge": None if bill is None else bill.as_dict(), "unit_costs": origin, **tens})
    else:
        out.print(capacity_view(traffic, needs, bill, measured, width=out.width, larger=larger))


@command(
    "ragtide plan criteria.asks_back --half-width 0.03 --traffic 5000",
    "ragtide plan trace.adherence --half-width 0.02 --traffic 5000 --days 30 --pipeline shop",
    "ragtide plan criteria.asks_back --half-width 0.03 --traffic 5000 --mean 0.2 --correlation 0.6 --json",
    exits="4 if the width is not reached though everything is judged",
)
def plan(
    context: typer.Context,
    metric: Annotated[str, typer.Argument(help="Metric that a judge scores, such as criteria.asks_back.")],
    half_width: Annotated[
        float, typer.Option("--half-width", min=1e-6, help="Wanted distance from the estimate to each end.")
    ],
    traffic: Annotated[float, typer.Option(min=1, max=1e12, help="Interactions of the pipeline in a day.")],
    days: Annotated[float, typer.Option(min=0.01, max=3650, help="Days until the interval is that narrow.")] = 7.0,
    pipeline: Annotated[str | None, typer.Option(help="Pipeline whose estimates are read.")] = None,
    estimates: Annotated[
        Path | None,
        typer.Option(help="File with the output of ragtide estimates --json --estimator all, instead of Redis."),
    ] = None,
    mean: Annotated[
        float | None, typer.Option(help="Mean of the judge's answers, instead of that of estimates.")
    ] = None,
    deviation: Annotated[
        float | None,
        typer.Option(min=0, help="With --mean: their standard deviation; default: the largest, that of yes and no."),
    ] = None,
    correlation: Annotated[
        float, typer.Option(min=0, max=0.999, help="With --mean: correlation of a proxy with the judge; 0 for none.")
    ] = 0.0,
    confidence: ConfidenceOption = None,
    documents: Annotated[
        float, typer.Option(min=0, max=1000, help="Documents of an interaction, for the price.")
    ] = 5.0,
    document_size: Annotated[
        float, typer.Option("--document-size", min=1, max=1_000_000, help="Characters of a document, for the price.")
    ] = 1024.0,
    as_json: JsonOption = False,
) -> None:
    """Show how many judged items a wanted width costs.

    It shows them with the proxy's scores and without, the rate of the sample, and dollars of the judge. Mean, variance,
    correlation and the design effect of sessions come from the estimates of the deployment, from a file of them, or
    from --mean. The interval is the live one, valid at every look. Nothing is asked.
    """
    import asyncio

    from ragtide_offline.capacity.judged_sample import sample_plan
    from ragtide_offline.capacity.judging import KIB, usd_of_judgement

    from ..asked_criteria import asked_criteria, criteria_of_metrics
    from ..sample_plans import (
        estimates_of_file,
        given_scale,
        live_estimates,
        plan_view,
        planned_definition,
        scale_of_estimates,
    )

    if mean is not None and estimates is not None:
        raise typer.BadParameter("--mean and --estimates exclude each other: give one")
    settings = given(context).settings()
    is_live = mean is None and estimates is None
    asked = asked_criteria(settings) if is_live else criteria_of_metrics(settings, [metric])
    settings = asked.settings
    warn(*filter(None, [asked.unread]))
    level = settings.confidence if confidence is None else confidence
    definition = planned_definition(settings, metric, asked.unread)
    if mean is not None:
        scale = given_scale(metric, definition, mean, deviation, correlation)
    else:
        found = live_estimates(settings, level) if estimates is None else estimates_of_file(estimates)
        scale = scale_of_estimates(found, metric, pipeline)
    each = asyncio.run(usd_of_judgement(settings, metric, pipeline, documents=documents, kib=document_size / KIB))
    planned = sample_plan(
        metric, scale, half_width, days=days, interactions_a_day=traffic, confidence=level, usd_each=each
    )
    if as_json:
        print_json(planned.as_dict())
    else:
        out.print(plan_view(planned, out.width))
    if planned.with_proxy is None and planned.judged_alone is None:
        raise typer.Exit(4)
