"""`GET /static/...`: style sheets, scripts and the picture of the tab."""

from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from ragtide_offline.look.files import STYLE_SHEET, style_sheet

from ...problems import HttpProblem

TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}

router = APIRouter(include_in_schema=False)


@cache
def _files() -> dict[str, bytes]:
    """Return every file by its path below `static`; no other path can be asked for."""
    folder = files("ragtide_web.page").joinpath("static")
    found = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    found[STYLE_SHEET] = style_sheet().encode()
    vendor = folder.joinpath("vendor")
    return found | {f"vendor/{one.name}": one.read_bytes() for one in vendor.iterdir() if one.is_file()}


@router.get("/static/{name:path}")
async def get_file(name: str) -> Response:
    """Return a file of the page."""
    content = _files().get(name)
    ending = name[name.rfind(".") :]
    if content is None or ending not in TYPES:
        raise HttpProblem(404, f"there is no file {name[:100]!r}: load the page again")
    headers = {
        "Content-Type": f"{TYPES[ending]}; charset=utf-8",
        "X-Content-Type-Options": "nosniff",
        # The address has the version of ragtide, but another process may be newer: ask again after an hour.
        "Cache-Control": "public, max-age=3600",
    }
    return Response(content, headers=headers)
