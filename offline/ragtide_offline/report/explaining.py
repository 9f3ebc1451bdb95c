"""A change of a metric, since a time or between two views, explained by the segment that explains most of it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from math import isinf
from typing import Any, Final

from ragtide_aggregator.estimates.segment_values import measured_effects, moments_by_value, segment_names
from ragtide_aggregator.estimates.view import View, WindowSpan
from ragtide_aggregator.events.keys import HIDDEN, UNBOUNDED, VERSION, EstimateKey
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.causes.change_in_words import in_words
from ragtide_aggregator.statistics.causes.explained_change import (
    ExplainedChange,
    explained_change,
    explains_most,
    without,
)
from ragtide_aggregator.statistics.causes.mix_shift import DesignEffects
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_runtime.errors import RagtideError
from ragtide_runtime.redis.keys import workspace_of
from ragtide_runtime.settings.alerting import BLOCKS
from ragtide_schemas import Alert, from_milliseconds, to_milliseconds
from ragtide_schemas.suggestions import unknown

from .labelings import metric_fields

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
    fields = asdict(change)
    if change.spread_resolution is not None and isinf(change.spread_resolution):
        fields["spread_resolution"] = None
    return {"change": fields, "in_words": in_words(change)}


class NotExplainable(RagtideError):  # noqa: N818  # reads as the state it names
    """A change cannot be explained; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class ExplainedDrift:
    """A change of a metric of a pipeline, explained by the values of one segment."""

    key: EstimateKey
    """What was measured, in the whole pipeline."""
    segment: str
    """Name of the segment, such as `lang`."""
    since: datetime
    """Start of the first pane that holds no score from before the change."""
    before_since: datetime
    """Start of the stretch before; no earlier than the oldest pane that is kept."""
    alert_id: str | None
    change: ExplainedChange
    others: Mapping[str, str]
    """Verdict of every other segment in words, by its name; empty if the caller named the segment."""

    @property
    def sentence(self) -> str:
        """The explanation in one sentence."""
        total = self.change.total.estimate
        moved = f"{'fell' if total < 0 else 'rose'} by {abs(total):.3f}"
        return (
            f"{self.key.metric} of {self.key.pipeline} {moved} since {self.since:%Y-%m-%d %H:%M} UTC: "
            f"{in_words(self.change)}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as values that JSON can hold."""
        return {
            "pipeline": self.key.pipeline,
            **metric_fields(self.key),
            "labeler_version": self.key.labeler_version,
            "segment": self.segment,
            "alert_id": self.alert_id,
            "since": self.since.isoformat(),
            "before_since": self.before_since.isoformat(),
            "others": dict(self.others),
            **change_as_dict(self.change),
            "sentence": self.sentence,
        }


async def alert_of_change(
    deployment: Deployment, pipeline: str, *, metric: str | None, alert_id: str | None = None
) -> Alert:
    """Return the alert that says when a change began.

    Args:
        metric: of the change; that of the alert unless given.
        alert_id: the alert; unless given, the latest one of the pipeline and metric, first of those about the whole
            pipeline, then of those about one segment value, whose time is used for the whole pipeline.

    Raises:
        NotExplainable: there is no such alert, or it is not about a mean.
    """
    alerts = await deployment.alerts()
    if alert_id is None:
        own = [
            alert
            for alert in alerts
            if alert.pipeline == pipeline and metric in (None, alert.metric) and not _obstacle(alert)
        ]
        if not own:
            raise NotExplainable(f"no alert about a mean of {pipeline} says when a change began: give --since TIME")
        return max(own, key=lambda alert: (alert.segment is None, alert.status != "resolved", alert.fired_at))
    named = [alert for alert in alerts if alert.alert_id == alert_id]
    if not named:
        raise NotExplainable(unknown("alert", alert_id, (alert.alert_id for alert in alerts)))
    alert = named[-1]
    if alert.pipeline != pipeline or metric not in (None, alert.metric):
        raise NotExplainable(f"alert {alert_id} is about {alert.metric} of {alert.pipeline}: name these")
    if (obstacle := _obstacle(alert)) is not None:
        raise NotExplainable(f"alert {alert_id} {obstacle}")
    return alert


def _obstacle(alert: Alert) -> str | None:
    """Return why an alert cannot be explained by segments; None if it can."""
    if alert.labeler is None:
        return "is not about scores: only a change of a mean is split"
    if alert.quantity != "mean":
        return f"is about the {alert.quantity}: only a change of a mean is split"
    return None


async def explain_drift(
    deployment: Deployment,
    pipeline: str,
    change: datetime | Alert,
    *,
    metric: str,
    by: str | None = None,
    before_ms: int | None = None,
    labeler: str | None = None,
    confidence: float | None = None,
) -> ExplainedDrift:
    """Return a change of a metric since a time, explained by the segment that explains most of it.

    Panes are whole: the pane that holds the time belongs to the stretch since.

    Args:
        pipeline: its name.
        change: its time, or the alert that says when it began.
        metric: qualified name.
        by: name of a segment; the one that explains most unless given.
        before_ms: length of the stretch before; everything that is kept unless given.
        labeler: name of the labeler; the one with the most scores since unless given.
        confidence: level of the intervals; that of the settings unless given. If the segment is chosen, each segment
            has its share of the rest (Bonferroni).

    Raises:
        NotExplainable: there is nothing to explain, or nothing that explains it.
        CheckpointError: a checkpoint cannot be read.
    """
    level = deployment.settings.confidence if confidence is None else confidence
    alert = change if isinstance(change, Alert) else None
    began = (change.began_at or change.fired_at) if isinstance(change, Alert) else change
    state, pane_ms = _with_panes(await deployment.states(pipeline))
    # The pane that holds the change has values from before it and since: it is in neither stretch.
    until_ms = to_milliseconds(began) // pane_ms * pane_ms
    since_ms = -(-to_milliseconds(began) // pane_ms) * pane_ms
    scopes = (pipeline, None), (pipeline, workspace_of(deployment.settings.prefix))
    wholes = _keys_of_metric(state, scopes, metric, labeler if alert is None else alert.labeler)
    whole = max(wholes, key=lambda key: _count(_since(state, key, since_ms, pane_ms), key))
    kept_ms, newest_ms = _kept_since(state, whole, pane_ms)
    # A segment value without new scores holds older panes than the whole pipeline: they are no part of its mix.
    start_ms = max(kept_ms, 0 if before_ms is None else (until_ms - before_ms) // pane_ms * pane_ms)
    views = View(state, span=WindowSpan(start_ms, until_ms, 0)), _since(state, whole, since_ms, pane_ms)
    for view, name in zip(views, ("before", "since"), strict=True):
        if not _count(view, whole):
            if kept_ms + pane_ms >= newest_ms:
                raise NotExplainable(
                    f"{metric} of {pipeline} has scores from {_minute(kept_ms)} to {_minute(newest_ms)} only, which is "
                    f"one pane of a window and cannot be divided: try again when there are scores after "
                    f"{_minute(newest_ms)}"
                )
            if name == "since" and until_ms < since_ms == newest_ms:
                raise NotExplainable(
                    f"it is too early to explain {metric} of {pipeline}: scores up to {_minute(since_ms)} are counted "
                    "together with those from before the change. Try again when there are scores after "
                    f"{_minute(since_ms)}. An alert says itself what its own search found: ragtide alerts"
                )
            raise NotExplainable(
                f"{metric} of {pipeline} has no scores {name} {_minute(since_ms)}: give --since with a time from "
                f"{_minute(kept_ms + pane_ms)} to {_minute(newest_ms)}; older scores are gone (twice the longest "
                "window is kept)"
            )
    blocks = deployment.settings.clusters.by == BLOCKS
    names = _segments_to_try(segment_names(state, whole), by)
    changes = {
        name: explained
        for name, values in names.items()
        if (
            explained := explained_by(
                values, name, views, (whole, whole), confidence=1 - (1 - level) / len(names), blocks=blocks
            )
        )
    }
    best = explains_most(changes)
    return ExplainedDrift(
        key=whole,
        segment=best,
        since=from_milliseconds(since_ms),
        before_since=from_milliseconds(start_ms),
        alert_id=None if alert is None else alert.alert_id,
        change=changes[best],
        others={name: in_words(change) for name, change in changes.items() if name != best},
    )


def _with_panes(states: Sequence[AggregatorState]) -> tuple[AggregatorState, int]:
    for state in states:
        if state.panes is not None:
            return state, Panes(state.panes.windows(), 0).pane_ms
    raise NotExplainable("the deployment keeps no windows, so nothing is known of before and since: set windows")


def _keys_of_metric(
    state: AggregatorState, scopes: Sequence[tuple[str, str | None]], metric: str, labeler: str | None
) -> list[EstimateKey]:
    keys = [key for key in state.keys if (key.pipeline, key.run) in scopes and key.segment is None]
    keys = [key for key in keys if not key.metric.startswith(HIDDEN) and key.metric not in UNBOUNDED]
    if not keys:
        raise NotExplainable(unknown("pipeline", scopes[0][0], {key.pipeline for key in state.keys}))
    own = [key for key in keys if key.metric == metric]
    if not own:
        raise NotExplainable(unknown("metric", metric, {key.metric for key in keys}))
    by_labeler = [key for key in own if labeler in (None, key.labeler)]
    if not by_labeler:
        raise NotExplainable(unknown("labeler", str(labeler), {key.labeler for key in own}))
    return by_labeler


def _kept_since(state: AggregatorState, key: EstimateKey, pane_ms: int) -> tuple[int, int]:
    row = state.index(key)
    first_ms = None if row is None or state.panes is None else state.panes.first_ms(row)
    end_ms = (state.newest_ms(key) // pane_ms + 1) * pane_ms
    return (end_ms if first_ms is None else first_ms), end_ms


def _minute(time_ms: int) -> str:
    return f"{from_milliseconds(time_ms):%Y-%m-%d %H:%M} UTC"


def _since(state: AggregatorState, key: EstimateKey, since_ms: int, pane_ms: int) -> View:
    end_ms = (state.newest_ms(key) // pane_ms + 1) * pane_ms
    return View(state, span=WindowSpan(since_ms, max(end_ms, since_ms), since_ms))


def _count(view: View, key: EstimateKey) -> int:
    row = view.state.index(key)
    return 0 if row is None else int(view.moments([row]).n[0])


def _segments_to_try(names: Mapping[str, list[str]], by: str | None) -> dict[str, list[str]]:
    if not names:
        raise NotExplainable("the interactions have no segments: publish them with segments, such as lang")
    if by is not None and by not in names:
        raise NotExplainable(unknown("segment", by, names))
    if by is not None:
        return {by: names[by]}
    # A new version changes the system and not the traffic, so it explains no mix unless a user asks for it.
    of_traffic = {name: values for name, values in names.items() if name != VERSION}
    if not of_traffic:
        raise NotExplainable(f"the interactions have only the segment {VERSION}: give --by {VERSION} to split by it")
    return of_traffic
