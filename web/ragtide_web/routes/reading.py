"""`GET /v1/estimates`, `/v1/alerts`, `/v1/runs` and `/v1/dead-letters`, from the read model."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from ragtide_aggregator.errors import CheckpointError
from ragtide_aggregator.estimates.estimates import ESTIMATORS, chosen
from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
from ragtide_aggregator.statistics.strategies import AUTO, STRATEGIES
from ragtide_schemas import Alert, DeadLetter, Estimate, Workspace
from ragtide_schemas.base import read_json_object
from ragtide_schemas.errors import InvalidEntryError
from ragtide_schemas.suggestions import unknown

from ..access import Client
from ..context import Context, Reader, Shared
from ..items import REDIS_ERRORS
from ..problems import HttpProblem, redis_is_away

router = APIRouter(tags=["reading"])

LETTERS_MAX: Final = 1000
"""Most dead letters in one answer."""
ALL_TIME: Final = "all"

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    401: {"description": "The token is not known."},
    403: {"description": "The token may not read."},
    422: {"description": "A parameter has an unknown value."},
    503: {"description": "Redis does not answer."},
}

Name = Annotated[str | None, Query(max_length=500)]


@router.get("/v1/estimates", responses=RESPONSES, response_model_exclude_none=False)
async def get_estimates(
    shared: Shared,
    client: Reader,
    pipeline: Name = None,
    metric: Name = None,
    segment: Name = None,
    run: Name = None,
    window: Annotated[str, Query(max_length=20, description="`all`, or one of the setting `windows`.")] = ALL_TIME,
    estimator: Annotated[str, Query(max_length=40, description="`mean`, `recommended`, `all` or another.")] = "mean",
    strategy: Annotated[str, Query(max_length=40, description="Method of the intervals.")] = AUTO,
    confidence: Annotated[float | None, Query(ge=0.01, le=0.9999)] = None,
) -> list[Estimate]:
    """Return the estimates at the last commits, those of segment values included."""
    windows = (ALL_TIME, *shared.settings.windows)
    for kind, value, known in (
        ("window", window, windows),
        ("strategy", strategy, (AUTO, *STRATEGIES)),
        ("estimator", estimator, (*ESTIMATORS, "recommended", "all")),
    ):
        if value not in known:
            raise HttpProblem(422, unknown(kind, value, known))
    try:
        everything = await shared.deployment.estimates(
            strategy=strategy, confidence=confidence, windows=window != ALL_TIME
        )
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    except CheckpointError as error:
        raise HttpProblem(503, f"{error}") from None
    return [
        one
        for one in chosen(everything, window=window, estimator=estimator, labeling=False)
        if client.may_use(one.pipeline)
        and pipeline in (None, one.pipeline)
        and metric in (None, one.metric)
        and segment in (None, one.segment)
        and run in (None, one.run)
    ]


@router.get("/v1/alerts", responses=RESPONSES)
async def get_alerts(
    shared: Shared,
    client: Reader,
    pipeline: Name = None,
    rule: Name = None,
    firing: Annotated[bool, Query(description="Only alerts that fire now.")] = False,
) -> list[Alert]:
    """Return the alerts in their latest state, in the order in which they fired."""
    try:
        found = await shared.deployment.alerts()
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    return [
        one
        for one in found
        if client.may_use(one.pipeline)
        and pipeline in (None, one.pipeline)
        and rule in (None, one.rule)
        and not (firing and one.status == "resolved")
    ]


@router.get("/v1/runs", responses=RESPONSES)
async def get_runs(shared: Shared, client: Reader) -> list[Workspace]:
    """Return the replays and experiments, the oldest first; a token for some pipelines sees none of them."""
    if client.patterns:
        raise HttpProblem(403, f"the token {client.name!r} is for some pipelines, and runs may hold any pipeline")
    try:
        return await shared.deployment.workspaces()
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None


class StoredLetter(BaseModel):
    """A dead letter with its place."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """Id in the stream of dead letters, for `ragtide dead-letters retry`."""
    partition: int
    letter: DeadLetter
    """The dead letter; its payload is empty unless `payload=true`."""


@router.get("/v1/dead-letters", responses=RESPONSES)
async def get_dead_letters(
    shared: Shared,
    client: Reader,
    reason: Name = None,
    pipeline: Name = None,
    payload: Annotated[bool, Query(description="Whether to return the payloads, which have texts of users.")] = False,
    limit: Annotated[int, Query(ge=1, le=LETTERS_MAX)] = 100,
) -> list[StoredLetter]:
    """Return the newest dead letters, the newest last."""
    try:
        return await _letters(shared, client, reason, pipeline, payload=payload, limit=limit)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None


async def _letters(
    shared: Context, client: Client, reason: str | None, pipeline: str | None, *, payload: bool, limit: int
) -> list[StoredLetter]:
    found: list[StoredLetter] = []
    async for stored in shared.deployment.dead_letters():
        if reason not in (None, stored.letter.reason) or not _may_see(client, stored, pipeline):
            continue
        shown = stored if payload else stored.without_payload()
        found.append(StoredLetter(id=shown.letter_id, partition=shown.partition, letter=shown.letter))
        del found[:-limit]
    return found


def _may_see(client: Client, stored: StoredDeadLetter, pipeline: str | None) -> bool:
    """Whether a dead letter is wanted, and of a pipeline that the client may read; an unreadable one has none."""
    if not client.patterns and pipeline is None:
        return True
    try:
        named = read_json_object(stored.letter.payload_bytes()).get("pipeline")
    except (InvalidEntryError, ValueError):
        return False
    return isinstance(named, str) and client.may_use(named) and pipeline in (None, named)
