"""`/v1/criteria`: operators read, write and remove criteria over HTTP, as they do on the page."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Path
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, TypeAdapter

from ragtide_aggregator.errors import CheckpointError
from ragtide_offline.criteria.checks import criterion_findings
from ragtide_offline.criteria.numbers import CriterionNumber, criterion_rows
from ragtide_runtime.stored_criteria import CriterionState, criteria_in_force, read_stored_criteria
from ragtide_schemas.criterion import Criterion

from ..guard.problems import REDIS_ERRORS, HttpProblem, redis_is_away
from ..page.criteria.changes import ChangeKind, drop_criterion, save_criterion
from ..reading.context import Shared
from .details import ApiViewer

router = APIRouter(tags=["criteria"])

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    401: {"description": "The token is not known."},
    403: {"description": "The token may not operate, or is for some pipelines only."},
    503: {"description": "Redis does not answer."},
}


class CriterionNumbers(BaseModel):
    """The present estimate of a criterion in one pipeline, by one labeler."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    pipeline: str
    labeler: str
    version: str
    """Version of the question that was asked."""
    is_present: bool
    """Whether it is the present question."""
    asked: int
    answered: int
    cannot_tell: int
    """Items whose texts do not decide it, as the judge says."""
    estimate: float | None
    lower: float | None
    upper: float | None


class ListedCriterion(BaseModel):
    """A criterion with its state and its numbers."""

    model_config = ConfigDict(frozen=True)

    criterion: Criterion
    metric: str
    version: str
    source: str
    """`settings`, or `store` for one that an operator wrote."""
    state: CriterionState
    by: str | None
    """Person who wrote it; None for one of the settings."""
    at: datetime | None
    numbers: tuple[CriterionNumbers, ...]


class CriterionHint(BaseModel):
    """A hint about the words of a criterion."""

    model_config = ConfigDict(frozen=True)

    kind: str
    message: str


class ChangedCriterion(BaseModel):
    """The answer to a criterion that was stored."""

    model_config = ConfigDict(frozen=True)

    change: ChangeKind
    """`new version`: the question is another one, so its numbers are kept apart from the old ones."""
    metric: str
    version: str
    hints: tuple[CriterionHint, ...]


_LISTED: Final = TypeAdapter(list[ListedCriterion])


@router.get("/v1/criteria", responses=RESPONSES, response_model=list[ListedCriterion])
async def get_criteria(shared: Shared, viewer: ApiViewer) -> Response:
    """Return the criteria of the settings and of the store, each with its present numbers."""
    of_settings = shared.settings.judge.criteria
    try:
        stored = await read_stored_criteria(shared.redis, shared.settings.prefix)
        rows = criterion_rows(of_settings, stored, await shared.deployment.overview(), viewer.may_use)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    except CheckpointError as error:
        raise HttpProblem(503, f"{error}") from None
    found = [
        ListedCriterion(
            criterion=row.criterion.model_copy(update={"pipelines": tuple(row.pipelines)}),
            metric=row.criterion.metric,
            version=row.criterion.version,
            source=row.source,
            state=row.state,
            by=row.by or None,
            at=row.at,
            numbers=_numbers(row.numbers),
        )
        for row in rows
    ]
    return Response(_LISTED.dump_json(found), media_type="application/json")


def _numbers(found: Sequence[CriterionNumber]) -> tuple[CriterionNumbers, ...]:
    return tuple(CriterionNumbers.model_validate(number) for number in found)


@router.post(
    "/v1/criteria", responses={**RESPONSES, 422: {"description": "The criterion is wrong, or its name taken."}}
)
async def post_criterion(
    shared: Shared, viewer: ApiViewer, criterion: Annotated[Criterion, Body()]
) -> ChangedCriterion:
    """Store a criterion in place of the one with its name; workers ask it within seconds."""
    try:
        change = await save_criterion(shared, viewer, criterion)
        stored = await read_stored_criteria(shared.redis, shared.settings.prefix)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    beside = criteria_in_force(shared.settings.judge.criteria, stored)
    return ChangedCriterion(
        change=change.kind,
        metric=criterion.metric,
        version=criterion.version,
        hints=tuple(
            CriterionHint(kind=finding.kind, message=finding.message)
            for finding in criterion_findings([criterion], beside)
        ),
    )


@router.delete(
    "/v1/criteria/{name}", status_code=204, responses={**RESPONSES, 404: {"description": "It is not stored."}}
)
async def delete_criterion(
    shared: Shared, viewer: ApiViewer, name: Annotated[str, Path(max_length=64, description="Name of the criterion.")]
) -> None:
    """Remove a stored criterion; its numbers stay."""
    try:
        await drop_criterion(shared, viewer, name)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
