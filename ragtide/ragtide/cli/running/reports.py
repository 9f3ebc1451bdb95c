"""Reports that commands write as HTML or JSON."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragtide_runtime.errors import ConfigurationError

from ..printing import err, print_json
from . import ReportFormat

if TYPE_CHECKING:
    from ragtide_offline.report.reports import Report
from .data_sets import STDOUT


def write_report(report: "Report", stem: str, chosen: ReportFormat | None, output: Path | None) -> None:
    """Write a report to standard output or a file, in the format that is chosen or that the file's name has."""
    from ragtide_offline.report.reports import fields_of, json_of, page_of  # noqa: PLC0415 - scoring has no report

    if chosen is None:
        ending = "" if output is None else output.suffix.lower()
        if ending in {".md", ".markdown"}:
            raise ConfigurationError(f"{output}: a report is HTML or JSON: give a file such as {stem}.html")
        chosen = ReportFormat.JSON if ending == ".json" else ReportFormat.HTML
    if output is None and chosen is not ReportFormat.JSON:
        output = Path(f"{stem}.{chosen}")
    if output is None or str(output) == STDOUT:
        if chosen is ReportFormat.JSON:
            print_json(fields_of(report))
        else:
            typer.echo(page_of(report), nl=False)
        return
    text = json_of(report) if chosen is ReportFormat.JSON else page_of(report)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written ({error.strerror}): give another --output") from None
    err.print(f"report written to {output}", markup=False, highlight=False, soft_wrap=True)
