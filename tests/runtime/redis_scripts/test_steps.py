"""Scripts that write several things or none of them: commits, repairs, recordings, replays, experiments, spending."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.alerts import alert

from ragtide.testing import interaction
from ragtide_aggregator.checkpoint.commit import Step, commit_step
from ragtide_aggregator.maintenance.repair import DroppedField, drop_fields
from ragtide_aggregator.state.options import ClosedPanes
from ragtide_consumers.labelers.remote.spend import reserve_spend, resolve_spend_alert
from ragtide_consumers.recorder.fence import advance_recording, check_recording
from ragtide_offline.experiments.execution_log import record_execution
from ragtide_offline.replay.publishing import publish_replay
from ragtide_roles.doctor.server import shard_size
from ragtide_runtime.redis.backlog import read_backlog
from ragtide_runtime.redis.keys import RECORD_GROUP, CheckpointField, ReplayField, Streams, known_digest
from ragtide_runtime.redis.known_ids import find_id, remember_id
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_schemas import Feedback
from ragtide_schemas.experiments import Execution

STREAMS = Streams("ragtide", 0)
TOKEN = "1:a"
LIMITS = {"estimates_cap": 100, "feedback_ms": 60_000}


def run(redis: Any, call: Any) -> Any:
    (reply,) = run_scripts_blocking(redis, [call])
    return reply


def entry(redis: Any, stream: str) -> str:
    return str(redis.xadd(stream, {"data": "x"}).decode())


@pytest.fixture
def step(redis: Any) -> Step:
    redis.set(STREAMS.lease, TOKEN)
    read = entry(redis, STREAMS.metrics)
    rows = {"estimate:k": b"1", "pane:p": b"2"}
    return Step(0, read, read=[read], rows=rows, graded=[("{0}set", "m 1-0")], estimates=[b"e"], alerts=[alert("a")])


def test_a_step_is_committed_once(redis: Any, step: Step) -> None:
    call = commit_step(STREAMS, step, TOKEN, **LIMITS)
    assert [run(redis, call), run(redis, call)] == ["committed", "committed"]
    stored = redis.hgetall(STREAMS.checkpoint)
    assert stored.items() >= {b"estimate:k": b"1", b"pane:p": b"2"}.items()
    fields = [CheckpointField.STEPS, CheckpointField.POSITION, CheckpointField.FEEDBACK_POSITION]
    assert redis.hmget(STREAMS.checkpoint, fields) == [b"1", step.position.encode(), b"0-0"]
    assert (redis.xlen(STREAMS.estimates), redis.xlen(STREAMS.alerts)) == (1, 1)
    assert redis.smembers("{0}set") == {b"m 1-0"}
    assert redis.pttl(STREAMS.lease) == -1, "a commit renews no lease"
    after = replace(step, before=1, rows={}, gone=["pane:p"], alerts=[], estimates=[], graded=[])
    assert run(redis, commit_step(STREAMS, after, TOKEN, **LIMITS)) == "committed"
    assert not redis.hexists(STREAMS.checkpoint, "pane:p")


def test_a_step_has_any_number_of_fields_with_any_bytes(redis: Any, step: Step) -> None:
    rows = {f"estimate:é{number}": bytes([number % 256, 0]) * (number % 7) for number in range(2501)}
    rows["long"] = b"\x00\xff" * 100_000
    assert run(redis, commit_step(STREAMS, replace(step, rows=rows), TOKEN, **LIMITS)) == "committed"
    stored = redis.hgetall(STREAMS.checkpoint)
    assert {name: stored[name.encode()] for name in rows} == rows


def test_closed_panes_of_a_step_are_added_once_and_their_list_is_cut(redis: Any, step: Step) -> None:
    closed = [ClosedPanes("a:1", 3, 60_000, [b"1", b"", b"\x00\xff3"]), ClosedPanes("b:1", 9, 5_000, [b"7"])]
    call = commit_step(STREAMS, replace(step, closed=closed), TOKEN, **LIMITS)
    assert [run(redis, call), run(redis, call)] == ["committed", "committed"]
    assert redis.lrange(STREAMS.history("a:1"), 0, -1) == [b"1", b"", b"\x00\xff3"]
    assert redis.lrange(STREAMS.history("b:1"), 0, -1) == [b"7"]
    assert 0 < redis.pttl(STREAMS.history("b:1")) <= 5_000 < redis.pttl(STREAMS.history("a:1"))
    after = replace(step, before=1, closed=[ClosedPanes("a:1", 3, 60_000, [b"4", b"5"])])
    assert run(redis, commit_step(STREAMS, after, TOKEN, **LIMITS)) == "committed"
    assert redis.lrange(STREAMS.history("a:1"), 0, -1) == [b"\x00\xff3", b"4", b"5"]
    assert redis.smembers("{0}set") == {b"m 1-0"}


@pytest.mark.parametrize(
    ("change", "token", "outcome"),
    [({}, "2:b", "fenced"), ({"before": 7}, TOKEN, "moved"), ({"read": ["9999999999999-0"]}, TOKEN, "lost")],
)
def test_a_step_that_is_refused_writes_nothing(
    redis: Any, step: Step, change: dict[str, Any], token: str, outcome: str
) -> None:
    assert run(redis, commit_step(STREAMS, replace(step, **change), token, **LIMITS)) == outcome
    assert not redis.exists(STREAMS.checkpoint, STREAMS.estimates, STREAMS.alerts)


def test_a_read_of_a_stream_that_was_lost_as_a_whole_is_not_committed(redis: Any, step: Step) -> None:
    redis.delete(STREAMS.metrics)
    # All entries are newer than the read, as in a stream that was trimmed, also on a machine that is this fast.
    redis.xadd(STREAMS.metrics, {"data": "x"}, id=f"{int(step.position.partition('-')[0]) + 1}-0")
    assert run(redis, commit_step(STREAMS, step, TOKEN, **LIMITS)) == "lost"


def test_damaged_fields_are_dropped_by_the_owner_only(redis: Any) -> None:
    redis.set(STREAMS.lease, TOKEN)
    redis.hset(STREAMS.checkpoint, mapping={"pane:a": "x", "pane:b": "y"})
    dropped = DroppedField(("pane:a",), resolved=(alert("a"),))
    assert not run(redis, drop_fields(STREAMS, dropped, "2:b"))
    assert redis.hlen(STREAMS.checkpoint) == 2
    assert run(redis, drop_fields(STREAMS, dropped, TOKEN))
    assert redis.hkeys(STREAMS.checkpoint) == [b"pane:b"]
    assert redis.xlen(STREAMS.alerts) == 1


def test_a_recorder_learns_whether_it_owns_the_partition_and_has_what_it_read(redis: Any) -> None:
    read = {stream: [entry(redis, stream)] for stream in (STREAMS.interactions, STREAMS.metrics)}
    lease = STREAMS.recorder_lease
    assert run(redis, check_recording(lease, TOKEN, read)) == "held", "a lease that ran out is not fenced"
    redis.set(lease, TOKEN)
    assert run(redis, check_recording(lease, TOKEN, read)) == "held"
    assert run(redis, check_recording(lease, "2:b", read)) == "fenced"
    redis.delete(STREAMS.metrics)
    assert run(redis, check_recording(lease, TOKEN, read)) == "lost"


def test_only_the_owner_moves_the_pins_of_a_recording(redis: Any) -> None:
    last = entry(redis, STREAMS.metrics)
    redis.xgroup_create(STREAMS.metrics, RECORD_GROUP, id="0")
    redis.set(STREAMS.recorder_lease, TOKEN)
    positions = {STREAMS.metrics: last}
    assert run(redis, advance_recording(STREAMS.recorder_lease, "2:b", positions)) == "fenced"
    assert redis.xinfo_groups(STREAMS.metrics)[0]["last-delivered-id"] == b"0-0"
    assert run(redis, advance_recording(STREAMS.recorder_lease, TOKEN, positions)) == "held"
    assert redis.xinfo_groups(STREAMS.metrics)[0]["last-delivered-id"] == last.encode()


def test_a_batch_of_a_replay_is_published_once_and_only_from_its_position(redis: Any) -> None:
    feedback = Feedback(interaction_id="i-0", pipeline="shop", gold_scores={"trace.adherence": 1.0})
    batch = [interaction(0), interaction(1), interaction(0)], [feedback]
    call = publish_replay(STREAMS, ("", "b"), *batch, dedupe_ms=60_000)
    assert [run(redis, call), run(redis, call)] == [True, True]
    assert (redis.xlen(STREAMS.interactions), redis.xlen(STREAMS.feedback)) == (2, 1)
    fields = [ReplayField.POSITION, ReplayField.PUBLISHED, ReplayField.DUPLICATES]
    assert redis.hmget(STREAMS.replay, fields) == [b"b", b"2", b"1"]
    assert not run(redis, publish_replay(STREAMS, ("a", "c"), *batch, dedupe_ms=60_000))


def test_an_execution_is_recorded_once_with_its_answer(redis: Any) -> None:
    execution = Execution(config="c", item=3, item_id="x", interaction_id="i-3")
    call = record_execution(STREAMS, execution, interaction(3), 60_000)
    assert [run(redis, call), run(redis, call)] == [True, False]
    ((answer, _),) = redis.xrange(STREAMS.interactions)
    assert redis.hgetall(STREAMS.executed) == {b"3:c": answer}
    assert redis.xlen(STREAMS.executions) == 1
    assert run(redis, find_id(STREAMS.owner_keys("c", "i-3"), known_digest("c", "i-3"))) == answer.decode()
    failed = Execution(config="d", item=3, item_id="x", failure="no answer")
    assert run(redis, record_execution(STREAMS, failed, None, 60_000))
    assert redis.hget(STREAMS.executed, "3:d") == b""


def test_spending_stops_at_a_limit_with_one_alert_which_is_resolved_once(redis: Any) -> None:
    def reserve(limit_usd: float, usd: float = 0.4, hour: str = "h") -> Any:
        limits, key = (limit_usd, None), f"call {usd} {hour}"
        call = reserve_spend(STREAMS, "judge", (hour, "d"), usd, limits=limits, alert=alert("spend"), key=key)
        reply = run(redis, call)
        if reply.over is None:  # the call ends, and costs what it reserved
            redis.hdel(STREAMS.labeler_reserved("judge", "d"), key)
        return reply

    assert [reserve(1.0).over for _ in range(4)] == [None, None, "hour", "hour"]
    assert redis.xlen(STREAMS.alerts) == 1
    assert reserve(1.0, 0.001).over == "hour", "a cheaper call would fit, and the limit is reached all the same"
    assert reserve(1.0, 0.001, hour="next").over is None
    assert reserve(1.0, 0.9, hour="h").over == "hour"
    firing = reserve(10.0).firing
    assert firing == redis.get(STREAMS.labeler_spend("judge", "alert"))
    resolve = resolve_spend_alert(STREAMS, "judge", firing, b"resolved")
    assert [run(redis, resolve), run(redis, resolve)] == [True, False]
    assert redis.xlen(STREAMS.alerts) == 2
    assert float(redis.get(STREAMS.labeler_spend("judge", "h"))) == pytest.approx(1.2)


def test_the_backlog_of_an_empty_partition_is_empty(redis: Any) -> None:
    backlog = run(redis, read_backlog(STREAMS))
    assert (backlog.waiting, backlog.workers, backlog.unrecorded_s, backlog.owned) == (0, 0, None, False)
    entry(redis, STREAMS.interactions)
    assert run(redis, read_backlog(STREAMS)).waiting == 1


def test_a_shard_of_known_ids_is_measured_with_the_rate_of_events(redis: Any) -> None:
    assert run(redis, shard_size(STREAMS)) == (0, 0)
    names = [f"i-{number}" for number in range(500)]
    for name in names:
        run(redis, remember_id(STREAMS.owner_keys("shop", name), known_digest("shop", name), "5-0", 60_000))
    for _ in range(3):
        entry(redis, STREAMS.metrics)
    size = run(redis, shard_size(STREAMS))
    assert size.bytes > 0
    assert size.events_per_min > 0
