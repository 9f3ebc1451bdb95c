"""`GET /live`: server-sent events about changes, for open pages."""

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from ...guard.headers import HEADERS
from ...guard.problems import REDIS_ERRORS, HttpProblem
from ...guard.viewers import Reader, viewer_of
from ...reading.context import Shared
from ...reading.fleet import FleetFilter, fleet_of
from ...reading.live import SOURCES, events

router = APIRouter(include_in_schema=False)


@router.get("/live")
async def get_live(
    *,
    request: Request,
    shared: Shared,
    viewer: Reader,
    chosen: FleetFilter,
    follow: Annotated[
        str, Query(max_length=200, description="Sources whose changes are sent, with commas, such as `alerts,system`.")
    ] = "",
    view: Annotated[str, Query(max_length=40, description="`fleet` for the numbers of the fleet.")] = "",
) -> StreamingResponse:
    """Stream changes of the sources in `follow`, and with `view=fleet` the numbers of the fleet."""
    follows = [name for name in follow.split(",") if name in SOURCES]
    topic, draw = None, None
    if view == "fleet":
        # Viewers with the same rights and filters share one drawing.
        topic = repr((viewer.patterns, tuple(chosen)))

        async def draw_fleet() -> tuple[object, dict[str, list[object]]]:
            drawn = await fleet_of(shared, viewer, chosen)
            return drawn.shape, drawn.patches()

        draw = draw_fleet

    async def may_still() -> bool:
        try:
            return await viewer_of(request, shared) == viewer
        except HttpProblem:  # the token is no longer known
            return False
        except REDIS_ERRORS:  # the page says that its numbers are old
            return True

    async def stream() -> AsyncGenerator[bytes]:
        with shared.hub.subscribed(follows, topic, draw) as subscriber:
            async for event in events(subscriber, may_still):
                yield event

    # A proxy that buffers or compresses the stream holds its events back.
    proxies = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
    headers = {**HEADERS, **proxies, "Content-Type": "text/event-stream"}
    return StreamingResponse(stream(), headers=headers)
