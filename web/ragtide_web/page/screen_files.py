"""The files beside the code of the screens, each in the folder of its screen: templates, and what `/static` serves."""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from jinja2 import BaseLoader, ChoiceLoader, PackageLoader

from ..guard.problems import HttpProblem
from ..look import PACKAGE, STYLE_SHEET, style_sheet
from ..reading.laboratory import Laboratory

PAGE: Final = "ragtide_web.page"
FOLDERS: Final = (
    "frame",
    "login",
    "live",
    "fleet",
    "pipeline",
    "alerts",
    "traffic",
    "items",
    "label",
    "judge",
    "criteria",
    "dead_letters",
    "streams",
    "system",
)
"""Folders of the page, one a screen."""
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
"""Content types of the files that a browser loads, by ending: no other file is served."""

router = APIRouter(include_in_schema=False)


Folders = tuple[tuple[str, str], ...]
"""Package and name of each folder of files."""


def own_folders(laboratory: Laboratory | None) -> Folders:
    """Return the folders of all screens."""
    return (*((PAGE, folder) for folder in FOLDERS), *(() if laboratory is None else laboratory.folders))


def template_loader(folders: Folders) -> BaseLoader:
    """Return the loader of all templates by their name: those of the screens, and those that reports share."""
    return ChoiceLoader([*(PackageLoader(package, folder) for package, folder in folders), PackageLoader(PACKAGE)])


def ending_of(name: str) -> str:
    """Return the ending of the name of a file, with its dot."""
    return name[name.rfind(".") :]


@cache
def static_files(folders: Folders) -> dict[str, bytes]:
    """Return every file that a browser may load, by its path below `/static`; no other path can be asked for."""
    static = {STYLE_SHEET: style_sheet().encode()}
    for package, folder in folders:
        static |= {file.name: file.read_bytes() for file in _served(files(package).joinpath(folder))}
    vendor = files(PAGE).joinpath("frame", "vendor")
    return static | {f"vendor/{file.name}": file.read_bytes() for file in _served(vendor)}


def _served(folder: Traversable) -> Iterator[Traversable]:
    return (file for file in folder.iterdir() if file.is_file() and ending_of(file.name) in TYPES)


@router.get("/static/{name:path}")
async def get_file(request: Request, name: str) -> Response:
    """Return a file of the page."""
    content = static_files(request.app.state.folders).get(name)
    if content is None:
        raise HttpProblem(404, f"there is no file {name[:100]!r}: load the page again")
    headers = {
        "Content-Type": f"{TYPES[ending_of(name)]}; charset=utf-8",
        "X-Content-Type-Options": "nosniff",
        # The address has the version of ragtide, but another process may be newer: ask again after an hour.
        "Cache-Control": "public, max-age=3600",
    }
    return Response(content, headers=headers)
