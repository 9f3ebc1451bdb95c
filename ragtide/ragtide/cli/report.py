"""`ragtide report`: reports on an experiment or a replay, compares two of them, or exports an experiment to MLflow."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ragtide_offline.report.content import ExperimentReport
from ragtide_offline.report.experiment import ITEMS
from ragtide_offline.report.mlflow_export import EXPERIMENT, export
from ragtide_offline.report.reports import Report, ReportRequest, fields_of, json_of, page_of, read_report
from ragtide_offline.score.reference_results import reference_results
from ragtide_runtime.errors import ConfigurationError

from .common import JsonOption, given
from .console import err, print_json, warn
from .progress import interruptible, progress_bar
from .with_redis import with_redis

STDOUT = "-"
"""The value of --output that selects standard output."""


class ReportFormat(StrEnum):
    """The format of a report."""

    HTML = "html"
    MD = "md"
    JSON = "json"


def report(
    context: typer.Context,
    workspace: Annotated[str, typer.Argument(help="Name of an experiment or a replay.")],
    report_format: Annotated[
        ReportFormat | None,
        typer.Option("--format", help="Format of the page; default: the ending of --output, or html."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write, or - for standard output. Default: WORKSPACE.html."),
    ] = None,
    compare: Annotated[str | None, typer.Option(help="Another workspace to compare with.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(help="With --compare: A=B compares config A with config B; may be repeated. Default: same names."),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(min=0.5, max=0.9999, help="With --compare: level of the intervals.")
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option(help="With --compare: recording that the replays have read. Default: recorder.url."),
    ] = None,
    items: Annotated[int, typer.Option(min=0, max=1000, help="Number of worst items, and of disputed items.")] = ITEMS,
    mlflow: Annotated[bool, typer.Option("--mlflow", help="Export to MLflow too, or update an export.")] = False,
    tracking_uri: Annotated[
        str | None, typer.Option(help="Address of MLflow, such as sqlite:///mlflow.db [MLFLOW_TRACKING_URI].")
    ] = None,
    mlflow_experiment: Annotated[str, typer.Option(help="Name of the MLflow experiment.")] = EXPERIMENT,
    reference: Annotated[str | None, typer.Option(help="Data set of published results beside the best config.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the report of an experiment or a replay as a page.

    The report of an experiment has the leaderboard, cost, stopped configs and items. With --compare the page
    compares two experiments or two replays.
    """
    if as_json and report_format not in {None, ReportFormat.JSON}:
        raise typer.BadParameter(f"--json and --format {report_format} contradict each other: give one of them")
    if config and compare is None:
        raise typer.BadParameter("--config names the configs to compare: give --compare OTHER too")
    if mlflow and compare is not None:
        raise typer.BadParameter("--mlflow exports a single experiment: leave --compare out")
    if tracking_uri is not None and not mlflow:
        raise typer.BadParameter("--tracking-uri is the address of MLflow: give --mlflow too")
    if reference is not None:
        if compare is not None:
            raise typer.BadParameter("--reference is for the report of one experiment: leave --compare out")
        try:
            reference_results(reference)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--reference") from None
    settings = given(context).settings()
    request = ReportRequest(workspace, compare, config or (), confidence, items, recording, reference)
    with (
        interruptible(lambda: "No report was written: give the same command again."),
        progress_bar("reading the workspace", None),
    ):
        found, warnings = with_redis(settings, lambda redis, _: read_report(redis, settings, request))
    warn(*warnings)
    if mlflow and not isinstance(found, ExperimentReport):
        raise ConfigurationError(f"workspace {workspace} is a replay: only experiments are exported to MLflow")
    stem = workspace if compare is None else f"{workspace}-vs-{compare}"
    _write(found, stem, ReportFormat.JSON if as_json else report_format, output)
    if mlflow and isinstance(found, ExperimentReport):
        pages = {"report.html": page_of(found, "html"), "report.md": page_of(found, "md")}
        written = export(found, pages, tracking_uri=tracking_uri, experiment=mlflow_experiment)
        err.print(f"exported to MLflow as run {written} of {mlflow_experiment}", highlight=False)


def _write(found: Report, stem: str, chosen: ReportFormat | None, output: Path | None) -> None:
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
