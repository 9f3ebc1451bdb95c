"""Keys are bounded: further segment values, runs and pipelines count in `other`, and other pipelines notice nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry
from tests.aggregator.test_pacing import STREAMS, publish, running, until_caught_up
from tests.support.metric_events import event

from ragtide import Alert, MetricEvent
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.maintenance.repartitioned_fields import repartitioned
from ragtide_aggregator.service.telemetry import AggregatorTelemetry
from ragtide_aggregator.state.options import KeyCaps
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_roles.doctor.examination import examine
from ragtide_runtime.redis.keys import DATA_FIELD, CheckpointField
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas.limits import SEGMENTS_MAX

SCORES = {"trace.adherence": 0.75, "trace.context_relevance": 0.5}
CAPPED = StateOptions(caps=KeyCaps(pipeline=60, partition=200), quantiles=False)


def crowd(n: int, pipeline: str = "crowd", **changes: Any) -> list[MetricEvent]:
    """Return events, each of a user of its own."""
    return [
        event(number, SCORES, pipeline=pipeline, segments={"user": f"u{number}", "lang": "de"}, **changes)
        for number in range(n)
    ]


def applied(events: Sequence[MetricEvent], options: StateOptions = CAPPED) -> AggregatorState:
    state = AggregatorState(options)
    for one in events:
        state.apply(one)
    return state


def counts(state: AggregatorState, metric: str = "trace.adherence") -> dict[tuple[str, str | None, str | None], int]:
    """Return the number of values of a metric by pipeline, run and segment."""
    return {(e.pipeline, e.run, e.segment): e.n for e in estimates(state) if e.metric == metric and e.window == "all"}


def test_the_alert_of_a_cap_fires_on_from_the_checkpoint_until_there_is_room() -> None:
    state = applied(crowd(500))
    (raised,) = state.firing()
    assert (raised.rule, raised.pipeline, raised.status) == ("keys-cap", "crowd", "firing")
    fields = state.take_changes().rows
    assert AggregatorState.from_fields(CAPPED, fields).firing() == [raised]
    roomy = replace(CAPPED, caps=KeyCaps(pipeline=6000, partition=20_000))
    assert AggregatorState.from_fields(roomy, fields).firing() == []


def test_further_values_of_a_segment_count_in_other_and_none_is_lost() -> None:
    state = applied(crowd(500))
    found = counts(state)
    users = {segment: n for (_, _, segment), n in found.items() if segment and segment.startswith("user=")}
    assert found["crowd", None, None] == 500
    assert found["crowd", None, "lang=de"] == 500
    assert users["user=u0"] == users["user=u1"] == 1
    assert sum(users.values()) == 500
    assert users["user=other"] > 450
    assert len(state) <= 60 + 10


def test_a_value_that_is_known_keeps_its_own_estimate() -> None:
    events = crowd(300)
    again = [
        one.model_copy(update={"segments": {"user": "u3"}, "interaction_id": f"x{n}"}) for n, one in enumerate(events)
    ]
    assert counts(applied([*events, *again]))["crowd", None, "user=u3"] == 301


def test_versions_without_end_leave_room_for_the_values_of_other_segments() -> None:
    deploys = [event(n, SCORES, segments={"version": f"v{n}"}, pipeline="crowd") for n in range(100)]
    state = applied([*deploys, *crowd(5)])
    found = counts(state)
    assert found["crowd", None, "version=v0"] == found["crowd", None, "user=u1"] == 1
    assert found["crowd", None, "version=other"] > 50
    (raised,) = state.firing()
    assert raised.kind == "capped"
    fields = state.take_changes().rows
    assert AggregatorState.from_fields(CAPPED, fields).firing() == [raised]
    roomy = replace(CAPPED, caps=KeyCaps(pipeline=600, partition=2_000))
    assert AggregatorState.from_fields(roomy, fields).firing() == []


def test_a_value_that_is_literally_other_counts_in_other_and_is_not_told_as_capped() -> None:
    literal = [event(n, SCORES, segments={"kind": "other"}) for n in range(5)]
    changes = applied(literal).take_changes()
    assert counts(applied(literal))["shop", None, "kind=other"] == 5
    assert (changes.alerts, changes.capped) == ([], 0)


def test_the_estimates_of_another_pipeline_are_those_without_the_crowd() -> None:
    calm = [
        event(n, {"trace.adherence": n % 7 / 7}, pipeline="calm", segments={"lang": f"l{n % 3}"}) for n in range(200)
    ]
    mixed = [one for pair in zip(calm, crowd(200), strict=True) for one in pair]
    alone, beside = applied(calm).take_changes().rows, applied([*crowd(400, "before"), *mixed]).take_changes().rows
    mine = {name: data for name, data in beside.items() if '"calm"' in name}
    assert mine == {name: data for name, data in alone.items() if '"calm"' in name}
    assert len(mine) > 4


def test_a_pipeline_gets_one_alert_and_it_resolves_when_the_cap_is_raised() -> None:
    state = applied([*crowd(100, "a"), *crowd(100, "b"), *crowd(100, "a")])
    changes = state.take_changes()
    assert [(alert.kind, alert.status, alert.pipeline) for alert in changes.alerts] == [
        ("capped", "firing", "a"),
        ("capped", "firing", "b"),
    ]
    assert "new values of segment user count together as user=other" in changes.alerts[0].message
    assert "keys_cap, 60" in changes.alerts[0].message
    for alert in changes.alerts:
        assert Alert.decode(alert.encode()) == alert
    assert AggregatorState.from_fields(CAPPED, changes.rows).take_changes().alerts == []
    raised = replace(CAPPED, caps=KeyCaps(pipeline=6000, partition=20_000))
    after = AggregatorState.from_fields(raised, changes.rows)
    resolved = after.take_changes()
    assert {(alert.alert_id, alert.status) for alert in resolved.alerts} == {
        (alert.alert_id, "resolved") for alert in changes.alerts
    }
    after.apply(event(1, SCORES, pipeline="a", segments={"user": "late"}))
    assert counts(after)["a", None, "user=late"] == 1


def test_further_pipelines_count_in_a_pipeline_of_the_partition() -> None:
    events = [event(n, SCORES, pipeline=f"p{n}", segments={"lang": "de"}) for n in range(300)]
    options = StateOptions(caps=KeyCaps(60, 200).of_partition(3), quantiles=False)
    state = applied(events, options)
    found = counts(state)
    assert sum(n for (_, _, segment), n in found.items() if segment is None) == 300
    assert found["other:3", None, None] > 200
    assert ("other:3", None, "lang=de") not in found
    assert len(state) <= 200 + 10
    (alert,) = (one for one in state.take_changes().alerts if one.pipeline == "other:3")
    assert "partition_keys_cap" in alert.message


def test_segment_values_leave_room_for_new_pipelines() -> None:
    crowds = [one for number in range(10) for one in crowd(100, f"crowd-{number}")]
    options = replace(CAPPED, caps=KeyCaps(pipeline=60, partition=400))
    found = counts(applied([*crowds, event(1, SCORES, pipeline="new")], options))
    assert found["new", None, None] == 1


def test_further_runs_count_in_the_run_other_of_their_pipeline() -> None:
    events = [event(n, SCORES, run=f"r{n}") for n in range(100)]
    found = counts(applied([*events, event(100, SCORES)]))
    assert found["shop", "r0", None] == 1
    assert found["shop", "other", None] > 50
    assert found["shop", None, None] == 1
    assert sum(found.values()) == 101


def test_segments_with_ever_new_names_are_bounded_too() -> None:
    events = [event(n, SCORES, segments={f"name-{n}": "v"}) for n in range(400)]
    state = applied(events)
    assert len(state) <= 60 + 10 + 2 * SEGMENTS_MAX
    assert counts(state)["shop", None, None] == 400
    assert state.take_changes().capped > 300


async def test_a_crowd_is_counted_for_prometheus_told_by_doctor_and_alerted_on_once(async_redis: Any) -> None:
    registry = CollectorRegistry()
    for first in (0, 100):  # the second aggregator continues from the checkpoint of the first
        await publish(async_redis, crowd(200)[first : first + 100])
        telemetry = AggregatorTelemetry(1, None if first else ProcessTelemetry(registry=registry))
        async with running(async_redis, telemetry=telemetry, state=CAPPED):
            await until_caught_up(async_redis)
    alerts = [Alert.decode(fields[DATA_FIELD]) for _, fields in await async_redis.xrange(STREAMS.alerts)]
    assert [(alert.kind, alert.status, alert.pipeline) for alert in alerts] == [("capped", "firing", "crowd")]
    whole = applied(crowd(200)).take_changes()
    assert (
        await async_redis.hget(STREAMS.checkpoint, CheckpointField.KEYS_SUMMARY)
        == whole.rows[CheckpointField.KEYS_SUMMARY]
    )
    counted = registry.get_sample_value("ragtide_capped_total", {"partition": "0"})
    assert counted == applied(crowd(100)).take_changes().capped
    keys = {one.subject: one for one in await examine(async_redis, Settings(), "a Redis")}["partition 0: keys"]
    assert keys.level == "warning"
    assert f"in `other` so far: crowd {whole.capped}" in keys.found
    assert "keys_cap" in keys.advice


def test_further_pipelines_stay_whole_when_the_number_of_partitions_changes() -> None:
    old, new = Layout("ragtide", 4), Layout("ragtide", 2)
    checkpoints = {}
    for partition in range(4):
        events = [event(n, SCORES, pipeline=f"p{partition}-{n}") for n in range(90)]
        mine = [one for one in events if old.of(one.pipeline, one.interaction_id).partition == partition]
        options = StateOptions(caps=KeyCaps(9, 9).of_partition(partition), quantiles=False)
        checkpoints[partition] = applied(mine, options).take_changes().rows
    found = repartitioned(old, new, checkpoints)
    keys = {partition: {name for name in fields if name.startswith("estimate:")} for partition, fields in found.items()}
    assert sum(map(len, keys.values())) == sum(
        name.startswith("estimate:") for fields in checkpoints.values() for name in fields
    )
    for name in (f"other:{partition}" for partition in range(4)):
        assert sum(f'"{name}"' in one for names in keys.values() for one in names) == 3
