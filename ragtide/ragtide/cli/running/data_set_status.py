"""A data set beside the traffic, and a data set without some of its rows."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import cast

import typer

from ragtide_aggregator.estimates.ranges import LENGTH
from ragtide_offline.datasets.rows import SetRow, read_set
from ragtide_offline.datasets.sources import source_of_recording
from ragtide_offline.datasets.status import ComparedSet, compare_with_traffic, pipelines_of
from ragtide_offline.datasets.versions import labeled_by
from ragtide_offline.replay.plan import open_recording
from ragtide_offline.replay.selection import Selection
from ragtide_producers import FileOptions
from ragtide_producers.files.formats.json import JsonLines
from ragtide_producers.files.formats.text import PACKED
from ragtide_producers.files.interactions import format_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction, utc_now
from ragtide_schemas.alert_rule import duration_ms
from ragtide_schemas.printable import printable

from ..printing import err, print_json, warn
from ..printing.datasets import add_command, print_comparison, print_versions, remove_command
from .data_sets import read_versions, shown_place, write_set
from .drawing import is_recording, source_to_draw
from .progress import interruptible


def show_status(
    settings: Settings,
    path: Path,
    against: str | None,
    *,
    last: timedelta,
    expires_after: timedelta,
    pipeline: str | None,
    as_json: bool,
) -> None:
    """Print versions, age and labels of a data set, and how it differs from the traffic.

    Args:
        path: file of the set.
        against: a recording or a file of interactions; None for the kept sample.
        last: length of the traffic that is compared.
        expires_after: time after which a row expires whose documents do not appear.
        pipeline: only traffic of this pipeline; None for those of the rows.
        as_json: whether to print JSON.

    Raises:
        RagtideError: the set or the traffic cannot be read.
        typer.Exit: with code 1, if there is no traffic.
    """
    rows, versions = read_set(path), read_versions(path)
    edit = versions.edit(rows) if versions.last is not None else None
    labeled = versions.last.labeled_by if versions.last is not None and edit is None else labeled_by(rows)
    pipelines = frozenset([pipeline]) if pipeline else pipelines_of(rows)
    compared = _compared(
        settings, rows, against, Selection(pipelines=pipelines or None), last=last, expires_after=expires_after
    )
    shown = None if against is None else shown_place(against)
    if as_json:
        about = {
            "file": str(path),
            "rows": len(rows),
            "versions": [version.model_dump(mode="json") for version in versions.versions],
            "edited": None if edit is None else edit._asdict(),
            "labeled_by": labeled.model_dump(mode="json"),
        }
        if compared is not None:
            about |= compared.as_dict()
            about["add_command"] = add_command(str(path), shown, compared) if compared.to_add else None
            about["remove_command"] = remove_command(str(path), shown, compared.to_remove)
        print_json(about)
    else:
        print_versions(str(path), versions, edit, labeled=labeled, n_rows=len(rows), now=utc_now())
        if compared is not None:
            print_comparison(str(path), shown, compared, len(rows))
    if compared is None:
        named = f" of {', '.join(sorted(pipelines))}" if pipelines else ""
        warn(
            f"No traffic{named} to compare with: give --against a recording or a file of interactions, or --pipeline; "
            "without --against it is the kept sample (specimens.sample)"
        )
        raise typer.Exit(1)


def length_of(text: str, option: str) -> timedelta:
    """Return the length of time that an option names.

    Raises: typer.BadParameter if it names none.
    """
    if LENGTH.fullmatch(text) is None:
        raise typer.BadParameter(f"{text!r} is no length of time: give one such as 12h or 7d", param_hint=option)
    return timedelta(milliseconds=duration_ms(text))


def _compared(
    settings: Settings,
    rows: Sequence[SetRow],
    against: str | None,
    selection: Selection,
    *,
    last: timedelta,
    expires_after: timedelta,
) -> ComparedSet | None:
    recording = None
    interactions: Callable[[], Iterator[RagInteraction]]
    if against is not None and is_recording(against):
        recording = open_recording(against, settings)
        interactions = partial(_recorded, recording, selection)
    else:
        source = source_to_draw(settings, [] if against is None else [against], FileOptions(), selection)
        interactions = source.interactions
    with interruptible(lambda: "Nothing was written: give the same command again."):
        until = max((answer.occurred_at for answer in interactions()), default=None)
        if until is None:
            return None
        since = until - last
        if recording is not None:
            source = source_of_recording(recording, replace(selection, since=since))
        return compare_with_traffic(rows, source, interactions(), since=since, until=until, expires_after=expires_after)


def _recorded(recording: Recording, selection: Selection) -> Iterator[RagInteraction]:
    for entry in recording.entries(EntryKind.INTERACTIONS, pipelines=selection.pipelines):
        interaction = cast("RagInteraction", entry.model)
        if interaction.run is None:
            yield interaction


def remove_rows(context: typer.Context, path: Path, ids: Collection[str]) -> None:
    """Write a data set without some of its rows, as its next version.

    Raises:
        ConfigurationError: a row is not there, all are removed, or the set is no file of JSON Lines.
    """
    rows = read_set(path)
    known = {row.item.item_id for row in rows}
    missing = [name for name in ids if name not in known]
    if missing:
        raise ConfigurationError(f"{path} has no row {printable(missing[0])}: ragtide dataset status --json shows ids")
    left = [row.fields for row in rows if row.item.item_id not in ids]
    if not left:
        raise ConfigurationError(f"{path} would have no row: delete the file, or keep a row")
    if not isinstance(format_of(path, FileOptions()), JsonLines) or path.suffix.lower() in PACKED:
        raise ConfigurationError(
            f"{path} is not a file of JSON Lines, as ragtide dataset writes: remove the rows there"
        )
    write_set(context, path, left, force=True)
    err.print(f"{len(rows) - len(left):,} of {len(rows):,} rows removed from {path}", markup=False, highlight=False)
