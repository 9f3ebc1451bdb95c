"""`POST /i/PIPELINE/ID`: the opinion of a user about an item, whose scores the user has seen."""

from collections.abc import Mapping

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_roles.kept.annotations import (
    HIGHEST,
    LOWEST,
    REASON_CHARS,
    Annotation,
    NoRoomForAnnotationError,
    StoredAnnotations,
)
from ragtide_schemas import utc_now
from ragtide_schemas.printable import printable

from ...guard.headers import HEADERS
from ...guard.orders import form_of, record_order, same_site
from ...guard.problems import HttpProblem
from ...guard.viewers import Operator, Viewer
from ...reading.context import Context, Shared
from ..item_address import item_address, names_in
from .route import Asked, ItemQuery

router = APIRouter(include_in_schema=False)


@router.post("/i/{rest:path}", dependencies=[Depends(same_site)])
async def post_opinion(request: Request, shared: Shared, viewer: Operator, asked: Asked) -> Response:
    """Store, undo or remove the user's opinion about an item."""
    pipeline, interaction_id = names_in(request.scope["raw_path"].decode("ascii", "replace")) or (None, "")
    return await _changed(request, shared, viewer, asked, (pipeline or "", interaction_id))


@router.post("/i", dependencies=[Depends(same_site)])
async def post_opinion_by_query(request: Request, shared: Shared, viewer: Operator, asked: Asked) -> Response:
    """Do the same for an item whose address cannot be a path."""
    query = request.query_params
    return await _changed(request, shared, viewer, asked, (query.get("pipeline", ""), query.get("id", "")))


async def _changed(
    request: Request, shared: Context, viewer: Viewer, asked: ItemQuery, item: tuple[str, str]
) -> Response:
    pipeline, interaction_id = item
    if not viewer.sees_texts:
        raise HttpProblem(403, "texts are hidden from this user, and an opinion is about texts: see web.texts")
    fields = await form_of(request)
    kept = KeptSpecimens(shared.redis, shared.settings.layout)
    if not viewer.may_use(pipeline) or not await kept.find(interaction_id, pipeline):
        raise HttpProblem(404, "the item is not kept any more, so it takes no opinion")
    done = await _store_opinion(shared, viewer, kept, item, fields)
    query = {**asked.choice.query, "marks": asked.labeler or "", "done": done}
    return RedirectResponse(f"{item_address(pipeline, interaction_id, query)}#opinion", 303, headers=HEADERS)


async def _store_opinion(
    shared: Context, viewer: Viewer, kept: KeptSpecimens, item: tuple[str, str], fields: Mapping[str, str]
) -> str:
    stored = StoredAnnotations(shared.redis, shared.settings.prefix)
    opinions = await stored.of(*item, saw_scores=True)
    before = next((opinion for opinion in opinions if opinion.annotator == viewer.name), None)
    wanted: Annotation | None = None
    if "undo" in fields:
        wanted = None if before is None else before.undone()
    elif "remove" not in fields:
        wanted = _read_form(viewer, item, fields, before)
    if wanted is None and before is None:
        return "You have no opinion about this item."
    if (
        wanted is not None
        and before is not None
        and "undo" not in fields
        and ((wanted.rating, wanted.reason) == (before.rating, before.reason))
    ):
        return "Your opinion is stored. It counts in no estimate."
    await record_order(
        shared,
        viewer,
        action="opinion",
        subject=f"item {item[1]}",
        details={"pipeline": item[0], "rating": None if wanted is None else wanted.rating},
    )
    if wanted is None:
        if before is not None:
            await stored.remove(before)
        return "Your opinion is removed."
    life = await kept.expires_in_s(*item)
    try:
        await stored.put(wanted, shared.settings.specimens.keep_s if life is None else life)
    except NoRoomForAnnotationError as error:
        raise HttpProblem(422, str(error)) from None
    if "undo" in fields:
        return "Your earlier opinion is restored."
    return "Your opinion is stored. It counts in no estimate."


def _read_form(
    viewer: Viewer, item: tuple[str, str], fields: Mapping[str, str], before: Annotation | None
) -> Annotation:
    rating, reason = fields.get("rating", ""), printable(fields.get("reason", ""))
    if rating not in {str(number) for number in range(LOWEST, HIGHEST + 1)}:
        raise HttpProblem(422, f"the opinion has no rating: choose one from {LOWEST} to {HIGHEST}")
    if len(reason) > REASON_CHARS:
        raise HttpProblem(422, f"the reason has {len(reason):,} characters: write at most {REASON_CHARS}")
    return Annotation(
        pipeline=item[0],
        interaction_id=item[1],
        annotator=viewer.name,
        given_at=utc_now(),
        saw_scores=True,
        rating=int(rating),
        reason=reason,
        rating_before=None if before is None else before.rating,
        reason_before="" if before is None else before.reason,
    )
