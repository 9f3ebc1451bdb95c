"""`GET /v1/fleet`, `/v1/alert`, `/v1/items`, `/v1/item` and `/v1/why`: what the screens of the page show, as JSON.

Texts of users follow the rule of the page (`web.texts`), and stand in fields named `untrusted_text` only.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import TypeAdapter

from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
from ragtide_aggregator.reading.interaction_trace import GONE, SCANNED, TRIMMED, InteractionTrace
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_roles.kept.choosing import score_of
from ragtide_runtime.redis.keys import SPECIMEN_NEWEST, Streams, parts_of_worst
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import DeadLetter, Reason, Specimen, utc_now
from ragtide_schemas.details import (
    FLEET,
    AlertDetails,
    AlertFact,
    FleetPipeline,
    ForeignText,
    InteractionFate,
    InteractionOutcome,
    KeptItem,
    KeptItemLine,
    TraceStation,
)
from ragtide_schemas.printable import printable
from ragtide_schemas.suggestions import unknown

from ..guard.admission import Reader
from ..guard.problems import HttpProblem
from ..guard.viewers import Viewer, viewer_of_client
from ..reading.alerts import alert_with_items, find_alert
from ..reading.context import Context, Shared
from ..reading.dead_letters import MEANINGS, may_see, shown_letter
from ..reading.fleet import FleetFilter, fleet_of
from ..reading.item_lists import MOST, ItemChoice, find_items, read_list
from ..reading.items import NOTE_CHARS, SHOWN_CHARS, item_view
from .reading import RESPONSES, encoded_list

router = APIRouter(tags=["reading"], responses=RESPONSES)

ANSWER_CHARS: Final = 2_000
"""Most characters of the texts of each answer that an alert names."""
QUESTION_CHARS: Final = 300
"""Most characters of a question in a list."""

NOT_FOUND: Final[dict[int | str, dict[str, Any]]] = {
    404: {"description": "There is none, or the token may not read its pipeline."}
}


async def _viewer(shared: Shared, client: Reader) -> Viewer:
    return viewer_of_client(client, shared)


ApiViewer = Annotated[Viewer, Depends(_viewer)]

InteractionId = Annotated[str, Query(min_length=1, max_length=1000, description="Id of the interaction.")]
Pipeline = Annotated[str | None, Query(max_length=500, description="Its pipeline; needed if several have the id.")]
Chars = Annotated[int, Query(ge=1, le=SHOWN_CHARS, description="Most characters of all texts of the item.")]


@router.get("/v1/fleet", response_model=list[FleetPipeline])
async def get_fleet(
    shared: Shared,
    viewer: ApiViewer,
    chosen: FleetFilter,
    limit: Annotated[int | None, Query(ge=1, description="Most pipelines of the answer; all unless given.")] = None,
) -> Response:
    """Return the pipelines, the worst first, each with its state and the numbers of its most important metrics."""
    return await encoded_list(FLEET, [*(await fleet_of(shared, viewer, chosen, limit)).rows])


@router.get("/v1/alert", responses=NOT_FOUND)
async def get_alert(
    shared: Shared,
    viewer: ApiViewer,
    alert_id: Annotated[str, Query(min_length=1, max_length=1000, description="Id of the alert.")],
    chars: Chars = ANSWER_CHARS,
) -> AlertDetails:
    """Return one alert in words: its change, its causes, how it is now, and the answers to read first."""
    alert = await find_alert(shared, viewer, alert_id)
    parts = await alert_with_items(shared, alert, utc_now(), texts=False)
    text = parts.text
    return AlertDetails.model_validate(
        {
            **{field.name: getattr(text, field.name) for field in fields(text)},
            "facts": tuple(AlertFact(name=name, text=sentence) for name, sentence in text.rows),
            "acknowledged_by": text.acknowledged,
            "page": text.link or "/a",
            "worst": tuple(
                item_view(specimen, alert.labeler, sees_texts=viewer.sees_texts, chars=chars)
                for kept in parts.specimens.values()
                for specimen in kept
            ),
            "not_kept": tuple(parts.not_kept),
        }
    )


@router.get("/v1/items", response_model=list[KeptItemLine])
async def get_items(
    shared: Shared,
    viewer: ApiViewer,
    pipeline: Annotated[
        str | None, Query(max_length=500, description="Only this pipeline; needed for every list but `newest`.")
    ] = None,
    name: Annotated[
        str, Query(alias="list", max_length=1000, description="`worst`, `newest`, `sample`, or another kept list.")
    ] = SPECIMEN_NEWEST,
    metric: Annotated[str, Query(max_length=500, description="Metric of the worst items.")] = "",
    labeler: Annotated[str, Query(max_length=500, description="Labeler of the worst items.")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST, description="Most items of the answer.")] = 20,
) -> Response:
    """Return a list of kept items by their ids: the worst of a metric, the newest, or the random sample."""
    lines = await _listed(shared, viewer, pipeline, ItemChoice(name, metric, labeler), limit)
    return await encoded_list(_LINES, lines)


async def _listed(
    shared: Context, viewer: Viewer, pipeline: str | None, choice: ItemChoice, limit: int
) -> list[KeptItemLine]:
    kept = KeptSpecimens(shared.redis, shared.settings.layout)
    if pipeline is None:
        if choice.name != SPECIMEN_NEWEST:
            raise HttpProblem(422, f"the list {choice.name!r} is of one pipeline: give pipeline")
        names = [name for name in await kept.pipelines() if viewer.may_use(name)]
        return [_line(viewer, specimen) for specimen in await kept.newest(names, limit)]
    if not viewer.may_use(pipeline):
        return []
    listed = await read_list(kept, pipeline, choice)
    if not listed.items and (names := list(await kept.lists(pipeline))):
        known = dict.fromkeys("worst" if parts_of_worst(name) else name for name in names)
        if choice.name not in known:
            raise HttpProblem(422, unknown("list", choice.name, list(known)))
    return [_line(viewer, specimen, listed.metric, listed.labeler) for specimen in listed.items[:limit]]


def _line(viewer: Viewer, specimen: Specimen, metric: str = "", labeler: str = "") -> KeptItemLine:
    interaction = specimen.interaction
    question = interaction.question
    return KeptItemLine(
        pipeline=interaction.pipeline,
        interaction_id=interaction.interaction_id,
        labeled_at=specimen.labeled_at,
        metric=metric or None,
        score=score_of(specimen, metric, labeler or None) if metric else None,
        question=ForeignText.of(question[:QUESTION_CHARS], cut=len(question) > QUESTION_CHARS)
        if viewer.sees_texts
        else None,
    )


@router.get("/v1/item", responses=NOT_FOUND)
async def get_item(
    shared: Shared,
    viewer: ApiViewer,
    interaction_id: InteractionId,
    pipeline: Pipeline = None,
    marks: Annotated[str | None, Query(max_length=500, description="Labeler whose marks are returned.")] = None,
    chars: Chars = SHOWN_CHARS,
) -> KeptItem:
    """Return one kept item: its texts with marks, redacted, and its scores."""
    specimens = await find_items(shared, viewer, interaction_id, pipeline)
    if len(specimens) > 1:
        names = ", ".join(sorted(specimen.interaction.pipeline for specimen in specimens))
        raise HttpProblem(422, f"several pipelines have the item {interaction_id!r}: give pipeline, one of {names}")
    return item_view(specimens[0], marks, sees_texts=viewer.sees_texts, chars=chars)


@router.get("/v1/why")
async def get_why(
    shared: Shared,
    viewer: ApiViewer,
    interaction_id: Annotated[
        str, Query(min_length=1, max_length=1000, description="Id of the interaction or of its trace.")
    ],
    pipeline: Annotated[str | None, Query(max_length=500, description="Its pipeline; faster.")] = None,
) -> InteractionFate:
    """Return what became of an interaction, and why: scored, absent, dead letter, waiting, lost or unknown."""
    letters: list[tuple[DeadLetter, str]] = []

    async def detail_of(streams: Streams, letter_id: str, letter: DeadLetter) -> str:
        """Remember what the viewer may see of a detail: it may quote texts, so it stands in no sentence."""
        stored = StoredDeadLetter.of(streams, letter_id, letter)
        if may_see(viewer, stored) and pipeline in (None, stored.pipeline):
            shown = await shown_letter(shared.hiding, letter, sees_texts=viewer.sees_texts, payload=False)
            letters.append((letter, shown.detail))
        return ""

    settings, deployment = shared.settings, shared.deployment
    windows = [window(name) for name in settings.windows]
    names = [pipeline] if pipeline else await deployment.pipelines()
    trace = InteractionTrace(shared.redis, settings.layout, interaction_id, windows, detail_of=detail_of)
    stations = [
        station
        for station in await trace.follow(sorted(filter(viewer.may_use, names)))
        if (not viewer.patterns if station.pipeline is None else viewer.may_use(station.pipeline))
        and (station.pipeline is None or pipeline in (None, station.pipeline))
    ]
    dropped = None
    if not viewer.patterns:
        backlogs = await deployment.backlog()
        dropped = {
            reason: sum(backlog.dropped.get(reason, 0) for backlog in backlogs)
            for reason in sorted({reason for backlog in backlogs for reason in backlog.dropped})
        }
    letter, detail = letters[0] if letters else (None, "")
    outcome, explanation = explained(stations, settings, None if letter is None else letter.reason, dropped)
    return InteractionFate(
        interaction_id=printable(interaction_id),
        outcome=outcome,
        explanation=explanation,
        stations=tuple(station.model_copy(update={"text": printable(station.text)}) for station in stations),
        absent=_absent(stations),
        detail=ForeignText.of(detail) if detail else None,
        dropped=dropped,
    )


def _absent(stations: Sequence[TraceStation]) -> dict[str, str]:
    return {metric: printable(reason)[:NOTE_CHARS] for station in stations for metric, reason in station.absent.items()}


def explained(
    stations: Sequence[TraceStation], settings: Settings, reason: Reason | None, dropped: dict[str, int] | None
) -> tuple[InteractionOutcome, str]:
    """Return what became of an interaction, and the reason with what to do.

    Args:
        stations: the facts about it.
        reason: of its newest dead letter; None without one.
        dropped: interactions that the deployment dropped, by reason; None if the client may not see them.
    """
    by_station = {station.station: station for station in stations}
    if "labeled" in by_station:
        return _scored(stations, settings)
    if reason is not None:
        return "dead letter", f"It could not be used ({reason}). {MEANINGS[reason]}"
    label = by_station.get("label")
    if label is not None:
        return ("lost" if label.text in (GONE, TRIMMED) else "waiting"), label.text
    spans = by_station.get("spans")
    if spans is not None:
        return "waiting", spans.text
    counted = ", ".join(f"{count:,} {reason}" for reason, count in (dropped or {}).items())
    counts = "" if dropped is None else f" ({counted or 'no drop is counted'})"
    return "unknown", (
        "Nothing here has this id. It was never published here, as a producer that sends a sample (producer.sample) "
        f"leaves interactions out; or it was dropped before{counts}; or it was scored longer ago than dedupe_window_s "
        f"({settings.dedupe_window_s:g} s); or its pipeline has no estimate yet and it is not among the newest "
        f"{SCANNED:,} interactions: give pipeline; or the token may not read its pipeline."
    )


def _scored(stations: Sequence[TraceStation], settings: Settings) -> tuple[InteractionOutcome, str]:
    labeled = [station for station in stations if station.station == "labeled"]
    sentences = [station.text for station in stations if station.station in ("labeled", "aggregated")]
    by = {labeler for station in labeled for labeler in station.labelers}
    absent = _absent(stations)
    missing = [name for name in settings.cascade.labelers if name not in by] if settings.labeler == "cascade" else []
    if missing and by:
        sentences.append(
            f"Not scored by {', '.join(missing)}: it was not chosen for that sample (cascade.rate is "
            f"{settings.cascade.rate:g}), or the labeler was unavailable."
        )
    return ("scored in part" if absent or (missing and by) else "scored"), " ".join(map(printable, sentences))


_LINES: Final = TypeAdapter(list[KeptItemLine])
