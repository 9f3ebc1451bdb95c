"""`/system`: processes, partitions, streams, Redis, checks, settings, notifications, and the orders of users."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from ...context import Shared
from ...items import REDIS_ERRORS
from ...problems import HttpProblem, redis_is_away
from ..orders import OrdersPage, read_orders
from ..rendering import lasting, render
from ..viewers import Reader, Viewer
from .reading import read_system
from .screen import FULL, in_bytes, is_present, memory_share, system_view
from .shown_settings import shown_settings

router = APIRouter(include_in_schema=False)

NEWEST: Final = 10
"""Orders on the screen of the system; `/system/orders` has all of them."""


def _sees_everything(viewer: Viewer) -> None:
    if viewer.patterns:
        raise HttpProblem(403, f"the token {viewer.name!r} is for some pipelines, and this screen is about all of them")


def _details(page: OrdersPage) -> dict[str, str]:
    return {entry_id: to_json(order.details).decode()[:500] for entry_id, order in page.orders if order.details}


@router.get("/system")
async def get_system(request: Request, shared: Shared, viewer: Reader) -> Response:
    """Show the state of the system."""
    _sees_everything(viewer)
    try:
        facts = await read_system(shared.redis, shared.settings)
        newest = await read_orders(shared.redis, shared.settings, count=NEWEST)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    return render(
        request,
        viewer,
        "system.html",
        view=system_view(facts, shared.settings),
        checks=await shared.checks.read(),
        settings=shown_settings(shared.settings) if viewer.is_operator else None,
        newest=newest,
        details=_details(newest),
        lasting=lasting,
        in_bytes=in_bytes,
        is_present=is_present,
        memory_share=memory_share,
        full=FULL,
    )


@router.get("/system/orders")
async def get_orders(
    request: Request,
    shared: Shared,
    viewer: Reader,
    before: Annotated[str | None, Query(pattern=r"^\d{1,19}-\d{1,19}$")] = None,
) -> Response:
    """Show the orders that users gave, the newest first."""
    _sees_everything(viewer)
    try:
        found = await read_orders(shared.redis, shared.settings, before=before)
    except REDIS_ERRORS as error:
        raise redis_is_away(error) from None
    return render(request, viewer, "orders.html", found=found, details=_details(found), before=before)
