"""`/i`: lists of kept items; `/i/PIPELINE/ID`: one item with its marks and scores; both as rows of a data set."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.annotation.annotated import reasons_of
from ragtide_offline.annotation.annotations import Annotation, StoredAnnotations
from ragtide_offline.datasets.choosing import ChosenSpecimen
from ragtide_offline.datasets.rows import json_lines, rows
from ragtide_schemas import Alert, Specimen

from ...context import Context, Shared
from ...items import REDIS_ERRORS
from ...problems import HttpProblem, redis_is_away
from ..fleet.route import visible_alerts
from ..item_address import item_address, names_in
from ..rendering import HEADERS, lasting, render
from ..viewers import Reader, Viewer
from .lists import MOST, NEWEST, WORST, ItemChoice, ItemList, opinions_shown, read_list
from .screen import item_view

router = APIRouter(include_in_schema=False)

PAGE_N: Final = 25
"""Items of a page of a list."""

QUESTION_CHARS: Final = 200
"""Most characters of a question in a list."""

Name = Annotated[str, Query(max_length=1000)]


class ItemQuery(NamedTuple):
    """The choices in the address."""

    choice: ItemChoice
    labeler: str | None
    """Labeler whose marks are shown; None for the last one that marks sentences."""
    whole: bool
    """Whether long texts are shown whole."""
    download: bool
    """Whether the answer is a file of rows of a data set."""


async def _query(
    *,
    name: Annotated[str, Query(alias="list", max_length=1000)] = "",
    metric: Name = "",
    labeler: Name = "",
    alert: Name = "",
    marks: Name = "",
    whole: Annotated[str, Query(alias="all", max_length=1)] = "",
    download: Annotated[str, Query(max_length=1)] = "",
) -> ItemQuery:
    return ItemQuery(ItemChoice(name, metric, labeler, alert), marks or None, whole == "1", download == "1")


Asked = Annotated[ItemQuery, Depends(_query)]


@router.get("/i")
async def get_items(
    *,
    request: Request,
    shared: Shared,
    viewer: Reader,
    asked: Asked,
    pipeline: Name = "",
    interaction_id: Annotated[str, Query(alias="id", max_length=1000)] = "",
    page: Annotated[int, Query(ge=1, le=1000)] = 1,
) -> Response:
    """Show the items of a list, and the lists of each pipeline."""
    try:
        if interaction_id:
            return await _item(request, shared, viewer, asked, (pipeline or None, interaction_id))
        return await _list(request, shared, viewer, asked, pipeline=pipeline, page=page)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None


@router.get("/i/{rest:path}")
async def get_item(request: Request, shared: Shared, viewer: Reader, asked: Asked) -> Response:
    """Show one item."""
    names = names_in(request.scope["raw_path"].decode("ascii", "replace"))
    if names is None:
        raise HttpProblem(404, "the address names no item: it is /i/PIPELINE/ID, each with its / as %2F")
    try:
        return await _item(request, shared, viewer, asked, names)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None


async def _list(
    request: Request, shared: Context, viewer: Viewer, asked: ItemQuery, *, pipeline: str, page: int
) -> Response:
    kept = KeptSpecimens(shared.redis, shared.settings.layout)
    alert = await _alert(shared, viewer, asked.choice.alert)
    names = [name for name in await kept.pipelines() if viewer.may_use(name)]
    chosen = alert.pipeline if alert is not None else pipeline or (names[0] if len(names) == 1 else "")
    choice = asked.choice if asked.choice.query else ItemChoice(WORST)
    found = ItemList([])
    if chosen and viewer.may_use(chosen):
        found = await read_list(kept, chosen, choice, alert)
    if asked.download:
        return _rows(viewer, [one.specimen for one in found.items], choice)
    start = (page - 1) * PAGE_N
    return render(
        request,
        viewer,
        "items.html",
        pipelines={name: await kept.lists(name) for name in names[:200]},
        more_pipelines=len(names) > 200,
        pipeline=chosen,
        choice=choice,
        query=choice.query,
        alert=alert,
        found=found,
        shown=[
            (
                one,
                item_address(chosen, one.specimen.interaction.interaction_id, choice.query),
                " ".join(one.specimen.interaction.question[: QUESTION_CHARS * 2].split())[:QUESTION_CHARS],
            )
            for one in found.items[start : start + PAGE_N]
        ],
        page=page,
        pages=max(1, -(-len(found.items) // PAGE_N)),
        most=MOST,
        enabled=shared.settings.specimens.enabled,
        keep=lasting(shared.settings.specimens.keep_s),
        newest=NEWEST,
        unreadable=kept.unreadable.warning(),
    )


async def _item(
    request: Request, shared: Context, viewer: Viewer, asked: ItemQuery, names: tuple[str | None, str]
) -> Response:
    pipeline, interaction_id = names
    kept = KeptSpecimens(shared.redis, shared.settings.layout)
    found = []
    if pipeline is None or viewer.may_use(pipeline):
        found = [one for one in await kept.find(interaction_id, pipeline) if viewer.may_use(one.interaction.pipeline)]
    if not found:
        raise HttpProblem(404, _missing(shared, interaction_id))
    if pipeline is None and len(found) == 1:
        address = item_address(found[0].interaction.pipeline, interaction_id, asked.choice.query)
        return RedirectResponse(address, 303, headers=HEADERS)
    if len(found) > 1:
        addresses = {one.interaction.pipeline: item_address(one.interaction.pipeline, interaction_id) for one in found}
        return render(request, viewer, "item_choice.html", interaction_id=interaction_id, addresses=addresses)
    (specimen,) = found
    stored = StoredAnnotations(shared.redis, shared.settings.prefix)
    opinions = (await stored.of(specimen.interaction.pipeline, interaction_id, saw_scores=True))[::-1]
    if asked.download:
        return _rows(viewer, [specimen], asked.choice, opinions)
    content = await _content(shared, viewer, kept, asked, specimen)
    return render(request, viewer, "item.html", **content, **opinions_shown(viewer, opinions))


async def _content(
    shared: Context, viewer: Viewer, kept: KeptSpecimens, asked: ItemQuery, specimen: Specimen
) -> dict[str, Any]:
    one, choice = specimen.interaction, asked.choice
    around, total = None, 0
    if choice.query:
        alert = await _alert(shared, viewer, choice.alert)
        listed = await read_list(kept, one.pipeline, choice, alert)
        around, total = listed.around(one.interaction_id), len(listed.items)

    def address(interaction_id: str | None, **query: str) -> str | None:
        if interaction_id is None:
            return None
        return item_address(one.pipeline, interaction_id, {**choice.query, **query})

    template = shared.settings.web.trace_url
    return {
        "specimen": specimen,
        "one": one,
        "view": item_view(specimen, asked.labeler, sees_texts=viewer.sees_texts, whole=asked.whole),
        "choice": choice,
        "place": None if around is None else around[0],
        "total": total,
        "before": None if around is None else address(around[1]),
        "after": None if around is None else address(around[2]),
        "here": address(one.interaction_id, marks=asked.labeler or ""),
        "whole": address(one.interaction_id, all="1", marks=asked.labeler or ""),
        "download": address(one.interaction_id, download="1"),
        "by_labeler": {each.labeler: address(one.interaction_id, marks=each.labeler) for each in specimen.labelings},
        "trace_url": template.replace("{trace_id}", specimen.trace_id) if template and specimen.trace_id else None,
    }


async def _alert(shared: Context, viewer: Viewer, alert_id: str) -> Alert | None:
    if not alert_id:
        return None
    return next((one for one in await visible_alerts(shared, viewer) if one.alert_id == alert_id), None)


def _rows(
    viewer: Viewer, specimens: Sequence[Specimen], choice: ItemChoice, opinions: Sequence[Annotation] = ()
) -> Response:
    """Return specimens as JSON lines, as `ragtide dataset` writes them.

    Raises:
        HttpProblem: 403, the viewer sees no texts, and a row is made of texts.
    """
    if not viewer.sees_texts:
        raise HttpProblem(403, "texts are hidden: web.texts of the settings does not let this user see them")
    reason = {"list": choice.name, **choice.query} if choice.query else {"page": "item"}
    reasons = [reason, *reasons_of(opinions)]
    text = json_lines(rows([ChosenSpecimen(one, reasons) for one in specimens]))
    disposition = {"Content-Disposition": 'attachment; filename="items.jsonl"'}
    return Response(text, media_type="application/x-ndjson", headers={**HEADERS, **disposition})


def _missing(shared: Context, interaction_id: str) -> str:
    settings = shared.settings.specimens
    if not settings.enabled:
        return (
            f"no item is kept, because specimens.enabled is off: set it to keep items such as {interaction_id[:200]!r}"
        )
    life = lasting(settings.keep_s)
    return (
        f"the item {interaction_id[:200]!r} is not kept: it expired after specimens.keep_s ({life}), made room for "
        "others, or was none of the worst, of the sample, or beyond a rule's line; to keep more items, raise "
        "specimens.keep_s, specimens.sample, or the counts in the table [specimens]"
    )
