"""`ragtide compare`: the differences of two pipelines, of two workspaces, or of two labelers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.statistics.causes.change_in_words import in_words
from ragtide_aggregator.statistics.tables.windows import ALL_TIME
from ragtide_offline.gates.deciding import UndecidedPolicy
from ragtide_offline.gates.sources import of_comparison
from ragtide_offline.replay.selection import selection
from ragtide_offline.report.explained_pipelines import ExplainedDifference, read_explained_differences
from ragtide_offline.report.labelings import named_recording
from ragtide_offline.report.pipelines import (
    Compared,
    PipelineSide,
    read_comparison,
    read_labelers,
    unknown_side,
    unnamed_recording,
)
from ragtide_offline.report.split_answers import SplitUnit, TrafficSplit
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace
from ragtide_schemas.estimate import shown_metric
from ragtide_schemas.printable import printable
from ragtide_schemas.suggestions import unknown

from .common import JsonOption, SegmentsOption, given
from .comparison_tables import compared_table
from .console import err, out, print_json, warn
from .explanation_tables import differences_table
from .gate_options import (
    FailIfOption,
    GateOptions,
    JunitOption,
    SummaryOption,
    UndecidedOption,
    exit_for,
    gate_of,
    with_gate,
)
from .split_traffic import compare_split
from .with_redis import with_redis
from .workspace_option import settings_of


def compare(
    context: typer.Context,
    first: Annotated[str, typer.Argument(help="Name of a pipeline.")],
    second: Annotated[
        str | None, typer.Argument(help="Another pipeline; by default the same pipeline in two workspaces.")
    ] = None,
    workspace: Annotated[
        list[str] | None, typer.Option(help="Workspace of both pipelines; give it twice for two workspaces.")
    ] = None,
    labeler: Annotated[
        list[str] | None,
        typer.Option(help="Give it twice to compare two labelers of a pipeline, such as local and judge in a cascade."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Split each difference into mix and change within the values of this segment.")
    ] = None,
    window: Annotated[str, typer.Option(help="Window: all, or one of the setting windows, such as 1h.")] = ALL_TIME,
    confidence: Annotated[
        float | None, typer.Option(min=0.01, max=0.9999, help="Confidence level [RAGTIDE_CONFIDENCE].")
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option(
            help="Recording that the replays have read, to pair their interactions; default: the setting recorder.url."
        ),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=0.99,
            help="For traffic that is divided at random: the probability of FIRST, such as 0.5.",
        ),
    ] = None,
    unit: Annotated[
        SplitUnit | None, typer.Option(help="With --share: the unit that is divided; default: interaction.")
    ] = None,
    covariate: Annotated[
        list[str] | None,
        typer.Option(
            help="With --share: a covariate, or segment:NAME, that the pipelines do not change; may be repeated."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="With --share: when the split began (ISO 8601, UTC); default: both have scores.")
    ] = None,
    ongoing: Annotated[
        bool,
        typer.Option(
            "--ongoing", help="Treat a replay as a sample of ongoing traffic, so that its interval never closes."
        ),
    ] = False,
    segments: SegmentsOption = False,
    fail_if: FailIfOption = None,
    undecided: UndecidedOption = UndecidedPolicy.KEEP,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two pipelines, two workspaces or two labelers.

    The table shows the difference of every metric that both have, for whole pipelines; --segments adds segment values,
    and --json always has both. To compare scores in files, use ragtide agreement.

    Two replays of the same interactions, and two labelers of one pipeline, are compared interaction by interaction.
    Other pipelines are compared by their means. Intervals are valid at every look.
    """
    settings = given(context).settings()
    only_means = workspace or labeler or by is not None or window != ALL_TIME or ongoing
    split = _split(share, unit, covariate, since)
    gate = gate_of(settings, "compare", fail_if, undecided=undecided, junit=junit, summary=summary)
    if split is not None:
        if second is None or second == first or only_means:
            raise typer.BadParameter("--share compares two live pipelines over all time", param_hint="--share")
        compare_split(settings, (first, second), split, recording, gate, confidence=confidence, as_json=as_json)
        return
    if window not in (ALL_TIME, *settings.windows):
        raise typer.BadParameter(unknown("window", window, (ALL_TIME, *settings.windows)), param_hint="--window")
    workspaces = workspace or []
    labelers = labeler or []
    if labelers and (len(labelers) != 2 or len(set(labelers)) != 2 or second is not None or len(workspaces) > 1):
        raise typer.BadParameter("give --labeler twice, with one pipeline and at most one --workspace")
    if len(workspaces) > 2 or (second is None and len(workspaces) != 2 and not labelers):
        raise typer.BadParameter("give two pipelines, or one pipeline and --workspace twice or --labeler twice")
    if gate is not None and by is not None:
        raise typer.BadParameter("a gate is about whole pipelines: leave --by out", param_hint="--fail-if")
    if labelers and by is not None:
        raise typer.BadParameter("--by splits the difference of two pipelines; labelers score the same interactions")

    async def body(redis: Redis, _: RedisHandle) -> tuple[list[Compared] | list[ExplainedDifference], str | None]:
        live = PipelineSide(Deployment(redis, settings), first)
        sides = [await _side(redis, settings, name, recording) for name in workspaces] or [live]
        both = replace(sides[0], pipeline=first), replace(sides[-1], pipeline=second or first)
        found: list[Compared] | list[ExplainedDifference]
        if by is not None:
            found = await read_explained_differences(both, by, window=window, confidence=confidence)
        elif labelers:
            found = await read_labelers(redis, both[0], (labelers[0], labelers[1]), confidence=confidence)
        else:
            found = await read_comparison(redis, both, window=window, confidence=confidence, ongoing=ongoing)
            source = unnamed_recording(*both) if window == ALL_TIME else None
            if source is not None:
                # Redis does not decide which files are opened: the user does.
                warn(
                    f"the workspaces are compared by their means, although both replay {printable(source)}: give "
                    "--recording with it, so that they are compared interaction by interaction"
                )
        return found, None if found else await unknown_side(both, labelers)

    found, missing = with_redis(settings, body)
    names = _names(first, second, workspaces, labelers)
    _report(found, missing, names, gate, segments=segments, as_json=as_json)


def _names(first: str, second: str | None, workspaces: Sequence[str], labelers: Sequence[str]) -> tuple[str, str]:
    if labelers:
        return labelers[0], labelers[1]
    if len(workspaces) == 2:
        if second in (None, first):
            return workspaces[0], workspaces[1]
        return f"{first} ({workspaces[0]})", f"{second} ({workspaces[1]})"
    return first, second or first


def _report(
    found: list[Compared] | list[ExplainedDifference],
    missing: str | None,
    names: tuple[str, str],
    gate: GateOptions | None,
    *,
    segments: bool,
    as_json: bool,
) -> None:
    """Print the differences and the gate, and end with the exit code."""
    compared = [one for one in found if isinstance(one, Compared)]
    if not as_json:
        _print(compared, names, segments=segments)
        _print_explained([one for one in found if isinstance(one, ExplainedDifference)], names)
    if not found and not as_json and missing is None:
        err.print(f"{names[0]} and {names[1]} have no metric in common yet: both need scores by the same labeler.")
    result = None if gate is None else gate.decide(of_comparison(compared, names), as_json=as_json)
    if as_json:
        listed = [one.as_dict() for one in found]
        print_json(listed if result is None else with_gate({"differences": listed}, result))
    if missing is not None:
        warn(missing)
    exit_for(result, otherwise=int(missing is not None))


def _split(
    share: float | None, unit: SplitUnit | None, covariates: list[str] | None, since: str | None
) -> TrafficSplit | None:
    """Return how a coin divides the traffic; None if no coin does."""
    if share is not None:
        return TrafficSplit(share, unit or "interaction", tuple(covariates or ()), selection(since).since)
    if unit is not None or covariates or since is not None:
        raise typer.BadParameter("give --share with --unit, --covariate and --since, such as --share 0.5")
    return None


def _print(found: Sequence[Compared], names: Sequence[str], *, segments: bool) -> None:
    shown = found if segments else [one for one in found if one.segment is None]
    if shown:
        out.print(compared_table(shown, names[0], names[1], out.width))
        out.print(_method(shown), style="bright_black", highlight=False)
    if hidden := len(found) - len(shown):
        err.print(f"{hidden:,} differences of segment values are not shown: --segments shows them.", highlight=False)


def _print_explained(found: Sequence[ExplainedDifference], names: Sequence[str]) -> None:
    if not found:
        return
    out.print(differences_table(found, out.width))
    for one in found:
        out.print(f"{shown_metric(one.metric, one.metric_version)}: {in_words(one.change)}.", highlight=False)
    out.print(
        f"{names[0]} minus {names[1]}; shares and means go from {names[1]} to {names[0]}.",
        style="bright_black",
        highlight=False,
    )


async def _side(redis: Redis, settings: Settings, workspace: str, recording: str | None) -> PipelineSide:
    info = await get_workspace(redis, settings, workspace)
    deployment = Deployment(redis, await settings_of(redis, settings, workspace))
    return PipelineSide(deployment, "", info, named_recording(settings, info, recording))


def _method(found: Sequence[Compared]) -> str:
    """Return sentences about the method of the differences."""
    pairs = max((one.n[0] for one in found if one.method == "paired"), default=0)
    sentences = []
    if pairs:
        sentences.append(f"Paired by interaction id: {pairs:,} pairs.")
        if any(one.exact for one in found):
            sentences.append("Both workspaces are complete, so their difference is exact.")
    if any(one.method == "unpaired" for one in found):
        sentences.append(f"{'Other rows are unpaired' if pairs else 'Unpaired'}: the difference of two means.")
    return " ".join(sentences)
