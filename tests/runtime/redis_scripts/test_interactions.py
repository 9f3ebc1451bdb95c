"""The way of an interaction, script by script: published, delivered or rejected, retried."""

from typing import Any

from tests.support.metric_events import event

from ragtide.testing import interaction
from ragtide_consumers.worker.reclaim import uncount_deliveries
from ragtide_consumers.worker.results import CommitOutcome, LabeledEntry, RejectedEntry, deliver_event, reject_entry
from ragtide_producers.publishing.publish_command import Routing, feedback_command
from ragtide_producers.publishing.retrying import retry_dead_letter
from ragtide_runtime.redis.consumer_groups import delete_idle_consumers, renew_claims
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, known_digest
from ragtide_runtime.redis.known_ids import copy_ids, find_id, remember_id
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import DeadLetter, Dropped, Feedback, Reason

STREAMS = Streams("ragtide", 0)
LAYOUT = Layout("ragtide")
DAY_MS = 86_400_000


def run(redis: Any, call: Any) -> Any:
    (reply,) = run_scripts_blocking(redis, [call])
    return reply


def published(redis: Any, number: int = 1, *, cap: int = 100, policy: Any = "block") -> Any:
    return run(redis, Routing(LAYOUT, 86_400.0, cap, policy, UserIds()).command(interaction(number)).script)


def taken(redis: Any, *consumers: str) -> list[str]:
    """Publish an interaction for each consumer, which takes it."""
    redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0", mkstream=True)
    ids = [published(redis, number).entry_id for number, _ in enumerate(consumers)]
    for consumer in consumers:
        redis.xreadgroup(LABEL_GROUP, consumer, {STREAMS.interactions: ">"}, count=1)
    return ids


def test_an_interaction_is_published_once(redis: Any) -> None:
    first, again = published(redis), published(redis)
    assert (first.added, again.added, first.entry_id) == (True, False, again.entry_id)
    assert redis.xlen(STREAMS.interactions) == 1


def test_a_full_stream_is_waited_for_or_drops_by_the_policy(redis: Any) -> None:
    published(redis, 1, cap=1)
    assert published(redis, 2, cap=1) is None
    assert published(redis, 2, cap=1, policy="drop_new").dropped is Dropped.DROP_NEW
    assert published(redis, 2, cap=1, policy="sample").dropped is Dropped.SAMPLE
    assert redis.hgetall(STREAMS.dropped) == {b"drop_new": b"1", b"sample": b"1"}
    assert not published(redis, 1, cap=1).added, "a known id needs no room"


def test_feedback_is_published_once_while_its_probe_is_kept(redis: Any) -> None:
    feedback = Feedback(interaction_id="i-1", pipeline="shop", gold_scores={"trace.adherence": 1.0})
    command = feedback_command(LAYOUT, feedback)
    first, again = run(redis, command.script), run(redis, command.script)
    assert (first.added, again.added, first.entry_id) == (True, False, again.entry_id)
    assert run(redis, command.probe()) == first.entry_id


def test_an_event_is_emitted_once_and_its_ids_are_known(redis: Any) -> None:
    (entry_id,) = taken(redis, "w")
    result = LabeledEntry(entry_id, event(0, {"trace.adherence": 1.0}))
    call = deliver_event(STREAMS, result, dedupe_ms=DAY_MS, feedback_ms=DAY_MS)
    assert [run(redis, call), run(redis, call)] == [CommitOutcome.EMITTED, CommitOutcome.FINISHED_BEFORE]
    ((event_id, fields),) = redis.xrange(STREAMS.metrics)
    assert fields == {b"data": result.event.encode()}
    identity = "shop", "i-0"
    assert run(redis, find_id(STREAMS.event_keys(*identity), known_digest(*identity))) == event_id.decode()
    assert redis.xpending(STREAMS.interactions, LABEL_GROUP)["pending"] == 0


def test_an_entry_whose_id_another_entry_owns_is_not_acknowledged(redis: Any) -> None:
    (entry_id,) = taken(redis, "w")
    identity = "shop", "i-0"
    run(redis, remember_id(STREAMS.owner_keys(*identity), known_digest(*identity), "9999999999999-0", DAY_MS))
    result = LabeledEntry(entry_id, event(0, {"trace.adherence": 1.0}))
    assert run(redis, deliver_event(STREAMS, result, dedupe_ms=DAY_MS, feedback_ms=DAY_MS)) is CommitOutcome.DUPLICATE
    assert redis.xpending(STREAMS.interactions, LABEL_GROUP)["pending"] == 1


def letter(entry_id: str, payload: bytes = b"{}") -> DeadLetter:
    return DeadLetter.of(
        payload,
        stream=STREAMS.interactions,
        entry_id=entry_id,
        reason=Reason.INVALID,
        detail="d",
        component="worker",
    )


def test_an_entry_is_rejected_once(redis: Any) -> None:
    (entry_id,) = taken(redis, "w")
    call = reject_entry(STREAMS, RejectedEntry(entry_id, letter(entry_id)))
    assert [run(redis, call), run(redis, call)] == [CommitOutcome.REJECTED, CommitOutcome.FINISHED_BEFORE]
    assert redis.xlen(STREAMS.dead_letters) == 1


def test_an_entry_that_is_no_longer_pending_is_rejected_all_the_same(redis: Any) -> None:
    taken(redis)
    assert (
        run(redis, reject_entry(STREAMS, RejectedEntry("1-0", letter("1-0"), pending=False))) is CommitOutcome.REJECTED
    )


def test_only_the_claims_that_a_consumer_still_holds_are_renewed(redis: Any) -> None:
    mine, other = taken(redis, "me", "other")
    assert run(redis, renew_claims(STREAMS.interactions, LABEL_GROUP, "me", [mine, other])) == 1
    pending = redis.xpending_range(STREAMS.interactions, LABEL_GROUP, "-", "+", 10)
    assert [(one["consumer"], one["times_delivered"]) for one in pending] == [(b"me", 1), (b"other", 1)]


def test_a_delivery_is_uncounted_for_the_consumer_that_holds_the_entry(redis: Any) -> None:
    mine, other = taken(redis, "me", "other")
    assert run(redis, uncount_deliveries(STREAMS.interactions, "me", [mine, other])) == 1
    pending = redis.xpending_range(STREAMS.interactions, LABEL_GROUP, "-", "+", 10)
    assert [one["times_delivered"] for one in pending] == [0, 1]


def test_a_consumer_that_holds_an_entry_is_not_deleted(redis: Any) -> None:
    taken(redis, "busy")
    redis.xgroup_createconsumer(STREAMS.interactions, LABEL_GROUP, "idle")
    assert run(redis, delete_idle_consumers(STREAMS.interactions, LABEL_GROUP, ["busy", "idle"])) == 1
    assert [one["name"] for one in redis.xinfo_consumers(STREAMS.interactions, LABEL_GROUP)] == [b"busy"]


def test_a_dead_letter_is_retried_once_and_its_id_follows(redis: Any) -> None:
    first = published(redis)
    dead = letter(first.entry_id, interaction(1).encode())
    letter_id = redis.xadd(STREAMS.dead_letters, {"data": dead.encode()}).decode()
    call = retry_dead_letter(STREAMS, letter_id, dead, interaction(1).encode())
    entry_id = run(redis, call)
    assert entry_id not in {None, first.entry_id}
    identity = "shop", "i-1"
    assert run(redis, find_id(STREAMS.owner_keys(*identity), known_digest(*identity))) == entry_id
    assert run(redis, call) is None
    assert redis.xlen(STREAMS.interactions) == 2


def test_ids_that_are_copied_do_not_replace_those_that_are_there(redis: Any) -> None:
    identity = "shop", "i-1"
    keys, digest = STREAMS.owner_keys(*identity), known_digest(*identity)
    assert run(redis, find_id(keys, digest)) is None
    assert run(redis, remember_id(keys, digest, "5-0", DAY_MS)) == 1
    (bucket,) = redis.scan_iter(match=STREAMS.owners("*"))
    groups = redis.hvals(bucket)
    run(redis, remember_id(keys, digest, "6-0", DAY_MS))
    run(redis, copy_ids(bucket.decode(), groups, DAY_MS))
    assert run(redis, find_id(keys, digest)) == "6-0"
