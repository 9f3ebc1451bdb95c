"""Writes every generated page and file: `python -m tools.pages docs`."""

import sys
from pathlib import Path

from .api import NAME, api_page
from .asyncapi import asyncapi_text
from .commands import COMMAND_PAGES
from .fields import FIELD_PAGES
from .json_schemas import json_schemas
from .metrics import METRIC_PAGES

PAGES = {**METRIC_PAGES, **FIELD_PAGES, **COMMAND_PAGES, NAME: api_page, "asyncapi.yaml": asyncapi_text}
"""What writes each file of `docs/`, besides the JSON Schemas."""


def main(docs: Path) -> None:
    """Write the pages into a folder, and the JSON Schemas into its subfolder `schemas`."""
    texts = {
        **{name: page() for name, page in PAGES.items()},
        **{f"schemas/{name}": text for name, text in json_schemas().items()},
    }
    for name, text in texts.items():
        (docs / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
