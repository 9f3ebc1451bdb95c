"""`/asyncapi.json` and `/asyncapi`: the streams of a deployment, without a token, as `/openapi.json` is."""

import json
from collections.abc import Mapping, Sequence
from functools import cache

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ...guard.problems import REDIS_ERRORS, HttpProblem
from ...guard.viewers import viewer_of
from ...reading.context import Shared
from ...routes.asyncapi import DROPPED, STREAMS, asyncapi_document, key_of
from ...routes.schema_words import DescribedField, described_fields
from ..rendering import render

router = APIRouter(include_in_schema=False)


@cache
def _messages() -> Mapping[str, tuple[str, Sequence[DescribedField]]]:
    """Return the summary and the fields of each message by its name."""
    components = asyncapi_document()["components"]
    schemas = components["schemas"]
    return {
        name: (message["summary"], described_fields(schemas[name], schemas))
        for name, message in components["messages"].items()
    }


@cache
def _document() -> bytes:
    return json.dumps(asyncapi_document(), ensure_ascii=False, separators=(",", ":")).encode()


@router.get("/asyncapi.json")
async def get_document() -> Response:
    """Return the AsyncAPI document of the streams."""
    return Response(_document(), media_type="application/json")


@router.get("/asyncapi")
async def get_streams(request: Request, shared: Shared) -> Response:
    """Show the streams; a user who is known has the other screens above them."""
    try:
        viewer = await viewer_of(request, shared)
    except (HttpProblem, *REDIS_ERRORS):  # the screen needs neither a right token nor Redis
        viewer = None
    return render(
        request,
        viewer,
        "streams.html",
        description=asyncapi_document()["info"]["description"],
        streams={**STREAMS, "dropped": DROPPED},
        key_of=key_of,
        messages=_messages(),
    )
