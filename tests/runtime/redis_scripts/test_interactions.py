"""The way of an interaction, script by script: published, delivered or rejected, retried."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pytest
from redis import ResponseError
from tests.support.conditions import wait_until
from tests.support.metric_events import event

from ragtide.testing import interaction
from ragtide_aggregator.service.trimming import StreamStatus, trim_streams
from ragtide_consumers.worker.claims import uncount_deliveries
from ragtide_consumers.worker.results import CommitOutcome, LabeledEntry, RejectedEntry, deliver_events, reject_entry
from ragtide_producers.publishing.retrying import retry_dead_letter
from ragtide_producers.publishing.routes import FeedbackRoute, InteractionRoute
from ragtide_runtime.redis.backlog import read_backlog
from ragtide_runtime.redis.consumer_groups import delete_idle_consumers, renew_claims
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, known_digest
from ragtide_runtime.redis.known_ids import copy_ids, find_id, remember_id
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.user_ids import UserIds
from ragtide_schemas import DeadLetter, Dropped, Feedback, MetricEvent, RagInteraction, Reason

STREAMS = Streams("ragtide", 0)
LAYOUT = Layout("ragtide")
DAY_MS = 86_400_000


def run(redis: Any, call: Any) -> Any:
    (reply,) = run_scripts_blocking(redis, [call])
    return reply


def published(redis: Any, number: int = 1, *, cap: int = 100, policy: Any = "block") -> Any:
    (outcome,) = published_together(redis, [number], cap=cap, policy=policy)
    return outcome


def published_together(redis: Any, numbers: Iterable[int], *, cap: int = 100, policy: Any = "block") -> list[Any]:
    route = InteractionRoute(LAYOUT, 86_400.0, cap, policy, UserIds())
    outcomes: list[Any] = run(redis, route.call([route.command(interaction(number)) for number in numbers]))
    return outcomes


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


def test_an_id_that_is_known_does_not_change_the_outcome_of_the_others(redis: Any) -> None:
    before = published(redis, 57)
    outcomes = published_together(redis, [*range(200), 3], cap=1000)
    assert [number for number, outcome in enumerate(outcomes) if not outcome.added] == [57, 200]
    assert (outcomes[57].entry_id, outcomes[200].entry_id) == (before.entry_id, outcomes[3].entry_id)
    assert [outcome.interaction_id for outcome in outcomes] == [*(f"i-{number}" for number in range(200)), "i-3"]
    assert [entry_id.decode() for entry_id, _ in redis.xrange(STREAMS.interactions)] == [
        before.entry_id,
        *(outcome.entry_id for outcome in outcomes if outcome.added),
    ]
    again = published_together(redis, range(200), cap=1000)
    assert [outcome.added for outcome in again] == [False] * 200
    assert [outcome.entry_id for outcome in again] == [outcome.entry_id for outcome in outcomes[:200]]


def test_a_stream_that_becomes_full_in_a_batch_takes_what_has_room_and_knows_what_it_has(redis: Any) -> None:
    published_together(redis, [8, 2])
    outcomes = published_together(redis, range(10), cap=6)
    assert [outcome and outcome.added for outcome in outcomes] == [True, True, False, True, True] + [None] * 3 + [
        False,
        None,
    ]
    dropping = published_together(redis, range(10), cap=6, policy="drop_new")
    assert [outcome.dropped for outcome in dropping] == [None] * 5 + [Dropped.DROP_NEW] * 3 + [None, Dropped.DROP_NEW]
    assert redis.hgetall(STREAMS.dropped) == {b"drop_new": b"4"}
    assert redis.xlen(STREAMS.interactions) == 6
    redis.xtrim(STREAMS.interactions, maxlen=0)
    assert [outcome.added for outcome in published_together(redis, range(10), cap=6)] == [
        number in {5, 6, 7, 9} for number in range(10)
    ]


def test_ids_whose_entries_fit_no_bucket_are_known_within_a_batch_too(redis: Any) -> None:
    redis.xadd(STREAMS.interactions, {"data": "x"}, id=f"{2**48}-5")
    outcomes = published_together(redis, [1, 1, 2, 1])
    assert [outcome.added for outcome in outcomes] == [True, False, True, False]
    assert {outcome.entry_id for outcome in outcomes} == {f"{2**48}-6", f"{2**48}-7"}
    assert [outcome.added for outcome in published_together(redis, [2, 3])] == [False, True]


def test_ids_of_a_batch_stay_known_while_their_buckets_split(redis: Any) -> None:
    numbers = range(5000)
    first = published_together(redis, numbers, cap=10_000)
    assert all(outcome.added for outcome in first)
    again = published_together(redis, numbers, cap=10_000)
    assert [outcome.entry_id for outcome in again] == [outcome.entry_id for outcome in first]
    alone = run(redis, find_id(STREAMS.owner_keys("shop", "i-4999"), known_digest("shop", "i-4999")))
    assert alone == first[-1].entry_id


def test_trace_contexts_of_a_batch_go_with_their_interactions(redis: Any) -> None:
    route = InteractionRoute(LAYOUT, 86_400.0, 100, "block", UserIds())
    run(redis, route.call([route.command(interaction(number), context) for number, context in enumerate(("", "t-1"))]))
    found = [fields.get(b"traceparent") for _, fields in redis.xrange(STREAMS.interactions)]
    assert found == [None, b"t-1"]


def test_feedback_is_published_once_while_its_probe_is_kept(redis: Any) -> None:
    feedback = Feedback(interaction_id="i-1", pipeline="shop", gold_scores={"trace.adherence": 1.0})
    route = FeedbackRoute(LAYOUT)
    command = route.command(feedback)
    other = route.command(feedback.model_copy(update={"interaction_id": "i-2"}))
    (first,) = run(redis, route.call([command]))
    again, second = run(redis, route.call([command, other]))
    assert (first.added, again.added, first.entry_id) == (True, False, again.entry_id)
    assert (second.interaction_id, second.added) == ("i-2", True)
    assert [run(redis, route.probe(item)) for item in (command, other)] == [first.entry_id, second.entry_id]


def test_an_event_is_emitted_once_and_its_ids_are_known(redis: Any) -> None:
    (entry_id,) = taken(redis, "w")
    result = LabeledEntry(entry_id, event(0, {"trace.adherence": 1.0}))
    call = deliver_events(STREAMS, [result], dedupe_ms=DAY_MS, feedback_ms=DAY_MS)
    assert [run(redis, call), run(redis, call)] == [[CommitOutcome.EMITTED], [CommitOutcome.FINISHED_BEFORE]]
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
    assert run(redis, deliver_events(STREAMS, [result], dedupe_ms=DAY_MS, feedback_ms=DAY_MS)) == [
        CommitOutcome.DUPLICATE
    ]
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
    assert [run(redis, call), run(redis, call)] == [[CommitOutcome.REJECTED], [CommitOutcome.FINISHED_BEFORE]]
    assert redis.xlen(STREAMS.dead_letters) == 1


def test_an_entry_that_is_no_longer_pending_is_rejected_all_the_same(redis: Any) -> None:
    taken(redis)
    call = reject_entry(STREAMS, RejectedEntry("1-0", letter("1-0"), pending=False))
    assert run(redis, call) == [CommitOutcome.REJECTED]


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
    assert run(redis, uncount_deliveries(STREAMS.interactions, "other", [mine, other], "me")) == 1
    pending = redis.xpending_range(STREAMS.interactions, LABEL_GROUP, "-", "+", 10)
    assert [(one["consumer"], one["times_delivered"]) for one in pending] == [(b"me", 0), (b"me", 0)]


def test_a_consumer_that_holds_an_entry_is_not_deleted(redis: Any) -> None:
    taken(redis, "busy")
    redis.xgroup_createconsumer(STREAMS.interactions, LABEL_GROUP, "idle")
    assert run(redis, delete_idle_consumers(STREAMS.interactions, LABEL_GROUP, ["busy", "idle"])) == 1
    assert [consumer["name"] for consumer in redis.xinfo_consumers(STREAMS.interactions, LABEL_GROUP)] == [b"busy"]


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


class Workers:
    """Workers and an aggregator's trimming of one partition, reduced to their calls of Redis."""

    def __init__(self, redis: Any, count: int) -> None:
        self.redis = redis
        redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0", mkstream=True)
        for number in range(count):
            published(redis, number)
        self.trim()

    def trim(self, position: str = "0-0") -> StreamStatus:
        found: StreamStatus = run(self.redis, trim_streams(STREAMS, Settings(), position, "0-0"))
        return found

    def take(self, count: int, consumer: str = "w") -> list[tuple[str, dict[bytes, bytes]]]:
        create = self.redis.xgroup_create
        with suppress(ResponseError):  # a worker that finds no group creates it
            create(STREAMS.interactions, LABEL_GROUP, id="0", mkstream=True)
        reply = self.redis.xreadgroup(LABEL_GROUP, consumer, {STREAMS.interactions: ">"}, count=count)
        return [(entry_id.decode(), fields) for _, entries in reply for entry_id, fields in entries]

    def claim(self) -> list[tuple[str, dict[bytes, bytes]]]:
        reply = self.redis.xautoclaim(STREAMS.interactions, LABEL_GROUP, "w", 60_000, count=100)
        return [(entry_id.decode(), fields) for entry_id, fields in reply[1] if entry_id]

    def finish(self, entries: Any) -> list[Any]:
        outcomes = []
        for entry_id, fields in entries:
            found = RagInteraction.from_entry(entry_id, fields[b"data"])
            number = int(found.interaction_id.removeprefix("i-"))
            scored = event(number, {"trace.adherence": 1.0}).model_copy(update={"entry_id": entry_id})
            if number % 10 == 9:
                call = reject_entry(STREAMS, RejectedEntry(entry_id, letter(entry_id)))
            else:
                call = deliver_events(STREAMS, [LabeledEntry(entry_id, scored)], dedupe_ms=DAY_MS, feedback_ms=DAY_MS)
            outcomes += run(self.redis, call)
        return outcomes

    def finish_all(self) -> None:
        """Work until nothing waits, as workers do; a worker that hangs is not among them."""
        for _ in range(20):
            self.trim()
            found = [*self.claim(), *self.take(100)]
            self.finish(found)
            if not found and not self.redis.xlen(STREAMS.interactions):
                return
        raise AssertionError("interactions are left in the stream")

    def check(self, count: int) -> None:
        events = [MetricEvent.decode(fields[b"data"]) for _, fields in self.redis.xrange(STREAMS.metrics)]
        ids = sorted(int(one.interaction_id.removeprefix("i-")) for one in events)
        assert ids == [number for number in range(count) if number % 10 != 9]
        assert self.redis.xlen(STREAMS.dead_letters) == count // 10


def _acknowledged(workers: Workers) -> None:
    workers.redis.xack(STREAMS.interactions, LABEL_GROUP, *(entry_id for entry_id, _ in workers.take(40)))


def _pinned(workers: Workers) -> None:
    workers.redis.xgroup_create(STREAMS.interactions, "late", id="0")
    workers.finish(workers.take(60))
    workers.trim()


def _restored(workers: Workers) -> None:
    copy = workers.redis.dump(STREAMS.interactions)
    workers.finish(workers.take(60))
    workers.trim()
    workers.redis.restore(STREAMS.interactions, 0, copy, replace=True)


def _renamed(workers: Workers) -> None:
    workers.finish(workers.take(30))
    workers.take(30, "dead")
    workers.redis.rename(STREAMS.interactions, "elsewhere")
    workers.take(10)
    workers.trim()
    workers.redis.rename("elsewhere", STREAMS.interactions)


def _moved(position: str, *, pins: bool = False) -> Callable[[Workers], None]:
    def move(workers: Workers) -> None:
        if pins:
            _pinned(workers)
        else:
            workers.finish(workers.take(30))
            workers.take(10, "dead")
        workers.redis.xgroup_setid(STREAMS.interactions, LABEL_GROUP, position)

    return move


def _destroyed(workers: Workers) -> None:
    _pinned(workers)
    workers.redis.xgroup_destroy(STREAMS.interactions, LABEL_GROUP)


def _consumer_deleted(workers: Workers) -> None:
    workers.take(50, "dead")
    workers.redis.xgroup_delconsumer(STREAMS.interactions, LABEL_GROUP, "dead")


def _set_of_finished_deleted(workers: Workers) -> None:
    _pinned(workers)
    workers.redis.delete(STREAMS.finished)
    workers.trim()
    workers.redis.xgroup_setid(STREAMS.interactions, LABEL_GROUP, "0")


OPERATORS: dict[str, tuple[Callable[[Workers], None], str | None]] = {
    "XGROUP DESTROY": (_destroyed, "set_back"),
    "XGROUP SETID to the beginning": (_moved("0", pins=True), "set_back"),
    "XGROUP SETID to the end": (_moved("$"), "rescued"),
    "XGROUP SETID to the end, with a group that reads late": (_moved("$", pins=True), "rescued"),
    "XGROUP DELCONSUMER": (_consumer_deleted, "rescued"),
    "XACK": (_acknowledged, "rescued"),
    "RENAME, and back": (_renamed, "replaced"),
    "RESTORE of an older copy": (_restored, None),
    "DEL of the set of finished entries": (_set_of_finished_deleted, "rescued"),
}
"""What an operator does to the stream of interactions, and how it is counted."""


@pytest.mark.parametrize("name", OPERATORS)
def test_whatever_an_operator_does_to_the_group_every_interaction_is_scored_once(redis: Any, name: str) -> None:
    """Of 100 interactions 90 are scored and 10 rejected, each once, while a worker dies or another group reads late."""
    workers = Workers(redis, 100)
    change, counted_as = OPERATORS[name]
    change(workers)
    workers.trim()
    workers.finish(workers.take(7))
    if any(group["name"] == b"late" for group in redis.xinfo_groups(STREAMS.interactions)):
        for _ in range(5):
            workers.trim()
            workers.finish([*workers.claim(), *workers.take(100)])
        redis.xgroup_destroy(STREAMS.interactions, "late")
    for entry in redis.xpending_range(STREAMS.interactions, LABEL_GROUP, "-", "+", 100, consumername="dead"):
        redis.xclaim(STREAMS.interactions, LABEL_GROUP, "dead", 0, [entry["message_id"]], idle=90_000, justid=True)
    workers.finish_all()
    workers.check(100)
    if counted_as:
        assert int(redis.hget(STREAMS.deliveries, counted_as)) > 0
    assert redis.zcard(STREAMS.finished) == 0, "the set is no larger than the stream"


def test_a_worker_that_still_has_an_entry_finishes_it_although_it_left_the_group(redis: Any) -> None:
    workers = Workers(redis, 30)
    held = workers.take(30)
    redis.xgroup_delconsumer(STREAMS.interactions, LABEL_GROUP, "w")
    assert set(workers.finish(held)) == {CommitOutcome.EMITTED, CommitOutcome.REJECTED}
    assert set(workers.finish(held)) == {CommitOutcome.FINISHED_BEFORE}
    workers.trim()
    assert set(workers.finish(held)) == {CommitOutcome.FINISHED_BEFORE}, "the entries are gone, and so are the members"
    workers.finish_all()
    workers.check(30)


def test_a_new_entry_with_an_id_that_was_scored_before_the_window_is_scored(redis: Any) -> None:
    workers = Workers(redis, 1)
    workers.finish(workers.take(1))
    workers.trim()
    redis.delete(*STREAMS.owner_keys("shop", "i-0"))
    published(redis, 0)
    assert workers.finish(workers.take(1)) == [CommitOutcome.EMITTED]


def test_deleted_and_replaced_streams_are_counted(redis: Any) -> None:
    workers = Workers(redis, 20)
    redis.xdel(STREAMS.interactions, *(entry_id for entry_id, _ in redis.xrange(STREAMS.interactions, count=3)))
    knows = "entries-added" in redis.xinfo_stream(STREAMS.interactions)
    assert workers.trim().changes == ({"deleted": 3} if knows else {})
    assert workers.trim().changes == {}
    redis.delete(STREAMS.interactions)
    seen = workers.trim()
    assert (seen.changes, seen.dropped) == ({"replaced": 1}, {"deleted": 17})
    assert workers.trim().changes == {}


@pytest.mark.parametrize("position", ["0-0", "1-0"])
def test_an_entry_that_left_the_group_before_the_first_trim_is_delivered_again(redis: Any, position: str) -> None:
    """A repartition leaves checkpoints with positions, and an operator may be faster than the first aggregator."""
    workers = Workers(redis, 20)
    redis.delete(STREAMS.deliveries)
    redis.xgroup_setid(STREAMS.interactions, LABEL_GROUP, "$")
    assert workers.trim(position).changes == {"rescued": 20}
    workers.finish_all()
    workers.check(20)


def test_an_entry_ahead_of_the_clock_waits_since_it_was_first_seen(redis: Any) -> None:
    now_ms = int(redis.time()[0]) * 1000
    redis.xadd(STREAMS.interactions, {"data": "x"}, id=f"{now_ms + 30 * DAY_MS}-0")
    trim = trim_streams(STREAMS, Settings(), "0-0", "0-0")
    first = run(redis, trim)
    wait_until(lambda: run(redis, trim).now_ms > first.now_ms + 20)
    assert first.oldest_waiting_ms == run(redis, trim).oldest_waiting_ms == pytest.approx(first.now_ms, abs=1000)
    (backlog,) = run_scripts_blocking(redis, [read_backlog(STREAMS)])
    assert backlog.oldest_s > 0
    assert 29 < backlog.ahead_s / 86_400 < 31
