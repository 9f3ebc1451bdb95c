"""Merges the states of several partitions into one, for pipelines that are split over partitions. No clock, no I/O."""

from collections.abc import Iterable

from .state import AggregatorState, StateOptions


def merged(states: Iterable[AggregatorState], options: StateOptions) -> AggregatorState:
    """Return a state with the values of all states, to be read; no events can be applied to it.

    Sums are exact, so counts, means and totals are those of one state with all values. Numbers that depend on the order
    of the values are combined. Intrinsic times are added up, which keeps anytime-valid intervals valid, and the recent
    mean is the mean of the recent means. Rule states are left out, because each partition raises its own alerts.

    Source: docs/statistics.md, "Many keys at once".
    """
    whole = AggregatorState(options)
    for state in states:
        _add(whole, state)
    return whole


def _add(whole: AggregatorState, part: AggregatorState) -> None:
    whole.declarations.merge(part.declarations)
    whole.merge_clustered(part)
    for place, key in enumerate(part.keys):
        row = whole.row_of(key)
        whole.rows.merge(row, part.rows, place)
        whole.moments.merge(row, part.moments, place)
        whole.merge_clusters(row, part, place)
        whole.merge_weights(row, part, place)
        if whole.panes is not None and part.panes is not None:
            whole.panes.merge(row, part.panes, place)
        sketch, other = whole.quantiles(row), part.quantiles(place)
        if sketch is not None and other is not None:
            sketch.merge(other)
    for place, pair in enumerate(part.pairs.keys):
        found = whole.pairs.find(pair)
        if found is None:
            found = whole.pairs.add_row(pair, whole.row_of(pair.proxy))
        whole.pairs.merge(found, part.pairs, place)
