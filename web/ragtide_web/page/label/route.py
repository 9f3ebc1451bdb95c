"""`/label`: a person answers questions about kept items, blind to their scores."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_consumers.text.keys import letters
from ragtide_producers.publishing.routes import FeedbackRoute
from ragtide_roles.kept.annotated import double_annotations
from ragtide_roles.kept.annotations import Annotation, StoredAnnotations
from ragtide_roles.kept.questions import RATINGS, WHOLE, questions
from ragtide_roles.kept.queue import (
    AnnotationOutcome,
    ItemSource,
    ItemToAnnotate,
    QueueOptions,
    annotation_of,
    left,
    queue_of,
    store,
)
from ragtide_runtime.redis.scripts import run_script
from ragtide_schemas import Feedback
from ragtide_schemas.base import describe

from ...guard.headers import HEADERS
from ...guard.orders import form_of, record_order, same_site
from ...guard.problems import HttpProblem
from ...guard.viewers import Operator, Reader, Viewer
from ...reading.context import Context, Shared
from ..rendering import render

ANSWER: Final = "a:"
"""Begin of the name of a field with an answer; the name of the question follows."""

DONE: Final[Mapping[AnnotationOutcome, str]] = {
    "published": "The answers are published as feedback.",
    "selected": "The answers are stored. They count in no estimate, because the item was selected.",
    "second": "The answers are stored. Those of another person came first and count.",
    "graded": "The answers are stored. The interaction came with gold scores, which count.",
    "skipped": "The item is skipped.",
}

router = APIRouter(include_in_schema=False)


class LabelChoice(NamedTuple):
    """The choices in the address."""

    pipeline: str
    """Empty for the first one."""
    sources: tuple[ItemSource, ...]
    rated: tuple[str, ...]

    @property
    def query(self) -> list[tuple[str, str]]:
        """The choices as fields of an address."""
        fields = [("pipeline", self.pipeline)] if self.pipeline else []
        fields += [("from", source.value) for source in self.sources] if len(self.sources) < len(ItemSource) else []
        return fields + [("rate", metric) for metric in self.rated]


async def _choice(
    pipeline: Annotated[str, Query(max_length=1000, description="Pipeline of the items; the first unless given.")] = "",
    source: Annotated[
        list[str] | None, Query(alias="from", max_length=10, description="Only items of these sources.")
    ] = None,
    rate: Annotated[list[str] | None, Query(max_length=10, description="Ratings that are asked for, too.")] = None,
) -> LabelChoice:
    sources = tuple(name for name in ItemSource if name.value in (source or ()))
    return LabelChoice(pipeline, sources or tuple(ItemSource), tuple(name for name in RATINGS if name in (rate or ())))


Chosen = Annotated[LabelChoice, Depends(_choice)]


@router.get("/label")
async def get_label(request: Request, shared: Shared, viewer: Reader, chosen: Chosen) -> Response:
    """Show the next item of the viewer's queue."""
    return await _label_page(request, shared, viewer, chosen)


async def _label_page(
    request: Request,
    shared: Context,
    viewer: Viewer,
    chosen: LabelChoice,
    *,
    status: int = 200,
    problem: str = "",
    answers: Mapping[str, str] | None = None,
) -> Response:
    items: list[ItemToAnnotate] = []
    names: list[str] = []
    annotations = await StoredAnnotations(shared.redis, shared.settings.prefix).read()
    if _may_answer(viewer):
        names, items = await _queue(shared, viewer, chosen, annotations)
        items = left(items, annotations, viewer.name)
    item = items[0] if items else None
    return render(
        request,
        viewer,
        "label.html",
        status=status,
        may_answer=_may_answer(viewer),
        item=item,
        interaction=None if item is None else item.specimen.interaction,
        asked=[] if item is None else questions(item.specimen, chosen.rated),
        ratings=RATINGS,
        left=len(items),
        names=names,
        chosen=chosen,
        query=urlencode(chosen.query),
        double=double_annotations(annotation for annotation in annotations if viewer.may_use(annotation.pipeline)),
        mine=sum(annotation.annotator == viewer.name for annotation in annotations),
        problem=problem,
        answers=answers or {},
        whole=WHOLE,
        letters=letters,
        sources=tuple(ItemSource),
        prefix=ANSWER,
    )


def _may_answer(viewer: Viewer) -> bool:
    return viewer.is_operator and viewer.sees_texts


async def _queue(
    shared: Context, viewer: Viewer, chosen: LabelChoice, annotations: Sequence[Annotation]
) -> tuple[list[str], list[ItemToAnnotate]]:
    kept = KeptSpecimens(shared.redis, shared.settings.layout)
    names = [name for name in await kept.pipelines() if viewer.may_use(name)]
    pipeline = chosen.pipeline or (names[0] if names else "")
    if not pipeline or not viewer.may_use(pipeline):
        return names, []
    window_s = shared.settings.feedback_window_s
    options = QueueOptions(chosen.sources, 1.0, ("trace.adherence", *chosen.rated), chosen.rated, window_s)
    return names, await queue_of(kept, [pipeline], options, annotations)


@router.post("/label", dependencies=[Depends(same_site)])
async def post_label(request: Request, shared: Shared, viewer: Operator, chosen: Chosen) -> Response:
    """Store the answers about an item, or skip it."""
    if not viewer.sees_texts:
        raise HttpProblem(403, "texts are hidden from this user, and questions are about texts: see web.texts")
    fields = await form_of(request)
    stored = StoredAnnotations(shared.redis, shared.settings.prefix)
    annotations = await stored.read()
    _, items = await _queue(shared, viewer, chosen, annotations)
    item = _find_item(left(items, annotations, viewer.name), fields)
    asked = questions(item.specimen, chosen.rated)
    skipped = "skip" in fields
    missing = (
        []
        if skipped
        else [question.name for question in asked if fields.get(ANSWER + question.name) not in question.keys]
    )
    if missing:
        problem = f"{len(missing)} of {len(asked)} questions have no answer: {', '.join(missing[:10])}"
        return await _label_page(request, shared, viewer, chosen, status=422, problem=problem, answers=fields)
    answers = {} if skipped else {question.name: fields[ANSWER + question.name] for question in asked}
    outcome = await _store_answers(shared, viewer, stored, item, answers)
    query = urlencode([*chosen.query, ("done", DONE[outcome])])
    return RedirectResponse(f"/label?{query}", 303, headers=HEADERS)


def _find_item(items: Sequence[ItemToAnnotate], fields: Mapping[str, str]) -> ItemToAnnotate:
    for item in items:
        interaction = item.specimen.interaction
        # A form has its texts without spaces at their ends.
        if (interaction.pipeline.strip(), interaction.interaction_id.strip()) == (
            fields.get("pipeline"),
            fields.get("interaction_id"),
        ):
            return item
    raise HttpProblem(409, "the item is no longer in your queue: you have answered it, or it is no longer kept")


async def _store_answers(
    shared: Context, viewer: Viewer, stored: StoredAnnotations, item: ItemToAnnotate, answers: Mapping[str, str]
) -> AnnotationOutcome:
    try:
        annotation = annotation_of(
            item,
            viewer.name,
            skipped=not answers,
            supported={name: key == "y" for name, key in answers.items() if name not in RATINGS},
            ratings={name: int(key) for name, key in answers.items() if name in RATINGS},
        )
    except ValidationError as error:
        raise HttpProblem(422, describe(error)) from None
    interaction = item.specimen.interaction
    await record_order(
        shared,
        viewer,
        action="annotate",
        subject=f"item {interaction.interaction_id}",
        details={"pipeline": interaction.pipeline, "skipped": annotation.skipped},
    )

    async def publish(feedback: Feedback) -> None:
        route = FeedbackRoute(shared.settings.layout)
        await run_script(shared.redis, route.call([route.command(feedback)]))

    try:
        return await store(stored, annotation, item, publish)
    except ValueError as error:
        raise HttpProblem(422, str(error)) from None
