"""Changes of the stored criteria by operators: on the page, and over HTTP. Each is an order, written down first."""

from typing import Literal

from ragtide_runtime.settings.labelers import check_sessions
from ragtide_runtime.stored_criteria import (
    StoredCriterion,
    read_stored_criteria,
    remove_criterion,
    store_criterion,
)
from ragtide_schemas import utc_now
from ragtide_schemas.criterion import Criterion

from ..guard.orders import record_order
from ..guard.problems import HttpProblem
from ..guard.viewers import Viewer
from ..reading.context import Context

ChangeKind = Literal["added", "changed", "new version", "unchanged"]
"""`new version`: old and new numbers are kept apart; `changed`: the numbers continue."""


def check_operator(viewer: Viewer) -> None:
    """Let a user pass who may change criteria.

    Raises:
        HttpProblem: 403, the user may not give orders, or is for some pipelines only.
    """
    if not viewer.is_operator:
        raise HttpProblem(403, f"{viewer.name!r} may look and give no orders: add 'operate' to the token's access")
    if viewer.patterns:
        raise HttpProblem(403, f"the token {viewer.name!r} is for some pipelines, and criteria are for all of them")


async def save_criterion(
    shared: Context, viewer: Viewer, criterion: Criterion, *, paused: bool | None = None, reason: str = ""
) -> ChangeKind:
    """Store a criterion in place of the one with its name, and return what that did.

    Args:
        viewer: operator who orders it.
        criterion: the criterion.
        paused: whether it is asked no longer; None for as before.
        reason: of the order.

    Raises:
        HttpProblem: 403, the user may not; 422, the name is taken, there are too many, or sessions would not be whole.
        redis.RedisError: Redis failed.
    """
    check_operator(viewer)
    redis, prefix = shared.redis, shared.settings.prefix
    try:
        check_sessions([criterion], shared.settings.splits, shared.settings.producer)
    except ValueError as error:
        raise HttpProblem(422, str(error)) from None
    before = (await read_stored_criteria(redis, prefix)).find(criterion.name)
    if paused is None:
        paused = before is not None and before.paused
    stored = StoredCriterion(criterion=criterion, by=viewer.name, at=utc_now(), paused=paused)
    if before is not None and (before.criterion, before.paused) == (criterion, paused):
        return "unchanged"
    action = "add a criterion" if before is None else "change a criterion"
    if before is not None and before.criterion == criterion:
        action = "pause a criterion" if paused else "resume a criterion"
    details = {"question": criterion.question[:400], "version": criterion.version}
    if before is not None and before.criterion.version != criterion.version:
        details["version before"] = before.criterion.version
    await record_order(
        shared, viewer, action=action, subject=f"criterion {criterion.name}", reason=reason, details=dict(details)
    )
    try:
        await store_criterion(redis, prefix, stored, shared.settings.judge.criteria)
    except ValueError as error:
        raise HttpProblem(422, str(error)) from None
    if before is None:
        return "added"
    return "changed" if before.criterion.version == criterion.version else "new version"


async def drop_criterion(shared: Context, viewer: Viewer, name: str, *, reason: str = "") -> None:
    """Remove a stored criterion. Its numbers stay.

    Raises:
        HttpProblem: 403, the user may not; 404, there is no such criterion in the store.
        redis.RedisError: Redis failed.
    """
    check_operator(viewer)
    redis, prefix = shared.redis, shared.settings.prefix
    stored = await read_stored_criteria(redis, prefix)
    if stored.find(name) is None and name not in stored.unreadable:
        in_settings = any(criterion.name == name for criterion in shared.settings.judge.criteria)
        remedy = "it is in the settings: remove it there" if in_settings else "GET /v1/criteria lists those that are"
        raise HttpProblem(404, f"no criterion {name[:64]!r} is stored: {remedy}")
    await record_order(shared, viewer, action="remove a criterion", subject=f"criterion {name}", reason=reason)
    await remove_criterion(redis, prefix, name)
