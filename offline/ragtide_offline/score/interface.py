"""Scoring and reading for notebooks and tests: `load`, `score` and `estimates` return values and print nothing."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby, starmap
from pathlib import Path
from typing import Any

from ragtide_aggregator.estimates.choices import RECOMMENDED, chosen
from ragtide_aggregator.estimates.estimates import STRATEGIES
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.diagnoses import diagnoses
from ragtide_aggregator.statistics.tables.names import AUTO
from ragtide_consumers.labelers.plugins import check_labeler
from ragtide_consumers.labelers.protocol import Labeler, criteria_of
from ragtide_producers import FileOptions, Row, UnreadableFileError, read_rows
from ragtide_producers.files.chunk_rows import whole_rows
from ragtide_producers.files.columns import Mapped
from ragtide_producers.files.formats import Record
from ragtide_producers.files.interactions import HEAD_ROWS, columns_seen, name_of, row_of
from ragtide_producers.files.items import record_of
from ragtide_roles.criteria.sessions import session_criteria, with_sessions
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.waiting import blocking
from ragtide_runtime.settings.model import Settings, settings_of_application
from ragtide_schemas import Estimate, MetricEvent, RagInteraction
from ragtide_schemas.suggestions import unknown

from .scored_file import labeling_of
from .scoring import score_rows
from .summary import Summary, summarize

Rows = str | Path | Iterable[RagInteraction | Mapping[str, Any]]
"""A file, a Hugging Face data set, or the interactions themselves, perhaps as objects with their fields."""


def load(source: Rows, *, pipeline: str | None = None, columns: Mapped | None = None) -> list[RagInteraction]:
    """Return the interactions of a file, of a Hugging Face data set, or of objects, in their order.

    Args:
        source: a path, `hf:owner/name?split=test`, or interactions as objects.
        pipeline: pipeline of rows without one; by default the name of the file.
        columns: column by field, such as `{"documents": "contexts", "segments.lang": "request.lang"}`; known names of
            other tools are found without it. Several columns, as a list, have documents each.

    Raises:
        UnreadableFileError: the source cannot be opened, or a row is no interaction; the message names row and field.
    """
    return [
        row.interaction
        for row in _rows(source, FileOptions(pipeline, columns=columns or {}))
        if row.interaction is not None
    ]


def score(
    data: Rows,
    *,
    labeler: str | Labeler | None = None,
    pipeline: str | None = None,
    columns: Mapped | None = None,
    strategy: str = "normal",
    confidence: float | None = None,
    settings: Settings | None = None,
) -> Summary:
    """Return the summary of scored interactions, without Redis, also while an event loop runs.

    Args:
        data: a path, a Hugging Face data set, or interactions.
        labeler: name of the labeler, or a labeler; by default that of the settings.
        pipeline: pipeline of rows without one; by default the name of the file.
        columns: column by field, as for `load`.
        strategy: method of the intervals; `normal` is valid at one look, `running` at every look.
        confidence: level of the intervals; by default that of the settings.
        settings: all settings at once, instead of the environment.

    Raises:
        ConfigurationError: the labeler or the strategy is unknown, or the confidence is not between 0 and 1.
        UnreadableFileError: the data cannot be read.
    """
    check_level(confidence)
    if strategy not in STRATEGIES:
        raise ConfigurationError(unknown("strategy", strategy, STRATEGIES))
    changes = {"labeler": labeler} if isinstance(labeler, str) else {}
    known = settings_of_application(**changes) if settings is None else settings.model_copy(update=changes)
    level = known.confidence if confidence is None else confidence
    own = None if labeler is None or isinstance(labeler, str) else check_labeler(labeler, "the given labeler")
    rows = list(_rows(data, FileOptions(pipeline, columns=columns or {})))
    events, problems = blocking(_score_all(rows, known, own))
    summary = summarize(events, strategy=strategy, confidence=level)
    return replace(summary, problems=(*problems, *summary.problems), events=tuple(events))


def estimates(
    pipeline: str | None = None,
    *,
    redis_url: str | None = None,
    confidence: float | None = None,
    settings: Settings | None = None,
) -> Summary:
    """Return the recommended estimates of live traffic at the last commits, valid at every look.

    Args:
        pipeline: only this pipeline.
        redis_url: Redis to use; by default that of the settings.
        confidence: level of the intervals; by default that of the settings.
        settings: all settings at once, instead of the URL and the environment.

    Raises:
        ConfigurationError: there are estimates, but none of this pipeline, or the confidence is not between 0 and 1.
        RedisUnavailable: Redis cannot be reached.
    """
    check_level(confidence)

    async def read() -> list[Estimate]:
        async with Deployment.connect(redis_url, settings=settings) as deployment:
            return await deployment.estimates(strategy=AUTO, confidence=confidence, windows=False)

    everything = chosen(blocking(read()), estimator=RECOMMENDED)
    known = {estimate.pipeline for estimate in everything}
    if pipeline is not None and known and pipeline not in known:
        raise ConfigurationError(unknown("pipeline", pipeline, known))
    selected = [estimate for estimate in everything if pipeline in (None, estimate.pipeline)]
    return Summary(selected, diagnoses(selected))


async def _score_all(rows: list[Row], settings: Settings, own: Labeler | None) -> tuple[list[MetricEvent], list[str]]:
    events: list[MetricEvent] = []
    problems: list[str] = []
    criteria = session_criteria(settings) if own is None else criteria_of(own)
    whole = with_sessions(rows, criteria, settings.clusters.quiet_s)
    async with (
        labeling_of(settings, own) as (label, labeler, at_once),
        aclosing(score_rows(whole, label, labeler, at_once=at_once)) as outcomes,
    ):
        async for outcome in outcomes:
            if outcome.event is not None:
                events.append(outcome.event)
            else:
                problems.append(f"row {outcome.row.line}: {outcome.problem}")
    return events, problems


def _rows(source: Rows, options: FileOptions) -> Iterator[Row]:
    if isinstance(source, RagInteraction | Mapping) or not isinstance(source, str | Path | Iterable):
        shown = type(source).__name__
        raise UnreadableFileError(f"the data are of type {shown}: give a path, or a list of interactions")
    if isinstance(source, str | Path):
        rows, place = read_rows(source, replace(options, unnamed=name_of(source))), f"{source}:"
    else:
        rows, place = _object_rows(source, options), "row "
    for row in rows:
        if row.interaction is None:
            raise UnreadableFileError(f"{place}{row.line}: {row.problem}")
        yield row


def check_level(confidence: object) -> None:
    """Check a level of intervals.

    Args:
        confidence: the level; None for the default.

    Raises:
        ConfigurationError: it is not between 0 and 1.
    """
    if confidence is not None and not (isinstance(confidence, int | float) and 0 < confidence < 1):
        raise ConfigurationError(f"the confidence is {confidence!r}: give a number between 0 and 1, such as 0.95")


def _object_rows(source: Iterable[object], options: FileOptions) -> Iterator[Row]:
    rows: list[Row | Record] = []
    for ready, items in groupby(enumerate(source, start=1), lambda item: isinstance(item[1], RagInteraction)):
        if ready:
            rows.extend(Row(number, item) for number, item in items if isinstance(item, RagInteraction))
        else:
            rows.extend(whole_rows(starmap(record_of, items), options.columns))
    seen = columns_seen((row for row in rows[:HEAD_ROWS] if isinstance(row, Record)), options)
    yield from (row if isinstance(row, Row) else row_of(row, options, seen) for row in rows)
