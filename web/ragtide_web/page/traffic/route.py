"""`/t`: kept answers with their scores: the newest, the worst, the random sample, or those that an alert names."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from math import isfinite
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_roles.kept.choosing import ChosenSpecimen
from ragtide_runtime.redis.keys import SPECIMEN_NEWEST, worst_list
from ragtide_schemas import Specimen
from ragtide_schemas.printable import printable

from ...guard.problems import HttpProblem
from ...guard.viewers import Reader
from ...reading.alerts import visible_alert
from ...reading.context import Shared
from ...reading.item_lists import MOST, WORST, ItemChoice, ItemList, duration_text, read_list
from ..data_set import data_set
from ..rendering import render
from .screen import SHOWN, TrafficChoice, traffic

READ_MOST: Final = 500
"""Most answers that are read, the newest, before those that do not match are left out."""

router = APIRouter(include_in_schema=False)


@router.get("/t")
async def get_traffic(
    *,
    request: Request,
    shared: Shared,
    viewer: Reader,
    name: Annotated[
        str, Query(alias="list", max_length=1000, description="`newest`, `worst`, `sample`, or another kept list.")
    ] = "",
    alert: Annotated[str, Query(max_length=1000, description="Id of an alert, whose answers are the list.")] = "",
    pipeline: Annotated[str, Query(max_length=1000, description="Only this pipeline.")] = "",
    metric: Annotated[
        str, Query(max_length=1000, description="Metric of `below`, of `above` and of the worst answers.")
    ] = "",
    below: Annotated[str, Query(max_length=30, description="Only scores below this number.")] = "",
    above: Annotated[str, Query(max_length=30, description="Only scores above this number.")] = "",
    segment: Annotated[str, Query(max_length=1000, description="Only this segment value, such as `lang=de`.")] = "",
    labeler: Annotated[str, Query(max_length=1000, description="Only scores of this labeler.")] = "",
    page: Annotated[int, Query(ge=1, le=READ_MOST // SHOWN, description="Page of the list, from 1.")] = 1,
    download: Annotated[str, Query(max_length=1, description="`1` returns the answers as rows of a data set.")] = "",
) -> Response:
    """Show kept answers with their scores."""
    chosen = TrafficChoice(pipeline, metric, _number("below", below), _number("above", above), segment.strip(), labeler)
    kept = KeptSpecimens(shared.redis, shared.settings.layout)
    names = [known for known in await kept.pipelines() if viewer.may_use(known)]
    named = await visible_alert(shared, viewer, alert)
    if named is not None:
        chosen = replace(chosen, pipeline=named.pipeline, metric=named.metric, labeler=named.labeler or "")
    choice = ItemChoice(name, alert=alert) if alert else ItemChoice(name, metric, labeler) if name else ItemChoice()
    items = ItemList([])
    if choice.name in ("", SPECIMEN_NEWEST) and not alert:
        wanted = [known for known in names if chosen.pipeline in ("", known)]
        count = READ_MOST if chosen.narrows else MOST if download else min(page * SHOWN + 1, READ_MOST)
        specimens: Sequence[Specimen] = await kept.newest(wanted, count)
        choice = ItemChoice(SPECIMEN_NEWEST)
        if not specimens and not name and chosen.pipeline in names and not chosen.narrows:  # no newest are kept
            choice = ItemChoice(WORST, metric, labeler)
    if choice.name != SPECIMEN_NEWEST:
        if chosen.pipeline in names:
            items = await read_list(kept, chosen.pipeline, choice, named)
        specimens = items.items
        if items.metric:
            chosen = replace(chosen, metric=items.metric, labeler=items.labeler)
    if download:
        reason = {"list": choice.name, **choice.query}
        return data_set(viewer, [ChosenSpecimen(specimen, [reason]) for specimen in specimens])
    settings = shared.settings.specimens
    listed = chosen.pipeline or (names[0] if len(names) == 1 else "")
    return render(
        request,
        viewer,
        "traffic.html",
        traffic=traffic(specimens, chosen, page),
        chosen=chosen,
        pipelines=names,
        lists=await kept.lists(listed) if listed in names else {},
        current=worst_list(items.metric, items.labeler) if items.metric and not alert else choice.name,
        alert=named,
        query=choice.query,
        choices={
            field: value
            for field, value in {**asdict(chosen), **(choice.query if name or alert else {})}.items()
            if value not in ("", None)
        },
        enabled=settings.enabled,
        newest_n=settings.newest_n,
        gone=items.gone,
        most=MOST if items.most else 0,
        keep=duration_text(settings.keep_s),
        unreadable=kept.unreadable.warning(),
    )


def _number(name: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise HttpProblem(422, f"{name} is {printable(text)!r}, which is no number: give one such as 0.5")
    return value
