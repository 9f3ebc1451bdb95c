"""Templates of alert rules for a new pipeline: TOML files whose comments explain them."""

import json
import re
from importlib.resources import files
from typing import Final

TEMPLATES: Final = ("falls", "target", "busy", "quiet")
"""Names of the templates, the most usual first."""

_PLACE: Final = re.compile(r"\{([a-z-]+)\}(?=$|\s)", re.MULTILINE)


def about(template: str) -> str:
    """Return the purpose of a template in a sentence or two."""
    return _text(template).partition("\n")[0].removeprefix("# ")


def fill_template(template: str, pipeline: str) -> str:
    """Return the rules of a template for a pipeline, as TOML.

    Args:
        template: one of `TEMPLATES`.
        pipeline: name of the pipeline, or a shell-style pattern of names.
    """
    stem = re.sub(r"[^A-Za-z0-9]+", "-", pipeline).strip("-") or "all"

    def value(place: re.Match[str]) -> str:
        text = pipeline if place[1] == "pipeline" else f"{stem[:100]}-{place[1]}"
        # A string of JSON is one of TOML, but for the character that only TOML forbids.
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

    return _PLACE.sub(value, _text(template))


def _text(template: str) -> str:
    return files(__package__ or "").joinpath(f"{template}.toml").read_text("utf-8")
