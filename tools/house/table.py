"""The measures as a table, beside those of another tree."""

from collections.abc import Mapping
from typing import Any

Measures = Mapping[str, Mapping[str, Any]]


def rows(measures: Measures) -> dict[str, str]:
    """Return the lines of the table: name and value."""
    source, interaction, closets, tests = (measures[name] for name in ("source", "interaction", "closets", "tests"))
    lines = {
        "product lines / code": _joined(source, "lines", "code"),
        "docstring / comment / blank / import lines": _joined(source, "docstring", "comment", "blank", "import"),
        "product files": _joined(source, "files"),
        "classes / functions": _joined(source, "classes", "functions"),
        "files with one importer / in its folder / and short": _joined(closets, *closets),
        "files / functions entered by most interactions": _joined(interaction, "files", "functions"),
        "files / functions entered by any interaction": _joined(interaction, "files of any", "functions of any"),
        "validations / JSON encodings of one interaction": _joined(interaction, "validations", "encodings"),
        "tests / on text and form": _joined(tests, *tests),
    }
    plans = {f"`{name}`: rooms / floors / arrows": _joined(plan, *plan) for name, plan in measures["plans"].items()}
    return lines | plans


def _joined(measures: Mapping[str, Any], *names: str) -> str:
    return " / ".join(f"{measures[name]:,}" for name in names)


def table(before: Measures | None, now: Measures) -> str:
    """Return the table in Markdown."""
    earlier = rows(before) if before is not None else {}
    columns = ["now"] if before is None else ["before", "now"]
    lines = [f"| | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for name, value in rows(now).items():
        cells = [value] if before is None else [earlier.get(name, ""), value]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
