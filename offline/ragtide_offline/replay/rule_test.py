"""Replays recorded metric events in memory, to show which alerts rules would have raised. It needs no Redis."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ragtide_aggregator.checkpoint.commit import CHECKPOINT_VERSION, Step
from ragtide_aggregator.checkpoint.loading import Checkpoint, checkpoint_of_fields
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.options import StateOptions
from ragtide_aggregator.statistics.tables.names import AUTO
from ragtide_roles.rule_checks import check_rules, known_metrics
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, AlertRule

from .counting import count_selected
from .evidence_curve import EvidenceCurve, FollowedRule, nearest_to_alarm
from .plan import open_recording
from .recorded_entries import RecordedEntries
from .result import ReplayResult, by_rule, recorded_alerts, without_values
from .selection import SCOPE_FIELDS, NothingSelectedError, Selection, selection
from .session import ReplaySession, Show

COMMIT_S: Final = 0.2
"""Most seconds between two commits, and between two reports of the progress."""


class _MemoryStore:
    """The fields that a committed step would leave in Redis, and the alerts."""

    def __init__(self, streams: Streams, options: StateOptions) -> None:
        self._streams = streams
        self._options = options
        self._fields: dict[str, bytes] = {}
        self.alerts: dict[str, Alert] = {}
        """Alerts by id, each in its latest state, in the order in which they fired."""

    async def load(self) -> Checkpoint:
        return checkpoint_of_fields(self._streams, self._options, dict(self._fields))

    async def write(self, step: Step) -> None:
        self._fields.update(step.rows)
        for name in step.gone:
            self._fields.pop(name, None)
        self._fields[CheckpointField.VERSION] = CHECKPOINT_VERSION
        self._fields[CheckpointField.POSITION] = step.position.encode()
        self._fields[CheckpointField.FEEDBACK_POSITION] = step.feedback_position.encode()
        self._fields[CheckpointField.STEPS] = b"%d" % (step.before + 1)
        self.alerts.update((alert.alert_id, alert) for alert in step.alerts)


class RuleTest:
    """A test of alert rules on the recorded metric events and feedback of a selection.

    The alerts are those of `ragtide replay` with the same rules, to the bit.

    Args:
        selection: the part to replay.
        followed: the rule whose evidence the result has.

    Raises:
        ConfigurationError: a rule is wrong, or nothing is selected.
    """

    def __init__(
        self,
        settings: Settings,
        recording: Recording,
        selection: Selection,
        rules: Sequence[AlertRule],
        *,
        followed: FollowedRule | None = None,
    ) -> None:
        check_rules(tuple(rules), known_metrics(settings))
        self._settings = settings
        self._recording = recording
        self._selection = selection
        self._rules = tuple(rules)
        self._followed = followed
        self.counted = count_selected(recording, EntryKind.METRICS, selection, SCOPE_FIELDS)
        """Number of selected metric events, in all and by scope."""
        self._source = RecordedEntries(recording, selection)

    async def run(self, stop: asyncio.Event, show: Show) -> ReplayResult:
        """Replay until the end, or until `stop` is set.

        Raises:
            UnreadableRecordingError: a file of the recording is missing or damaged.
        """
        started = time.monotonic()
        stores = self._stores()
        curves: dict[int, EvidenceCurve] = {}
        if self._followed is not None:
            total = self._count_followed(self._followed)
            curves = {
                partition: EvidenceCurve(self._followed, total, store.alerts) for partition, store in stores.items()
            }
        session = ReplaySession(
            self._source,
            self.counted,
            feedback_window_s=self._settings.feedback_window_s,
            commit_s=COMMIT_S,
            speed=None,
            curves=curves,
        )
        await session.run(stores, stop, show)
        show(session.progress)
        alerts = sorted(
            (alert for store in stores.values() for alert in store.alerts.values()),
            key=lambda alert: (alert.fired_at, alert.alert_id),
        )
        valued = {
            estimate.metric
            for part in session.parts.values()
            for estimate in estimates(part.state, strategy=AUTO, confidence=self._settings.confidence, windows=False)
            if estimate.n
        }
        valued |= {key.metric for part in session.parts.values() for key in part.state.covariate_keys}
        return ReplayResult(
            session.counts(),
            time.monotonic() - started,
            alerts,
            by_rule(self._rules, alerts, recorded_alerts(self._recording, self._selection)),
            list(without_values(self._rules, valued)),
            evidence=nearest_to_alarm(list(curves.values())),
        )

    def _stores(self) -> dict[int, _MemoryStore]:
        # The partitions share the budget of false alarms, as in a live deployment.
        count = max(self._recording.partitions) + 1
        shared = self._settings.model_copy(update={"alerts": self._rules, "partitions": count})
        # No rule reads quantiles, history, levels or releases. The cause of an alert reads the panes of windows.
        options = replace(state_options(shared), quantiles=False, history=None, levels=None, releases=None)
        splits = self._settings.splits
        return {
            streams.partition: _MemoryStore(streams, options.of_partition(streams.partition, split=bool(splits)))
            for streams in Layout(self._settings.prefix, count, splits).all()
        }

    def _count_followed(self, followed: FollowedRule) -> int:
        since = max(filter(None, (followed.start, self._selection.since)))
        until = min(filter(None, (followed.end, self._selection.until)))
        part = replace(self._selection, since=since, until=until)
        try:
            return count_selected(self._recording, EntryKind.METRICS, part, ()).total
        except NothingSelectedError:
            return 0


def open_rule_test(
    settings: Settings, place: str, rule: AlertRule, *, since: str | None, until: str | None, pipeline: str | None
) -> RuleTest:
    """Return the test of one rule on a part of a recording.

    Args:
        place: folder or URL of the recording.
        since: a date or time (ISO 8601, UTC).
        until: the same, itself not included.
        pipeline: the only one; None for all.
    """
    part = selection(since, until, [pipeline] if pipeline else None, None)
    return RuleTest(settings, open_recording(place, settings), part, (rule,))
