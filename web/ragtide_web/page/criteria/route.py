"""`/criteria`: the criteria with their numbers; operators add, change, pause and remove them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from ragtide_roles.criteria.checks import CriterionFinding, criterion_findings
from ragtide_roles.criteria.numbers import criterion_rows
from ragtide_roles.criteria.pricing import (
    PER,
    TYPICAL,
    CriteriaPrices,
    CriterionPrice,
    criteria_prices,
)
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.labelers import check_criteria, check_sessions
from ragtide_runtime.stored_criteria import criteria_in_force, read_stored_criteria
from ragtide_schemas.criterion import BUILT_IN, Criterion

from ...guard.headers import HEADERS
from ...guard.orders import form_of, reason_in, same_site
from ...guard.problems import HttpProblem
from ...guard.viewers import Operator, Reader, Viewer
from ...reading.context import Context, Shared
from ...routes.criterion_changes import check_operator, drop_criterion, save_criterion
from ..rendering import render
from .form import CHOICES, EMPTY, NEEDS, WrongFieldError, criterion_fields, make_criterion

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class CriterionCheck:
    """What a check of the form found."""

    problem: str
    """Why the fields make no criterion; empty if they make one."""
    field: str
    """Name of the field that the problem is about; empty for none."""
    findings: Sequence[CriterionFinding]
    version: str
    version_before: str
    """Version of the stored criterion of this name; empty if there is none."""
    prices: CriteriaPrices | None = None
    """Price of the criterion alone; None if it cannot be asked, or if the judge's settings are wrong."""
    rate: float = 1.0
    """Share of the answers for which the price is paid."""
    reasons: str = ""
    """The setting `judge.reasons`."""

    @property
    def price(self) -> CriterionPrice | None:
        """The price of 1,000 answers."""
        return None if self.prices is None else self.prices.each[0]

    @property
    def is_new_version(self) -> bool:
        """Whether the criterion gets a new version, whose numbers are kept apart."""
        return bool(self.version and self.version_before) and self.version != self.version_before


@router.get("/criteria")
async def get_criteria(
    request: Request,
    shared: Shared,
    viewer: Reader,
    change: Annotated[str, Query(max_length=64, description="Name of the stored criterion that the form shows.")] = "",
) -> Response:
    """Show the criteria and the form."""
    return await _screen(request, shared, viewer, change=change)


@router.post("/criteria/check", dependencies=[Depends(same_site)])
async def post_check(request: Request, shared: Shared, viewer: Operator) -> Response:
    """Check the fields of the form; it changes nothing."""
    check_operator(viewer)
    form = await form_of(request)
    check = await _check(shared, form)
    return render(request, viewer, "criterion_check.html", check=check, per=PER)


@router.post("/criteria", dependencies=[Depends(same_site)])
async def post_criterion(request: Request, shared: Shared, viewer: Operator) -> Response:
    """Store the criterion of the form, or check it if that button was pressed."""
    check_operator(viewer)
    fields = await form_of(request)
    try:
        if "check" in fields:
            return await _screen(request, shared, viewer, form=fields, check=await _check(shared, fields))
        before = (await read_stored_criteria(shared.redis, shared.settings.prefix)).find(fields.get("name", ""))
        if before is not None and fields.get("changes", "") != fields.get("name"):
            problem = f"a criterion {before.criterion.name} is stored already: change that one, or use another name"
            raise WrongFieldError(problem, "name")
        criterion = make_criterion(fields, None if before is None else before.criterion)
        change = await save_criterion(shared, viewer, criterion, reason=fields.get("reason", "")[:500])
    except ValueError as error:
        field = error.field if isinstance(error, WrongFieldError) else ""
        return await _screen(request, shared, viewer, form=fields, problem=str(error), field=field, status=422)
    except HttpProblem as problem:
        if problem.status != 422:
            raise
        return await _screen(request, shared, viewer, form=fields, problem=problem.detail, status=422)
    done = {
        "added": "The criterion is stored. Workers ask it within seconds.",
        "changed": "The criterion is changed; its numbers continue.",
        "new version": "The question is changed: its new version has numbers of its own, beside the old ones.",
        "unchanged": "The criterion is as it was.",
    }[change]
    return _back(done)


@router.post("/criteria/{name}/pause", dependencies=[Depends(same_site)])
async def post_pause(request: Request, shared: Shared, viewer: Operator, name: str) -> Response:
    """Ask a criterion no longer, or again."""
    return await _ordered(request, shared, viewer, name, "pause")


@router.post("/criteria/{name}/resume", dependencies=[Depends(same_site)])
async def post_resume(request: Request, shared: Shared, viewer: Operator, name: str) -> Response:
    """Ask a paused criterion again."""
    return await _ordered(request, shared, viewer, name, "resume")


@router.post("/criteria/{name}/remove", dependencies=[Depends(same_site)])
async def post_remove(request: Request, shared: Shared, viewer: Operator, name: str) -> Response:
    """Remove a criterion; its numbers stay."""
    return await _ordered(request, shared, viewer, name, "remove")


async def _ordered(request: Request, shared: Context, viewer: Viewer, name: str, action: str) -> Response:
    check_operator(viewer)
    fields = await form_of(request)
    try:
        reason = reason_in(fields)
        if action == "remove":
            await drop_criterion(shared, viewer, name, reason=reason)
            return _back("The criterion is removed; its numbers stay.")
        criterion = await _find_stored(shared, name)
        await save_criterion(shared, viewer, criterion, paused=action == "pause", reason=reason)
    except HttpProblem as problem:
        if problem.status != 422:
            raise
        return await _screen(request, shared, viewer, problem=problem.detail, status=422)
    return _back("The criterion is paused." if action == "pause" else "The criterion is asked again.")


def _back(done: str) -> Response:
    return RedirectResponse(f"/criteria?done={quote(done)}", 303, headers=HEADERS)


async def _find_stored(shared: Context, name: str) -> Criterion:
    stored = (await read_stored_criteria(shared.redis, shared.settings.prefix)).find(name)
    if stored is None:
        raise HttpProblem(404, f"no criterion {name[:64]!r} is stored: load the page again")
    return stored.criterion


async def _check(shared: Context, form: Mapping[str, str]) -> CriterionCheck:
    stored = await read_stored_criteria(shared.redis, shared.settings.prefix)
    before = stored.find(form.get("name", ""))
    version_before = "" if before is None else before.criterion.version
    try:
        criterion = make_criterion(form)
        check_criteria([criterion])
        check_sessions([criterion], shared.settings.splits, shared.settings.producer)
    except ValueError as error:
        return CriterionCheck(
            str(error), error.field if isinstance(error, WrongFieldError) else "", (), "", version_before
        )
    if any(of_settings.name == criterion.name for of_settings in shared.settings.judge.criteria):
        problem = f"the settings have a criterion {criterion.name}: change it there, or use another name"
        return CriterionCheck(problem, "name", (), "", version_before)
    beside: tuple[Criterion, ...] = criteria_in_force(shared.settings.judge.criteria, stored)
    findings = await asyncio.to_thread(criterion_findings, [criterion], beside)
    prices = await asyncio.to_thread(_prices, shared, criterion)
    reasons = shared.settings.judge.reasons
    return CriterionCheck("", "", findings, criterion.version, version_before, prices, criterion.rate, reasons)


def _prices(shared: Context, criterion: Criterion) -> CriteriaPrices | None:
    if shared.laboratory is None:
        return None
    examples = shared.laboratory.examples()[:TYPICAL]
    try:
        return asyncio.run(criteria_prices(shared.settings, [criterion], examples))
    except ConfigurationError:  # this process need not have the settings of a judge; doctor reports wrong ones
        return None


async def _screen(
    request: Request,
    shared: Context,
    viewer: Viewer,
    *,
    change: str = "",
    form: Mapping[str, str] | None = None,
    check: CriterionCheck | None = None,
    problem: str = "",
    field: str = "",
    status: int = 200,
) -> Response:
    settings = shared.settings
    stored = await read_stored_criteria(shared.redis, settings.prefix)
    estimates = await shared.deployment.overview()
    changed = stored.find(change if form is None else form.get("name", ""))
    if form is None:
        form = EMPTY if changed is None else criterion_fields(changed.criterion)
    return render(
        request,
        viewer,
        "criteria.html",
        status=status,
        rows=criterion_rows(settings.judge.criteria, stored, estimates, viewer.may_use),
        unreadable=stored.unreadable,
        form={**EMPTY, **form},
        changes="" if changed is None else changed.criterion.name,
        check=check,
        problem=problem,
        wrong=field or ("" if check is None else check.field),
        may_change=viewer.is_operator and not viewer.patterns,
        has_judge="judge" in settings.labelers or settings.judge.model is not None,
        built_in=tuple(BUILT_IN),
        needs=NEEDS,
        scales=CHOICES,
        per=PER,
    )
