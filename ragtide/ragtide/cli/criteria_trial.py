"""`ragtide criteria try`: the trial of a criterion, and its verdicts beside the judge's reasons."""

import asyncio
import random
from collections.abc import Sequence
from itertools import islice
from typing import Final

import typer
from rich.text import Text

from ragtide_offline.criteria.trying import CriterionTrial
from ragtide_offline.sessions import only_sessions
from ragtide_producers import Row
from ragtide_producers.files.interactions import FileOptions, read_rows
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.printable import printable

from .console import out
from .labeler_runs import label_rows, refuse_cost

UNNAMED: Final = "unnamed"
"""Pipeline of rows that name none."""

MOST_READ: Final = 100_000
"""Most rows from which a sample is drawn."""


def rows_of(file: str, limit: int, seed: int | None, criterion: Criterion, quiet_s: float) -> list[Row]:
    """Return the first rows of a file, or with a seed rows drawn at random; of a criterion about sessions, sessions.

    Args:
        file: of interactions.
        limit: most rows, or sessions.
        seed: of the draw; None for the first.
        criterion: that is tried.
        quiet_s: seconds without a turn after which a session has ended.

    Raises:
        typer.BadParameter: the file has no rows, or no sessions.
    """
    rows = read_rows(file, FileOptions(unnamed=UNNAMED))
    if criterion.is_of_session:
        rows = iter(only_sessions(islice(rows, MOST_READ), criterion.asked_of_all(), quiet_s))
    if seed is None:
        found = list(islice(rows, limit))
    else:
        read = list(islice(rows, MOST_READ))
        found = random.Random(seed).sample(read, min(limit, len(read)))  # noqa: S311 - no secret
    if not found and criterion.is_of_session:
        raise typer.BadParameter(f"no row of {file} has a session_id: give a file with sessions", param_hint="--file")
    if not found:
        raise typer.BadParameter(f"{file} has no interaction: give a file that has some", param_hint="--file")
    return found


def run_trial(settings: Settings, criterion: Criterion, rows: Sequence[Row], max_cost_usd: float) -> CriterionTrial:
    """Ask the judge, after its price is stated.

    Raises:
        ConfigurationError: the trial may cost more than allowed, or the price is not known.
    """
    trial = CriterionTrial(settings, criterion, rows)
    refuse_cost(asyncio.run(trial.plan()), max_cost_usd, "trial", "a lower --limit")
    label_rows(trial, "judging", total=len(rows))
    list(trial.finish())
    return trial


def show_verdicts(found: CriterionTrial) -> None:
    """Print each verdict beside its reason, then the counts."""
    width = max(out.width if out.width < 200 else 80, 40)
    answers = [verdict.answer or verdict.absent or "" for verdict in found.verdicts]
    left = min(max([len(answer) for answer in answers] or [0]), 18)
    out.print(found.criterion.question, style="bold")
    for verdict, answer in zip(found.verdicts, answers, strict=True):
        question = " ".join(printable(verdict.question or "").split())
        style = "yellow" if verdict.value is None else "bold"
        head = Text.assemble((printable(answer)[:left].ljust(left), style), "  ", Text(question))
        head.truncate(width, overflow="ellipsis")
        out.print(head)
        for line in Text(printable(verdict.reason)).wrap(out, width - left - 2) if verdict.reason else ():
            out.print(Text.assemble(" " * (left + 2), (line.plain, "bright_black")))
    counts = ", ".join(f"{answer} {count}" for answer, count in found.counts.most_common())
    share = found.cannot_tell_share
    mean = "no value" if found.mean is None else f"mean {found.mean:.3f}"
    out.print()
    what = "sessions" if found.criterion.is_of_session else "interactions"
    cost = f"${found.result.cost_usd:.4f}"
    out.print(f"{len(found.verdicts)} {what}: {counts}; {mean}; cannot tell {share or 0:.0%}; {cost}")
