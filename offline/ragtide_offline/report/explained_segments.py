"""A change between two views of a metric, explained by the values of one segment."""

from collections.abc import Sequence
from dataclasses import asdict
from math import isinf
from typing import Any, Final

from ragtide_aggregator.estimates.segment_values import measured_effects, moments_by_value
from ragtide_aggregator.estimates.view import View
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.causes.change_in_words import in_words
from ragtide_aggregator.statistics.causes.explained_change import ExplainedChange, explained_change, without
from ragtide_aggregator.statistics.causes.mix_shift import DesignEffects

SMALLEST: Final = 0.02
"""Change that does not matter, as a part of the metric's range."""


def explained_by(
    values: Sequence[str],
    name: str,
    views: tuple[View, View],
    wholes: tuple[EstimateKey, EstimateKey],
    *,
    confidence: float,
    blocks: bool = False,
) -> ExplainedChange | None:
    """Return a change explained by the values of a segment; None if one of the views has no scores.

    Args:
        values: of the segment, as `lang=de`.
        name: of the segment.
        views: before the change, and since.
        wholes: keys without a segment, one for each view.
        confidence: level of the intervals.
        blocks: whether clusters are stretches of neighbours.
    """
    before, since = (moments_by_value(view, whole, values) for view, whole in zip(views, wholes, strict=True))
    if before is None or since is None:
        return None
    effects = [measured_effects(view, whole, blocks=blocks) for view, whole in zip(views, wholes, strict=True)]
    lowest, highest = wholes[0].value_range
    return explained_change(
        [*values, without(name)],
        before,
        since,
        confidence=confidence,
        min_effect=SMALLEST * (highest - lowest),
        effects=DesignEffects(*(max(parts) for parts in zip(*effects, strict=True))),
        value_range=(lowest, highest),
    )


def change_as_dict(change: ExplainedChange) -> dict[str, Any]:
    """Return an explained change as values that JSON can hold: `change`, and it in words."""
    found = asdict(change)
    for name in ("total", "mix", "within", "at_shares_before"):
        found[name] = getattr(change, name)._asdict()
    for one, part in zip(found["segments"], change.segments, strict=True):
        one["share"] = [share._asdict() for share in part.share]
        one["change"] = None if part.change is None else part.change._asdict()
    if change.spread_resolution is not None and isinf(change.spread_resolution):
        found["spread_resolution"] = None
    return {"change": found, "in_words": in_words(change)}
