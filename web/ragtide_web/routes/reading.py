"""`GET /v1/estimates`, `/v1/headlines`, `/v1/alerts`, `/v1/runs` and `/v1/dead-letters`, from the read model."""

import asyncio
from collections import deque
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import TypeAdapter

from ragtide_aggregator.estimates.choices import ESTIMATORS, chosen
from ragtide_aggregator.estimates.live import check_live
from ragtide_aggregator.estimates.ranges import HeadlineRange, headline_range
from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
from ragtide_aggregator.statistics.tables.names import AUTO
from ragtide_schemas import Alert, DeadLetter, Estimate, Headline, Workspace, utc_now
from ragtide_schemas.descriptions import DescribedModel
from ragtide_schemas.suggestions import unknown
from ragtide_schemas.times import to_utc

from ..guard.access import Client
from ..guard.admission import Reader
from ..guard.problems import HttpProblem
from ..guard.viewers import viewer_of_client
from ..reading.context import Context, Shared
from ..reading.dead_letters import may_see, shown_letter

router = APIRouter(tags=["reading"])

LETTERS_MAX: Final = 1000
"""Most dead letters in one answer."""
PAYLOADS_BYTES: Final = 33_554_432
"""Most bytes of payloads in one answer; the newest come first."""
T = TypeVar("T")
ALL_TIME: Final = "all"

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    401: {"description": "The token is not known."},
    403: {"description": "The token may not read."},
    422: {"description": "A parameter has an unknown value."},
    503: {"description": "Redis does not answer."},
    504: {"description": "The answer took too long, although Redis answers."},
}

Pipeline = Annotated[str | None, Query(max_length=500, description="Only this pipeline.")]


@router.get("/v1/estimates", responses=RESPONSES, response_model=list[Estimate])
async def get_estimates(
    shared: Shared,
    client: Reader,
    pipeline: Pipeline = None,
    metric: Annotated[str | None, Query(max_length=500, description="Only this metric.")] = None,
    segment: Annotated[
        str | None, Query(max_length=500, description="Only this segment value, such as `lang=de`.")
    ] = None,
    run: Annotated[str | None, Query(max_length=500, description="Only this replay or run.")] = None,
    window: Annotated[str, Query(max_length=20, description="`all`, or one of the setting `windows`.")] = ALL_TIME,
    estimator: Annotated[str, Query(max_length=40, description="`mean`, `recommended`, `all` or another.")] = "mean",
    strategy: Annotated[str, Query(max_length=40, description="`auto`, `running` or `asymptotic`.")] = AUTO,
    confidence: Annotated[
        float | None, Query(ge=0.01, le=0.9999, description="Level of the intervals; by default that of the settings.")
    ] = None,
) -> Response:
    """Return the estimates at the last commits, those of segment values included."""
    windows = (ALL_TIME, *shared.settings.windows)
    for kind, value, known in (
        ("window", window, windows),
        ("estimator", estimator, (*ESTIMATORS, "recommended", "all")),
    ):
        if value not in known:
            raise HttpProblem(422, unknown(kind, value, known))
    try:
        check_live(strategy)
    except ValueError as error:
        raise HttpProblem(422, f"{error}") from None
    everything = await shared.deployment.estimates(
        strategy=strategy, confidence=confidence, windows=window != ALL_TIME, pipeline=pipeline
    )
    estimates = [
        estimate
        for estimate in chosen(everything, window=window, estimator=estimator, labeling=False)
        if client.may_use(estimate.pipeline)
        and pipeline in (None, estimate.pipeline)
        and metric in (None, estimate.metric)
        and segment in (None, estimate.segment)
        and run in (None, estimate.run)
    ]
    return await encoded_list(_ESTIMATES, estimates)


@router.get("/v1/headlines", responses=RESPONSES, response_model=list[Headline])
async def get_headlines(
    shared: Shared,
    client: Reader,
    last: Annotated[
        str, Query(max_length=20, description="Length of the range, such as `1h`, `24h` or `7d`; `all`, or `default`.")
    ] = "default",
    since: Annotated[datetime | None, Query(description="Start of the range, instead of `last`.")] = None,
    pipeline: Pipeline = None,
    metric: Annotated[str | None, Query(max_length=500, description="Only this metric.")] = None,
    segment: Annotated[
        str | None, Query(max_length=500, description="Of this segment value, such as `lang=de`.")
    ] = None,
    segments: Annotated[bool, Query(description="Whether to return those of all segment values, too.")] = False,
    labeler: Annotated[
        str | None, Query(max_length=500, description="Numbers of this labeler, instead of the recommended ones.")
    ] = None,
) -> Response:
    """Return the one number of each metric that counts now, with its range, interval and state."""
    if since is not None and last != "default":
        raise HttpProblem(422, "last and since exclude each other: give one")
    try:
        span = HeadlineRange("since", to_utc(since)) if since is not None else headline_range(last, utc_now())
    except ValueError as error:
        raise HttpProblem(422, f"{error}") from None
    headlines = await shared.deployment.headlines(
        span, pipeline=pipeline, segment=segment, segments=segments, labeler=labeler
    )
    visible = [
        headline for headline in headlines if client.may_use(headline.pipeline) and metric in (None, headline.metric)
    ]
    return await encoded_list(_HEADLINES, visible)


@router.get("/v1/alerts", responses=RESPONSES, response_model=list[Alert])
async def get_alerts(
    shared: Shared,
    client: Reader,
    pipeline: Pipeline = None,
    rule: Annotated[str | None, Query(max_length=500, description="Only alerts of this rule.")] = None,
    firing: Annotated[bool, Query(description="Only alerts that fire now.")] = False,
) -> Response:
    """Return the alerts in their latest state, in the order in which they fired."""
    all_alerts = await shared.deployment.alerts()
    alerts = [
        alert
        for alert in all_alerts
        if client.may_use(alert.pipeline)
        and pipeline in (None, alert.pipeline)
        and rule in (None, alert.rule)
        and not (firing and alert.status == "resolved")
    ]
    return await encoded_list(_ALERTS, alerts)


@router.get("/v1/runs", responses=RESPONSES)
async def get_runs(shared: Shared, client: Reader) -> list[Workspace]:
    """Return the replays and experiments, the oldest first; a token for some pipelines sees none of them."""
    if client.patterns:
        raise HttpProblem(403, f"the token {client.name!r} is for some pipelines, and runs may hold any pipeline")
    return await shared.deployment.workspaces()


class StoredLetter(DescribedModel):
    """A dead letter with its place."""

    id: str
    """Id in the stream of dead letters, for `ragtide dead-letters retry`."""
    partition: int
    letter: DeadLetter
    """The dead letter. Its payload is empty unless `payload=true` and the token may see texts (`web.texts`)."""
    payload_hidden: str | None = None
    """Why the payload is empty although it was asked for."""


@router.get("/v1/dead-letters", responses=RESPONSES, response_model=list[StoredLetter])
async def get_dead_letters(
    shared: Shared,
    client: Reader,
    reason: Annotated[str | None, Query(max_length=500, description="Only dead letters with this reason.")] = None,
    pipeline: Pipeline = None,
    payload: Annotated[bool, Query(description="Whether to return the payloads, which have texts of users.")] = False,
    limit: Annotated[int, Query(ge=1, le=LETTERS_MAX, description="Most dead letters of the answer.")] = 100,
) -> Response:
    """Return the newest dead letters, the newest last, redacted as on the page."""
    letters = await _letters(shared, client, reason, pipeline, payload=payload, limit=limit)
    return await encoded_list(_LETTERS, letters)


async def _letters(
    shared: Context, client: Client, reason: str | None, pipeline: str | None, *, payload: bool, limit: int
) -> list[StoredLetter]:
    letters: deque[StoredDeadLetter] = deque()
    viewer, left = viewer_of_client(client, shared), PAYLOADS_BYTES
    wants_payload = payload and viewer.sees_texts
    async for stored in shared.deployment.dead_letters():
        if not may_see(viewer, stored) or reason not in (None, stored.letter.reason):
            continue
        if pipeline not in (None, stored.pipeline):
            continue
        left -= len(stored.letter.payload) if wants_payload else 0
        letters.append(stored if wants_payload else stored.without_payload())
        if len(letters) > limit:
            left += len(letters.popleft().letter.payload)
        for place in range(len(letters)):
            if left >= 0:
                break
            left += len(letters[place].letter.payload)
            letters[place] = letters[place].without_payload()
    return [await _stored_letter(shared, stored, asked=payload, sees_texts=viewer.sees_texts) for stored in letters]


async def _stored_letter(shared: Context, stored: StoredDeadLetter, *, asked: bool, sees_texts: bool) -> StoredLetter:
    dropped = asked and sees_texts and not stored.letter.payload and stored.size > 0
    shown = await shown_letter(shared.hiding, stored.letter, sees_texts=sees_texts, payload=asked and not dropped)
    text, encoding = stored.letter.encode_payload(shown.payload or b"")
    update = {"detail": shown.detail, "payload": text, "payload_encoding": encoding}
    hidden = shown.hidden or None if asked else None
    if dropped:
        hidden = f"the answer has {PAYLOADS_BYTES:,} bytes of payloads already: ask for fewer with limit"
    letter = stored.letter.model_copy(update=update)
    return StoredLetter(id=stored.letter_id, partition=stored.partition, letter=letter, payload_hidden=hidden)


_ESTIMATES: Final = TypeAdapter(list[Estimate])
_HEADLINES: Final = TypeAdapter(list[Headline])
_ALERTS: Final = TypeAdapter(list[Alert])
_LETTERS: Final = TypeAdapter(list[StoredLetter])


async def encoded_list(adapter: TypeAdapter[list[T]], values: list[T]) -> Response:
    """Return a list as the JSON of an answer; a thread encodes it, because it may be long."""
    content = await asyncio.to_thread(adapter.dump_json, values, by_alias=True)
    return Response(content, media_type="application/json")
