"""Makes the options of a state from the settings, for an owner that applies events and for a reader."""

from dataclasses import replace
from typing import Final

from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import RECENT_PANES
from ragtide_schemas.alert_rule import duration_ms

from ..alerts.watched_release import ReleaseOptions
from ..state.history import keeps_late
from ..state.options import HistoryOptions, KeyCaps, LevelOptions, StateOptions
from ..statistics.tables.panes import Panes
from .windows import windows_of

MONTH_MS: Final = duration_ms("30d")
"""The period of `moves.false_per_month`."""


def state_options(settings: Settings) -> StateOptions:
    """Return the options of a state to which events are applied.

    Raises:
        ConfigurationError: a window in the settings is invalid.
    """
    return StateOptions(
        rules=settings.alerts,
        segments=settings.segments,
        panes=_panes(settings),
        budget=settings.budget,
        partitions=settings.partitions,
        quantiles=settings.quantiles,
        clusters=_clusters(settings),
        history=_history(settings),
        levels=level_options(settings),
        releases=release_options(settings) if settings.releases.enabled else None,
        caps=KeyCaps(settings.keys_cap, settings.partition_keys_cap),
    )


def reader_options(settings: Settings) -> StateOptions:
    """Return the options of a state that is only read: without alert rules, because alerts are on a stream.

    Raises:
        ConfigurationError: a window in the settings is invalid.
    """
    return StateOptions(
        segments=settings.segments,
        panes=_panes(settings),
        quantiles=settings.quantiles,
        clusters=_clusters(settings),
        history=_history(settings),
    )


def level_options(settings: Settings) -> LevelOptions | None:
    """Return how a partition watches the levels of metrics; None if the settings ask for no watch."""
    moves = settings.moves
    if not moves.enabled:
        return None
    return LevelOptions(moves.false_per_month / settings.partitions, MONTH_MS)


def release_options(settings: Settings) -> ReleaseOptions:
    """Return how releases are watched."""
    releases = settings.releases
    # Each partition of a split pipeline gives a verdict on its own answers.
    alpha = releases.alpha / (settings.partitions if settings.splits else 1)
    return ReleaseOptions(releases.margin, releases.margin_relative, alpha, releases.until_ms, releases.severity)


def _clusters(settings: Settings) -> ClusterSettings | None:
    return None if settings.clusters.by == "none" else settings.clusters


def _history(settings: Settings) -> HistoryOptions | None:
    history = settings.history
    if not history.enabled:
        return None
    options = HistoryOptions(
        fine_ms=duration_ms(history.fine),
        coarse_ms=duration_ms(history.coarse),
        fine_kept=history.fine_panes,
        coarse_kept=history.coarse_panes,
        expire_ms=duration_ms(history.coarse_for),
        series_max=history.series_max,
        segments=frozenset(history.segments),
        watched=frozenset((rule.segment, rule.metric) for rule in settings.alerts if rule.segment is not None),
        recent_ms=history.recent_ms,
        recent_kept=RECENT_PANES,
    )
    # Recent panes have no room for values that are days late.
    has_room = keeps_late(options, int(settings.lateness_s * 1000))
    return options if has_room else replace(options, recent_ms=0, recent_kept=0)


def _panes(settings: Settings) -> Panes:
    return Panes(windows_of(settings), int(settings.lateness_s * 1000))
