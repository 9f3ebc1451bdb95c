"""`ragtide report`: the findings of a run as a page or as JSON, a comparison of two runs, an export to MLflow."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from pydantic import TypeAdapter
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.state.state import AggregatorState
from ragtide_offline.report.comparing import (
    Names,
    RunComparison,
    compare_experiments,
    compare_replays,
    confidence_each,
    names_given,
    names_in_both,
)
from ragtide_offline.report.comparison_page import comparison_page
from ragtide_offline.report.content import ExperimentReport
from ragtide_offline.report.experiment import ITEMS, chosen_items, experiment_report, wanted_texts
from ragtide_offline.report.experiment_page import experiment_page
from ragtide_offline.report.labelings import is_complete, named_recording, paired, read_scores
from ragtide_offline.report.mlflow_export import EXPERIMENT, export
from ragtide_offline.report.reader import Judged, read_experiment, read_texts
from ragtide_offline.report.replays import ReplayReport, moments_of, replay_page, replay_report
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace, settings_of_workspace
from ragtide_schemas import Workspace, utc_now
from ragtide_schemas.printable import escaped_json

from .common import JsonOption, err, given, print_json, warn, with_redis

Report = ExperimentReport | ReplayReport | RunComparison

STDOUT = "-"
"""The value of the output option that selects standard output."""


class Layout(StrEnum):
    """The format of a report."""

    HTML = "html"
    MD = "md"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class _Asked:
    """The options of the command."""

    run: str
    other: str | None
    configs: Sequence[str]
    confidence: float | None
    items: int
    recording: str | None


class _Side(NamedTuple):
    """One run of a comparison of two."""

    info: Workspace
    settings: Settings
    """Of the run."""
    states: Sequence[AggregatorState]


def report(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="Name of an experiment or a replay.")],
    layout: Annotated[
        Layout | None, typer.Option("--format", help="By default told by the output's ending, else html.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write, else RUN.html; - for standard output.")
    ] = None,
    compare: Annotated[str | None, typer.Option(help="Another workspace, to compare this one with.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            help="With --compare, A=B: this run's A with the other's B; may be given again. Else the same names."
        ),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(min=0.5, max=0.9999, help="With --compare, level of the intervals.")
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option(help="With --compare, recording that a replay of metric events is of [recorder.url]."),
    ] = None,
    items: Annotated[int, typer.Option(min=0, max=1000, help="Items shown of the worst and of the disputed.")] = ITEMS,
    mlflow: Annotated[bool, typer.Option("--mlflow", help="Export to MLflow as well, or bring it up to date.")] = False,
    tracking_uri: Annotated[
        str | None, typer.Option(help="Where MLflow keeps runs, such as sqlite:///mlflow.db [MLFLOW_TRACKING_URI].")
    ] = None,
    mlflow_experiment: Annotated[str, typer.Option(help="Name of the MLflow experiment.")] = EXPERIMENT,
    as_json: JsonOption = False,
) -> None:
    """Report on a run: leaderboard, cost, stops and why, differences, worst items; or compare two runs."""
    if as_json and layout not in {None, Layout.JSON}:
        raise typer.BadParameter(f"--json and --format {layout} contradict each other: give one of them")
    if config and compare is None:
        raise typer.BadParameter("--config says what is compared: give --compare OTHER too")
    if mlflow and compare is not None:
        raise typer.BadParameter("--mlflow exports one run: leave --compare out")
    if tracking_uri is not None and not mlflow:
        raise typer.BadParameter("--tracking-uri says where MLflow is: give --mlflow too")
    settings = given(context).settings()
    asked = _Asked(run, compare, config or (), confidence, items, recording)
    found = with_redis(settings, lambda redis, _: _read(redis, settings, asked))
    if mlflow and not isinstance(found, ExperimentReport):
        raise ConfigurationError(f"workspace {run} is a replay: only experiments are exported to MLflow")
    _write(found, asked, Layout.JSON if as_json else layout, output)
    if mlflow and isinstance(found, ExperimentReport):
        pages = {"report.html": _page(found, Layout.HTML), "report.md": _page(found, Layout.MD)}
        written = export(found, pages, tracking_uri=tracking_uri, experiment=mlflow_experiment)
        err.print(f"exported to MLflow as run {written} of {mlflow_experiment}", highlight=False)


async def _read(redis: Redis, settings: Settings, asked: _Asked) -> Report:
    info = await get_workspace(redis, settings, asked.run)
    if asked.other is None:
        return await _read_one(redis, settings, info, asked)
    other = await get_workspace(redis, settings, asked.other)
    if info.kind != other.kind:
        raise ConfigurationError(
            f"{info.run} is {_a(info)} and {other.run} is {_a(other)}: compare two runs of one kind"
        )  # fmt: skip
    confidence = settings.confidence if asked.confidence is None else asked.confidence
    if info.kind == "replay":
        return await _compare_replays(redis, settings, (info, other), asked, confidence)
    mine, theirs = [await read_experiment(redis, settings, one) for one in (info, other)]
    names = _names(asked, (info, other), _configs(mine), _configs(theirs))
    return compare_experiments(mine, theirs, names, confidence=confidence, made_at=utc_now())


async def _compare_replays(
    redis: Redis, settings: Settings, runs: tuple[Workspace, Workspace], asked: _Asked, confidence: float
) -> RunComparison:
    states = [await _states(redis, settings, one) for one in runs]
    first, second = (moments_of(of) for of in states)
    names = _names(asked, runs, first, second)
    each = confidence_each(confidence, names)
    sides = [_Side(one, settings_of_workspace(settings, one), of) for one, of in zip(runs, states, strict=True)]
    pairs = {}
    for one, other in names:
        scores = [
            await read_scores(
                redis,
                side.settings.layout.all_of(name),
                name,
                side.info,
                named_recording(settings, side.info, asked.recording),
            )
            for side, name in zip(sides, (one, other), strict=True)
        ]
        mine, theirs = scores
        if mine is None or theirs is None:
            continue
        closed = all(
            any(is_complete(of, state, name) for state in side.states)
            for of, side, name in zip((mine, theirs), sides, (one, other), strict=True)
        )
        pairs[one, other] = paired(mine, theirs, confidence=each, closed=closed)
    return compare_replays(
        (runs[0], first), (runs[1], second), names, pairs=pairs, confidence=confidence, made_at=utc_now()
    )  # fmt: skip


async def _read_one(redis: Redis, settings: Settings, info: Workspace, asked: _Asked) -> Report:
    if info.kind == "experiment":
        judged = await read_experiment(redis, settings, info)
        chosen = chosen_items(judged, asked.items)
        texts = await read_texts(redis, settings, info, wanted_texts(judged, chosen))
        return experiment_report(judged, chosen, texts)
    deployment = Deployment(redis, settings_of_workspace(settings, info))
    alerts = await deployment.alerts()
    warn(*deployment.warnings())
    return replay_report(info, await deployment.estimates(), alerts)


async def _states(redis: Redis, settings: Settings, info: Workspace) -> list[AggregatorState]:
    return await Deployment(redis, settings_of_workspace(settings, info)).states()


def _configs(judged: Judged) -> list[str]:
    return [name for name, standing in judged.progress.configs.items() if standing.status != "deleted"]


def _names(
    asked: _Asked, runs: tuple[Workspace, Workspace], first: Collection[str], second: Collection[str]
) -> Names:  # fmt: skip
    """Return the pairs of names that are compared.

    Raises:
        ConfigurationError: a name is unknown, or nothing has the same name.
    """
    if asked.configs:
        try:
            return [names_given(text, first, second) for text in asked.configs]
        except ValueError as error:
            raise ConfigurationError(f"--config {error}") from None
    same = names_in_both(first, second)
    if not same:
        (one, other), (mine, theirs) = (run.run for run in runs), (", ".join(names) for names in (first, second))
        raise ConfigurationError(
            f"{one} ({mine or 'empty'}) and {other} ({theirs or 'empty'}) have no name in common: "
            "say what to compare with --config A=B"
        )
    return same


def _write(found: Report, asked: _Asked, layout: Layout | None, output: Path | None) -> None:
    if layout is None:
        ending = "" if output is None else output.suffix.lower().removeprefix(".")
        layout = {"md": Layout.MD, "markdown": Layout.MD, "json": Layout.JSON}.get(ending, Layout.HTML)
    if output is None and layout is not Layout.JSON:
        stem = asked.run if asked.other is None else f"{asked.run}-vs-{asked.other}"
        output = Path(f"{stem}.{layout}")
    if output is None or str(output) == STDOUT:
        if layout is Layout.JSON:
            print_json(as_fields(found))
        else:
            typer.echo(_page(found, layout), nl=False)
        return
    text = _json(found) if layout is Layout.JSON else _page(found, layout)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written ({error.strerror}): give another --output") from None
    err.print(f"report written to {output}", markup=False, highlight=False, soft_wrap=True)


def _page(found: Report, layout: Layout) -> str:
    how: Any = layout.value
    if isinstance(found, ExperimentReport):
        return experiment_page(found, how)
    return replay_page(found, how) if isinstance(found, ReplayReport) else comparison_page(found, how)


def as_fields(found: Report) -> dict[str, Any]:
    """Return a report as values that JSON can hold."""
    fields: dict[str, Any] = TypeAdapter(type(found)).dump_python(found, mode="json")
    return fields


def _json(found: Report) -> str:
    return escaped_json(TypeAdapter(type(found)).dump_json(found, indent=2).decode()) + "\n"


def _a(info: Workspace) -> str:
    return f"{'an' if info.kind == 'experiment' else 'a'} {info.kind}"
