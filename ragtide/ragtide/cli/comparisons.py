"""Differences of two pipelines, two workspaces or two labelers: how they are read, and their table."""

from collections.abc import Sequence
from typing import Final

import typer
from redis.asyncio import Redis
from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.statistics.causes.change_in_words import in_words
from ragtide_offline.gates.sources import of_comparison
from ragtide_offline.replay.selection import selection
from ragtide_offline.report.explained_pipelines import ExplainedDifference
from ragtide_offline.report.labelings import named_recording
from ragtide_offline.report.pipelines import Compared, PipelineSide, unknown_side
from ragtide_offline.report.split_answers import SplitUnit, TrafficSplit
from ragtide_offline.report.split_traffic import SplitComparison, read_split_comparison
from ragtide_runtime.recordings import Recording
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace
from ragtide_schemas.estimate import shown_metric
from ragtide_schemas.printable import printable

from .console import err, out, print_json, warn
from .explanation_tables import differences_table
from .fitting import Column, fitted, heading
from .gates import GateOptions, exit_for, with_gate
from .groups import short_name
from .tables import EXACT
from .with_redis import settings_of, with_redis

TITLE_CHARS: Final = 12
"""Most characters of a pipeline's name as the title of a column; longer names are in a line above the table."""


METRIC_CHARS: Final = 28
"""Fewest characters of a metric's name in a table of differences: the names of all built-in metrics are whole."""


def compared_table(found: Sequence[Compared], first: str, second: str, width: int) -> RenderableType:
    """Return the differences of two pipelines, one row for each metric."""
    names = printable(first), printable(second)
    long = max(map(len, names)) > TITLE_CHARS
    a, b = ("A", "B") if long else names
    legend = [heading([f"A: {names[0]}", f"B: {names[1]}"], width)] if long else []
    gaps = [_digits(row.difference.estimate, "+", row) for row in found]
    columns = [
        Column("metric", [_name(row, names) for row in found], yields=5, shortest=METRIC_CHARS),
        *(
            Column(title, [_digits(row.means[place], "", row) for row in found], right=True, yields=4, stacks=True)
            for place, title in enumerate((a, b))
        ),
        Column(f"{a} - {b}", gaps, right=True, yields=1, narrower=Column("difference", gaps, right=True)),
        Column("interval", [_interval(row) for row in found]),
        Column("n", [_counts(row) for row in found], right=True, yields=3, stacks=True),
        *_clusters(found),
        Column("verdict", [_verdict(row) for row in found]),
    ]
    return Group(*legend, fitted(columns, width))


def _name(one: Compared, sides: tuple[str, str]) -> str:
    name = short_name(shown_metric(one.metric, one.metric_version))
    # Two labelers that are the sides stand above the table already.
    if one.other_labeler is not None and sides != (one.labeler, one.other_labeler):
        name = f"{name} · {one.labeler} and {one.other_labeler}"
    return name if one.segment is None else f"{name} · {one.segment}"


def _counts(one: Compared) -> str:
    return " and ".join(f"{n:,}" for n in dict.fromkeys(one.n))


def _clusters(found: Sequence[Compared]) -> list[Column]:
    """Return the clusters that each interval rests on, if any row has clusters."""
    known = [[] if row.exact else [n for n in row.n_clusters if n is not None] for row in found]
    if not any(known):
        return []
    cells = [" and ".join(f"{n:,}" for n in dict.fromkeys(counts)) for counts in known]
    return [Column("clusters", cells, right=True, yields=2)]


def _interval(one: Compared) -> str:
    ends = one.difference.lower, one.difference.upper
    return EXACT if one.exact else " to ".join(_digits(end, "+", one) for end in ends)


def _digits(value: float, sign: str, one: Compared) -> str:
    return format(value, f"{sign}z.{one.decimals}f") if abs(value) < 10_000 else format(value, f"{sign}z,.0f")


def _verdict(one: Compared) -> Text:
    return Text(one.verdict, style="bright_black" if one.verdict in ("undecided", "equal") else "bold")


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
    found: list[Compared] | list[ExplainedDifference],
    missing: str | None,
    names: tuple[str, str],
    gate: GateOptions | None,
    *,
    segments: bool,
    as_json: bool,
) -> None:
    """Print the differences and the gate, and end with the exit code."""
    compared = [row for row in found if isinstance(row, Compared)]
    if not as_json:
        _print_compared(compared, names, segments=segments)
        _print_explained([row for row in found if isinstance(row, ExplainedDifference)], names)
    if not found and not as_json and missing is None:
        err.print(
            f"{names[0]} and {names[1]} have no metric in common yet: both need scores, live ones by the same labeler."
        )
    result = None if gate is None else gate.decide(of_comparison(compared, names), as_json=as_json)
    if as_json:
        listed = [row.as_dict() for row in found]
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


def _print_compared(found: Sequence[Compared], names: Sequence[str], *, segments: bool) -> None:
    shown = found if segments else [row for row in found if row.segment is None]
    if shown:
        out.print(compared_table(shown, names[0], names[1], out.width))
        out.print(_method(shown), style="bright_black", highlight=False)
    if hidden := len(found) - len(shown):
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


def _print_explained(found: Sequence[ExplainedDifference], names: Sequence[str]) -> None:
    if not found:
        return
    out.print(differences_table(found, out.width))
    for difference in found:
        out.print(
            f"{shown_metric(difference.metric, difference.metric_version)}: {in_words(difference.change)}.",
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


def _method(found: Sequence[Compared]) -> str:
    """Return sentences about the method of the differences."""
    pairs = max((row.n[0] for row in found if row.method == "paired"), default=0)
    sentences = []
    if pairs:
        sentences.append(f"Paired by interaction id: {pairs:,} pairs.")
        if any(row.exact for row in found):
            sentences.append("Both workspaces are complete, so their difference is exact.")
    if any(row.strategy == "ratio" for row in found):
        sentences.append("Quality per dollar and per second: the interval holds whenever those of all four means do.")
    if any(row.method == "unpaired" for row in found):
        sentences.append(f"{'Other rows are unpaired' if pairs else 'Unpaired'}: the difference of two means.")
    return " ".join(sentences)


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
        found = await read_split_comparison(
            redis, settings, pipelines, split, recording=read_from, confidence=confidence
        )
        deployment = Deployment(redis, settings)
        first, second = (PipelineSide(deployment, pipeline) for pipeline in pipelines)
        return found, None if found.compared else await unknown_side((first, second))

    found, missing = with_redis(settings, body)
    if not as_json and found.compared and found.since is not None:
        out.print(compared_table(found.compared, *pipelines, out.width))
        units = "interactions" if split.unit == "interaction" else "clusters"
        out.print(
            f"A coin sends {split.share:.0%} of the {units} to {pipelines[0]}, since {found.since:%Y-%m-%d %H:%M} UTC. "
            f"n and means are of {units}; the difference is adjusted.",
            style="bright_black",
            highlight=False,
        )
    if found.cautions:
        warn(*found.cautions)
    if missing is not None:
        warn(missing)
    elif not found.compared and not found.cautions and not as_json:
        err.print(
            f"{pipelines[0]} and {pipelines[1]} have no metric in common yet: both need scores by the same labeler."
        )
    result = None
    if gate is not None:
        result = gate.decide(of_comparison(found.compared, pipelines), as_json=as_json)
    if as_json:
        listed = [row.as_dict() for row in found.compared]
        print_json(listed if result is None else with_gate({"differences": listed}, result))
    exit_for(result, otherwise=int(missing is not None))
