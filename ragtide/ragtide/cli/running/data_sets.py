"""Data sets of kept items that commands write."""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_roles.kept.choosing import ChosenSpecimens
from ragtide_roles.kept.rows import json_lines, rows, write_new
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.printable import printable

from ..printing import err, warn
from .redis import with_redis

STDOUT = "-"
"""The value of --output that selects standard output."""


def write_data_set(
    settings: Settings,
    choose: Callable[[Redis, KeptSpecimens], Awaitable[ChosenSpecimens]],
    output: Path | None,
    *,
    limit: int | None,
    force: bool,
    keeps: str,
) -> None:
    """Write the chosen specimens, and print what was written and what is missing.

    Args:
        choose: returns the specimens.
        output: file to write; None for standard output.
        limit: most rows.
        force: whether a file that exists is replaced.
        keeps: why there may be fewer rows than the limit.
    """
    to_file = None if output is None or str(output) == STDOUT else output
    if to_file is not None and to_file.exists() and not force:
        raise ConfigurationError(exists_already(to_file))

    async def body(redis: Redis, _: RedisHandle) -> tuple[ChosenSpecimens, int]:
        kept = KeptSpecimens(redis, settings.layout)
        specimens = await choose(redis, kept)
        warn(*filter(None, [kept.unreadable.warning()]))
        return specimens, kept.gone

    specimens, gone = with_redis(settings, body)
    if specimens.missing:
        warn(f"No longer kept, so not in the data set: {', '.join(map(printable, specimens.missing))}")
    if gone:
        warn(f"{gone:,} {'item' if gone == 1 else 'items'} of these lists had expired and are not in the data set")
    if not specimens.chosen:
        warn("No items are kept for this, so nothing was written: ragtide items counts those that are kept")
        raise typer.Exit(1)
    text = json_lines(rows(specimens.chosen))
    if to_file is None:
        typer.echo(text, nl=False)
    else:
        write_output(to_file, text, force=force)
    err.print(_data_set_summary(specimens, to_file), markup=False, highlight=False, soft_wrap=True)
    if limit is not None and len(specimens.chosen) < limit:
        count = f"{len(specimens.chosen):,} {'item is' if len(specimens.chosen) == 1 else 'items are'}"
        warn(f"--limit is {limit:,}, and {count} kept for this: {keeps}")


def write_output(path: Path, text: str, *, force: bool) -> str:
    """Write a new file, with `force` also one that exists, and return the SHA-256 of its bytes.

    Raises: ConfigurationError if it cannot be written.
    """
    try:
        write_new(path, text, force=force)
    except FileExistsError:
        raise ConfigurationError(exists_already(path)) from None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written ({error.strerror}): give another --output") from None
    return sha256(text.encode()).hexdigest()


def exists_already(path: Path) -> str:
    """Return the sentence about a file that would be replaced."""
    return f"{path} exists: give another --output, or --force to replace it"


def _data_set_summary(specimens: ChosenSpecimens, path: Path | None) -> str:
    interactions = [choice.specimen.interaction for choice in specimens.chosen]
    times = sorted(interaction.occurred_at for interaction in interactions)
    names = sorted({interaction.pipeline for interaction in interactions})
    pipelines = f"pipeline {names[0]}" if len(names) == 1 else f"{len(names):,} pipelines"
    count = f"{len(interactions):,} {'row' if len(interactions) == 1 else 'rows'}"
    kinds = sorted({choice.specimen.redacted_by for choice in specimens.chosen}, reverse=True)
    redacted = " or ".join(f"redacted by {', '.join(names)}" if names else "not redacted" for names in kinds)
    return (
        f"{count} of {pipelines}, answered from {times[0]:%Y-%m-%d %H:%M} to {times[-1]:%Y-%m-%d %H:%M} UTC"
        f"{'' if path is None else f', written to {path}'}. They contain texts of users, {redacted}."
    )
