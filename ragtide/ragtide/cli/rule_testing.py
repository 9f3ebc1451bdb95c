"""`ragtide rules test`: shows which alerts the rules of a file would have raised over a recording."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer

from ragtide_offline.replay.plan import open_recording, rules_of
from ragtide_offline.replay.rule_test import RuleTest, RuleTestResult
from ragtide_offline.replay.selection import selection
from ragtide_roles.running import on_signal
from ragtide_runtime.recordings import Recording
from ragtide_runtime.telemetry.logs import configure_logging

from .alert_views import alerts_view
from .common import JsonOption, given
from .console import err, out, print_json, warn
from .progress import interrupted, progress_bar
from .replay import rules_table
from .replay_notes import shown_replay

ALERTS_SHOWN: Final = 10
"""Most alerts that are shown in full."""


def back_test(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="TOML file with an [[alerts]] table for each rule.")],
    recording: Annotated[str, typer.Option(help="Folder or URL of the recording.")],
    since: Annotated[str | None, typer.Option(help="Interactions from this time on (ISO 8601, UTC).")] = None,
    until: Annotated[str | None, typer.Option(help="Interactions before this time.")] = None,
    pipeline: Annotated[list[str] | None, typer.Option(help="Only this pipeline; may be repeated.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show which alerts the rules of a file would have raised over a recording.

    The recorded metric events are aggregated again, in memory. The command needs no Redis and changes no estimate.
    """
    settings = given(context).settings()
    configure_logging("error")
    opened = open_recording(recording, settings)
    testing = RuleTest(settings, opened, selection(since, until, pipeline, None), rules_of(file))
    total = testing.counted.total

    async def body() -> RuleTestResult:
        stop = asyncio.Event()
        with on_signal(stop.set), progress_bar("testing", total) as bar:
            return await testing.run(stop, shown_replay(bar))

    found = asyncio.run(body())
    if as_json:
        print_json(found.as_dict())
    else:
        _print(opened, found, total)
    warn(*found.unfired)
    if not found.counts["complete"]:
        interrupted(f"Only {found.counts['n']:,} of {total:,} metric events were tested.")


def _print(recording: Recording, found: RuleTestResult, total: int) -> None:
    out.print(rules_table(found.rules, out.width))
    if found.alerts:
        out.print()
        out.print(alerts_view(sorted(found.alerts, key=lambda alert: alert.fired_at)[:ALERTS_SHOWN]))
    if len(found.alerts) > ALERTS_SHOWN:
        err.print(f"{len(found.alerts) - ALERTS_SHOWN:,} more alerts: --json has all of them", highlight=False)
    err.print(f"{total:,} metric events of {recording.url} in {found.seconds:.1f} s", highlight=False, soft_wrap=True)
