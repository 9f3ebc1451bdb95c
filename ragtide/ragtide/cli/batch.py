"""`ragtide batch`: asks the judge about files through batches of its endpoint."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ragtide_consumers.labelers.judge.costs import BatchProgress
from ragtide_offline.benchmark.batching import BatchRun, ask_in_batches
from ragtide_runtime.telemetry.logs import configure_logging

from .common import JsonOption, given
from .console import err, out, print_json
from .progress import interruptible


def batch(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Files of interactions.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first rows of each file.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the batches.")] = True,
    poll_s: Annotated[float, typer.Option("--poll-s", min=0.01, help="Seconds between two looks at a batch.")] = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Ask the judge in batches, at half the price.

    ragtide score and ragtide benchmark find the answers in data_dir. A command that was killed goes on when it is given
    again.
    """
    settings = given(context).settings()
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    last: BatchProgress | None = None

    def show(progress: BatchProgress) -> None:
        nonlocal last
        if progress != last:
            err.print(
                f"batch {progress.id}: {progress.status}, {progress.done:,} of {progress.total:,} requests",
                markup=False,
                highlight=False,
            )
        last = progress

    with interruptible(lambda: "The batch goes on at the endpoint: give the same command again."):
        found = asyncio.run(ask_in_batches(settings, files, limit=limit, wait=wait, poll_s=poll_s, show=show))
    if as_json:
        print_json(found.as_dict())
    else:
        out.print(_told(found), markup=False, highlight=False)


def _told(found: BatchRun) -> str:
    lines = [f"{found.stored:,} answers stored, ${found.cost_usd:,.4f}."]
    if found.waiting is not None:
        lines.append(f"Batch {found.waiting.id} has not ended ({found.waiting.status}): give the same command again.")
    elif found.failed:
        reason = max(found.failed.values(), key=[*found.failed.values()].count)
        lines.append(f"{len(found.failed):,} requests stay for ordinary calls, most often because of: {reason}")
    if found.waiting is None:
        lines.append("Now ragtide score or ragtide benchmark with --labeler judge uses the stored answers.")
    return "\n".join(lines)
