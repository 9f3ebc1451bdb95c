"""`ragtide rules`: checks the alert rules in a file, and tests them on a recording."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ragtide_offline.replay.plan import rules_of
from ragtide_roles.rule_findings import rule_findings
from ragtide_schemas.printable import printable

from .command_groups import command_group
from .common import JsonOption, given
from .console import out, print_json
from .rule_testing import back_test

rules = command_group("Check a file of alert rules, or test it on a recording.", no_args_is_help=True)


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
    found = rules_of(file)
    findings = rule_findings(found, given(context).settings())
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
    if any(finding.level == "error" or strict for finding in findings):
        raise typer.Exit(1)


rules.command("test")(back_test)
