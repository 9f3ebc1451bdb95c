"""`/x`: replays and experiments; `/x/NAME`: an experiment, live, with orders to its configs."""

import re
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from ragtide_offline.experiments.drafts import shown_value
from ragtide_offline.experiments.errors import CommandConflictError, ExperimentError
from ragtide_offline.report.charts import FRAME
from ragtide_offline.report.experiment_page import meaning_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.workspaces import find_workspace
from ragtide_schemas import Workspace
from ragtide_schemas.experiments import Command
from ragtide_schemas.workspace import is_workspace_name

from ...context import Context, Shared
from ...items import REDIS_ERRORS
from ...problems import HttpProblem, redis_is_away
from ..orders import form_of, reason_in, record_order
from ..rendering import HEADERS, render
from ..same_site import same_site
from ..viewers import Operator, Reader, Viewer
from ..words import words
from .orders import PARAMETER, PARAMETERS_MAX, VALUES_MAX, FormError, command_of
from .reading import read_runs
from .screen import ExperimentView, shown_reason

router = APIRouter(include_in_schema=False)

RUNS_N: Final = 50
"""Replays and experiments on one page of the list."""
ENTRY_ID: Final = r"^\d{1,19}-\d{1,19}$"


def _sees_everything(viewer: Viewer) -> None:
    if viewer.patterns:
        raise HttpProblem(403, f"the token {viewer.name!r} is for some pipelines, and a run may hold any pipeline")


@router.get("/x")
async def get_runs(
    request: Request, shared: Shared, viewer: Reader, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1
) -> Response:
    """Show the replays and experiments, the newest first."""
    _sees_everything(viewer)
    try:
        newest_first = list(reversed(await shared.experiments.workspaces()))
        pages = max(1, -(-len(newest_first) // RUNS_N))
        page = min(page, pages)
        rows = await read_runs(shared.redis, shared.settings, newest_first[(page - 1) * RUNS_N : page * RUNS_N])
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    return render(request, viewer, "runs.html", rows=rows, total=len(newest_first), page=page, pages=pages)


@router.get("/x/{name}")
async def get_experiment(
    request: Request, shared: Shared, viewer: Reader, name: str, config: Annotated[int | None, Query(ge=0)] = None
) -> Response:
    """Show an experiment, with the orders to one of its configs if asked for."""
    _sees_everything(viewer)
    return await _screen(request, shared, viewer, await _workspace(shared, name), config)


async def _screen(
    request: Request,
    shared: Context,
    viewer: Viewer,
    workspace: Workspace,
    config: int | None,
    *,
    status: int = 200,
    problem: str = "",
    given: dict[str, str] | None = None,
) -> Response:
    view = await _view(shared, workspace)
    chosen = next((row.config for row in view.rows if row.config.number == config), None)
    wide = chosen is not None and len(view.grid) > PARAMETERS_MAX
    content: dict[str, Any] = {
        "view": view,
        "chosen": chosen,
        "meaning": meaning_of(view.plan, view.board),
        "frame": FRAME,
        "problem": problem,
        "given": given or {},
        "parameter": PARAMETER,
        "suggested": {name: [shown_value(one) for one in values[:VALUES_MAX]] for name, values in view.grid.items()},
        "wide": wide,
        "reason_of": lambda command: shown_reason(command, sees_texts=viewer.sees_texts),
        "value": shown_value,
    }
    return render(request, viewer, "experiment.html", status=status, **content)


async def _workspace(shared: Context, name: str) -> Workspace:
    """Return the workspace of an experiment.

    Raises:
        HttpProblem: 404, there is none; 503, Redis does not answer.
    """
    missing = HttpProblem(404, f"there is no experiment {name[:60]!r}: /x has the list")
    if not is_workspace_name(name):
        raise missing
    try:
        found = await find_workspace(shared.redis, shared.settings, name)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    except ConfigurationError as error:
        raise HttpProblem(404, f"{error}") from None
    if found is None or found.kind != "experiment":
        raise missing
    return found


async def _view(shared: Context, workspace: Workspace) -> ExperimentView:
    try:
        return await shared.experiments.view(workspace)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    except ConfigurationError as error:
        raise HttpProblem(404, f"{error}") from None


@router.post("/x/{name}/orders", dependencies=[Depends(same_site)])
async def give_order(request: Request, shared: Shared, viewer: Operator, name: str) -> Response:
    """Give a command to a config, unless the log moved on in a way that changes what the command means."""
    _sees_everything(viewer)
    workspace = await _workspace(shared, name)
    fields = await form_of(request)
    seen = fields.get("seen", "")
    view = await _view(shared, workspace)
    chosen = next((row.config for row in view.rows if row.config.name == fields.get("config")), None)
    number = None if chosen is None else chosen.number

    async def refused(status: int, problem: str) -> Response:
        return await _screen(request, shared, viewer, workspace, number, status=status, problem=problem, given=fields)

    if not _is_entry_id(seen):
        raise HttpProblem(422, "the form does not say which state of the experiment it shows: load the page again")
    try:
        command = command_of(
            fields,
            by=viewer.name,
            reason=reason_in(fields),
            parameters={} if chosen is None else chosen.parameters,
            grid=view.grid,
        )
    except (HttpProblem, FormError) as error:
        return await refused(422, error.detail if isinstance(error, HttpProblem) else f"{error}")
    try:
        driven = await _given(shared, viewer, workspace, command, seen)
    except CommandConflictError as error:
        return await refused(409, f"{error}")
    except ExperimentError as error:
        return await refused(422, f"{error}")
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    said = words(viewer.language)
    done = said.gettext("The order is in the log, and the experiment follows it now.")
    if not driven:
        done = said.gettext("The order is in the log. It takes effect when the experiment continues.")
    return RedirectResponse(f"/x/{name}?{_query(done)}", 303, headers=HEADERS)


async def _given(shared: Context, viewer: Viewer, workspace: Workspace, command: Command, seen: str) -> bool:
    """Give a command that the stream of orders has first; an order that lost a race to another is in it twice."""
    meant = await shared.experiments.check(workspace, command, seen)
    details = {
        "seen": seen,
        **meant.model_dump(mode="json", include={"clone", "parameters", "keep"}, exclude_defaults=True),
    }
    subject = f"config {meant.config} of experiment {workspace.run}"

    async def recorded(action: str, reason: str) -> None:
        await record_order(shared, viewer, action=action, subject=subject, reason=reason, details=details)

    await recorded(meant.op, meant.reason)
    try:
        return await shared.experiments.give(workspace, meant, seen)
    except ExperimentError as error:
        await recorded(f"{meant.op} refused", f"{error}")
        raise


def _is_entry_id(text: str) -> bool:
    return re.fullmatch(ENTRY_ID, text) is not None


def _query(done: str) -> str:
    return urlencode({"done": done})
