"""Data sets of kept items that commands write."""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.datasets.rows import SetRow, read_set, rows_to_set
from ragtide_offline.datasets.versions import DataSetVersions
from ragtide_producers import UnreadableFileError
from ragtide_roles.kept.choosing import ChosenSpecimens
from ragtide_roles.kept.rows import json_lines, rows, write_new
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.url import RedisHandle, redact
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import InvalidEntryError, utc_now
from ragtide_schemas.printable import printable

from ..printing import err, warn
from .redis import with_redis

STDOUT = "-"
"""The value of --output that selects standard output."""


def write_data_set(
    context: typer.Context,
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
        context: of the command, which the version of the set names.
        choose: returns the specimens.
        output: file to write; None for standard output.
        limit: most rows.
        force: whether a file that exists is replaced.
        keeps: why there may be fewer rows than the limit.
    """
    to_file = None if output is None or str(output) == STDOUT else output
    check_is_new(to_file, force=force)

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
    chosen = rows(specimens.chosen)
    if to_file is None:
        typer.echo(json_lines(chosen), nl=False)
    else:
        write_set(context, to_file, chosen, force=force)
    err.print(_data_set_summary(specimens, to_file), markup=False, highlight=False, soft_wrap=True)
    if limit is not None and len(specimens.chosen) < limit:
        count = f"{len(specimens.chosen):,} {'item is' if len(specimens.chosen) == 1 else 'items are'}"
        warn(f"--limit is {limit:,}, and {count} kept for this: {keeps}")


def write_set(context: typer.Context, path: Path, rows: Sequence[Mapping[str, Any]], *, force: bool) -> DataSetVersions:
    """Write the rows of a data set and, beside it, its new version with those before; return the versions.

    If the file that is replaced differs from its last version, what stands in it becomes a version first.

    Args:
        context: of the command, which the version names.
        path: file of the set.
        rows: as values that JSON can hold.
        force: whether a file that exists is replaced.

    Raises:
        ConfigurationError: a file cannot be written, or the file of the versions is damaged.
    """
    before, found = read_versions(path), _present_rows(path)
    if found:
        before = before.followed_by(found, made_at=utc_now(), command=None)
    try:
        versions = before.followed_by(rows_to_set(rows), made_at=utc_now(), command=command_words(context))
    except ValueError as error:
        raise ConfigurationError(f"the rows are no data set: {error}") from None
    write_output(path, json_lines(rows), force=force)
    write_output(versions_path(path), versions.encode().decode() + "\n", force=True)
    return versions


def versions_path(path: Path) -> Path:
    """Return the file of the versions of a data set: `golden.versions.json` beside `golden.jsonl`."""
    return path.with_suffix(".versions.json")


def read_versions(path: Path) -> DataSetVersions:
    """Return the versions of the data set in a file; none if no command has written it.

    Raises: ConfigurationError if their file is damaged.
    """
    place = versions_path(path)
    try:
        return DataSetVersions.decode(place.read_bytes())
    except FileNotFoundError:
        return DataSetVersions()
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be read ({error.strerror}): correct its rights") from None
    except InvalidEntryError as error:
        raise ConfigurationError(
            f"{place} has no versions of a data set ({error.detail}): restore it, or delete it to begin anew"
        ) from None


def command_words(context: typer.Context) -> str:
    """Return the words of a command with the options that were given, without secrets of URLs."""
    words = [context.command_path]
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is None or source.name != "COMMANDLINE":
            continue
        given = context.params.get(parameter.name or "")
        is_option = parameter.param_type_name == "option"
        for value in given if isinstance(given, list | tuple) else [given]:
            words += [parameter.opts[0]] if is_option else []
            words += [] if isinstance(value, bool) else [_word(str(value))]
    return " ".join(words)


def _word(value: str) -> str:
    return shlex.quote(shown_place(value))


def shown_place(place: str) -> str:
    """Return a path, or a URL without its secrets."""
    return redact(place) if "://" in place else place


def _present_rows(path: Path) -> list[SetRow]:
    try:
        return read_set(path) if path.exists() else []
    except UnreadableFileError:  # it is replaced by a data set, and was none
        return []


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


def check_is_new(path: Path | None, *, force: bool) -> None:
    """Refuse a file that exists, before the work for it begins.

    Raises: ConfigurationError if it exists, unless `force` is set.
    """
    if path is not None and path.exists() and not force:
        raise ConfigurationError(exists_already(path))


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
