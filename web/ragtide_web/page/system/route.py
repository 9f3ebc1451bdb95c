"""`/system`: processes, partitions, streams, Redis, checks, settings, notifications, and the orders of users."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic_core import to_json

from ...guard.orders import OrdersPage, read_orders
from ...guard.viewers import Reader, sees_all_pipelines
from ...reading.context import Shared
from ..rendering import render
from .reading import read_system
from .screen import stream_fills
from .shown_settings import shown_settings

router = APIRouter(include_in_schema=False)

NEWEST: Final = 10
"""Orders on the screen of the system; `/system/orders` has all of them."""


def _details(page: OrdersPage) -> dict[str, str]:
    return {entry_id: to_json(order.details).decode()[:500] for entry_id, order in page.orders if order.details}


@router.get("/system")
async def get_system(request: Request, shared: Shared, viewer: Reader) -> Response:
    """Show the state of the system."""
    sees_all_pipelines(viewer)
    facts = await read_system(shared.redis, shared.settings)
    newest = await read_orders(shared.redis, shared.settings, count=NEWEST)
    return render(
        request,
        viewer,
        "system.html",
        facts=facts,
        fills=stream_fills(facts, shared.settings),
        checks=await shared.checks.read(),
        settings=shown_settings(shared.settings) if viewer.is_operator else None,
        newest=newest,
        details=_details(newest),
    )


@router.get("/system/orders")
async def get_orders(
    request: Request,
    shared: Shared,
    viewer: Reader,
    before: Annotated[
        str | None, Query(pattern=r"^\d{1,19}-\d{1,19}$", description="Only orders before this one: its id.")
    ] = None,
) -> Response:
    """Show the orders that users gave, the newest first."""
    sees_all_pipelines(viewer)
    orders = await read_orders(shared.redis, shared.settings, before=before)
    return render(request, viewer, "orders.html", listed=orders, details=_details(orders), before=before)
