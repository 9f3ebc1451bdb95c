"""`ragtide recorder`, `replay` and `rules`: recordings, their replays, and rules tested on them."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..printing import Column, err, fitted, out, print_json, warn
from ..running import JsonOption, PipelinesOption, Role, SinceOption, UntilOption, given
from . import command, command_group, line_in_list

if TYPE_CHECKING:
    from ragtide_runtime.settings.model import Settings


recorder = command_group("recorder")


@command("ragtide recorder --url s3://bucket/recording", "ragtide recorder --forget", runs=recorder)
def run_recorder(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option(help="Folder or URL to write to, such as s3://bucket/folder [RAGTIDE_RECORDER_URL].")
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="End recording for good: Redis no longer keeps entries for a recorder.")
    ] = False,
) -> None:
    """Run a recorder: it writes the live streams to files.

    A second recorder stands by. SIGTERM or Ctrl-C ends it. ragtide recorder inspect shows the files, and ragtide
    replay reads them.
    """
    from ..running.redis import with_redis
    from ..running.roles import run_until_signal

    settings = given(context).settings()
    if forget:
        from ragtide_consumers.recorder.fence import forget_recorder

        with_redis(settings, lambda redis, _: forget_recorder(redis, settings.layout))
        err.print("Redis no longer keeps entries for a recorder; the recording stays", highlight=False)
        return
    if url is not None:
        changed = settings.recorder.model_copy(update={"url": url})
        settings = settings.model_copy(update={"recorder": changed})
    run_until_signal(settings, Role.RECORDER)


@command("ragtide recorder inspect recording --verify", exits="1 if --verify finds damage", of=recorder)
def inspect(
    context: typer.Context,
    url: Annotated[str | None, typer.Argument(help="Folder or URL of the recording [RAGTIDE_RECORDER_URL].")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its checksum.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the contents of a recording, or verify its files.

    A recorder has written the files. The table shows their entries by day and pipeline, and the line below it how many
    entries wait for a recorder that is running. The exit code is 1 if --verify finds damage.
    """
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.recordings import Recording
    from ragtide_runtime.recordings.recording import counts_by_day, partition_rows

    from ..printing.live import contents_table
    from ..running.recordings import problems_of_files, waiting_entries

    settings = given(context).settings()
    place = url or settings.recorder.url
    if place is None:
        raise ConfigurationError("no recording is named: give its folder or URL, or set RAGTIDE_RECORDER_URL")
    recording = Recording.open(place, storage_options=settings.recorder.storage_options)
    rows = counts_by_day(recording)
    waiting = waiting_entries(settings, recording)
    problems = problems_of_files(recording) if verify else []
    if as_json:
        content: dict[str, Any] = {"url": place, "partitions": partition_rows(recording), "days": rows}
        if waiting is not None:
            content["waiting"] = asdict(waiting)
        print_json({**content, "problems": problems} if verify else content)
    else:
        out.print(contents_table(rows, out.width))
        if waiting is not None:
            err.print(waiting.sentence(), style="bright_black", highlight=False, soft_wrap=True)
        for problem in problems:
            err.print(problem, style="red", markup=False, highlight=False, soft_wrap=True)
        if verify and not problems:
            err.print("every file matches its manifest", highlight=False)
    if problems:
        raise typer.Exit(1)


replay = command_group("replay")


@command(
    "ragtide replay recording --rules stricter.toml",
    "ragtide replay recording --relabel --labeler judge --max-cost-usd 5 --workspace judged",
    "ragtide replay recording --relabel --criterion asks_back --dry-run",
    "ragtide replay recording --relabel --processes 8 --workspace again",
    "ragtide replay recording --restore",
    exits="1 if it stopped at --max-cost-usd",
    runs=replay,
)
def replay_recording(
    context: typer.Context,
    recording: Annotated[str, typer.Argument(help="Folder or URL of the recording.")],
    workspace: Annotated[
        str | None, typer.Option(help="Name of the workspace; give the name of a stopped replay to continue it.")
    ] = None,
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Label the interactions again, instead of using their recorded scores.")
    ] = False,
    speed: Annotated[str, typer.Option(help="Speed: original, a multiple of it such as 10x, or max.")] = "max",
    since: SinceOption = None,
    until: UntilOption = None,
    pipeline: PipelinesOption = None,
    segment: Annotated[
        list[str] | None, typer.Option(help="Only this segment value (lang=de); may be repeated.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="TOML file with the [[alerts]] to test; by default the deployment's rules.")
    ] = None,
    labeler: Annotated[str | None, typer.Option(help="With --relabel: another labeler.")] = None,
    profile: Annotated[str | None, typer.Option(help="With --relabel: another profile of the formulas.")] = None,
    judge_model: Annotated[str | None, typer.Option(help="With --relabel: another model as the judge.")] = None,
    criterion: Annotated[
        list[str] | None,
        typer.Option(help="With --relabel: ask the judge this criterion and nothing else; may be repeated."),
    ] = None,
    max_cost_usd: Annotated[
        float | None, typer.Option(min=0, help="With --relabel: stop at this cost of the judge.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --criterion: print calls, tokens and price, and ask nothing.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="With --relabel: label in parts, on this many processes, then replay in order."),
    ] = None,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="Put interactions and feedback that Redis lost back into the live deployment."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Replay a recording with other rules, labeler or criteria.

    The replay writes to a workspace of its own, and live estimates do not change. A criterion is one of the settings,
    one that is stored (ragtide criteria list), or a built-in one; its rate, pipelines and segments hold here, too.
    --restore is for Redis after it was restored from an older copy: what the recorder has and Redis lost is published
    to the live deployment again, each interaction once.
    """
    import asyncio

    from redis.asyncio import Redis

    from ragtide_offline.replay.plan import ReplayPlan, open_recording, rules_of
    from ragtide_offline.replay.replay import RecordingReplay
    from ragtide_offline.replay.result import ReplayResult
    from ragtide_offline.replay.selection import selection
    from ragtide_offline.replay.speed import speed as speed_of
    from ragtide_roles.running import on_signal
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_runtime.telemetry.logs import configure_logging
    from ragtide_schemas import utc_now

    from ..printing.live import print_replay, unlabeled
    from ..running.laboratory import criteria_named, show_backfill, shown_labels, shown_replay
    from ..running.progress import interrupted, interruptible, progress_bar
    from ..running.redis import with_redis
    from ..running.scoring import relabeling_in_parts

    settings = given(context).settings()
    configure_logging("error")
    if restore:
        _restore(context, settings, recording, as_json=as_json)
        return
    pace, part = speed_of(speed), selection(since, until, pipeline, segment)
    chosen = {"labeler": labeler, "profile": profile, "judge_model": judge_model}
    labeling = {name: value for name, value in chosen.items() if value is not None}
    if not relabel and (labeling or criterion or max_cost_usd is not None):
        options = "--labeler, --profile, --judge-model, --criterion and --max-cost-usd"
        raise ConfigurationError(f"{options} need --relabel: add it")
    if criterion and labeler not in (None, "judge"):
        raise ConfigurationError(f"--criterion asks the judge, and --labeler is {labeler}: leave --labeler out")
    _check_processes(processes, relabel=relabel, speed=speed)
    if dry_run and not criterion:
        raise ConfigurationError("--dry-run prints the price of criteria: add --criterion NAME")
    plan = ReplayPlan(
        run=workspace or f"replay-{utc_now():%Y%m%d-%H%M%S}",
        recording=open_recording(recording, settings),
        selection=part,
        relabel=relabel,
        rules=settings.alerts if rules is None else rules_of(rules),
        labeling=labeling,
        criteria=criteria_named(settings, criterion or ()),
        in_parts=processes is not None,
    )
    if dry_run:
        show_backfill(settings, plan, as_json=as_json)
        return
    with interruptible(lambda: "Nothing is replayed yet: to begin, give the same command again."):
        if processes is None:
            replaying = RecordingReplay(settings, plan, pace, max_cost_usd=max_cost_usd)
            total = replaying.counted.total
        else:
            relabeling = relabeling_in_parts(settings, plan, processes, max_cost_usd)
            total = relabeling.total
    err.print(f"workspace {plan.run}: {total:,} {'interactions' if relabel else 'metric events'}", highlight=False)

    async def body(redis: Redis, handle: RedisHandle) -> ReplayResult:
        stop = asyncio.Event()
        with on_signal(stop.set), progress_bar("replaying", total) as bar:
            if processes is None:
                return await replaying.run(redis, handle.url, stop, shown_replay(bar))
            return await relabeling.run(redis, stop, shown_labels(bar), shown_replay(bar))

    result = with_redis(settings, body, convert=True)
    if as_json:
        print_json({"workspace": plan.run, **({"redacted": plan.redacted} if relabel else {}), **result.as_dict()})
    else:
        print_replay(plan, result)
    warn(*result.unfired, *filter(None, [unlabeled(result.counts, plan.run)]))
    if not result.counts["complete"]:
        go_on = f"to go on, give the same command with --workspace {plan.run}"
        if not result.counts.get("over_cost"):
            kept = f"{result.counts['n']:,} of {total:,} are kept in the workspace"
            if result.counts.get("labeled", total) < total:
                kept = f"{result.counts['labeled']:,} of {total:,} are labeled"
            interrupted(f"{kept}: {go_on}.")
        warn(f"Stopped at --max-cost-usd: {go_on} and a higher limit.")
        raise typer.Exit(1)


def _restore(context: typer.Context, settings: "Settings", url: str, *, as_json: bool) -> None:
    import asyncio

    from redis.asyncio import Redis

    from ragtide_offline.replay.plan import open_recording
    from ragtide_offline.replay.restoring import Restored, restore_lost
    from ragtide_roles.running import on_signal
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_runtime.redis.url import RedisHandle

    from ..printing.live import print_restored
    from ..running.progress import interrupted
    from ..running.redis import with_redis

    for name in sorted(context.params.keys() - {"recording", "restore", "as_json"}):
        if str(getattr(context.get_parameter_source(name), "name", "")) == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise ConfigurationError(f"--restore puts back all that Redis lost: leave {option} out")
    recording = open_recording(url, settings)

    async def body(redis: Redis, _: RedisHandle) -> Restored:
        stop = asyncio.Event()
        with on_signal(stop.set):
            return await restore_lost(redis, settings, recording, stop)

    restored = with_redis(settings, body)
    if as_json:
        print_json(restored.as_dict())
    else:
        print_restored(restored, recording)
    if restored.left:
        interrupted(f"{restored.left:,} items are left: to go on, give the same command again.")


def _check_processes(processes: int | None, *, relabel: bool, speed: str) -> None:
    from ragtide_runtime.errors import ConfigurationError

    if processes is None:
        return
    if not relabel:
        raise ConfigurationError("--processes needs --relabel: metric events are replayed by one process")
    if speed != "max":
        raise ConfigurationError(
            "--processes labels parts of the recording at once, so there is no pace: leave --speed out, or --processes"
        )


workspaces = command_group("workspaces")


@command("ragtide replay workspaces", runs=workspaces)
def show_workspaces(context: typer.Context, as_json: JsonOption = False) -> None:
    """List or remove the workspaces of replays and experiments.

    Without a command it lists them, the oldest first; with --json as a list.
    """
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas import Workspace

    from ..printing.live import WORKSPACE_COLUMNS
    from ..running.redis import with_redis

    settings = given(context).settings()

    async def body(redis: Redis, _: RedisHandle) -> list[Workspace]:
        deployment = Deployment(redis, settings)
        known = await deployment.workspaces()
        warn(*deployment.warnings())
        return known

    known = with_redis(settings, body)
    if as_json:
        print_json([workspace.model_dump(mode="json") for workspace in known])
    elif known:
        out.print(fitted(WORKSPACE_COLUMNS, known, out.width))
    else:
        err.print("No workspaces yet: ragtide replay and ragtide experiment create them.")


@command("ragtide replay workspaces remove judged", of=workspaces, name="remove")
def remove_workspaces(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of workspaces.")],
) -> None:
    """Remove workspaces with all their keys, and the parts of interactions that were labeled in processes.

    Live estimates do not change.
    """
    from ragtide_runtime.workspaces import remove_listed_workspace, remove_parts

    from ..running.redis import with_redis

    settings = given(context).settings()
    for name in names:
        gone = with_redis(settings, lambda redis, _, name=name: remove_listed_workspace(redis, settings, name))  # type: ignore[misc]
        remove_parts(settings, name)
        err.print(f"{name} is removed: {gone:,} keys", highlight=False)


replay.add_typer(workspaces, short_help=line_in_list(workspaces))


rules = command_group("rules", "Check alert rules, test them, or begin with a template.")


@command(
    "ragtide rules check ragtide.toml --strict",
    exits="1 if a rule is wrong, or with --strict if there is a warning",
    of=rules,
    name="check",
)
def check_rules(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="TOML file with an [[alerts]] table for each rule.")],
    strict: Annotated[bool, typer.Option("--strict", help="The exit code is 1 for warnings, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check alert rules. The exit code is 1 if a rule is wrong.

    A rule is wrong if a field is wrong, or if its metric does not exist. A rule has a warning if the labeler of the
    settings never publishes its metric, or if no setting declares it. Redis is read only for a rule on a criterion that
    the settings do not have: an operator may have stored it.
    """
    from rich.text import Text

    from ragtide_offline.replay.plan import rules_of
    from ragtide_roles.rule_checks import default_rules_sentence, rule_findings
    from ragtide_runtime.settings.alerting import BLOCKS, default_rules_of
    from ragtide_runtime.settings.open_sessions import closing_sentence
    from ragtide_schemas.printable import printable

    from ..running.redis import criteria_of_metrics

    rules_read = rules_of(file)
    settings, unread = criteria_of_metrics(given(context).settings(), [rule.metric for rule in rules_read])
    findings = rule_findings(rules_read, settings)
    warn(*filter(None, [unread]))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        marks = {"error": ("✗", "red"), "warning": ("!", "yellow")}
        for finding in findings:
            sentence = printable(f" {file}: alert rule {finding.rule}: {finding.message}")
            out.print(Text.assemble(marks[finding.level], sentence), soft_wrap=True)
        wrong = {finding.rule for finding in findings}
        defaults = default_rules_of(rules_read)
        own = [rule for rule in rules_read if rule.name not in defaults]
        fine = sum(rule.name not in wrong for rule in own)
        out.print(Text.assemble(("✓", "green"), f" {fine} of {len(own)} rules can fire"))
        out.print(default_rules_sentence(defaults), style="bright_black", highlight=False, soft_wrap=True)
        on_segments = [printable(rule.name) for rule in rules_read if rule.segment is not None]
        if on_segments and not settings.history.enabled:
            out.print(
                f"Alerts of {', '.join(on_segments)} have no chart: set history.enabled = true.",
                style="bright_black",
                highlight=False,
                soft_wrap=True,
            )
        if settings.clusters.by not in ("none", BLOCKS):
            out.print(
                closing_sentence(settings.clusters),
                style="bright_black",
                highlight=False,
                soft_wrap=True,
            )
    if any(finding.level == "error" or strict for finding in findings):
        raise typer.Exit(1)


@command("ragtide rules template", "ragtide rules template falls --pipeline shop", of=rules)
def template(
    name: Annotated[str | None, typer.Argument(help="Name of the template; without it, all are listed.")] = None,
    pipeline: Annotated[str, typer.Option(help="Name of the pipeline, or a shell-style pattern.")] = "*",
) -> None:
    """Print alert rules for a new pipeline, as TOML with comments."""
    from ragtide_roles.rule_templates import TEMPLATES, about, fill_template
    from ragtide_runtime.errors import ConfigurationError
    from ragtide_schemas.suggestions import unknown

    if name is None:
        columns: list[Column[str]] = [Column("template", str), Column("rules", about)]
        out.print(fitted(columns, [*TEMPLATES], out.width))
        return
    if name not in TEMPLATES:
        raise ConfigurationError(unknown("template", name, TEMPLATES))
    out.print(fill_template(name, pipeline), end="", markup=False, highlight=False, soft_wrap=True)


@command("ragtide rules test ragtide.toml --recording recording --since 2026-10-01", of=rules, name="test")
def back_test(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="TOML file with an [[alerts]] table for each rule.")],
    recording: Annotated[str, typer.Option(help="Folder or URL of the recording.")],
    since: SinceOption = None,
    until: UntilOption = None,
    pipeline: PipelinesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which alerts the rules of a file would have raised over a recording.

    The recorded metric events are aggregated again, in memory. The command needs no Redis and changes no estimate.
    Redis is read only for a rule on a criterion that the settings do not have: an operator may have stored it.
    """
    import asyncio

    from ragtide_offline.replay.plan import open_recording, rules_of
    from ragtide_offline.replay.result import ReplayResult
    from ragtide_offline.replay.rule_test import RuleTest
    from ragtide_offline.replay.selection import selection
    from ragtide_roles.running import on_signal
    from ragtide_runtime.telemetry.logs import configure_logging

    from ..printing.live import print_rule_test
    from ..running.laboratory import shown_replay
    from ..running.progress import interrupted, progress_bar
    from ..running.redis import criteria_of_metrics

    tested = rules_of(file)
    settings, unread = criteria_of_metrics(given(context).settings(), [rule.metric for rule in tested])
    configure_logging("error")
    opened = open_recording(recording, settings)
    testing = RuleTest(settings, opened, selection(since, until, pipeline, None), tested)
    total = testing.counted.total

    async def body() -> ReplayResult:
        stop = asyncio.Event()
        with on_signal(stop.set), progress_bar("testing", total) as bar:
            return await testing.run(stop, shown_replay(bar))

    result = asyncio.run(body())
    if as_json:
        print_json(result.as_dict())
    else:
        print_rule_test(opened, result, total)
    warn(*result.unfired, *filter(None, [unread]))
    if not result.counts["complete"]:
        interrupted(f"Only {result.counts['n']:,} of {total:,} metric events were tested.")
