"""`ragtide rules check`: checks the alert rules of a file."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ragtide_offline.replay.plan import rules_of
from ragtide_roles.rule_findings import rule_findings
from ragtide_schemas.printable import printable

from .common import JsonOption, given, out, print_json

rules = typer.Typer(help="Alert rules in a file.", no_args_is_help=True)


@rules.callback()
def _group() -> None:
    """Make `check` a command of its own, although it is the only one so far."""


@rules.command()
def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="TOML file with a table of each alert rule.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check alert rules; exit code 1 if one is wrong.

    A rule is wrong if a field is wrong or the metric does not exist. A warning names a metric that the labeler of the
    settings never publishes, or that no setting declares. The command needs no Redis.
    """
    found = rules_of(file)
    findings = rule_findings(found, given(context).settings())
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        marks = {"error": ("✗", "red"), "warning": ("!", "yellow")}
        for finding in findings:
            said = printable(f" {file}: alert rule {finding.rule}: {finding.message}")
            out.print(Text.assemble(marks[finding.level], said), soft_wrap=True)
        wrong = {finding.rule for finding in findings}
        fine = sum(rule.name not in wrong for rule in found)
        out.print(Text.assemble(("✓", "green"), f" {fine} of {len(found)} rules can fire"))
    if any(finding.level == "error" or strict for finding in findings):
        raise typer.Exit(1)
