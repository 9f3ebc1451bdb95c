"""`/i/PIPELINE/ID`: one kept item with its marks and scores, also as a row of a data set; `/i`: leads to the lists."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_roles.kept.annotated import reasons_of
from ragtide_roles.kept.annotations import HIGHEST, LOWEST, REASON_CHARS, Annotation, StoredAnnotations
from ragtide_roles.kept.choosing import ChosenSpecimen
from ragtide_runtime.redis.keys import worst_list
from ragtide_schemas import RagInteraction, Specimen

from ...guard.headers import HEADERS
from ...guard.problems import HttpProblem
from ...guard.viewers import Reader, Viewer
from ...reading.alerts import visible_alert
from ...reading.context import Context, Shared
from ...reading.item_lists import ItemChoice, find_items, read_list
from ...reading.items import item_view, score_rows
from ..data_set import data_set
from ..item_address import item_address, names_in
from ..rendering import render

router = APIRouter(include_in_schema=False)


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
    name: Annotated[
        str, Query(alias="list", max_length=1000, description="`worst`, `newest`, `sample`, or another kept list.")
    ] = "",
    metric: Annotated[str, Query(max_length=1000, description="Metric of the worst items.")] = "",
    labeler: Annotated[str, Query(max_length=1000, description="Labeler of the worst items.")] = "",
    alert: Annotated[str, Query(max_length=1000, description="Id of an alert, whose items are the list.")] = "",
    marks: Annotated[str, Query(max_length=1000, description="Labeler whose marks are shown.")] = "",
    whole: Annotated[str, Query(alias="all", max_length=1, description="`1` shows long texts whole.")] = "",
    download: Annotated[str, Query(max_length=1, description="`1` returns the items as rows of a data set.")] = "",
) -> ItemQuery:
    return ItemQuery(ItemChoice(name, metric, labeler, alert), marks or None, whole == "1", download == "1")


Asked = Annotated[ItemQuery, Depends(_query)]


@router.get("/i")
async def get_by_id(
    *,
    request: Request,
    shared: Shared,
    viewer: Reader,
    asked: Asked,
    pipeline: Annotated[str, Query(max_length=1000, description="Pipeline of the item.")] = "",
    interaction_id: Annotated[str, Query(alias="id", max_length=1000, description="Id of the item.")] = "",
) -> Response:
    """Show one item whose names fit no path; without an id, lead to the lists."""
    if interaction_id:
        return await _item(request, shared, viewer, asked, (pipeline or None, interaction_id))
    return RedirectResponse(f"/t?{request.url.query}" if request.url.query else "/t", 303, headers=HEADERS)


@router.get("/i/{rest:path}")
async def get_item(request: Request, shared: Shared, viewer: Reader, asked: Asked) -> Response:
    """Show one item."""
    names = names_in(request.scope["raw_path"].decode("ascii", "replace"))
    if names is None:
        raise HttpProblem(404, "the address names no item: it is /i/PIPELINE/ID, each with its / as %2F")
    return await _item(request, shared, viewer, asked, names)


async def _item(
    request: Request, shared: Context, viewer: Viewer, asked: ItemQuery, names: tuple[str | None, str]
) -> Response:
    pipeline, interaction_id = names
    specimens = await find_items(shared, viewer, interaction_id, pipeline)
    if pipeline is None and len(specimens) == 1:
        address = item_address(specimens[0].interaction.pipeline, interaction_id, asked.choice.query)
        return RedirectResponse(address, 303, headers=HEADERS)
    if len(specimens) > 1:
        addresses = {
            kept_item.interaction.pipeline: item_address(kept_item.interaction.pipeline, interaction_id)
            for kept_item in specimens
        }
        return render(request, viewer, "item_choice.html", interaction_id=interaction_id, addresses=addresses)
    (specimen,) = specimens
    stored = StoredAnnotations(shared.redis, shared.settings.prefix)
    opinions = (await stored.of(specimen.interaction.pipeline, interaction_id, saw_scores=True))[::-1]
    if asked.download:
        choice = asked.choice
        reason = {"list": choice.name, **choice.query} if choice.query else {"page": "item"}
        return data_set(viewer, [ChosenSpecimen(specimen, [reason, *reasons_of(opinions)])])
    return await _screen(request, shared, viewer, asked, specimen, opinions=opinions)


async def _screen(
    request: Request,
    shared: Context,
    viewer: Viewer,
    asked: ItemQuery,
    specimen: Specimen,
    *,
    opinions: Sequence[Annotation],
) -> Response:
    interaction, choice = specimen.interaction, asked.choice
    around, total, name = None, 0, choice.name
    if choice.query:
        alert = await visible_alert(shared, viewer, choice.alert)
        kept = KeptSpecimens(shared.redis, shared.settings.layout)
        listed = await read_list(kept, interaction.pipeline, choice, alert)
        around, total = listed.around(interaction.interaction_id), len(listed.items)
        name = worst_list(listed.metric, listed.labeler) if listed.metric else name
    before, after = (None, None) if around is None else around[1:]

    def address(target: RagInteraction | None, **query: str) -> str | None:
        return (
            None if target is None else item_address(target.pipeline, target.interaction_id, {**choice.query, **query})
        )

    template = shared.settings.web.trace_url
    view = item_view(specimen, asked.labeler, sees_texts=viewer.sees_texts, whole=asked.whole)
    return render(
        request,
        viewer,
        "item.html",
        specimen=specimen,
        interaction=interaction,
        view=view,
        words={sentence.key: sentence for document in view.documents for sentence in document.sentences or ()},
        rows=score_rows(view.scores),
        choice=choice,
        place=None if around is None else around[0],
        total=total,
        list_name=name,
        before=address(before),
        before_question="" if before is None else before.question,
        after=address(after),
        after_question="" if after is None else after.question,
        here=address(interaction, marks=asked.labeler or ""),
        whole=address(interaction, all="1", marks=asked.labeler or ""),
        download=address(interaction, download="1"),
        by_labeler={labeling.labeler: address(interaction, marks=labeling.labeler) for labeling in specimen.labelings},
        trace_url=template.replace("{trace_id}", specimen.trace_id) if template and specimen.trace_id else None,
        opinions=opinions,
        mine=next((opinion for opinion in opinions if opinion.annotator == viewer.name), None),
        may_opine=viewer.is_operator and viewer.sees_texts,
        ratings=range(LOWEST, HIGHEST + 1),
        reason_chars=REASON_CHARS,
    )
