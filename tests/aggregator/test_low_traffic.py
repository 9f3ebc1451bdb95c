"""An alert when a pipeline has fewer interactions than a limit for a while."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.metric_events import event

from ragtide_aggregator.service.low_traffic import CHECK_MS, LowTraffic
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.settings.alerting import LowTrafficSettings, StallSettings
from ragtide_schemas import Alert
from ragtide_schemas.metric_definitions import SENTINEL_PIPELINE

pytestmark = pytest.mark.pure

MINUTE = 60_000
LIMIT = LowTrafficSettings(pipeline="sh*", below=5, period="10m", severity="page")


class Traffic:
    """Events into a state, and looks at its traffic; every look may be that of a process that takes over."""

    def __init__(self, *limits: LowTrafficSettings, split: tuple[str, ...] = ()) -> None:
        self.state = AggregatorState(StateOptions())
        self.limits, self.split = limits, split
        self.traffic = LowTraffic(limits, 0, split)
        self.stored: dict[str, bytes] = {}
        self.number = 0

    def add(self, count: int, **more: Any) -> None:
        for _ in range(count):
            self.number += 1
            self.state.apply(event(self.number, scores={"trace.adherence": 0.5}, latency_s=0.1, **more))

    def look(self, minute: float, *, caught_up: bool = True, anew: bool = False) -> list[Alert]:
        if anew:
            self._store()
            self.traffic = LowTraffic.from_fields(self.limits, 0, self.stored, split=self.split)
            self.state = AggregatorState.from_fields(StateOptions(), self.stored)
        self.traffic.check(int(minute * MINUTE) + CHECK_MS, self.state, caught_up=caught_up)
        return self._store()

    def _store(self) -> list[Alert]:
        changes = self.state.take_changes()
        written, gone = self.traffic.take_changes()
        self.stored |= dict(changes.rows) | written
        for name in (*gone, *changes.gone):
            self.stored.pop(name, None)
        return list(changes.alerts)


@pytest.mark.parametrize("anew", [False, True])
def test_an_alert_fires_once_and_ends_once_whoever_looks(anew: bool) -> None:
    traffic, fired = Traffic(LIMIT), []
    traffic.add(9)
    for minute in range(61):
        if 30 <= minute < 34:
            traffic.add(2)
        fired += [(minute, one.status) for one in traffic.look(minute, anew=anew)]
    # Six come until minute 32; of all eight, four are in the ten minutes before minute 41.
    assert fired == [(10, "firing"), (32, "resolved"), (41, "firing")]


def test_answers_to_sentinels_are_no_traffic_of_any_pipeline() -> None:
    traffic, fired = Traffic(LIMIT.model_copy(update={"pipeline": "*"})), []
    traffic.add(9)
    traffic.add(9, pipeline=SENTINEL_PIPELINE)
    for minute in range(31):
        traffic.add(2, pipeline=SENTINEL_PIPELINE)
        fired += [alert.pipeline for alert in traffic.look(minute)]
    for minute in range(31, 61):  # no sentinel is asked any more
        fired += [alert.pipeline for alert in traffic.look(minute)]
    assert fired == ["shop"]


def test_the_alert_names_numbers_and_severity() -> None:
    traffic = Traffic(LIMIT)
    traffic.add(9)
    traffic.look(0)
    traffic.add(3)
    (alert,) = traffic.look(10)
    assert (alert.kind, alert.rule, alert.pipeline, alert.severity) == ("stall", "stall-low-traffic", "shop", "page")
    assert "3 scored interactions in the last 10 min, and at least 5 are expected" in alert.message


def test_nothing_is_decided_while_interactions_wait_or_before_the_pipeline_is_known_for_long_enough() -> None:
    traffic = Traffic(LIMIT)
    traffic.add(1)
    assert [traffic.look(minute) for minute in (0, 5, 9.9)] == [[], [], []]
    assert traffic.look(11, caught_up=False) == []
    assert len(traffic.look(12)) == 1


@pytest.mark.parametrize("more", [{"pipeline": "other"}, {"run": "nightly"}])
def test_other_pipelines_and_runs_have_no_limit(more: dict[str, Any]) -> None:
    traffic = Traffic(LIMIT)
    traffic.add(1, **more)
    assert [one for minute in range(40) for one in traffic.look(minute)] == []


def test_a_split_pipeline_has_no_limit() -> None:
    traffic = Traffic(LIMIT, split=("shop",))
    traffic.add(1)
    assert [one for minute in range(40) for one in traffic.look(minute)] == []


def test_an_alert_ends_when_its_limit_is_removed() -> None:
    traffic = Traffic(LIMIT)
    traffic.add(1)
    traffic.look(0)
    assert len(traffic.look(10)) == 1
    traffic.limits = ()
    (ended,) = traffic.look(20, anew=True)
    assert (ended.status, "limit was removed" in ended.message) == ("resolved", True)
    assert traffic.look(30, anew=True) == []


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=60))
def test_the_alert_follows_a_count_of_the_last_period(minutes: list[tuple[int, bool]]) -> None:
    """Compare with a count of arrivals by minute: those in the period that begins with a look."""
    traffic, firing = Traffic(LIMIT), False
    traffic.add(1)
    traffic.look(0)
    arrivals = [0]
    for minute, (count, anew) in enumerate(minutes, start=1):
        traffic.add(count)
        arrivals.append(count)
        found = traffic.look(minute, anew=anew)
        low = minute >= 10 and sum(arrivals[minute - 9 :]) < LIMIT.below
        assert bool(found) == (low != firing)
        firing = low


def test_the_stored_counts_are_bounded_and_damage_is_dropped() -> None:
    traffic = Traffic(LIMIT)
    traffic.add(9)
    for second in range(0, 3600, 5):
        traffic.look(second / 60)
    (name,) = (name for name in traffic.stored if name.startswith("health:traffic:"))
    assert len(traffic.stored[name]) < 3000
    for damaged in (b"", b"[]", b'{"pipeline": 1}', b'{"pipeline": "shop", "counts": [[1]]}', b"\xff"):
        traffic.stored = {name: damaged, "alert:stall-low-traffic:0a": damaged}
        traffic.look(100, anew=True)
        assert "alert:stall-low-traffic:0a" not in traffic.stored


def test_settings_have_the_word_for() -> None:
    (found,) = StallSettings.model_validate({"low_traffic": [{"below": 5, "for": "30m"}]}).low_traffic
    assert (found.pipeline, found.below, found.period, found.severity) == ("*", 5, "30m", "ticket")
    with pytest.raises(ValidationError, match="for"):
        StallSettings.model_validate({"low_traffic": [{"below": 5}]})
