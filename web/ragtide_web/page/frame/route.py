"""`GET /static/...`: style sheets, scripts and the picture of the tab."""

from fastapi import APIRouter
from fastapi.responses import Response

from ...problems import HttpProblem
from ..screen_files import TYPES, ending_of, static_files

router = APIRouter(include_in_schema=False)


@router.get("/static/{name:path}")
async def get_file(name: str) -> Response:
    """Return a file of the page."""
    content = static_files().get(name)
    if content is None:
        raise HttpProblem(404, f"there is no file {name[:100]!r}: load the page again")
    headers = {
        "Content-Type": f"{TYPES[ending_of(name)]}; charset=utf-8",
        "X-Content-Type-Options": "nosniff",
        # The address has the version of ragtide, but another process may be newer: ask again after an hour.
        "Cache-Control": "public, max-age=3600",
    }
    return Response(content, headers=headers)
