"""Files that commands read: the columns of fields, rows with their problems, and gold scores."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import typer
from rich.console import Console

from ragtide_offline.experiments.errors import kind_of
from ragtide_producers.files.columns import check_target
from ragtide_producers.files.feedback import read_feedback
from ragtide_schemas import METRICS, Feedback
from ragtide_schemas.metric_definitions import CLOSED_FAMILIES
from ragtide_schemas.printable import shortened
from ragtide_schemas.suggestions import unknown

from ..printing import err
from . import MAP


def columns_of(texts: Sequence[str] | None) -> dict[str, str | tuple[str, ...]]:
    """Return the column of each mapped field; several of `documents`.

    >>> columns_of(["question=frage, documents=ctx_1,ctx_2", 'response="answer, final"'])
    {'question': 'frage', 'documents': ('ctx_1', 'ctx_2'), 'response': 'answer, final'}
    """
    by_field: dict[str, list[str]] = {}
    for text in texts or ():
        field = ""
        parts = shlex.shlex(text, posix=True)
        parts.whitespace, parts.whitespace_split, parts.quotes, parts.escape, parts.commenters = ",", True, '"', "", ""
        try:
            pairs = list(parts)
        except ValueError:
            raise typer.BadParameter(f"{shortened(text)!r} has a quote that is not closed", param_hint=MAP) from None
        for pair in pairs:
            name, equals, column = (part.strip() for part in pair.partition("="))
            field, column = (name, column) if equals else (field, name)
            if not field or not column:
                raise typer.BadParameter(
                    f"{shortened(pair)!r} is not FIELD=COLUMN, such as documents=contexts", param_hint=MAP
                )
            try:
                check_target(field)
            except ValueError as error:
                raise typer.BadParameter(str(error), param_hint=MAP) from None
            if field in by_field and field != "documents":
                raise typer.BadParameter(f"{field} is mapped twice: give one column", param_hint=MAP)
            by_field.setdefault(field, []).append(column)
    return {name: columns[0] if len(columns) == 1 else tuple(columns) for name, columns in by_field.items()}


def columns_lines(taken: Mapping[str, str], left_out: Mapping[str, int]) -> list[str]:
    """Return lines about the fields that were read from columns with other names, and what was left out of values."""
    listed = ", ".join(f"{field} from {shortened(column)}" for field, column in taken.items())
    counted = ", ".join(f"{count:,} {name}" for name, count in left_out.items())
    return [f"{name}: {line}" for name, line in (("columns", listed), ("left out", counted)) if line]


SHOWN: Final = 5
"""Most problems of one kind that are printed."""


KINDS: Final = 20
"""Most kinds of problems with a count of their own; all other kinds share one count."""


FIRST_CHARS: Final = 100
"""Most characters of a problem that are repeated beside the number."""


class Problems:
    """Prints the first problems of each kind as they come, and counts the others.

    Args:
        source: name of the file.
    """

    def __init__(self, console: Console, source: object) -> None:
        self._console = console
        self._source = source
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, line: int | str, problem: str) -> None:
        """Count a problem of a row, and print it if it is among the first of its kind."""
        kind = kind_of(problem)
        if kind not in self._first and len(self._first) >= KINDS:
            kind = ""
        self._first.setdefault(kind, problem)
        self._counts[kind] += 1
        if self._counts[kind] <= SHOWN:
            self._print(f"{self._source}:{line}: {problem}")

    def sum_up(self) -> None:
        """Print the number of problems of each kind that were not printed."""
        for kind, count in self._counts.items():
            if count > SHOWN:
                first = self._first[kind]
                text = first if len(first) <= FIRST_CHARS else f"{first[:FIRST_CHARS]}..."
                like = f"like it: {text}" if kind else "of other kinds"
                self._print(f"{self._source}: {count - SHOWN:,} more {like}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def usable_feedback(file: Path, counts: Counter[str]) -> Iterator[Feedback]:
    """Yield the usable lines of a file of feedback; print the problems of the others."""
    problems = Problems(err, file)
    for line in read_feedback(file):
        if line.feedback is not None:
            yield line.feedback
        else:
            counts["bad"] += 1
            problems.add(line.number, line.problem or "")
    problems.sum_up()


def gold_score(text: str) -> tuple[str, float]:
    """Return the metric and the value of a gold score, written as metric=number."""
    name, _, value = text.partition("=")
    metric = name.strip()
    if metric not in METRICS and metric.partition(".")[0] in CLOSED_FAMILIES:
        raise typer.BadParameter(unknown("metric", metric, METRICS), param_hint="--gold")
    try:
        return metric, float(value)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a gold score: write metric=number, such as trace.adherence=1"
        ) from None
