"""`ragtide replay`: a recording once more, into a workspace."""

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from redis.asyncio import Redis
from rich.table import Table

from ragtide_aggregator.estimates.estimates import chosen
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.service.state_options import state_options
from ragtide_offline.replay.aggregating import SCOPE_FIELDS, MetricsReplay, Progress, ReplayOptions
from ragtide_offline.replay.back_test import OfRule, by_rule, recorded_alerts, without_values
from ragtide_offline.replay.counting import Counted, count_selected
from ragtide_offline.replay.interactions import Items
from ragtide_offline.replay.plan import ReplayPlan, begin, rules_of, settings_of_replay
from ragtide_offline.replay.relabeling import Relabeling, RelabelOptions, RelabelProgress
from ragtide_offline.replay.selection import selection
from ragtide_offline.replay.speed import Speed
from ragtide_offline.replay.speed import speed as speed_of
from ragtide_roles.known_metrics import check_rules, known_metrics
from ragtide_roles.running import on_signal
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import Kind, Recording
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_runtime.workspaces import settings_of_workspace
from ragtide_schemas import Alert, Estimate, Workspace, utc_now

from .common import JsonOption, err, given, out, print_json, with_redis
from .replay_bar import metrics_bar, relabel_bar
from .tables import estimates_table
from .workspace_option import settings_of

ORDERS = ("time", "random")


def replay(
    context: typer.Context,
    recording: Annotated[str, typer.Argument(help="Folder or URL that a recorder wrote to.")],
    workspace: Annotated[
        str | None, typer.Option(help="Name of the workspace; the name of a stopped replay continues it.")
    ] = None,
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Label the interactions anew, instead of aggregating their scores.")
    ] = False,
    speed: Annotated[str, typer.Option(help="original, so many times faster (10x), or max.")] = "max",
    order: Annotated[str, typer.Option(help="time, or random: what has come so far is then a fair sample.")] = "time",
    seed: Annotated[int, typer.Option(help="Of the random order.")] = 0,
    since: Annotated[str | None, typer.Option(help="Interactions from this time on (ISO 8601, UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="Interactions before this time.")] = None,
    pipeline: Annotated[list[str] | None, typer.Option(help="Only this pipeline; may be repeated.")] = None,
    segment: Annotated[
        list[str] | None, typer.Option(help="Only this segment value (lang=de); may be repeated.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="TOML file with [[alerts]] to test; by default the deployment's rules.")
    ] = None,
    labeler: Annotated[str | None, typer.Option(help="With --relabel: another labeler.")] = None,
    profile: Annotated[str | None, typer.Option(help="With --relabel: another profile of the formulas.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="With --relabel: another model as the judge.")] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(min=0, help="With --relabel: stop before the judge has cost more.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay a recording into a workspace: other alert rules, or another labeler; live numbers are not touched."""
    settings = given(context).settings()
    configure_logging("error")
    pace, part = speed_of(speed), selection(since, until, pipeline, segment)
    if order not in ORDERS:
        raise ConfigurationError(f"--order {order!r} is unknown: use one of {', '.join(ORDERS)}")
    labeling = {
        name: value
        for name, value in (("labeler", labeler), ("profile", profile), ("judge_model", judge_model))
        if value is not None
    }
    if not relabel and (labeling or max_cost_usd is not None):
        raise ConfigurationError("--labeler, --profile, --judge-model and --max-cost-usd go with --relabel: add it")
    plan = ReplayPlan(
        run=workspace or f"replay-{utc_now():%Y%m%d-%H%M%S}",
        recording=_open(recording, settings),
        selection=part,
        seed=seed if order == "random" else None,
        relabel=relabel,
        rules=settings.alerts if rules is None else rules_of(rules),
        labeling=labeling,
    )
    check_rules(plan.rules, known_metrics(settings))
    kind, fields = (Kind.INTERACTIONS, ("pipeline",)) if relabel else (Kind.METRICS, SCOPE_FIELDS)
    counted = count_selected(plan.recording, kind, part, fields)
    unit = "interactions" if relabel else "metric events"
    err.print(f"workspace {plan.run}: {counted.total:,} {unit}", highlight=False)

    async def body(redis: Redis, handle: RedisHandle) -> dict[str, Any]:
        info = await begin(redis, settings, _info(plan, settings, counted))
        stop = asyncio.Event()
        started = time.monotonic()
        with on_signal(stop.set):
            if relabel:
                own = settings_of_replay(settings, info)
                _check_price(own, max_cost_usd)
                options = RelabelOptions(plan.run, pace, max_cost_usd)
                work = _relabel(own, handle.url, plan, counted=counted, options=options, stop=stop)
            else:
                work = _aggregate(redis, settings, info, plan, counted=counted, pace=pace, stop=stop)
            found = await work
        return {**found, "seconds": time.monotonic() - started, **await _report(redis, settings, plan)}

    found = with_redis(settings, body, convert=True)
    alerts, estimates = found.pop("alerts"), found.pop("estimates")
    rules_found: dict[str, OfRule] = found.pop("rules")
    found_metrics = {estimate.metric for estimate in estimates if estimate.n}
    if as_json:
        print_json(
            {
                "workspace": plan.run,
                **found,
                "rules": {name: one.as_dict() for name, one in rules_found.items()},
                "alerts": [alert.model_dump(mode="json") for alert in alerts],
                "estimates": [estimate.model_dump(mode="json") for estimate in estimates],
            }
        )
    else:
        _print(plan, found, rules_found, estimates)
    if plan.seed is None:
        for sentence in without_values(plan.rules, found_metrics):
            err.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)
    if not found["complete"]:
        _say_how_to_go_on(plan, found)
        raise typer.Exit(1)


def _open(url: str, settings: Settings) -> Recording:
    place = str(Path(url).expanduser().absolute()) if "://" not in url else url
    return Recording.open(place, storage_options=settings.recorder.storage_options)


def _info(plan: ReplayPlan, settings: Settings, counted: Counted) -> Workspace:
    try:
        return plan.info(settings, counted.total)
    except ValueError:
        raise ConfigurationError(
            f"--workspace {plan.run!r} is not a name: use 1 to 48 letters, digits, _ and -"
        ) from None


def _check_price(settings: Settings, max_cost_usd: float | None) -> None:
    if max_cost_usd is not None and "judge" in settings.labelers and settings.judge.model not in settings.judge.prices:
        raise ConfigurationError(
            f"--max-cost-usd needs the price of {settings.judge.model}: add it under judge.prices in ragtide.toml"
        )


async def _aggregate(
    redis: Redis,
    settings: Settings,
    info: Workspace,
    plan: ReplayPlan,
    *,
    counted: Counted,
    pace: Speed,
    stop: asyncio.Event,
) -> dict[str, Any]:
    own = settings_of_workspace(settings, info)
    # The partitions share the budget of false alarms as they did live.
    kept = state_options(settings.model_copy(update={"alerts": plan.rules, "partitions": info.partitions}))
    options = ReplayOptions(
        state=kept,
        split=bool(info.splits),
        lease_s=settings.lease_s,
        feedback_window_s=settings.feedback_window_s,
        speed=pace,
        seed=plan.seed,
    )
    replaying = MetricsReplay(
        redis,
        Layout(own.prefix, info.partitions, info.splits),
        plan.recording,
        selection=plan.selection,
        counted=counted,
        options=options,
    )
    with metrics_bar(err, counted.total) as seen:
        progress: Progress = await replaying.run(stop, seen)
    return {
        "n": progress.done,
        "population_size": progress.total,
        "complete": progress.complete,
        **replaying.counted(),
    }


async def _relabel(
    own: Settings, url: str, plan: ReplayPlan, *, counted: Counted, options: RelabelOptions, stop: asyncio.Event
) -> dict[str, Any]:
    items = Items(plan.recording, plan.selection, plan.seed)
    with relabel_bar(err, counted.total) as seen:
        progress: RelabelProgress = await Relabeling(own, url, items, counted, options).run(stop, seen)
    tally = progress.tally
    return {
        "n": tally.labeled,
        "population_size": progress.total,
        "complete": progress.complete,
        "over_cost": progress.over_cost,
        "published": progress.fed.published,
        "duplicates": progress.fed.duplicates,
        "dead_letters": dict(tally.reasons),
        "prompt_tokens": tally.prompt_tokens,
        "completion_tokens": tally.completion_tokens,
        "cost_usd": tally.cost_usd,
        "projected_cost_usd": progress.projected_usd,
        "cache_hits": tally.cache_hits,
    }


async def _report(redis: Redis, settings: Settings, plan: ReplayPlan) -> dict[str, Any]:
    deployment = Deployment(redis, await settings_of(redis, settings, plan.run))
    alerts = await deployment.alerts()
    production = recorded_alerts(plan.recording, plan.selection)
    return {
        "alerts": alerts,
        "rules": by_rule(plan.rules, alerts, production),
        "estimates": chosen(await deployment.estimates(windows=False)),
    }


def _print(plan: ReplayPlan, found: dict[str, Any], rules: dict[str, OfRule], estimates: list[Estimate]) -> None:
    shown = [estimate for estimate in estimates if estimate.segment is None]
    out.print(estimates_table(shown, out.width))
    out.print()
    if plan.seed is None:
        out.print(_rules_table(rules))
    else:
        out.print("In random order there is no before and after: no rule was tested.")
    rate = found["n"] / max(found["seconds"], 1e-9)
    cost = f", ${found['cost_usd']:.4f}" if found.get("cost_usd") else ""
    err.print(
        f"{found['n']:,} of {found['population_size']:,} in {found['seconds']:.1f} s ({rate:,.0f}/s){cost}; "
        f"look into it with: ragtide estimates --workspace {plan.run}",
        highlight=False,
        soft_wrap=True,
    )


def _rules_table(rules: dict[str, OfRule]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("rule", no_wrap=True)
    table.add_column("alerts", justify="right")
    table.add_column("production had", justify="right")
    table.add_column("fired", overflow="fold")
    for name, one in rules.items():
        table.add_row(name, str(len(one.replay)), str(one.production), ", ".join(map(_fired, one.replay)))
    return table


def _fired(alert: Alert) -> str:
    where = alert.pipeline if alert.segment is None else f"{alert.pipeline} {alert.segment}"
    return f"{alert.fired_at:%Y-%m-%d %H:%M} {where}"


def _say_how_to_go_on(plan: ReplayPlan, found: dict[str, Any]) -> None:
    why = "it would cost more than --max-cost-usd" if found.get("over_cost") else "it was told to"
    err.print(
        f"Stopped, because {why}. Give the same command with --workspace {plan.run} to continue.",
        style="yellow",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
