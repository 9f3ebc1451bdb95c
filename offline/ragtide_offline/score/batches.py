"""Scores Arrow batches as a pure function of their rows: no Redis, no clock in the result. Needs pyarrow."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pydantic_core import to_json

from ragtide_consumers.labelers.plugins import check_labeler
from ragtide_consumers.labelers.profiles import check_profiles
from ragtide_consumers.labelers.protocol import Labeler, LabelerId, criteria_of
from ragtide_consumers.labelers.registry import BUILT_IN
from ragtide_consumers.labelers.remote.spend import FileSpend
from ragtide_producers import FileOptions, Row, UnreadableFileError
from ragtide_producers.files.columns import Mapped
from ragtide_producers.files.formats.parquet import records_of
from ragtide_producers.files.interactions import rows_of
from ragtide_roles.criteria.sessions import refuse_sessions, session_criteria
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.waiting import blocking_iterator
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.recordings.columns import COLUMNS, NUMBERS, TEXTS, Codec, too_large
from ragtide_runtime.recordings.json_lines import SOURCE_ENTRY
from ragtide_runtime.settings.model import Settings, settings_of_application
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import MetricEvent
from ragtide_schemas.printable import shortened

from .lines import patterns_of
from .scored_file import AT_ONCE_LOCAL, labeling_of
from .scoring import STORED, Outcome, ScoringStopped, score_rows

ROWS_AT_ONCE: Final = 1000
"""Rows of a batch of results, whatever the batches of the input are."""

REMOTE_ROWS: Final = 100
"""The same for a labeler that makes calls, which is slower."""

_OF_THE_RUN: Final = (SOURCE_ENTRY, "labeled_at", "latency_s")
"""Columns of a recorded metric event that do not follow from the row."""

EVENT_COLUMNS: Final[Mapping[str, Codec]] = {
    **{name: codec for name, codec in COLUMNS[EntryKind.METRICS].items() if name not in _OF_THE_RUN},
    "scores": NUMBERS,
    "gold_scores": NUMBERS,
}
"""Columns with the fields of a metric event. The scores are a map, because the schema is known before the first row."""

SCHEMA: Final = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("problem", pa.string()),
        *(pa.field(name, codec.type) for name, codec in EVENT_COLUMNS.items()),
        pa.field("diagnosis", TEXTS.type),
        pa.field("labels", pa.string()),
    ]
)
"""The columns of `score_batches`."""


def score_batches(
    reader: Any,
    *,
    labeler: str | Labeler | None = None,
    profile: str | None = None,
    pipeline: str | None = None,
    columns: Mapped | None = None,
    labels: bool = False,
    settings: Settings | None = None,
) -> Any:
    """Return a stream of the scores of Arrow rows, as a `pyarrow.RecordBatchReader` with one row for each, in order.

    Rows of one chunk each are one answer, as in files: its scores are the row of its first chunk.

    The result follows from the rows and the labeler alone: it does not depend on how the rows are cut into batches, on
    the time, or on an earlier call. A few thousand rows are in memory at once. It needs no Redis, and works while an
    event loop runs.

    Args:
        reader: anything with Arrow's C stream protocol (`__arrow_c_stream__`), such as a table of Polars, DuckDB,
            pandas or pyarrow, or an iterable of record batches. Columns have the names that they may have in files.
        labeler: name of the labeler, or a labeler; by default that of the settings.
        profile: variant of the TRACe formulas of a labeler by name; by default that of the settings.
        pipeline: pipeline of rows without one; such rows have a problem unless it is given.
        columns: column by field, as for `load`.
        labels: whether the column `labels` has the labels of each row as JSON; otherwise it is null.
        settings: all settings at once, instead of the environment.

    Raises:
        ConfigurationError: the labeler or the profile is unknown, or a labeler that is given has its own profile.
        UnreadableFileError: the reader is no Arrow data.
        ScoringStopped: raised while the result is read: no more rows can be labeled now, such as after a spend limit.
    """
    batches = batches_of(reader)
    changes = {"labeler": labeler} if isinstance(labeler, str) else {}
    changes |= {} if profile is None else {"profile": profile}
    known = settings_of_application(**changes) if settings is None else settings.model_copy(update=changes)
    own = None if labeler is None or isinstance(labeler, str) else check_labeler(labeler, "the given labeler")
    if profile is not None and own is not None:
        raise ConfigurationError(f"the labeler {own.name} has the formulas {own.profile}: leave out the profile")
    if profile is not None and known.labeler in (*BUILT_IN, STORED):
        check_profiles(known)
    options = FileOptions(pipeline, columns=columns or {})
    rows = rows_of(records_of(batches), options)
    scored = blocking_iterator(lambda: outcomes_of([rows], known, own))
    next(scored)  # the labeler is ready, or its error is raised here
    return pa.RecordBatchReader.from_batches(SCHEMA, (batch_of(outcomes, labels=labels) for outcomes in scored))


async def outcomes_of(
    groups: Iterable[Iterable[Row]],
    settings: Settings,
    own: Labeler | None = None,
    *,
    keep_answers: bool = False,
    ready: Callable[[LabelerId], object] = lambda _: None,
    as_worker: bool = False,
    account: FileSpend | None = None,
) -> AsyncGenerator[list[Outcome]]:
    """Yield an empty list when the labeler is ready, then the outcomes of all rows in order, some of a group together.

    Args:
        groups: rows to score; a list of outcomes is never of two groups.
        settings: of the labeler, and of the pseudonyms of users.
        own: the labeler, if it is the caller's; it is not closed.
        keep_answers: whether answers of remote labelers are kept for a later run.
        ready: called with the id of the labeler before the empty list.
        as_worker: whether the rows are scored in the place of a label worker, as of `score_rows`.

    Raises:
        ConfigurationError: the labeler or a profile is unknown, or a criterion is about sessions.
        ScoringStopped: no more rows can be labeled now; the outcomes before it are yielded first.
    """
    refuse_sessions(session_criteria(settings) if own is None else criteria_of(own))
    user_ids = UserIds.of(settings)
    opened = labeling_of(settings, own, keep_answers=keep_answers, patient=as_worker, account=account)
    async with opened as (label, labeler, at_once):
        ready(labeler)
        yield []
        most = ROWS_AT_ONCE if at_once == AT_ONCE_LOCAL else REMOTE_ROWS
        for rows in groups:
            waiting: list[Outcome] = []
            stopped: ScoringStopped | None = None
            worker = settings if as_worker else None
            pseudonymous = (
                row if row.interaction is None else row.with_interaction(user_ids.with_pseudonym(row.interaction))
                for row in rows
            )
            scored = score_rows(pseudonymous, label, labeler, at_once=at_once, worker=worker)
            async with aclosing(scored) as outcomes:
                try:
                    async for outcome in outcomes:
                        waiting.append(outcome)
                        if len(waiting) == most:
                            yield waiting
                            waiting = []
                except ScoringStopped as error:
                    stopped = error
            if waiting:
                yield waiting
            if stopped is not None:
                raise stopped


def batches_of(reader: Any) -> Iterable[Any]:
    """Return the record batches of Arrow data.

    Args:
        reader: anything with Arrow's C stream protocol, or an iterable of record batches.

    Raises:
        UnreadableFileError: the reader is no Arrow data.
    """
    if hasattr(reader, "__arrow_c_stream__"):
        try:
            stream: Iterable[Any] = pa.RecordBatchReader.from_stream(reader)
        except pa.ArrowException as error:
            raise UnreadableFileError(
                f"the {type(reader).__name__} has a column that Arrow cannot represent ({shortened(str(error))}): give "
                "the column one type"
            ) from None
        return stream
    if isinstance(reader, Iterable) and not isinstance(reader, str | bytes | Mapping):
        batches = iter(reader)
        first = next(batches, None)
        if first is None or isinstance(first, pa.RecordBatch):
            return () if first is None else chain([first], batches)
    raise UnreadableFileError(
        f"the data are of type {type(reader).__name__}: give a table or a reader with Arrow's C stream protocol, "
        "such as one of pyarrow, Polars, DuckDB or pandas; score() takes files and objects"
    )


def batch_of(outcomes: Sequence[Outcome], *, labels: bool) -> Any:
    """Return outcomes as a record batch with the columns of `SCHEMA`.

    Args:
        labels: whether the column `labels` is filled.
    """
    events = [outcome.event for outcome in outcomes]
    problems = [outcome.problem for outcome in outcomes]
    for name, codec in EVENT_COLUMNS.items():
        for place in too_large(codec, [None if event is None else getattr(event, name) for event in events]):
            events[place], problems[place] = None, f"{name} is beyond 2^63 - 1: give a smaller number"
    columns: dict[str, list[Any]] = {
        "row": [outcome.row.line for outcome in outcomes],
        "problem": problems,
        **{name: _column(name, codec, events) for name, codec in EVENT_COLUMNS.items()},
        "diagnosis": [None if event is None else patterns_of(event) for event in events],
        "labels": [
            to_json(outcome.labeling.labels, exclude_none=True).decode()
            if labels and event is not None and outcome.labeling is not None
            else None
            for outcome, event in zip(outcomes, events, strict=True)
        ],
    }
    for place, (outcome, event) in enumerate(zip(outcomes, events, strict=True)):
        interaction = outcome.row.interaction
        if interaction is None:
            continue
        if event is None:
            columns["interaction_id"][place] = interaction.interaction_id
            columns["pipeline"][place] = interaction.pipeline
        elif "occurred_at" not in interaction.model_fields_set:
            columns["occurred_at"][place] = None  # the time of reading would differ each time
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _column(name: str, codec: Codec, events: Sequence[MetricEvent | None]) -> list[Any]:
    write = codec.write or (lambda value: value)
    values = [None if event is None else getattr(event, name) for event in events]
    return [None if value is None else write(value) for value in values]
