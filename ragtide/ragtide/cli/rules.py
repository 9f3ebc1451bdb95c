"""`ragtide rules`: checks the alert rules in a file, tests them on a recording, and prints templates."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from ragtide_aggregator.events.batch import BLOCKS
from ragtide_offline.replay.plan import open_recording, rules_of
from ragtide_offline.replay.result import ReplayResult
from ragtide_offline.replay.rule_test import RuleTest
from ragtide_offline.replay.selection import selection
from ragtide_roles.rule_checks import rule_findings
from ragtide_roles.rule_templates import TEMPLATES, about, filled
from ragtide_roles.running import on_signal
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import Recording
from ragtide_runtime.telemetry.logs import configure_logging
from ragtide_schemas.printable import printable
from ragtide_schemas.suggestions import unknown

from .alert_views import alerts_view
from .command_groups import command_group
from .common import JsonOption, given
from .console import err, out, print_json, warn
from .fitting import Column, fitted
from .progress import interrupted, progress_bar
from .replay import rules_table
from .replay_notes import shown_replay

rules = command_group("Check alert rules, test them, or begin with a template.", no_args_is_help=True)

ALERTS_SHOWN: Final = 10
"""Most alerts that `ragtide rules test` shows in full."""


@rules.command()
def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="TOML file with an [[alerts]] table for each rule.")],
    strict: Annotated[bool, typer.Option("--strict", help="The exit code is 1 for warnings, too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check alert rules, without Redis. The exit code is 1 if a rule is wrong.

    A rule is wrong if a field is wrong, or if its metric does not exist. A rule has a warning if the labeler of the
    settings never publishes its metric, or if no setting declares it.
    """
    found, settings = rules_of(file), given(context).settings()
    findings = rule_findings(found, settings)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        marks = {"error": ("✗", "red"), "warning": ("!", "yellow")}
        for finding in findings:
            sentence = printable(f" {file}: alert rule {finding.rule}: {finding.message}")
            out.print(Text.assemble(marks[finding.level], sentence), soft_wrap=True)
        wrong = {finding.rule for finding in findings}
        fine = sum(rule.name not in wrong for rule in found)
        out.print(Text.assemble(("✓", "green"), f" {fine} of {len(found)} rules can fire"))
        if settings.clusters.by not in ("none", BLOCKS):
            out.print(
                f"A session counts in rules when it has {settings.clusters.size:,} interactions, or none for "
                f"{settings.clusters.quiet_s:g} s: no alert comes sooner (clusters.size, clusters.quiet_s).",
                style="bright_black",
                highlight=False,
                soft_wrap=True,
            )
    if any(finding.level == "error" or strict for finding in findings):
        raise typer.Exit(1)


@rules.command()
def template(
    name: Annotated[str | None, typer.Argument(help="Name of the template; without it, all are listed.")] = None,
    pipeline: Annotated[str, typer.Option(help="Name of the pipeline, or a shell-style pattern.")] = "*",
) -> None:
    """Print alert rules for a new pipeline, as TOML with comments."""
    if name is None:
        out.print(
            fitted([Column("template", TEMPLATES), Column("rules", [about(one) for one in TEMPLATES])], out.width)
        )
        return
    if name not in TEMPLATES:
        raise ConfigurationError(unknown("template", name, TEMPLATES))
    out.print(filled(name, pipeline), end="", markup=False, highlight=False, soft_wrap=True)


@rules.command("test")
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

    async def body() -> ReplayResult:
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


def _print(recording: Recording, found: ReplayResult, total: int) -> None:
    out.print(rules_table(found.rules, out.width))
    if found.alerts:
        out.print()
        out.print(alerts_view(sorted(found.alerts, key=lambda alert: alert.fired_at)[:ALERTS_SHOWN]))
    if len(found.alerts) > ALERTS_SHOWN:
        err.print(f"{len(found.alerts) - ALERTS_SHOWN:,} more alerts: --json has all of them", highlight=False)
    err.print(f"{total:,} metric events of {recording.url} in {found.seconds:.1f} s", highlight=False, soft_wrap=True)
