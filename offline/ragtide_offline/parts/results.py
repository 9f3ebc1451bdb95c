"""The summary of results of `score_batches`, wherever and in whatever order they were made. Needs pyarrow."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ragtide_aggregator.estimates.estimates import ORDERED, STRATEGIES
from ragtide_aggregator.state.state import AggregatorState
from ragtide_producers import UnreadableFileError
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent
from ragtide_schemas.suggestions import unknown

from ..score.batches import SCHEMA, batches_of
from ..score.interface import check_level
from ..score.summary import OPTIONS, Summary, n_rows, summary_of, summary_of_drawn
from .part_files import columns_of_results


def summarize_batches(results: Any, *, strategy: str = "normal", confidence: float | None = None) -> Summary:
    """Return the summary of results of `score_batches`, equal to the bit to that of all rows in one process.

    Neither the order of the rows nor how they were cut into batches changes a bit. So an engine may score the rows on
    any number of machines.

    Args:
        results: columns of `score_batches`: anything with Arrow's C stream protocol, or an iterable of record batches.
        strategy: method of the intervals; not `auto` or `running`, which need the order of the rows.
        confidence: level of the intervals; by default that of a deployment without settings.

    Raises:
        ConfigurationError: the strategy is unknown or needs the order, or the confidence is not between 0 and 1.
        UnreadableFileError: the data are no results of `score_batches`.
    """
    check_level(confidence)
    usable = [name for name in STRATEGIES if name not in ORDERED]
    if strategy not in usable:
        raise ConfigurationError(
            f"{unknown('strategy', strategy, usable)}. Intervals that need the order of the rows come from score(), or "
            "from ragtide score merge"
        )
    state, problems, drawn = AggregatorState(OPTIONS), list[str](), list[MetricEvent]()
    for batch in batches_of(results):
        scored = _results(pa.Table.from_batches([batch]))
        faulty = scored.filter(pc.is_valid(scored["problem"])).select(["row", "problem"]).to_pylist()
        problems += [f"row {row['row']}: {row['problem']}" for row in faulty]
        ids = scored["interaction_id"].filter(pc.is_null(scored["problem"]))
        columns = columns_of_results(scored)
        places = np.flatnonzero(pc.is_valid(scored.filter(pc.is_null(scored["problem"]))["drawn"]).to_numpy())
        drawn += [columns.source.event(place) for place in places.tolist()]
        rejected = state.apply_columns(columns)
        problems += [f"{ids[rejection.place]}: {rejection.error.detail}" for rejection in rejected]
    level = Settings.model_fields["confidence"].default if confidence is None else confidence
    summary = summary_of(state, strategy=strategy, confidence=level, problems=problems, ordered=False)
    if not drawn:
        return summary
    by_hand = n_rows(summary) - len(drawn)
    weighted = summary_of_drawn(drawn, by_hand, strategy=strategy, confidence=level, ordered=False)
    return replace(weighted, problems=problems)


def _results(table: Any) -> Any:
    missing = sorted(set(SCHEMA.names) - set(table.column_names))
    if missing:
        raise UnreadableFileError(
            f"the data have no column {missing[0]}: give results of score_batches with all of its columns"
        )
    try:
        return table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, ValueError, KeyError) as error:  # KeyError: several columns have one name
        raise UnreadableFileError(f"the columns are not those of score_batches: {error}") from None
