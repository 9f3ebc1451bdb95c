"""Alerts about labeling that is stalled, traffic that is silent and interactions that are dropped."""

from ragtide_aggregator.maintenance.repartitioned_fields import repartitioned
from ragtide_aggregator.service.pipeline_health import PipelineHealth
from ragtide_aggregator.service.trimming import StreamStatus
from ragtide_runtime.alert_book import STORED, AlertBook
from ragtide_runtime.redis.eviction import Evictions
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.alerting import StallSettings
from ragtide_schemas import Alert


def status_at(
    now_s: float,
    *,
    waiting_s: float | None = None,
    scored_s: float | None = None,
    awaiting_s: float | None = None,
    **dropped: int,
) -> StreamStatus:
    return StreamStatus(
        now_ms=int(1000 * now_s),
        oldest_waiting_ms=None if waiting_s is None else int(1000 * (now_s - waiting_s)),
        last_scored_ms=None if scored_s is None else int(1000 * (now_s - scored_s)),
        dropped=dropped,
        oldest_awaiting_ms=None if awaiting_s is None else int(1000 * (now_s - awaiting_s)),
    )


class Checks:
    """The checks of a partition with its book; `takes_over` continues from the stored fields, as another owner does."""

    def __init__(self, limits: StallSettings, partition: int = 0) -> None:
        self.health, self.book = PipelineHealth(limits, partition), AlertBook()
        self.limits = limits
        self.is_over_budget = False
        self.stored: dict[str, bytes] = {}

    def alerts(self, status: StreamStatus) -> list[Alert]:
        self.health.check(status, self.book, is_over_budget=self.is_over_budget)
        written, gone, alerts = self.book.take_changes()
        self.stored |= written | self.health.take_changes()[0]
        for name in gone:
            del self.stored[name]
        return alerts

    def takes_over(self, limits: StallSettings | None = None) -> "Checks":
        second = Checks(limits or self.limits)
        second.health = PipelineHealth.from_fields(second.limits, 0, self.stored)
        for name, data in self.stored.items():
            if name.startswith(STORED):
                second.book.load(name.removeprefix(STORED), data)
        second.stored = dict(self.stored)
        return second


def changed(checks: Checks, status: StreamStatus) -> list[tuple[str, str]]:
    return [(alert.rule, alert.status) for alert in checks.alerts(status)]


def test_labeling_that_is_behind_fires_once_and_resolves_when_it_has_caught_up() -> None:
    health = Checks(StallSettings(labeling_s=60), 3)
    assert changed(health, status_at(1000, waiting_s=59)) == []
    (alert,) = health.alerts(status_at(1001, waiting_s=61))
    assert (alert.rule, alert.status, alert.kind, alert.pipeline) == ("stall-labeling", "firing", "stall", "*")
    assert "partition 3 has waited 61 s" in alert.message
    assert changed(health, status_at(1002, waiting_s=62)) == []
    assert changed(health, status_at(1003, waiting_s=45)) == [], "not at the limit itself, where it would come and go"
    (resolved,) = health.alerts(status_at(1004, waiting_s=20))
    assert (resolved.alert_id, resolved.status) == (alert.alert_id, "resolved")


def test_a_sample_that_waits_for_its_judge_is_told_apart_from_labeling_that_is_behind() -> None:
    health = Checks(StallSettings(labeling_s=60), 0)
    assert changed(health, status_at(1000, waiting_s=1, awaiting_s=61)) == [("stall-sample", "firing")]
    second = health.takes_over()
    assert changed(second, status_at(1001, waiting_s=61, awaiting_s=62)) == [("stall-labeling", "firing")]
    assert changed(second, status_at(1002)) == [("stall-labeling", "resolved"), ("stall-sample", "resolved")]


def test_labeling_that_waits_for_money_neither_fires_nor_resolves() -> None:
    health = Checks(StallSettings(labeling_s=60), 0)
    health.is_over_budget = True
    assert changed(health, status_at(1000, waiting_s=3600)) == []
    health.is_over_budget = False
    assert changed(health, status_at(1001, waiting_s=3601)) == [("stall-labeling", "firing")]
    health.is_over_budget = True
    assert changed(health, status_at(1002, waiting_s=3602)) == []


def test_traffic_that_stopped_is_told_apart_from_labeling_that_stopped() -> None:
    health = Checks(StallSettings(labeling_s=None, traffic_s=30), 0)
    assert changed(health, status_at(1000)) == [], "there was never any"
    assert changed(health, status_at(1000, scored_s=31, waiting_s=31)) == []
    assert changed(health, status_at(1000, scored_s=31)) == [("stall-traffic", "firing")]
    assert changed(health, status_at(1001, scored_s=0)) == [("stall-traffic", "resolved")]


def test_dropped_interactions_fire_and_resolve_when_no_more_are() -> None:
    health = Checks(StallSettings(quiet_s=60), 0)
    assert changed(health, status_at(1000)) == []
    assert changed(health, status_at(1001, drop_new=5)) == [("stall-dropped", "firing")]
    assert changed(health, status_at(1050, drop_new=9, capped=1)) == []
    assert changed(health, status_at(1100, drop_new=9, capped=1)) == [], "quiet for 50 s"
    assert changed(health, status_at(1111, drop_new=9, capped=1)) == [("stall-dropped", "resolved")]


def test_alerts_that_no_group_read_in_time_are_no_dropped_interactions() -> None:
    health = Checks(StallSettings(quiet_s=60), 0)
    assert changed(health, status_at(1000, alerts=5)) == []
    (alert,) = health.alerts(status_at(1001, alerts=6, capped=2))
    assert "alerts" not in alert.message


def test_another_owner_neither_fires_nor_resolves_again() -> None:
    first = Checks(StallSettings(labeling_s=60, quiet_s=60))
    first.alerts(status_at(1000, waiting_s=61, drop_new=2))
    second = first.takes_over()
    assert changed(second, status_at(1001, waiting_s=62, drop_new=2)) == []
    assert changed(second, status_at(1002, drop_new=2)) == [("stall-labeling", "resolved")]
    third = second.takes_over()
    assert changed(third, status_at(1062, drop_new=2)) == [("stall-dropped", "resolved")]
    assert set(third.stored) == {"health:dropped"}


def test_a_removed_limit_and_a_partition_that_is_gone_end_their_alerts() -> None:
    first = Checks(StallSettings(labeling_s=60))
    first.alerts(status_at(1000, waiting_s=61))
    first.stored["alert:stall-labeling:3"] = first.stored["alert:stall-labeling"]
    second = first.takes_over(StallSettings(labeling_s=None))
    assert changed(second, status_at(1001, waiting_s=62)) == [("stall-labeling", "resolved")] * 2
    assert second.stored == {}


def test_a_firing_alert_survives_a_change_of_the_number_of_partitions() -> None:
    checks = Checks(StallSettings(labeling_s=60))
    checks.alerts(status_at(1000, waiting_s=61))
    (name,) = checks.stored
    found = repartitioned(Layout("ragtide", 3), Layout("ragtide", 2), {0: {}, 1: checks.stored, 2: checks.stored})
    assert (set(found[0]), set(found[1])) == ({f"{name}:2"}, {name})


Changes = tuple[int, list[tuple[str, str, str]]]


def test_evicted_keys_are_counted_page_once_and_resolve_when_redis_evicts_no_more() -> None:
    def found(checks: Checks, at_s: float, keys: int, policy: str, server: str = "a", *, old: bool = False) -> Changes:
        status = status_at(at_s, scored_s=1.0 if old else None)
        new = checks.health.count_evictions(Evictions(server, keys, policy), status, checks.book)
        checks.stored |= checks.health.take_changes()[0]
        written, gone, alerts = checks.book.take_changes()
        checks.stored = {name: data for name, data in (checks.stored | written).items() if name not in gone}
        return new, [(alert.rule, alert.status, alert.severity) for alert in alerts]

    limits = StallSettings(quiet_s=60)
    safe = Checks(limits)
    assert found(safe, 1000, 500, "noeviction") == (0, [])  # of other clients, before this deployment
    assert found(safe, 1010, 500, "allkeys-lru") == (0, [])
    assert found(safe, 1020, 651, "allkeys-lru") == (151, [("stall-evicted", "firing", "page")])
    second = safe.takes_over()
    assert found(second, 1030, 651, "allkeys-lru") == (0, [])
    assert found(second, 1040, 7, "allkeys-lru", "b") == (7, [])  # the server was started again
    assert found(second, 1200, 7, "allkeys-lru", "b") == (0, [])  # it may evict more at any time
    assert found(second, 1210, 0, "noeviction", "b") == (0, [("stall-evicted", "resolved", "page")])  # CONFIG RESETSTAT
    assert found(second, 1220, 3, "noeviction", "b") == (3, [("stall-evicted", "firing", "page")])
    assert b"161 " in second.stored[CheckpointField.HEALTH_EVICTED]
    lost = Checks(limits)  # the checkpoint was among the evicted keys
    assert found(lost, 1300, 90, "noeviction", old=True) == (90, [("stall-evicted", "firing", "page")])
