"""Writes every generated page, part of a page, and file: `python -m tools.pages docs`.

The pages of `docs/reference` that are made from the code alone are not committed: `--reference` writes only these.
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from os.path import relpath
from pathlib import Path
from typing import Final

from ragtide.cli.printing.pages import title_of
from ragtide_offline.experiments.drafts import Draft
from ragtide_runtime.telemetry.catalogue import catalogue_table
from ragtide_runtime.telemetry.quality_metrics import quality_table
from tools.house.page import house_page

from .api import API_PAGES
from .commands import COMMAND_PAGES
from .concepts import PICTURE, concepts_picture
from .constructions import constructions_part, versions_part
from .fields import interaction_page, labels_part
from .http_api import http_api_page, openapi_text
from .indexes import INDEX_PAGES
from .json_schemas import json_schemas
from .mcp_tools import tools_part
from .metrics import metrics_page
from .parts import parts_of, with_part
from .setting_names import setting_names
from .settings import first_settings_table, settings_table, table_of
from .streams import asyncapi_text, streams_page

_DOCS: Final = Path(__file__).parents[2] / "docs"

_FOLDERS: Final = {"interaction.md": "connect", "constructions.md": "connect"}
"""Folder of a page; of all others it is `reference`."""

_LINK: Final = re.compile(r"\[([^\[\]]*)\]\((?!https?:)([\w./-]+)")


def placed(name: str) -> str:
    """Return the path of a generated page in `docs/`."""
    return f"{_FOLDERS.get(name, 'reference')}/{name}"


def linked(text: Callable[[], str], place: str) -> str:
    """Return a text with links that lead from this place.

    Args:
        text: its links name a page, or a path in `docs/`; words that are the name of the page become its title.
        place: path of the page in `docs/`.
    """
    files = {path.name: path for path in _DOCS.rglob("*.md") if path.parent.name != "schemas"}

    def link(found: re.Match[str]) -> str:
        words, name = found.groups()
        target = files.get(name, _DOCS / (placed(name) if name in _WRITERS else name))
        shown = title_of(target) if words == name and target.exists() else words
        return f"[{shown}]({relpath(target, (_DOCS / place).parent)}"

    return _LINK.sub(link, text())


def page_of_text(name: str) -> str:
    """Return a page whose text is beside this module, and whose tables are those of the code."""
    return with_parts((Path(__file__).parent / name).read_text(encoding="utf-8"), placed(name))


_TEXTS: Final = ("settings.md", "constructions.md", "prometheus-metrics.md")
"""Pages whose text is beside this module."""

_WRITERS: Final = {
    "metric-registry.md": metrics_page,
    "interaction.md": interaction_page,
    **COMMAND_PAGES,
    "http-api.md": http_api_page,
    "streams.md": streams_page,
    **API_PAGES,
}

PAGES: Final[dict[str, Callable[[], str]]] = {
    **{placed(name): partial(linked, page, placed(name)) for name, page in _WRITERS.items()},
    **{placed(name): partial(page_of_text, name) for name in _TEXTS},
    **INDEX_PAGES,
    "asyncapi.yaml": asyncapi_text,
    "openapi.json": openapi_text,
    PICTURE: concepts_picture,
    "../tools/house/measures.md": house_page,
    "../runtime/ragtide_runtime/settings/names.py": setting_names,
}
"""What writes each file of `docs/`, besides the JSON Schemas, and two files elsewhere."""

REFERENCE: Final = frozenset(name for name in PAGES if name.startswith("reference/")) | {*map(placed, _FOLDERS)}
"""Pages that are not committed: `make reference` writes them."""

PARTS: Final[dict[str, Callable[[], str]]] = {
    "constructions": constructions_part,
    "construction-versions": versions_part,
    "experiment-settings": partial(table_of, Draft),
    "label-fields": labels_part,
    "mcp-tools": tools_part,
    "prometheus-metrics": catalogue_table,
    "prometheus-quality": quality_table,
    "first-settings": first_settings_table,
    "settings": settings_table,
}
"""What writes each generated part of a hand-written page of `docs/`."""


def with_parts(page: str, place: str) -> str:
    """Return a hand-written page with its generated parts as the code has them now.

    Args:
        page: its text.
        place: its path in `docs/`, from which the links of a part lead.
    """
    for name in PARTS.keys() & set(parts_of(page)):
        page = with_part(page, name, linked(PARTS[name], place))
    return page


def main(docs: Path, *, reference: bool) -> None:
    """Write the pages and the parts of pages into a folder, and the JSON Schemas into its subfolder `schemas`.

    Args:
        docs: the folder.
        reference: write only the pages that are not committed.
    """
    names = sorted(REFERENCE if reference else PAGES)
    missing = [docs / name for name in REFERENCE if not (docs / name).exists()]
    for path in missing:
        path.touch()
    for name in names * (2 if missing else 1):  # a page has the titles of the pages that it links to
        (docs / name).write_text(PAGES[name](), encoding="utf-8")
    if not reference:
        for path in docs.rglob("*.md"):
            page = path.read_text(encoding="utf-8")
            path.write_text(with_parts(page, path.relative_to(docs).as_posix()), encoding="utf-8")
        for name, text in json_schemas().items():
            (docs / "schemas" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), reference="--reference" in sys.argv[2:])
