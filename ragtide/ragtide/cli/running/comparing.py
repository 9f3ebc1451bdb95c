"""Differences of two pipelines, labelers or workspaces that `ragtide compare` shows, and their gate."""

from collections.abc import Sequence

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.statistics.causes.change_in_words import in_words
from ragtide_offline.gates.sources import measure_comparison
from ragtide_offline.replay.selection import selection
from ragtide_offline.report.explained_pipelines import ExplainedDifference
from ragtide_offline.report.labelings import Compared, named_recording
from ragtide_offline.report.pipelines import PipelineSide, unknown_side
from ragtide_offline.report.split_answers import SplitUnit, TrafficSplit
from ragtide_offline.report.split_traffic import SplitComparison, read_split_comparison
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace
from ragtide_schemas.estimate import shown_metric
from ragtide_schemas.printable import printable

from ..printing import err, fitted, out, print_json, warn
from ..printing.estimates import DIFFERENCE_COLUMNS, compared_table, comparison_method
from .gating import GateOptions, exit_for, with_gate
from .redis import settings_of, with_redis


def names_of_sides(
    first: str, second: str | None, workspaces: Sequence[str], labelers: Sequence[str]
) -> tuple[str, str]:
    """Return the names of the two sides for the table."""
    if labelers:
        return labelers[0], labelers[1]
    if len(workspaces) == 2:
        if second in (None, first):
            return workspaces[0], workspaces[1]
        return f"{first} ({workspaces[0]})", f"{second} ({workspaces[1]})"
    return first, second or first


def report_comparison(
    differences: list[Compared] | list[ExplainedDifference],
    missing: str | None,
    names: tuple[str, str],
    gate: GateOptions | None,
    *,
    segments: bool,
    as_json: bool,
) -> None:
    """Print the differences and the gate, and end with the exit code."""
    compared = [row for row in differences if isinstance(row, Compared)]
    if not as_json:
        _print_compared(compared, names, segments=segments)
        _print_explained([row for row in differences if isinstance(row, ExplainedDifference)], names)
    if not differences and not as_json and missing is None:
        err.print(
            f"{names[0]} and {names[1]} have no metric in common yet: both need scores, live ones by the same labeler."
        )
    result = None if gate is None else gate.decide(measure_comparison(compared, names), as_json=as_json)
    if as_json:
        listed = [row.as_dict() for row in differences]
        print_json(listed if result is None else with_gate({"differences": listed}, result))
    if missing is not None:
        warn(missing)
    exit_for(result, otherwise=int(missing is not None))


def traffic_split(
    share: float | None, unit: SplitUnit | None, covariates: list[str] | None, since: str | None
) -> TrafficSplit | None:
    """Return how a coin divides the traffic; None if no coin does."""
    if share is not None:
        return TrafficSplit(share, unit or "interaction", tuple(covariates or ()), selection(since).since)
    if unit is not None or covariates or since is not None:
        raise typer.BadParameter("give --share with --unit, --covariate and --since, such as --share 0.5")
    return None


def _print_compared(rows: Sequence[Compared], names: Sequence[str], *, segments: bool) -> None:
    shown = rows if segments else [row for row in rows if row.key.segment is None]
    if shown:
        out.print(compared_table(shown, names[0], names[1], out.width))
        out.print(comparison_method(shown), style="bright_black", highlight=False)
    if hidden := len(rows) - len(shown):
        err.print(f"{hidden:,} differences of segment values are not shown: --segments shows them.", highlight=False)


def redacted_side(side: PipelineSide) -> list[str]:
    """Return a sentence about a workspace whose labels are of redacted texts; no sentence if there is no such text."""
    if side.info is None or not side.info.redacted:
        return []
    info = side.info
    total = f" of {info.population_size:,}" if info.population_size else ""
    redacted = (
        f"{printable(info.run)}: {info.redacted:,}{total} interactions had texts redacted before they were recorded"
    )
    return [f"{redacted}, so their labels are of other texts than live ones."]


def _print_explained(differences: Sequence[ExplainedDifference], names: Sequence[str]) -> None:
    if not differences:
        return
    out.print(fitted(DIFFERENCE_COLUMNS, differences, out.width))
    for difference in differences:
        out.print(
            f"{shown_metric(difference.key.metric, difference.key.version)}: {in_words(difference.change)}.",
            highlight=False,
        )
    out.print(
        f"{names[0]} minus {names[1]}; shares and means go from {names[1]} to {names[0]}.",
        style="bright_black",
        highlight=False,
    )


async def workspace_side(redis: Redis, settings: Settings, workspace: str, recording: str | None) -> PipelineSide:
    """Return a workspace as a side of a comparison."""
    info = await get_workspace(redis, settings, workspace)
    deployment = Deployment(redis, await settings_of(redis, settings, workspace))
    return PipelineSide(deployment, "", info, named_recording(settings, info, recording))


def compare_split(
    settings: Settings,
    pipelines: tuple[str, str],
    split: TrafficSplit,
    recording: str | None,
    gate: GateOptions | None,
    *,
    confidence: float | None,
    as_json: bool,
) -> None:
    """Print the differences and the gate, and cautions on standard error."""

    async def body(redis: Redis, _: RedisHandle) -> tuple[SplitComparison, str | None]:
        read_from = None
        if recording is not None:
            read_from = Recording.open(recording, storage_options=settings.recorder.storage_options)
        comparison = await read_split_comparison(
            redis, settings, pipelines, split, recording=read_from, confidence=confidence
        )
        deployment = Deployment(redis, settings)
        first, second = (PipelineSide(deployment, pipeline) for pipeline in pipelines)
        return comparison, None if comparison.compared else await unknown_side((first, second))

    comparison, missing = with_redis(settings, body)
    if not as_json and comparison.compared and comparison.since is not None:
        out.print(compared_table(comparison.compared, *pipelines, out.width))
        units = "interactions" if split.unit == "interaction" else "clusters"
        out.print(
            f"A coin sends {split.share:.0%} of the {units} to {pipelines[0]}, since "
            f"{comparison.since:%Y-%m-%d %H:%M} UTC. n and means are of {units}; the difference is adjusted.",
            style="bright_black",
            highlight=False,
        )
    if comparison.cautions:
        warn(*comparison.cautions)
    if missing is not None:
        warn(missing)
    elif not comparison.compared and not comparison.cautions and not as_json:
        err.print(
            f"{pipelines[0]} and {pipelines[1]} have no metric in common yet: both need scores by the same labeler."
        )
    result = None
    if gate is not None:
        result = gate.decide(measure_comparison(comparison.compared, pipelines), as_json=as_json)
    if as_json:
        listed = [row.as_dict() for row in comparison.compared]
        print_json(listed if result is None else with_gate({"differences": listed}, result))
    exit_for(result, otherwise=int(missing is not None))
