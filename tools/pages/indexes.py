"""The pages that list a folder: decisions, measurements and JSON Schemas."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .json_schemas import json_schemas

_ROOT: Final = Path(__file__).parents[2]

_COMMAND: Final = re.compile(r"(?:(?:Written|Made|Printed) by |^)`((?:make|python) [^`]+)`", re.MULTILINE)


def decisions_page() -> str:
    """Return the list of decisions."""
    lines = ["Why ragtide is built as it is: each page has the problem, the decision, and why not the other ways.", ""]
    lines += [f"- [{path.stem[:4]}: {title}]({path.name})" for path, title, _ in _pages("decisions")]
    return "\n".join(["# Decisions", "", *lines]) + "\n"


def measured_page() -> str:
    """Return the list of measurements, each with the command that writes it."""
    lines = ["# Measurements", "", "Measurements behind the figures of the documentation, with their commands.", ""]
    lines += ["| measurement | written by |", "|---|---|"]
    for path, title, text in _pages("benchmarks/measured"):
        command = _COMMAND.search(text)
        lines.append(f"| [{title}]({path.name}) | {f'`{command[1]}`' if command else ''} |")
    return "\n".join(lines) + "\n"


def schemas_page() -> str:
    """Return the list of JSON Schemas."""
    lines = ["# JSON Schemas", "", "Every message and file format as JSON Schema, written by `make schemas`.", ""]
    lines += [f"- [{name}]({name})" for name in sorted(json_schemas())]
    return "\n".join(lines) + "\n"


INDEX_PAGES: Final = {
    "../decisions/README.md": decisions_page,
    "../benchmarks/measured/README.md": measured_page,
    "schemas/README.md": schemas_page,
}
"""What writes the list of each folder, by its path in docs/."""


def _pages(folder: str) -> Iterator[tuple[Path, str, str]]:
    for path in sorted((_ROOT / folder).glob("*.md")):
        text = path.read_text(encoding="utf-8")
        title = re.search(r"^# (?:\d{4}[.:]? )?(.*)$", text, re.MULTILINE)
        if path.name != "README.md" and title:
            yield path, title[1], text
