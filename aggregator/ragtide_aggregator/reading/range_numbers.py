"""Keeps the means of ranges until their pipeline changes, or until the range moves on by a pane. No I/O."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ..estimates.over_time import HistoryPoint, TimeRange, lengths_of
from ..events.keys import EstimateKey, PairKey
from ..state.options import HistoryOptions

RANGES_KEPT: Final = 32
"""Ranges whose means are kept, those read last."""

RangeName = tuple[object, ...]


def range_name(span: TimeRange, options: HistoryOptions) -> RangeName:
    """Return what decides the panes of a range of one point: it is equal until the range moves on by a pane."""
    start, end = span.start_ms, span.end_ms
    panes = tuple((-(-start // length), start // length, -(-end // length)) for length in lengths_of(span, options))
    return panes, span.coarse, span.whole, span.recent


class RangeNumbers:
    """The means of keys in ranges; None for a key without a value in the range."""

    def __init__(self) -> None:
        self._known: OrderedDict[RangeName, dict[EstimateKey | PairKey, HistoryPoint | None]] = OrderedDict()
        self.number = 0
        """Number of times that means were dropped."""
        self._dropped: dict[str, int] = {}
        self._all_dropped = 0

    def drop(self, pipelines: Collection[str] | None) -> None:
        """Drop the means of pipelines that changed; None for all."""
        if pipelines is not None and not pipelines:
            return
        self.number += 1
        if pipelines is None:
            self._known.clear()
            self._dropped, self._all_dropped = {}, self.number
            return
        self._dropped |= dict.fromkeys(pipelines, self.number)
        for points in self._known.values():
            for key in [key for key in points if _pipeline(key) in pipelines]:
                del points[key]

    def of(self, name: RangeName) -> Mapping[EstimateKey | PairKey, HistoryPoint | None]:
        """Return the means of a range that are known."""
        return self._known.get(name, {})

    def keep(
        self,
        name: RangeName,
        keys: Iterable[EstimateKey | PairKey],
        points: Mapping[EstimateKey | PairKey, HistoryPoint],
        *,
        since: int,
    ) -> None:
        """Keep the means of keys, some of which have no value in the range.

        Args:
            since: `number` before they were read; those that were dropped meanwhile are not kept.
        """
        if self._all_dropped > since:
            return
        fresh = {key: points.get(key) for key in keys if self._dropped.get(_pipeline(key), 0) <= since}
        self._known.setdefault(name, {}).update(fresh)
        self._known.move_to_end(name)
        if len(self._known) > RANGES_KEPT:
            self._known.popitem(last=False)


def _pipeline(key: EstimateKey | PairKey) -> str:
    return key.proxy.pipeline if isinstance(key, PairKey) else key.pipeline
