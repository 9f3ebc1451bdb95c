"""What a gate can see, before it runs: the known scores of its rows are read from the file."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from ragtide_offline.gates.conditions import Condition, parse_condition
from ragtide_producers import FileOptions, read_rows
from ragtide_producers.files.interactions import name_of
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, MetricEvent

from ..printing import out, print_json
from . import FAIL_IF

if TYPE_CHECKING:
    from ragtide_offline.gates.foresight import Foresight, KnownScores


MOST_ROWS: Final = 10_000
"""Most rows of a file that is read before a gate runs. More rows see any fall that matters."""


def known_scores(
    file: str, options: FileOptions, labeler: str, before: Sequence[MetricEvent] | None, limit: int | None = None
) -> "KnownScores | None":
    """Return what is known of the rows of a file; None if it has several pipelines, or too many rows.

    Raises:
        UnreadableFileError: the file cannot be read.
    """
    from ragtide_offline.gates.foresight import KnownScores, stored_scores  # noqa: PLC0415 - only gates foresee
    from ragtide_offline.score.drawn import WeightedRows  # noqa: PLC0415 - as above
    from ragtide_schemas.drawn import drawn_of  # noqa: PLC0415 - as above

    rows = [row.interaction for row in islice(read_rows(file, options), MOST_ROWS + 1 if limit is None else limit)]
    answers = {answer.interaction_id: answer for answer in rows if answer is not None}
    if not answers or len(rows) > MOST_ROWS or len({answer.pipeline for answer in answers.values()}) > 1:
        return None
    stored: dict[str, dict[str, float]] = {}
    earlier: dict[str, dict[str, float]] = {}
    for name, answer in answers.items():
        for metric, score in stored_scores(answer.metadata, labeler, answer.gold_scores).items():
            stored.setdefault(metric, {})[name] = score
    for event in before or ():
        for metric, score in event.scores.items():
            earlier.setdefault(metric, {})[event.interaction_id] = score
    drawn = {
        name: (row, answer.sampling_probability)
        for name, answer in answers.items()
        if (row := drawn_of(answer.metadata))
    }
    return KnownScores(list(answers), stored, earlier, WeightedRows.of(drawn) if drawn else None)


def seen_by(
    conditions: Sequence[Condition],
    metrics: Sequence[str],
    known: "KnownScores | None",
    *,
    strategy: str,
    confidence: float,
) -> "list[Foresight]":
    """Return what the conditions of a gate can see, given what is known of the rows; nothing where it is unknown."""
    from ragtide_offline.gates.foresight import foresee  # noqa: PLC0415 - only gates foresee

    if known is None:
        return []
    seen = [
        foresee(condition, known, metrics=metrics, strategy=strategy, confidence=confidence) for condition in conditions
    ]
    return [foresight for foresight in seen if foresight is not None]


def show_power(
    settings: Settings,
    file: Path,
    options: FileOptions,
    conditions: Sequence[str],
    *,
    baseline: Path | None,
    falls: Sequence[float],
    wanted: float,
    confidence: float,
    as_json: bool,
) -> None:
    """Print what gates with these conditions can see with the rows of a file.

    Raises:
        typer.BadParameter: a condition is not written properly, or no fall decides it.
        UnreadableFileError: the file cannot be read.
    """
    from ragtide_offline.gates.foresight import foresee  # noqa: PLC0415 - only gates foresee
    from ragtide_offline.score.lines import read_lines  # noqa: PLC0415 - as above

    before = None if baseline is None else [event for event, _ in read_lines(baseline)]
    options = replace(options, unnamed=name_of(str(file)))
    known = known_scores(str(file), options, settings.labeler, before)
    if known is None:
        raise typer.BadParameter(f"{file} has several pipelines, or more than {MOST_ROWS:,} rows: give a data set")
    sees = []
    for text in conditions:
        try:
            condition = parse_condition(text)
            foresight = foresee(
                condition,
                known,
                metrics=list(METRICS),
                strategy="normal",
                confidence=confidence,
                falls=falls,
                wanted=wanted,
            )
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=FAIL_IF) from None
        if foresight is None:
            raise typer.BadParameter(f"no fall decides {text!r}: give a mean or a difference", param_hint=FAIL_IF)
        sees.append(foresight)
    if as_json:
        print_json([foresight.as_dict() for foresight in sees])
        return
    for foresight in sees:
        out.print(foresight.sentence, markup=False, highlight=False, soft_wrap=True)
