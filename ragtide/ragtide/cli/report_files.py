"""Writes a report to a file or to standard output."""

from pathlib import Path

import typer

from ragtide_offline.report.reports import Report, fields_of, json_of, page_of
from ragtide_runtime.errors import ConfigurationError

from .console import err, print_json
from .options import ReportFormat

STDOUT = "-"
"""The value of --output that selects standard output."""


def write_report(found: Report, stem: str, chosen: ReportFormat | None, output: Path | None) -> None:
    """Write a report to standard output or a file, in the format that is chosen or that the file's name has."""
    if chosen is None:
        ending = "" if output is None else output.suffix.lower().removeprefix(".")
        known = {"md": ReportFormat.MD, "markdown": ReportFormat.MD, "json": ReportFormat.JSON}
        chosen = known.get(ending, ReportFormat.HTML)
    if output is None and chosen is not ReportFormat.JSON:
        output = Path(f"{stem}.{chosen}")
    if output is None or str(output) == STDOUT:
        if chosen is ReportFormat.JSON:
            print_json(fields_of(found))
        else:
            typer.echo(_page(found, chosen), nl=False)
        return
    text = json_of(found) if chosen is ReportFormat.JSON else _page(found, chosen)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written ({error.strerror}): give another --output") from None
    err.print(f"report written to {output}", markup=False, highlight=False, soft_wrap=True)


def _page(found: Report, chosen: ReportFormat) -> str:
    return page_of(found, "html" if chosen is ReportFormat.HTML else "md")
