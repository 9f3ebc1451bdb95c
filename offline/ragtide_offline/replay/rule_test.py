"""Replays recorded metric events in memory, to show which alerts rules would have raised. It needs no Redis."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.util import find_spec
from typing import Any

import structlog

from ragtide_aggregator.checkpoint.commit import CHECKPOINT_VERSION, Step
from ragtide_aggregator.checkpoint.halving import Halving, StepFailedError
from ragtide_aggregator.checkpoint.loading import Checkpoint, checkpoint_of_fields
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.options import NO_WINDOWS, StateOptions
from ragtide_aggregator.statistics.means.strategies import AUTO
from ragtide_roles.rule_checks import check_rules, known_metrics
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.keys import CheckpointField, Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, AlertRule, MetricEvent

from .back_test import RuleAlerts, by_rule, recorded_alerts, without_values
from .counting import SCOPE_FIELDS, NothingSelectedError, count_selected
from .evidence_curve import EvidenceCurve, EvidencePoint, FollowedRule, nearest_to_alarm
from .metrics_replay import ReplayProgress, Show
from .partition_replay import PartitionReplay, counted
from .recorded_entries import AT_ONCE, RecordedEntries, applied_tables
from .selection import Selection

log = structlog.get_logger("ragtide.replay")


@dataclass(frozen=True, slots=True)
class RuleTestResult:
    """The alerts that rules would have raised over a recording."""

    counts: dict[str, Any]
    """`n`, `population_size`, `complete` and other counts."""
    seconds: float
    alerts: Sequence[Alert]
    """Each in its latest state."""
    rules: dict[str, RuleAlerts]
    """Alerts of each rule, beside those of production."""
    unfired: Sequence[str] = ()
    """A sentence for each rule that could not fire, because its metric had no value."""
    evidence: Sequence[EvidencePoint] = ()
    """Evidence of the followed rule."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can hold, without the evidence."""
        return {
            **self.counts,
            "seconds": self.seconds,
            "rules": {name: one.as_dict() for name, one in self.rules.items()},
            "alerts": [alert.model_dump(mode="json") for alert in self.alerts],
        }


class _MemoryCheckpoint:
    """The fields that a committed step would leave in Redis, and the alerts.

    Args:
        streams: keys of the partition, for error messages.
        options: of the state.
    """

    def __init__(self, streams: Streams, options: StateOptions) -> None:
        self._streams = streams
        self._options = options
        self._fields: dict[str, bytes] = {}
        self.alerts: dict[str, Alert] = {}
        """Alerts by id, each in its latest state, in the order in which they fired."""

    def load(self) -> Checkpoint:
        """Return the checkpoint; an empty state at the start of the stream before the first step."""
        return checkpoint_of_fields(self._streams, self._options, dict(self._fields))

    async def write(self, step: Step) -> None:
        """Write a step."""
        self._fields.update(step.rows)
        for name in step.gone:
            self._fields.pop(name, None)
        self._fields[CheckpointField.VERSION] = CHECKPOINT_VERSION
        self._fields[CheckpointField.POSITION] = step.position.encode()
        self._fields[CheckpointField.FEEDBACK_POSITION] = step.feedback_position.encode()
        self._fields[CheckpointField.STEPS] = b"%d" % (step.before + 1)
        self.alerts.update((alert.alert_id, alert) for alert in step.alerts)


@dataclass(slots=True)
class _Partition:
    memory: _MemoryCheckpoint
    halving: Halving = field(default_factory=Halving)
    curve: EvidenceCurve | None = None
    part: PartitionReplay | None = None


class RuleTest:
    """A test of alert rules on the recorded metric events and feedback of a selection.

    The alerts are those of `ragtide replay` with the same rules, to the bit.

    Args:
        settings: of the deployment.
        recording: with the metric events.
        selection: the part to replay.
        rules: to test.
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
        self._reader = RecordedEntries(recording, selection)
        self._in_tables = find_spec("pyarrow") is not None
        self._partitions: list[_Partition] = []

    async def run(self, stop: asyncio.Event, show: Show) -> RuleTestResult:
        """Replay until the end, or until `stop` is set.

        Raises:
            UnreadableRecordingError: a file of the recording is missing or damaged.
        """
        started = time.monotonic()
        # The partitions share the budget of false alarms, as in a live deployment.
        count = max(self._recording.partitions) + 1
        shared = self._settings.model_copy(update={"alerts": self._rules, "partitions": count})
        # No rule reads windows, quantiles or the history.
        options = replace(state_options(shared), panes=NO_WINDOWS, quantiles=False, history=None)
        total = self._followed_total()
        complete = True
        for streams in Layout(self._settings.prefix, count, self._settings.splits).all():
            own = options.of_partition(streams.partition, split=bool(self._settings.splits))
            one = _Partition(_MemoryCheckpoint(streams, own))
            if self._followed is not None:
                one.curve = EvidenceCurve(self._followed, total)
            self._partitions.append(one)
            while True:
                try:
                    complete = await self._applied(streams.partition, one, stop, show)
                    break
                except StepFailedError as error:
                    log.warning("searching for the entry that cannot be counted", reason=str(error))
            if not complete:
                break
        show(self._progress(None)._replace(complete=complete))
        return self._result(complete=complete, seconds=time.monotonic() - started)

    def _followed_total(self) -> int:
        if self._followed is None:
            return 0
        since = max(filter(None, (self._followed.start, self._selection.since)))
        until = min(filter(None, (self._followed.end, self._selection.until)))
        part = replace(self._selection, since=since, until=until)
        try:
            return count_selected(self._recording, EntryKind.METRICS, part, ()).total
        except NothingSelectedError:
            return 0

    async def _applied(self, partition: int, one: _Partition, stop: asyncio.Event, show: Show) -> bool:
        """Apply the entries of a partition from its last commit, and return whether the end was reached."""
        checkpoint = one.memory.load()
        expected = self._reader.expected(partition, checkpoint.feedback_position)
        one.part = part = PartitionReplay(
            one.memory.write,
            checkpoint,
            window_ms=int(self._settings.feedback_window_s * 1000),
            expected=expected,
            size_of=self.counted.population_of,
            halving=one.halving,
        )
        last = None
        for at in self._steps(partition, one, part):
            last = at or last
            known = set(one.memory.alerts)
            await part.commit()
            if one.curve is not None and last is not None:
                one.curve.look(part.state, last, [one.memory.alerts[name] for name in one.memory.alerts.keys() - known])
            show(self._progress(last))
            await asyncio.sleep(0)  # a signal sets `stop`
            if stop.is_set():
                return False
        await part.commit()
        return True

    def _steps(self, partition: int, one: _Partition, part: PartitionReplay) -> Iterator[datetime | None]:
        """Apply the remaining entries, and yield where a commit is due."""
        curve = one.curve
        if not self._in_tables or one.halving.part is not None:
            taken, events, at = 0, 0, None
            for entry in self._reader.in_time(partition, part.at):
                part.apply_entry(entry)
                if isinstance(entry.model, MetricEvent):
                    at = entry.model.occurred_at
                    events += 1
                taken += 1
                followed = curve is not None and at is not None and curve.covers(at) and events >= curve.step
                if part.full or taken >= AT_ONCE or followed:
                    taken, events = 0, 0
                    yield at
                    if self._in_tables and one.halving.part is None:
                        break
        if self._in_tables:
            cut = (lambda table: (table,)) if curve is None else curve.cut
            yield from applied_tables(self._reader, partition, part, cut=cut)

    def _progress(self, at: datetime | None) -> ReplayProgress:
        done = sum(one.part.counts.events for one in self._partitions if one.part is not None)
        return ReplayProgress(done, self.counted.total, at)

    def _result(self, *, complete: bool, seconds: float) -> RuleTestResult:
        parts = [one.part for one in self._partitions if one.part is not None]
        counts = {
            "n": sum(part.counts.events for part in parts),
            "population_size": self.counted.total,
            "complete": complete,
            **counted(part.counts for part in parts),
        }
        alerts = sorted(
            (alert for one in self._partitions for alert in one.memory.alerts.values()),
            key=lambda alert: (alert.fired_at, alert.alert_id),
        )
        rules = by_rule(self._rules, alerts, recorded_alerts(self._recording, self._selection))
        valued = {
            estimate.metric
            for part in parts
            for estimate in estimates(part.state, strategy=AUTO, confidence=self._settings.confidence, windows=False)
            if estimate.n
        }
        curves = [one.curve for one in self._partitions if one.curve is not None]
        unfired = list(without_values(self._rules, valued))
        return RuleTestResult(counts, seconds, alerts, rules, unfired, nearest_to_alarm(curves))
