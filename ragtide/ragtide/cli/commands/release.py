"""`ragtide release`: two versions of a pipeline that serve at the same time, and the verdict on the newer one."""

from typing import Annotated

import typer

from ..printing import err, fitted, out, print_json
from ..running import GateReports, JsonOption, PipelineOption, VerdictLimits, given
from . import command, command_group

release = command_group("release")


@command("ragtide release", "ragtide release --pipeline shop --json", runs=release)
def list_releases(context: typer.Context, pipeline: PipelineOption = None, as_json: JsonOption = False) -> None:
    """Watch a release until its verdict, or list releases.

    A release opens by itself when a second version of a pipeline answers (the segment version). Without a command it
    lists the releases, the newest first, with both numbers of the metric that decided or that stands worst.
    """
    settings = given(context).settings()
    from redis.asyncio import Redis

    from ragtide_aggregator.reading.deployment import Deployment
    from ragtide_aggregator.reading.verdicts import record_of
    from ragtide_runtime.redis.url import RedisHandle
    from ragtide_schemas.release import Release

    from ..printing.releases import RELEASE_COLUMNS
    from ..running.redis import with_redis

    async def body(redis: Redis, _: RedisHandle) -> list[Release]:
        releases = await Deployment(redis, settings).releases(pipeline)
        return [record_of(watched) for watched in releases]

    releases = with_redis(settings, body)
    if as_json:
        print_json([listed.model_dump(mode="json") for listed in releases])
    elif releases:
        out.print(fitted(RELEASE_COLUMNS, releases, out.width))
    else:
        err.print("No releases: one opens when a second version of a pipeline answers, in the segment version.")


@command("ragtide release show --pipeline shop", "ragtide release show --pipeline shop --to v2 --json", of=release)
def show(
    context: typer.Context,
    pipeline: Annotated[str, typer.Option(help="The pipeline.")],
    from_version: Annotated[
        str | None, typer.Option("--from", help="The version that served before; default: of the newest release.")
    ] = None,
    to_version: Annotated[
        str | None, typer.Option("--to", help="The new version; default: of the newest open release, or of the last.")
    ] = None,
    limits: VerdictLimits = VerdictLimits(),
    as_json: JsonOption = False,
) -> None:
    """Show the verdict on a release at present, and each metric: both means, the difference and its interval."""
    settings = given(context).settings()
    from ..printing.releases import VERDICT_COLUMNS
    from ..running.releases import question_of, read_once, with_reader

    asked = question_of(pipeline, (from_version, to_version), limits)
    shown = with_reader(settings, asked, limits.url, read_once)
    if as_json:
        print_json(shown.model_dump(mode="json"))
        return
    out.print(shown.sentence, highlight=False, soft_wrap=True)
    if shown.metrics:
        out.print(fitted(VERDICT_COLUMNS, shown.metrics, out.width))


@command(
    "ragtide release watch --pipeline shop --from v1 --to v2 --until 2h",
    "ragtide release watch --pipeline shop --from v1 --to v2 --url https://ragtide.example.com --junit release.xml",
    exits="4 if the new version is worse, 5 if that is undecided at the end",
    of=release,
)
def watch(
    context: typer.Context,
    pipeline: Annotated[str, typer.Option(help="The pipeline.")],
    from_version: Annotated[str, typer.Option("--from", help="The version that served before.")],
    to_version: Annotated[str, typer.Option("--to", help="The new version; it may come later.")],
    until: Annotated[str, typer.Option(metavar="TIME", help="Longest time, such as 30m or 2h.")] = "2h",
    every: Annotated[str, typer.Option(metavar="TIME", help="Time between two looks, such as 30s.")] = "30s",
    limits: VerdictLimits = VerdictLimits(),
    reports: GateReports = GateReports(),
    as_json: JsonOption = False,
) -> None:
    """Wait for the verdict on a release, as a gate of a rollout.

    It ends at the first verdict, with the exit code 0 if the new version is not worse, and 4 if it is. It prints a line
    when something changes. A service or a Redis that restarts does not end it.
    """
    settings = given(context).settings()
    from ragtide_offline.gates.release_gate import release_gate

    from ..running.gating import check_reports, exit_for, report_gate
    from ..running.releases import question_of, seconds_of, watch_release, with_reader

    check_reports(reports)
    until_s, every_s = seconds_of(until, "--until"), max(seconds_of(every, "--every"), 0.01)
    asked = question_of(pipeline, (from_version, to_version), limits)
    console = err if as_json else out

    def say(sentence: str) -> None:
        console.print(sentence, highlight=False, soft_wrap=True)

    watched = with_reader(
        settings,
        asked,
        limits.url,
        lambda read: watch_release(read, asked, say, until_s=until_s, every_s=every_s),
    )
    if as_json:
        print_json(watched.model_dump(mode="json"))
    result = release_gate(watched, reports.undecided)
    report_gate(result, "release watch", reports, as_json=as_json)
    exit_for(result)
