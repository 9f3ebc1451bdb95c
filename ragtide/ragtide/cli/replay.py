"""`ragtide replay`: replays a recording into a workspace."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from redis.asyncio import Redis
from rich.console import RenderableType

from ragtide_offline.replay.plan import ReplayPlan, open_recording, rules_of
from ragtide_offline.replay.replay import RecordingReplay
from ragtide_offline.replay.result import ReplayResult, RuleAlerts
from ragtide_offline.replay.selection import selection
from ragtide_offline.replay.speed import speed as speed_of
from ragtide_roles.running import on_signal
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas import Alert, utc_now

from .common import JsonOption, given
from .console import err, out, print_json, warn
from .fitting import Column, fitted
from .progress import interrupted, interruptible, progress_bar
from .replay_notes import shown_replay
from .tables import estimates_note, estimates_table
from .with_redis import with_redis


def replay(
    context: typer.Context,
    recording: Annotated[str, typer.Argument(help="Folder or URL of the recording.")],
    workspace: Annotated[
        str | None, typer.Option(help="Name of the workspace; give the name of a stopped replay to continue it.")
    ] = None,
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Label the interactions again, instead of using their recorded scores.")
    ] = False,
    speed: Annotated[str, typer.Option(help="Speed: original, a multiple of it such as 10x, or max.")] = "max",
    since: Annotated[str | None, typer.Option(help="Interactions from this time on (ISO 8601, UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="Interactions before this time.")] = None,
    pipeline: Annotated[list[str] | None, typer.Option(help="Only this pipeline; may be repeated.")] = None,
    segment: Annotated[
        list[str] | None, typer.Option(help="Only this segment value (lang=de); may be repeated.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="TOML file with the [[alerts]] to test; by default the deployment's rules.")
    ] = None,
    labeler: Annotated[str | None, typer.Option(help="With --relabel: another labeler.")] = None,
    profile: Annotated[str | None, typer.Option(help="With --relabel: another profile of the formulas.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="With --relabel: another model as the judge.")] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(min=0, help="With --relabel: stop at this cost of the judge.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay a recording with other rules or another labeler.

    The replay writes to a workspace of its own. Live estimates do not change.
    """
    settings = given(context).settings()
    configure_logging("error")
    pace, part = speed_of(speed), selection(since, until, pipeline, segment)
    chosen = {"labeler": labeler, "profile": profile, "judge_model": judge_model}
    labeling = {name: value for name, value in chosen.items() if value is not None}
    if not relabel and (labeling or max_cost_usd is not None):
        raise ConfigurationError("--labeler, --profile, --judge-model and --max-cost-usd need --relabel: add it")
    plan = ReplayPlan(
        run=workspace or f"replay-{utc_now():%Y%m%d-%H%M%S}",
        recording=open_recording(recording, settings),
        selection=part,
        relabel=relabel,
        rules=settings.alerts if rules is None else rules_of(rules),
        labeling=labeling,
    )
    with interruptible(lambda: "Nothing is replayed yet: to begin, give the same command again."):
        replaying = RecordingReplay(settings, plan, pace, max_cost_usd=max_cost_usd)
    total = replaying.counted.total
    err.print(f"workspace {plan.run}: {total:,} {'interactions' if relabel else 'metric events'}", highlight=False)

    async def body(redis: Redis, handle: RedisHandle) -> ReplayResult:
        stop = asyncio.Event()
        with on_signal(stop.set), progress_bar("replaying", total) as bar:
            return await replaying.run(redis, handle.url, stop, shown_replay(bar))

    found = with_redis(settings, body, convert=True)
    if as_json:
        print_json({"workspace": plan.run, **found.as_dict()})
    else:
        _print(plan, found)
    warn(*found.unfired)
    if not found.counts["complete"]:
        go_on = f"to go on, give the same command with --workspace {plan.run}"
        if not found.counts.get("over_cost"):
            interrupted(f"{found.counts['n']:,} of {total:,} are kept in the workspace: {go_on}.")
        warn(f"Stopped at --max-cost-usd: {go_on} and a higher limit.")
        raise typer.Exit(1)


def _print(plan: ReplayPlan, found: ReplayResult) -> None:
    whole = [one for one in found.estimates or () if one.segment is None]
    out.print(estimates_note(whole), style="bright_black", markup=False, highlight=False)
    out.print(estimates_table(whole, out.width))
    out.print()
    out.print(rules_table(found.rules, out.width))
    counts = found.counts
    rate = counts["n"] / max(found.seconds, 1e-9)
    cost = f", ${counts['cost_usd']:.4f}" if counts.get("cost_usd") else ""
    err.print(
        f"{counts['n']:,} of {counts['population_size']:,} in {found.seconds:.1f} s ({rate:,.0f}/s){cost}; "
        f"show the estimates with: ragtide estimates --workspace {plan.run}",
        highlight=False,
        soft_wrap=True,
    )


def rules_table(rules: Mapping[str, RuleAlerts], width: int) -> RenderableType:
    """Return the alerts of each rule in the replay, and their number in production; many times are below their row."""
    columns = [
        Column("rule", list(rules), yields=2, shortest=16),
        Column("alerts", [f"{len(one.replay):,}" for one in rules.values()], right=True),
        Column("in production", [f"{one.production:,}" for one in rules.values()], right=True),
        Column("fired", [", ".join(map(_fired, one.replay)) for one in rules.values()], yields=1, stacks=True),
    ]
    return fitted(columns, width)


def _fired(alert: Alert) -> str:
    where = alert.pipeline if alert.segment is None else f"{alert.pipeline} {alert.segment}"
    return f"{alert.fired_at:%Y-%m-%d %H:%M:%S} {where}"
