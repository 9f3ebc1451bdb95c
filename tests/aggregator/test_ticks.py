"""Ticks end the sessions of a pipeline whose traffic stopped: a state with them, recounted from the raw events."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.metric_events import START, event
from tests.support.state_cuts import turned

from ragtide import AlertRule
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.maintenance.repartitioned_fields import repartitioned
from ragtide_aggregator.state.open_clusters import LULL_MS, ShortNames, cluster_from_bytes, cluster_to_bytes
from ragtide_aggregator.state.options import HistoryOptions
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.alerting import BLOCKS, ClusterSettings
from ragtide_schemas import MetricDeclaration, MetricEvent, to_milliseconds

ADHERENCE = "trace.adherence"
QUIET_MS, SIZE = 10_000, 6
CLUSTERS = ClusterSettings(size=SIZE, quiet_s=QUIET_MS / 1000)
OPTIONS = StateOptions(clusters=CLUSTERS)
DAY_S = 86_400
START_MS = to_milliseconds(START)


def answer(number: int, session: str, at_s: float, *, occurred_s: float | None = None, **changes: Any) -> MetricEvent:
    """Return an answer that is scored at a time, and that happened then by the clock of its producer."""
    scores = changes.pop("scores", {ADHERENCE: float(number % 3 == 0)})
    occurred = START + timedelta(seconds=at_s if occurred_s is None else occurred_s)
    times = {"labeled_at": START + timedelta(seconds=at_s), "occurred_at": occurred}
    return event(number, scores, **({"session_id": session, **times} | changes))


def tick(at_s: float, pipeline: str = "shop", run: str | None = None) -> MetricEvent:
    at = START + timedelta(seconds=at_s)
    return MetricEvent.tick(pipeline, run, occurred_at=at, scored_until=at)


def state_of(events: Sequence[MetricEvent], options: StateOptions = OPTIONS) -> AggregatorState:
    state = AggregatorState(options)
    for one in events:
        state.apply(one)
    return state


def closed(state: AggregatorState, pipeline: str = "shop") -> tuple[int, int, float]:
    """Return the number of closed clusters of adherence, of their values, and the sum of the values."""
    (row,) = [
        row
        for row, key in enumerate(state.keys)
        if (key.metric, key.segment, key.pipeline) == (ADHERENCE, None, pipeline)
    ]
    sums = state.cluster_sums(np.array([row]))
    assert sums is not None
    return int(sums.count[0]), int(sums.n[0]), float(sums.n[0] * sums.mean[0])


@dataclass
class Recount:
    """The clusters of one pipeline by their definition: full, or quiet in event time or in the time of arrivals."""

    open: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)
    newest: float = -1e18
    at_last: dict[str, tuple[float, float]] = field(default_factory=dict)
    closed: list[list[float]] = field(default_factory=list)

    def take(self, event: MetricEvent) -> None:
        if event.is_tick:
            until = event.labeled_at.timestamp()
            self._close([name for name in self.open if self.at_last[name][1] + QUIET_MS / 1000 <= until])
            return
        arrived = event.labeled_at.timestamp()
        self.newest = max(self.newest, min(event.occurred_at.timestamp(), arrived))
        self._close([name for name in self.open if self.at_last[name][0] + QUIET_MS / 1000 <= self.newest])
        name = str(event.session_id)
        self.open.setdefault(name, []).append(event.scores[ADHERENCE])
        self.at_last[name] = self.newest, arrived
        if len(self.open[name]) == SIZE:
            self._close([name])

    def _close(self, names: Sequence[str]) -> None:
        self.closed += [self.open.pop(name) for name in names]


def drawn(seed: int) -> list[MetricEvent]:
    """Return answers of two pipelines with producers whose clocks are off, with pauses and ticks in between."""
    rng = np.random.default_rng(seed)
    at_s, found = 0.0, list[MetricEvent]()
    off_s = {0: 0.0, 1: -7200.0, 2: float(DAY_S)}
    for number in range(400):
        at_s += float(rng.choice([0.01, 1.0, 4.0, 15.0], p=[0.5, 0.3, 0.15, 0.05]))
        producer = int(rng.integers(3))
        pipeline = "shop" if rng.random() < 0.6 else "docs"
        session = f"{pipeline}-{producer}-{rng.integers(4)}"
        found.append(answer(number, session, at_s, occurred_s=at_s + off_s[producer], pipeline=pipeline))
        if rng.random() < 0.1:
            at_s += float(rng.choice([3.0, 10.0, 11.0, 600.0]))
            # Everything before some time is scored; the newest answers may be later than that.
            found.append(tick(at_s - float(rng.choice([0.0, 2.0, 12.0])), pipeline))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_closed_clusters_are_those_of_a_recount_from_raw_events_and_ticks(seed: int) -> None:
    events = drawn(seed)
    state = state_of(events)
    for pipeline in ("shop", "docs"):
        recount = Recount()
        for one in events:
            if one.pipeline == pipeline:
                recount.take(one)
        values = [value for cluster in recount.closed for value in cluster]
        count, n, total = closed(state, pipeline)
        assert (count, n) == (len(recount.closed), len(values))
        assert total == pytest.approx(sum(values))
        assert state.waiting[pipeline, None] == sum(map(len, recount.open.values()))


def test_a_tick_ends_exactly_the_sessions_of_which_nothing_came_for_the_quiet_time() -> None:
    events = [answer(0, "a", 0.0), answer(1, "b", 4.0), answer(2, "a", 5.0)]
    assert closed(state_of(events))[0] == 0
    assert closed(state_of([*events, tick(13.999)]))[0] == 0
    assert closed(state_of([*events, tick(14.0)]))[:2] == (1, 1)
    assert closed(state_of([*events, tick(15.0)]))[:2] == (2, 3)
    assert closed(state_of([*events, tick(15.0, "docs"), tick(15.0, run="r")]))[0] == 0


@pytest.mark.parametrize("off_s", [-7200.0, 0.0, float(DAY_S)])
def test_the_clock_of_a_producer_does_not_matter_for_a_tick(off_s: float) -> None:
    events = [answer(0, "a", 0.0, occurred_s=off_s), answer(1, "b", 4.0, occurred_s=4.0 + off_s)]
    assert closed(state_of([*events, tick(13.0)]))[:2] == (1, 1)
    assert closed(state_of([*events, tick(14.0)]))[:2] == (2, 2)


def test_an_honest_answer_after_a_tick_is_not_late() -> None:
    options = StateOptions(
        clusters=ClusterSettings(size=SIZE, quiet_s=604800),
        panes=Panes((window("1m"), window("4m/1m")), 30_000),
        history=HistoryOptions(60_000, 3_600_000, 1000, 2, 86_400_000, 100, frozenset()),
        rules=(AlertRule(name="window", kind="drift", metric=ADHERENCE, baseline_window="1m", learn_n=20),),
    )
    # The producers are two hours behind, and the tick comes an hour after their last answer.
    before = [answer(number, f"s{number % 3}", number, occurred_s=number - 7200) for number in range(40)]
    after = [answer(number, f"s{number % 3}", number + 3600, occurred_s=number - 7150) for number in range(40, 80)]
    with_tick = state_of([*before, tick(3639), *after], options).take_changes()
    without = state_of([*before, *after], options).take_changes()
    assert with_tick.rows == without.rows
    assert list(with_tick.closed) == list(without.closed)


def test_a_tick_of_a_pipeline_that_is_not_known_changes_nothing() -> None:
    events = [answer(number, f"s{number % 3}", number) for number in range(20)]
    strange = tick(500.0, "unknown").model_copy(update={"scores": {ADHERENCE: 0.5}, "absent": {"trace.average": "x"}})
    known = state_of(events).take_changes()
    assert state_of([strange, *events, strange, tick(500.0, run="unknown")]).take_changes().rows == known.rows


def test_a_repeated_tick_changes_nothing() -> None:
    events = [*drawn(7), tick(10_000.0), tick(10_000.0, "docs")]
    state = state_of(events)
    state.take_changes()
    for pipeline in ("shop", "docs"):
        state.apply(tick(10_000.0, pipeline))
        state.apply(tick(20_000.0, pipeline))
    changes = state.take_changes()
    assert (changes.rows, changes.gone, changes.alerts) == ({}, [], [])


def test_closed_sessions_of_a_tick_alone_are_in_the_next_commit() -> None:
    state = state_of([answer(number, f"s{number % 3}", number) for number in range(6)])
    fields = dict(state.take_changes().rows)
    state.apply(tick(100.0))
    changes = state.take_changes()
    for name in changes.gone:
        fields.pop(name)
    fields |= changes.rows
    assert not [name for name in fields if name.startswith(CheckpointField.OPEN_CLUSTER)]
    again = AggregatorState.from_fields(OPTIONS, turned(fields))
    assert closed(again) == closed(state)
    # The next answer of a session that a tick ended continues it.
    for one in (state, again):
        one.apply(answer(6, "s0", 101.0))
    assert again.continued == state.continued == {("shop", None): (1, 1)}


def test_later_gold_scores_keep_their_session_open_for_the_quiet_time() -> None:
    graded = answer(0, "a", 0.0)
    state = state_of([graded, answer(1, "b", 1.0)])
    state.apply_gold(graded, {ADHERENCE: 1.0}, arrived_ms=START_MS + 8_000)
    state.apply(tick(11.0))
    assert state.waiting["shop", None] == 1
    state.apply(tick(18.0))
    assert state.waiting["shop", None] == 0
    # It came after its session had ended, so it begins the next part of the session.
    state.apply_gold(answer(1, "b", 1.0), {ADHERENCE: 1.0}, arrived_ms=START_MS + 60_000)
    assert not state.quiet_scopes(START_MS + 60_000 + QUIET_MS)
    assert state.quiet_scopes(START_MS + 60_000 + QUIET_MS + LULL_MS)


def test_a_tick_is_due_once_for_what_can_end_and_never_without_open_sessions() -> None:
    state = state_of([answer(0, "a", 0.0), answer(1, "b", 4.0), answer(2, "c", 0.0, pipeline="docs")])

    def due(at_s: float) -> list[str]:
        return [quiet.scope[0] for quiet in state.quiet_scopes(START_MS + int(1000 * at_s))]

    assert due(10.9) == []
    assert due(11.0) == ["shop", "docs"]
    for quiet in state.quiet_scopes(START_MS + 11_000):
        state.apply(state.tick_of(quiet, START_MS + 11_000))
    assert (due(11.0), due(14.9), due(15.0)) == ([], [], ["shop"])
    (quiet,) = state.quiet_scopes(START_MS + 15_000)
    state.apply(state.tick_of(quiet, START_MS + 15_000))
    assert due(10**6) == []
    assert closed(state)[:2] == (2, 2)


@pytest.mark.parametrize("clusters", [None, ClusterSettings(by=BLOCKS, block=64)])
def test_no_tick_is_due_without_sessions(clusters: ClusterSettings | None) -> None:
    state = state_of([answer(number, "a", number) for number in range(20)], StateOptions(clusters=clusters))
    assert state.quiet_scopes(START_MS + 10**9) == []


@pytest.mark.parametrize("off_s", [-7200.0, 0.0])
def test_an_alert_fires_at_a_tick_at_that_time_of_the_producers(off_s: float) -> None:
    rule = AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.8, run_length=200)
    options = StateOptions(clusters=ClusterSettings(size=20, quiet_s=QUIET_MS / 1000), rules=(rule,))
    # The first answers are good, the others are not, and all sessions are open.
    events = [
        answer(number, f"s{number % 20}", number / 10, occurred_s=number / 10 + off_s,
               scores={ADHERENCE: float(number < 20)})
        for number in range(100)
    ]  # fmt: skip
    state = state_of(events, options)
    assert state.take_changes().alerts == []
    state.apply(tick(19.9).model_copy(update={"occurred_at": START + timedelta(seconds=19.9 + off_s)}))
    (alert,) = state.take_changes().alerts
    assert (alert.status, alert.fired_at) == ("firing", START + timedelta(seconds=19.9 + off_s))
    assert closed(state)[:2] == (20, 100)
    (found,) = [one for one in estimates(state, strategy="auto", confidence=0.95) if one.metric == ADHERENCE]
    assert (found.n, found.n_waiting) == (100, 0)
    assert found.estimate == pytest.approx(0.2)
    assert found.lower is not None
    assert found.upper is not None
    assert 0 < found.lower < 0.2 < found.upper < 0.8


def test_an_alert_at_a_tick_says_what_a_metric_of_your_own_means() -> None:
    mine = {"mine.polite": MetricDeclaration(lower=0, upper=1, meaning="Share of polite answers.")}
    rule = AlertRule(name="polite", kind="threshold", metric="mine.polite", target=0.8, run_length=200)
    options = StateOptions(clusters=ClusterSettings(size=20, quiet_s=QUIET_MS / 1000), rules=(rule,))
    state = state_of(
        [
            answer(number, f"s{number % 20}", number / 10, scores={"mine.polite": float(number < 20)}, declared=mine)
            for number in range(100)
        ],
        options,
    )
    for quiet in state.quiet_scopes(START_MS + 60_000):
        state.apply(MetricEvent.decode(state.tick_of(quiet, START_MS + 60_000).encode()))
    (alert,) = state.take_changes().alerts
    assert alert.notes == ("Meaning: Share of polite answers.",)


@pytest.mark.parametrize("partitions", [1, 3])
def test_an_open_session_that_moves_to_another_partition_ends_there_at_the_same_tick(partitions: int) -> None:
    state = state_of([answer(0, "a", 0.0), answer(1, "b", 4.0)])
    fields = dict(state.take_changes().rows)
    moved = repartitioned(Layout("ragtide"), Layout("ragtide", partitions), {0: fields})
    there = Layout("ragtide", partitions).of("shop", "any").partition
    again = AggregatorState.from_fields(OPTIONS, moved[there])
    assert [quiet.scope for quiet in again.quiet_scopes(START_MS + 11_000)] == [("shop", None)]
    again.apply(tick(13.0))
    assert closed(again)[:2] == (1, 1)


def test_the_tick_of_a_quiet_pipeline_has_the_time_of_its_producers() -> None:
    state = state_of([answer(number, "a", number, occurred_s=number - 7200) for number in range(3)])
    (quiet,) = state.quiet_scopes(START_MS + 60_000)
    made = state.tick_of(quiet, START_MS + 60_000)
    assert MetricEvent.decode(made.encode()) == made
    assert (made.is_tick, made.pipeline, made.run, made.scores) == (True, "shop", None, {})
    assert made.labeled_at == START + timedelta(seconds=60)
    assert made.occurred_at == START + timedelta(seconds=60 - 7200)


def test_open_clusters_of_the_version_before_are_read() -> None:
    state = state_of([answer(0, "a", 3.0), answer(1, "a", 5.0)])
    (name,) = [name for name in state.take_changes().rows if name.startswith(CheckpointField.OPEN_CLUSTER)]
    names, pairs = ShortNames(), ShortNames()
    names.follow(state.keys)
    code = int(name.removeprefix(CheckpointField.OPEN_CLUSTER).partition(":")[0])
    assert state._clusters is not None
    cluster = state._clusters.scopes["shop", None].open[code]
    data = cluster_to_bytes(cluster, names, pairs)
    assert cluster_from_bytes(code, data, names, pairs).arrived_ms == START_MS + 5_000
    head = 1 + 8 + 8 + 8 + 2 + 4
    earlier = bytes([4]) + data[1:head] + data[head + 8 :]
    read = cluster_from_bytes(code, earlier, names, pairs)
    assert read.arrived_ms == START_MS + 5_000
    assert cluster_to_bytes(read, names, pairs) == data
