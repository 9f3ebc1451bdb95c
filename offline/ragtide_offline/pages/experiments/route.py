"""`/x`: replays and experiments; `/x/NAME`: an experiment, live, with orders to its configs."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, cast
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from pydantic_core import from_json

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.workspaces import find_workspace
from ragtide_schemas import Workspace, describe
from ragtide_schemas.experiments import DRIVER, RACE, Command
from ragtide_schemas.workspace import is_workspace_name
from ragtide_web.guard.headers import HEADERS
from ragtide_web.guard.orders import form_of, reason_in, record_order, same_site
from ragtide_web.guard.problems import HttpProblem
from ragtide_web.guard.viewers import Operator, Reader, Viewer
from ragtide_web.page.rendering import render
from ragtide_web.reading.context import Context, Shared
from ragtide_web.reading.list_pages import ListPage

from ...experiments.drafts import name_from, value_text
from ...experiments.errors import CommandConflictError, ExperimentError
from ...experiments.verdict import verdict_of
from ...report.charts import FRAME, cost_chart
from ...report.experiment_page import meaning_of
from .reading import ExperimentsReading, read_runs
from .screen import ExperimentView, shown_reason

OPERATIONS: Final = ("stop", "resume", "clone", "delete")
"""Orders of the screen; limits have a command line only."""
PARAMETER: Final = "parameter."
"""Begin of the name of a field with the value of a parameter."""
PARAMETERS_MAX: Final = 60
"""Most parameters of a form; `ragtide experiment` clones a config with more."""
VALUES_MAX: Final = 50
"""Most values of a parameter that a form suggests."""

router = APIRouter(include_in_schema=False)
RUNS_N: Final = 50
"""Replays and experiments on one page of the list."""
PageNumber = Annotated[int, Query(ge=1, le=1_000_000, description="Page of the list, from 1.")]
ConfigNumber = Annotated[int | None, Query(ge=0, description="Number of the config whose orders are shown.")]
ENTRY_ID: Final = r"^\d{1,19}-\d{1,19}$"


class FormError(ValueError):
    """A form means no command; the message is a sentence for the field that is wrong."""


def command_of(
    fields: Mapping[str, str], *, by: str, reason: str, parameters: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]
) -> Command:
    """Return the command that a form means.

    Args:
        by: name of the user.
        grid: values of each parameter among all configs.

    Raises:
        FormError: a field is wrong.
    """
    op = fields.get("order", "")
    if op not in OPERATIONS:
        raise FormError(f"there is no order {op[:40]!r}: load the page again")
    # The names of the race and the driver stand for their decisions.
    author = f"{by} (page)" if by in (RACE, DRIVER) else by
    command: dict[str, Any] = {"op": op, "config": fields.get("config", ""), "by": author, "reason": reason}
    if op == "resume":
        command["keep"] = fields.get("keep") == "yes"
    if op == "clone":
        changed = changes_of(fields, parameters, grid)
        command |= {"parameters": changed, "clone": fields.get("clone") or name_from({**parameters, **changed})}
    try:
        return Command(**command)
    except ValidationError as error:
        raise FormError(describe(error)) from None


def changes_of(
    fields: Mapping[str, str], parameters: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Return the parameters of a form that differ from those of the config.

    Raises:
        FormError: a value is no JSON, or no parameter differs.
    """
    changed = {}
    for field, text in fields.items():
        name = field.removeprefix(PARAMETER)
        if name == field or (name in parameters and text == value_text(parameters[name])):
            continue
        if name not in grid:
            raise FormError(f"there is no parameter {name[:60]!r}: load the page again")
        if not text and name not in parameters:
            continue
        changed[name] = value_of(name, text, grid[name])
    if not changed:
        raise FormError("no parameter is changed: give at least one another value")
    return changed


def value_of(name: str, text: str, known: Sequence[Any]) -> Any:
    """Return the value that a text in a form means.

    A text that is the value of another config means that value. Otherwise it is a text if all known values are texts,
    and JSON if none is.

    Raises:
        FormError: the text is no JSON.

    >>> value_of("top_k", "8", [2, 4]), value_of("style", "8", ["short"]), value_of("cut", "true", [False])
    (8, '8', True)
    """
    for value in known:
        if value_text(value) == text:
            return value
    if all(isinstance(value, str) for value in known):
        return text
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        if any(isinstance(value, str) for value in known):
            return text
        raise FormError(
            f"{name} is not JSON (got {text[:60]!r}): give a value such as {value_text(known[0])[:60]}"
        ) from None


def _sees_everything(viewer: Viewer) -> None:
    if viewer.patterns:
        raise HttpProblem(403, f"the token {viewer.name!r} is for some pipelines, and a run may hold any pipeline")


@router.get("/x")
async def get_runs(
    request: Request,
    shared: Shared,
    viewer: Reader,
    page: PageNumber = 1,
) -> Response:
    """Show the replays and experiments, the newest first."""
    _sees_everything(viewer)
    newest_first = list(reversed(await _reading(request).workspaces()))
    listed = ListPage.of(newest_first, page, RUNS_N)
    rows = await read_runs(shared.redis, shared.settings, listed.rows)
    return render(request, viewer, "runs.html", rows=rows, listed=listed)


@router.get("/x/{name}")
async def get_experiment(
    request: Request,
    shared: Shared,
    viewer: Reader,
    name: str,
    config: ConfigNumber = None,
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
    view = await _view(request, workspace)
    chosen = next((row.config for row in view.rows if row.config.number == config), None)
    wide = chosen is not None and len(view.grid) > PARAMETERS_MAX
    return render(
        request,
        viewer,
        "experiment.html",
        status=status,
        view=view,
        verdict=verdict_of(view.board),
        cost=cost_chart(view.board),
        chosen=chosen,
        meaning=meaning_of(view.plan, view.board),
        problem=problem,
        given=given or {},
        suggested={name: [value_text(value) for value in values[:VALUES_MAX]] for name, values in view.grid.items()},
        wide=wide,
        reason_of=partial(shown_reason, sees_texts=viewer.sees_texts),
        value=value_text,
        frame=FRAME,
        parameter=PARAMETER,
    )


async def _workspace(shared: Context, name: str) -> Workspace:
    missing = HttpProblem(404, f"there is no experiment {name[:60]!r}: /x has the list")
    if not is_workspace_name(name):
        raise missing
    try:
        workspace = await find_workspace(shared.redis, shared.settings, name)
    except ConfigurationError as error:
        raise HttpProblem(404, f"{error}") from None
    if workspace is None or workspace.kind != "experiment":
        raise missing
    return workspace


def _reading(request: Request) -> ExperimentsReading:
    return cast("ExperimentsReading", request.app.state.experiments)


async def _view(request: Request, workspace: Workspace) -> ExperimentView:
    try:
        return await _reading(request).view(workspace)
    except ConfigurationError as error:
        raise HttpProblem(404, f"{error}") from None


@router.post("/x/{name}/orders", dependencies=[Depends(same_site)])
async def give_order(request: Request, shared: Shared, viewer: Operator, name: str) -> Response:
    """Give a command to a config, unless the log moved on in a way that changes what the command means."""
    _sees_everything(viewer)
    workspace = await _workspace(shared, name)
    fields = await form_of(request)
    seen = fields.get("seen", "")
    view = await _view(request, workspace)
    chosen = next((row.config for row in view.rows if row.config.name == fields.get("config")), None)
    number = None if chosen is None else chosen.number

    async def refuse(status: int, problem: str) -> Response:
        return await _screen(request, shared, viewer, workspace, number, status=status, problem=problem, given=fields)

    if re.fullmatch(ENTRY_ID, seen) is None:
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
        return await refuse(422, error.detail if isinstance(error, HttpProblem) else f"{error}")
    try:
        driven = await _record_and_give(_reading(request), shared, viewer, workspace, command, seen=seen)
    except CommandConflictError as error:
        return await refuse(409, f"{error}")
    except ExperimentError as error:
        return await refuse(422, f"{error}")
    done = "The order is in the log, and the experiment follows it now."
    if not driven:
        done = "The order is in the log. It takes effect when the experiment continues."
    return RedirectResponse(f"/x/{name}?{urlencode({'done': done})}", 303, headers=HEADERS)


async def _record_and_give(
    reading: ExperimentsReading, shared: Context, viewer: Viewer, workspace: Workspace, command: Command, *, seen: str
) -> bool:
    meant = await reading.check(workspace, command, seen)
    details = {
        "seen": seen,
        **meant.model_dump(mode="json", include={"clone", "parameters", "keep"}, exclude_defaults=True),
    }
    subject = f"config {meant.config} of experiment {workspace.run}"

    async def record(action: str, reason: str) -> None:
        await record_order(shared, viewer, action=action, subject=subject, reason=reason, details=details)

    await record(meant.op, meant.reason)
    try:
        return await reading.give(workspace, meant, seen)
    except ExperimentError as error:
        await record(f"{meant.op} refused", f"{error}")
        raise
