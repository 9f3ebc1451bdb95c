"""Alerts about labeling that is stalled, traffic that is silent and interactions that are dropped."""

from ragtide_aggregator.service.pipeline_health import HealthLimits, PipelineHealth
from ragtide_aggregator.service.trimming import StreamStatus


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


def changed(health: PipelineHealth, status: StreamStatus) -> list[tuple[str, str]]:
    return [(alert.rule, alert.status) for alert in health.check(status)]


def test_labeling_that_is_behind_fires_once_and_resolves_when_it_has_caught_up() -> None:
    health = PipelineHealth(HealthLimits(labeling_s=60), 3)
    assert changed(health, status_at(1000, waiting_s=59)) == []
    (alert,) = health.check(status_at(1001, waiting_s=61))
    assert (alert.rule, alert.status, alert.kind, alert.pipeline) == ("stall-labeling", "firing", "stall", "*")
    assert "partition 3 has waited 61 s" in alert.message
    assert changed(health, status_at(1002, waiting_s=62)) == []
    assert changed(health, status_at(1003, waiting_s=45)) == [], "not at the limit itself, where it would come and go"
    (resolved,) = health.check(status_at(1004, waiting_s=20))
    assert (resolved.alert_id, resolved.status) == (alert.alert_id, "resolved")


def test_a_sample_that_waits_for_its_judge_is_told_apart_from_labeling_that_is_behind() -> None:
    health = PipelineHealth(HealthLimits(labeling_s=60), 0)
    assert changed(health, status_at(1000, waiting_s=1, awaiting_s=61)) == [("stall-sample", "firing")]
    second = PipelineHealth.from_fields(HealthLimits(labeling_s=60), 0, health.take_changes()[0])
    assert changed(second, status_at(1001, waiting_s=61, awaiting_s=62)) == [("stall-labeling", "firing")]
    assert changed(second, status_at(1002)) == [("stall-labeling", "resolved"), ("stall-sample", "resolved")]


def test_traffic_that_stopped_is_told_apart_from_labeling_that_stopped() -> None:
    health = PipelineHealth(HealthLimits(labeling_s=None, traffic_s=30), 0)
    assert changed(health, status_at(1000)) == [], "there was never any"
    assert changed(health, status_at(1000, scored_s=31, waiting_s=31)) == []
    assert changed(health, status_at(1000, scored_s=31)) == [("stall-traffic", "firing")]
    assert changed(health, status_at(1001, scored_s=0)) == [("stall-traffic", "resolved")]


def test_dropped_interactions_fire_and_resolve_when_no_more_are() -> None:
    health = PipelineHealth(HealthLimits(quiet_s=60), 0)
    assert changed(health, status_at(1000)) == []
    assert changed(health, status_at(1001, drop_new=5)) == [("stall-dropped", "firing")]
    assert changed(health, status_at(1050, drop_new=9, capped=1)) == []
    assert changed(health, status_at(1100, drop_new=9, capped=1)) == [], "quiet for 50 s"
    assert changed(health, status_at(1111, drop_new=9, capped=1)) == [("stall-dropped", "resolved")]


def test_alerts_that_no_group_read_in_time_are_no_dropped_interactions() -> None:
    health = PipelineHealth(HealthLimits(quiet_s=60), 0)
    assert changed(health, status_at(1000, alerts=5)) == []
    (alert,) = health.check(status_at(1001, alerts=6, capped=2))
    assert "alerts" not in alert.message


def test_another_owner_neither_fires_nor_resolves_again() -> None:
    limits = HealthLimits(labeling_s=60, quiet_s=60)
    first = PipelineHealth(limits, 0)
    first.check(status_at(1000, waiting_s=61, drop_new=2))
    fields, gone = first.take_changes()
    assert gone == []
    second = PipelineHealth.from_fields(limits, 0, fields)
    assert changed(second, status_at(1001, waiting_s=62, drop_new=2)) == []
    assert changed(second, status_at(1002, drop_new=2)) == [("stall-labeling", "resolved")]
    assert second.take_changes() == ({}, ["stall:firing:labeling"])
    assert changed(second, status_at(1062, drop_new=2)) == [("stall-dropped", "resolved")]
