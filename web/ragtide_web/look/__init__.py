"""The style sheet and the templates that reports and the page share."""

from functools import cache
from importlib.resources import files
from typing import Final

STYLE_SHEET: Final = "look.css"
"""Name of the style sheet."""
PACKAGE: Final = __name__
"""The package that has `templates/look.html`, for Jinja's loader."""


@cache
def style_sheet() -> str:
    """Return the style sheet; a report has it inside, and the page serves it as a file."""
    return files(PACKAGE).joinpath("static", STYLE_SHEET).read_text(encoding="utf-8")
