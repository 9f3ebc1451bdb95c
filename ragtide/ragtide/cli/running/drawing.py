"""Data sets that are drawn: the source that a command names, scores where it has none, and what was drawn."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import typer
from redis.asyncio import Redis

from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_offline.datasets.drawn_set import DrawnSet, DrawOptions, added_rows, draw_set
from ragtide_offline.datasets.rows import read_set
from ragtide_offline.datasets.sources import AnswerSource, source_of_files, source_of_kept, source_of_recording
from ragtide_offline.replay.plan import open_recording
from ragtide_offline.replay.selection import Selection
from ragtide_offline.score.scored_file import labeling_of
from ragtide_producers import FileOptions, Row
from ragtide_roles.kept.annotations import HIGHEST, LOWEST, StoredAnnotations
from ragtide_roles.kept.rows import json_lines
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction

from ..printing import Column, err, fitted, out, print_json, warn
from .data_sets import write_set
from .progress import interruptible, progress_bar
from .redis import with_redis

OWNERS: Final = ("user", "session")
POSITIVE: Final = "feedback.positive"


def most_of(text: str | None) -> tuple[str, int] | None:
    """Return what `--most-per` names: user or session, and the most rows of each.

    Raises: typer.BadParameter if it is not written as user=2.
    """
    if text is None:
        return None
    owner, _, number = text.partition("=")
    if owner not in OWNERS or not number.isdecimal() or int(number) < 1:
        raise typer.BadParameter(f"{text!r} is not user=K or session=K, such as user=2", param_hint="--most-per")
    return owner, int(number)


def source_to_draw(
    settings: Settings, sources: Sequence[str], files: FileOptions, selection: Selection
) -> AnswerSource:
    """Return the answers of files, of a recording, or without any source those of the kept sample.

    Raises:
        RagtideError: a source cannot be read.
    """
    if not sources:
        return with_redis(settings, lambda redis, _: _kept(redis, settings, selection))
    if not any(map(is_recording, sources)):
        return source_of_files(sources, files, selection)
    if len(sources) > 1:
        raise typer.BadParameter("a recording has its scores: give it alone", param_hint="SOURCE")
    with interruptible(lambda: "Nothing was written: give the same command again."):
        return source_of_recording(open_recording(sources[0], settings), selection)


def is_recording(place: str) -> bool:
    """Return whether a source is a folder or a URL, and no file."""
    return Path(place).is_dir() or ("://" in place and not place.startswith("hf:"))


async def _kept(redis: Redis, settings: Settings, selection: Selection) -> AnswerSource:
    kept = KeptSpecimens(redis, settings.layout)
    sample = [specimen for name in await kept.pipelines() for specimen in await kept.sample(name)]
    stored = StoredAnnotations(redis, settings.prefix)
    feedback: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for annotation in [*await stored.read(), *await stored.read(saw_scores=True)]:
        given = feedback[annotation.pipeline, annotation.interaction_id]
        for metric, score in annotation.gold_scores.items():
            given.setdefault(metric, score)
        if annotation.rating is not None:
            given[POSITIVE] = float(annotation.rating > (LOWEST + HIGHEST) / 2)
    warn(*filter(None, [kept.unreadable.warning()]))
    return source_of_kept(sample, feedback, selection)


def draw_from(settings: Settings, source: AnswerSource, options: DrawOptions) -> DrawnSet:
    """Return the drawn rows; answers without a score are scored by the local labeler, with a progress bar.

    Raises:
        ConfigurationError: the source and the options do not fit.
    """
    with interruptible(lambda: "Nothing was written: give the same command again."), _local(settings) as label:
        return draw_set(source, options, label)


@contextmanager
def _local(settings: Settings) -> Iterator[Callable[[RagInteraction], Mapping[str, float]]]:
    done = 0
    with asyncio.Runner() as runner:
        opened = labeling_of(settings.model_copy(update={"labeler": "local"}))
        label, _, _ = runner.run(opened.__aenter__())

        async def scores_of(row: Row) -> Mapping[str, float]:
            return (await label(row)).scores

        try:
            with progress_bar("scoring", None) as show:

                def scores(interaction: RagInteraction) -> Mapping[str, float]:
                    nonlocal done
                    done += 1
                    show(done)
                    return runner.run(scores_of(Row(done, interaction)))

                yield scores
        finally:
            runner.run(opened.__aexit__(None, None, None))


def write_drawn(
    context: typer.Context, drawn: DrawnSet, path: Path | None, add_to: Path | None
) -> Sequence[Mapping[str, Any]]:
    """Write the rows, behind those of another set if one is named, and return all of them.

    Args:
        context: of the command, which the version of the set names.
        path: file to write; None for standard output.
        add_to: the other set.

    Raises:
        ConfigurationError: the file cannot be written, or the other set has rows of the same answers.
    """
    rows: Sequence[Mapping[str, Any]] = drawn.rows
    if add_to is not None:
        rows = added_rows([row.fields for row in read_set(add_to)], drawn, add_to)
    if path is None:
        typer.echo(json_lines(rows), nl=False)
    else:
        write_set(context, path, rows, force=True)
    return rows


Summary = Mapping[str, Any]

COLUMNS: Final = (
    Column[Summary]("stratum", lambda stratum: stratum["stratum"], shortest=24, yields=1),
    Column[Summary]("answers", lambda stratum: f"{stratum['of']:,.0f}", right=True),
    Column[Summary]("rows", lambda stratum: f"{stratum['rows']:,}", right=True),
    Column[Summary]("probability", lambda stratum: f"{stratum['probability']:.3f}", right=True),
)


def show_draw(drawn: DrawnSet, path: Path | None, rows: int, *, as_json: bool, rows_are_shown: bool) -> None:
    """Print the strata, and what was left out and why.

    Args:
        path: file that was written; None for standard output.
        rows: number of rows in it.
        as_json: whether to print one line of JSON.
        rows_are_shown: whether the rows are on standard output, so that all else goes to standard error.
    """
    summary = drawn.as_dict()
    if as_json:
        print_json({**summary, "output": str(path), "rows_of_set": rows})
        return
    console = err if rows_are_shown else out
    console.print(fitted(COLUMNS, summary["strata"], console.width))
    for sentence in sentences(drawn, path, rows):
        console.print(sentence, style="bright_black", highlight=False)


def sentences(drawn: DrawnSet, path: Path | None, rows: int) -> list[str]:
    """Return what was drawn in words.

    Args:
        path: file that was written; None for standard output.
        rows: number of rows in it.
    """
    draw, per = drawn.draw, drawn.options.most_per
    written = "" if path is None else f", written to {path}"
    whole = "" if rows == len(drawn.rows) else f", which has {rows:,} rows now"
    lines = [f"{len(drawn.rows):,} rows of {drawn.answers:,} answers of {drawn.source}{written}{whole}."]
    if drawn.metric is not None:
        lines.append(f"Strata got rows by their answers and by the spread of {drawn.metric} ({drawn.labeler}).")
    left_out = []
    if draw.near_duplicates:
        left_out.append(f"{draw.near_duplicates:,} near duplicates")
    if per is not None and draw.of_owners:
        left_out.append(f"{draw.of_owners:,} beyond {per[1]:,} of a {per[0]}")
    if left_out:
        lines.append(f"Left out: {' and '.join(left_out)}. The answers that stayed stand for them.")
    if drawn.unknown:
        lines.append(f"{drawn.unknown:,} kept items have no known probability and were not drawn from.")
    redacted = {name for row in drawn.rows for name in row["metadata"]["ragtide"]["redacted_by"]}
    by = f"redacted by {', '.join(sorted(redacted))}" if redacted else "not redacted"
    return [*lines, f"The rows contain texts of users, {by}."]
