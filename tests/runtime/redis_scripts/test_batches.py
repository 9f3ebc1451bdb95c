"""Many results in one call of a script: whatever happens to one entry or to the call, each entry has one event."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis import RedisError, ResponseError
from tests.support.conditions import wait_until
from tests.support.metric_events import event
from tests.support.redis_processes import RedisProcess, cluster

from ragtide_consumers.worker.results import CommitOutcome, LabeledEntry, deliver_events
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, known_digest
from ragtide_runtime.redis.known_ids import remember_id
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_schemas import MetricEvent

STREAMS = Streams("ragtide", 0)
DAY_MS = 86_400_000
MANY = 200

EMITTED, DUPLICATE, FINISHED = CommitOutcome.EMITTED, CommitOutcome.DUPLICATE, CommitOutcome.FINISHED_BEFORE


def taken(redis: Any, count: int = MANY, consumer: str = "w") -> list[str]:
    """Add entries that a worker takes, and return their ids."""
    with suppress(ResponseError):
        redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0", mkstream=True)
    with redis.pipeline(transaction=False) as pipe:
        for _ in range(count):
            pipe.xadd(STREAMS.interactions, {"data": "{}"})
        pipe.execute()
    reply = redis.xreadgroup(LABEL_GROUP, consumer, {STREAMS.interactions: ">"}, count=count)
    return [entry_id.decode() for _, entries in reply for entry_id, _ in entries]


def labeled(entry_ids: Sequence[str], first: int = 0) -> list[LabeledEntry]:
    scores = {"trace.adherence": 1.0}
    return [
        LabeledEntry(entry_id, event(number, scores, entry_id=entry_id))
        for number, entry_id in enumerate(entry_ids, first)
    ]


def delivered(redis: Any, results: Sequence[LabeledEntry]) -> list[CommitOutcome]:
    call = deliver_events(STREAMS, results, dedupe_ms=DAY_MS, feedback_ms=7 * DAY_MS)
    (outcomes,) = run_scripts_blocking(redis, [call])
    return outcomes


def events_by_entry(redis: Any) -> Counter[str | None]:
    return Counter(MetricEvent.decode(fields[b"data"]).entry_id for _, fields in redis.xrange(STREAMS.metrics))


def once(entry_ids: Sequence[str]) -> Counter[str | None]:
    return Counter(dict.fromkeys(entry_ids, 1))


def test_an_entry_that_another_worker_finished_emits_nothing_and_the_others_do(redis: Any) -> None:
    entry_ids = taken(redis)
    redis.xclaim(STREAMS.interactions, LABEL_GROUP, "other", 0, [entry_ids[70], entry_ids[71]])
    results = labeled(entry_ids)
    assert delivered(redis, results[70:71]) == [EMITTED]
    outcomes = delivered(redis, results)
    assert outcomes.pop(70) is FINISHED
    assert set(outcomes) == {EMITTED}, "also an entry that another worker claimed and has not finished"
    assert events_by_entry(redis) == once(entry_ids)
    assert redis.xpending(STREAMS.interactions, LABEL_GROUP)["pending"] == 0


def test_a_call_that_is_sent_again_changes_nothing(redis: Any) -> None:
    results = labeled(taken(redis))
    assert delivered(redis, results) == [EMITTED] * MANY
    assert delivered(redis, results) == [FINISHED] * MANY
    assert redis.xlen(STREAMS.metrics) == MANY


def test_of_two_entries_with_one_id_in_a_call_the_first_is_emitted(redis: Any) -> None:
    entry_ids = taken(redis, 4)
    first, second, third, fourth = entry_ids
    results = labeled([first]) + labeled([second]) + labeled([third, fourth], first=1)
    assert delivered(redis, results) == [EMITTED, DUPLICATE, EMITTED, EMITTED]
    assert events_by_entry(redis) == once([first, third, fourth])
    assert redis.xpending(STREAMS.interactions, LABEL_GROUP)["pending"] == 1, "the duplicate becomes a dead letter"


@pytest.mark.parametrize("own_key", [False, True], ids=["in a bucket", "with a key of its own"])
def test_an_id_that_another_entry_has_is_a_duplicate_among_others(redis: Any, own_key: bool) -> None:
    entry_ids = taken(redis, 5)
    owner = f"9-{2**40}" if own_key else "9-0"
    keys, digest = STREAMS.owner_keys("shop", "i-2"), known_digest("shop", "i-2")
    run_scripts_blocking(redis, [remember_id(keys, digest, owner, DAY_MS)])
    assert delivered(redis, labeled(entry_ids)) == [EMITTED, EMITTED, DUPLICATE, EMITTED, EMITTED]


def test_entries_whose_group_was_destroyed_meanwhile_are_emitted_once(redis: Any) -> None:
    results = labeled(taken(redis, 20))
    redis.xgroup_destroy(STREAMS.interactions, LABEL_GROUP)
    assert delivered(redis, results) == [EMITTED] * 20
    assert delivered(redis, results) == [FINISHED] * 20
    assert redis.xlen(STREAMS.metrics) == 20


def _is_full(redis: Any) -> Callable[[], None]:
    redis.config_set("maxmemory", 1)
    return lambda: redis.config_set("maxmemory", 0)


def _has_a_broken_bucket(redis: Any) -> Callable[[], None]:
    """Make the bucket of an entry in the middle of the call a key of another type."""
    buckets = STREAMS.owner_keys("shop", "i-9")[1:]
    redis.mset(dict.fromkeys(buckets, "no hash"))
    return lambda: redis.delete(*buckets)


@pytest.mark.parametrize("becomes", [_is_full, _has_a_broken_bucket])
def test_a_call_that_fails_is_repeated_until_each_entry_has_one_event(
    redis: Any, becomes: Callable[[Any], Callable[[], None]]
) -> None:
    entry_ids = taken(redis, 20)
    results = labeled(entry_ids)
    mend = becomes(redis)
    try:
        with suppress(RedisError):
            delivered(redis, results)
        with suppress(RedisError):
            delivered(redis, results)
        assert max(events_by_entry(redis).values(), default=0) <= 1
    finally:
        mend()
    assert set(delivered(redis, results)) <= {EMITTED, FINISHED}
    assert events_by_entry(redis) == once(entry_ids)
    assert redis.xpending(STREAMS.interactions, LABEL_GROUP)["pending"] == 0


@pytest.mark.processes
def test_a_server_killed_during_a_call_has_all_of_it_or_nothing(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always", "save ''") as server:
        for number in range(3):
            client = connect(server.url)
            entry_ids = taken(client, 5 * MANY)
            results = labeled(entry_ids, first=5 * MANY * number)
            before = client.xlen(STREAMS.metrics)

            def deliver(client: Any = client, results: Sequence[LabeledEntry] = results) -> None:
                with suppress(RedisError, OSError):
                    for start in range(0, len(results), MANY):
                        delivered(client, results[start : start + MANY])

            thread = threading.Thread(target=deliver)
            thread.start()
            wait_until(lambda least=before + 1: server.client.xlen(STREAMS.metrics) >= least)  # type: ignore[misc]
            server.kill()
            thread.join()
            client.close()
            server.start()
            with connect(server.url) as again:
                found = events_by_entry(again)
                for start in range(0, len(results), MANY):
                    batch = results[start : start + MANY]
                    assert sum(found[result.entry_id] for result in batch) in {0, MANY}
                    outcomes = delivered(again, batch)
                    assert len(set(outcomes)) == 1
                found = events_by_entry(again)
                assert {found[entry_id] for entry_id in entry_ids} == {1}


@pytest.mark.processes
@pytest.mark.parametrize("moved", ["nothing", "the known ids", "the streams"])
def test_while_a_slot_moves_a_call_is_refused_as_a_whole(tmp_path: Path, moved: str) -> None:
    with cluster(tmp_path, masters=2, replicas=0) as nodes:
        redis: Any = connect(nodes.url)
        before, first, second = taken(redis, 3)
        delivered(redis, labeled([before], first=5))
        redis.zadd(STREAMS.rejected, {"1-0": 1})
        redis.hset(STREAMS.deliveries, "again", 0)  # now each key that a call declares exists
        keys, digest = STREAMS.owner_keys("shop", "i-1"), known_digest("shop", "i-1")
        run_scripts_blocking(redis, [remember_id(keys, digest, "9-0", DAY_MS)])  # the second entry is a duplicate
        slot = redis.keyslot(STREAMS.metrics)
        source = nodes.master_of(slot)
        target = next(node for node in nodes.masters if node is not source)
        names = [node.client.execute_command("CLUSTER MYID") for node in (source, target)]
        target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", names[0])
        source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", names[1])
        present = source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 100)
        buckets = [key for key in present if ":owners:" in key or ":events:" in key]
        chosen = {
            "nothing": [],
            "the known ids": buckets,
            "the streams": [key for key in present if key not in buckets],
        }
        if chosen[moved]:
            source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *chosen[moved])
        with pytest.raises(RedisError):
            delivered(redis, labeled([first, second]))
        call = deliver_events(STREAMS, labeled([first, second]), dedupe_ms=DAY_MS, feedback_ms=DAY_MS)
        target.client.script_load(call.lua.text)
        with target.client.pipeline(transaction=False) as pipe:
            pipe.execute_command("ASKING")  # as clients do that the source sends to the target
            pipe.execute_command(*call.command())
            with pytest.raises(RedisError):
                pipe.execute()
        rest = source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 100)
        if rest:
            source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *rest)
        for node in (target, source):
            node.client.execute_command("CLUSTER SETSLOT", slot, "NODE", names[1])
        redis.close()
        redis = connect(nodes.url)
        assert redis.xlen(STREAMS.metrics) == 1
        assert redis.xpending(STREAMS.interactions, LABEL_GROUP)["pending"] == 2
        assert delivered(redis, labeled([first, second])) == [EMITTED, DUPLICATE]
        redis.close()
