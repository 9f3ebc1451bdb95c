"""`ragtide capacity`: what to buy for a traffic."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..command import command
from ..console import out, print_json
from ..options import JsonOption, given


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
    as_json: JsonOption = False,
) -> None:
    """Show what to buy for a traffic.

    It shows processors of each role, memory and network of Redis, and dollars of the judge. The figures come from unit
    costs that were measured on one machine, and from the settings: partitions, windows, commits, specimens. Nothing is
    asked, and no Redis is needed.
    """
    import asyncio

    from ragtide_offline.capacity.judging import KIB, judge_bill
    from ragtide_offline.capacity.planning import PlannedTraffic, capacity_of
    from ragtide_offline.capacity.unit_costs import SHIPPED, read_unit_costs

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
    bill = asyncio.run(judge_bill(traffic, settings)) if judge_share else None
    if as_json:
        origin = {"measured_on": measured.measured_on, "machine": measured.machine, "versions": measured.versions}
        print_json({**needs.as_dict(), "judge": None if bill is None else bill.as_dict(), "unit_costs": origin})
    else:
        out.print(capacity_view(traffic, needs, bill, measured, out.width))
