"""The script of the outbox: everything of a step, or nothing, and once."""

from typing import Any

from tests.support.alerts import alert

from ragtide_consumers.notify.outbox import OutboxChanges
from ragtide_consumers.notify.outbox_step import write_outbox
from ragtide_runtime.redis.keys import NOTIFY_GROUP, Streams
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_schemas import DeadLetter, Reason

STREAMS = Streams("ragtide", 0)


def run(redis: Any, changes: OutboxChanges, read: list[str], *, token: str = "1:a", revision: int = 0) -> str:
    (reply,) = run_scripts_blocking(redis, [write_outbox(STREAMS, token, revision, changes, read)])
    return reply


def delivered(redis: Any) -> str:
    """Add an alert, deliver it to the notifier's group, and return its id."""
    entry: bytes = redis.xadd(STREAMS.alerts, {"data": alert("a").encode()})
    redis.xgroup_create(STREAMS.alerts, NOTIFY_GROUP, id="0")
    redis.xreadgroup(NOTIFY_GROUP, "one", {STREAMS.alerts: ">"})
    return entry.decode()


def test_a_step_is_written_once_and_whole(redis: Any) -> None:
    redis.set(STREAMS.notifier_lease, "1:a")
    redis.hset(STREAMS.outbox, "group:hook:old", "x")
    read = [delivered(redis)]
    letter = DeadLetter.of(
        b"{}", stream="alerts", entry_id="1-0", reason=Reason.UNDELIVERABLE, detail="no", component="notify"
    )
    changes = OutboxChanges({"group:hook:a": b"1"}, ["group:hook:old"], [letter], [alert("notify-hook:0:1")])
    for _ in range(2):
        assert run(redis, changes, read) == "written"
    assert redis.hgetall(STREAMS.outbox) == {b"group:hook:a": b"1", b"revision": b"1"}
    assert redis.xpending(STREAMS.alerts, NOTIFY_GROUP)["pending"] == 0
    assert (redis.xlen(STREAMS.dead_letters), redis.xlen(STREAMS.alerts)) == (1, 2)


def test_a_former_owner_writes_nothing(redis: Any) -> None:
    redis.set(STREAMS.notifier_lease, "2:b")
    read = [delivered(redis)]
    assert run(redis, OutboxChanges({"f": b"1"}), read) == "fenced"
    assert not redis.exists(STREAMS.outbox)
    assert redis.xpending(STREAMS.alerts, NOTIFY_GROUP)["pending"] == 1


def test_an_outbox_that_redis_rolled_back_is_not_written(redis: Any) -> None:
    redis.set(STREAMS.notifier_lease, "1:a")
    assert run(redis, OutboxChanges({"f": b"1"}), [], revision=7) == "moved"
    assert not redis.exists(STREAMS.outbox)
