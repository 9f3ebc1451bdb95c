"""`/v1/criteria`: operators read, write and remove criteria over HTTP, as they do on the page."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Path
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, TypeAdapter

from ragtide_roles.criteria.checks import CriterionFinding, criterion_findings
from ragtide_roles.criteria.numbers import criterion_rows
from ragtide_runtime.stored_criteria import criteria_in_force, read_stored_criteria
from ragtide_schemas.criterion import Criterion, ListedCriterion

from ..reading.context import Shared
from .criterion_changes import ChangeKind, drop_criterion, save_criterion
from .details import ApiViewer

router = APIRouter(tags=["criteria"])

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    401: {"description": "The token is not known."},
    403: {"description": "The token may not operate, or is for some pipelines only."},
    503: {"description": "Redis does not answer."},
    504: {"description": "The answer took too long, although Redis answers."},
}


class ChangedCriterion(BaseModel):
    """The answer to a criterion that was stored."""

    model_config = ConfigDict(frozen=True)

    change: ChangeKind
    """`new version`: the question is another one, so its numbers are kept apart from the old ones."""
    metric: str
    version: str
    hints: tuple[CriterionFinding, ...]


_LISTED: Final = TypeAdapter(list[ListedCriterion])


@router.get("/v1/criteria", responses=RESPONSES, response_model=list[ListedCriterion])
async def get_criteria(shared: Shared, viewer: ApiViewer) -> Response:
    """Return the criteria of the settings and of the store, each with its present numbers."""
    of_settings = shared.settings.judge.criteria
    stored = await read_stored_criteria(shared.redis, shared.settings.prefix)
    rows = criterion_rows(of_settings, stored, await shared.deployment.overview(), viewer.may_use)
    return Response(_LISTED.dump_json(rows), media_type="application/json")


@router.post(
    "/v1/criteria", responses={**RESPONSES, 422: {"description": "The criterion is wrong, or its name taken."}}
)
async def post_criterion(
    shared: Shared, viewer: ApiViewer, criterion: Annotated[Criterion, Body()]
) -> ChangedCriterion:
    """Store a criterion in place of the one with its name; workers ask it within seconds."""
    change = await save_criterion(shared, viewer, criterion)
    stored = await read_stored_criteria(shared.redis, shared.settings.prefix)
    beside = criteria_in_force(shared.settings.judge.criteria, stored)
    return ChangedCriterion(
        change=change,
        metric=criterion.metric,
        version=criterion.version,
        hints=tuple(criterion_findings([criterion], beside)),
    )


@router.delete(
    "/v1/criteria/{name}", status_code=204, responses={**RESPONSES, 404: {"description": "It is not stored."}}
)
async def delete_criterion(
    shared: Shared, viewer: ApiViewer, name: Annotated[str, Path(max_length=64, description="Name of the criterion.")]
) -> None:
    """Remove a stored criterion; its numbers stay."""
    await drop_criterion(shared, viewer, name)
