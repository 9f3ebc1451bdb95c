"""Gold scores that come later: joined once with their event, in either order, whatever dies."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aggregator_settings import aggregator_settings
from tests.support.metric_events import event

from ragtide import Feedback, MetricEvent
from ragtide_aggregator.checkpoint.commit import Committer, Step
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.service.feedback_reader import FeedbackReader
from ragtide_aggregator.state.feedback_joiner import FeedbackEntry, PendingFeedback, judge_feedback
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_runtime.redis.keys import DATA_FIELD, Streams, interaction_digest
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import DeadLetter, Estimate, JudgedScores

STREAMS = Streams("ragtide", 0)
ADHERENCE = "trace.adherence"
POSITIVE = "feedback.positive"


def settings(**changes: Any) -> Settings:
    return aggregator_settings(
        **{"aggregator_batch": 7, "commit_interval_s": 0.01, "feedback_window_s": 60.0, **changes}
    )


def scored(number: int, score: float = 0.5, **changes: Any) -> MetricEvent:
    return event(number, {ADHERENCE: score}, **changes)


def gold(number: int, score: float = 1.0, metric: str = ADHERENCE, **changes: Any) -> Feedback:
    return Feedback(pipeline="shop", interaction_id=f"i-{number}", gold_scores={metric: score}, **changes)


async def add_event(redis: Any, one: MetricEvent) -> None:
    entry = await redis.xadd(STREAMS.metrics, {DATA_FIELD: one.encode()})
    await redis.set(STREAMS.scored(interaction_digest(one.pipeline, one.interaction_id)), entry)


async def add_feedback(redis: Any, one: Feedback) -> None:
    await redis.xadd(STREAMS.feedback, {DATA_FIELD: one.encode()})


@asynccontextmanager
async def running(redis: Any, **changes: Any) -> AsyncIterator[Aggregator]:
    stop = asyncio.Event()
    service = Aggregator(redis, settings(**changes), holder="a")
    task = asyncio.create_task(service.run(stop))
    try:
        yield service
    finally:
        stop.set()
        await task


async def caught_up(redis: Any) -> None:
    async def last(stream: str) -> Any:
        # Not the last entry: the aggregator trims entries that it has read.
        return (await redis.xinfo_stream(stream))["last-generated-id"] if await redis.exists(stream) else b"0-0"

    wanted = [await last(STREAMS.metrics), await last(STREAMS.feedback)]
    async with asyncio.timeout(120):
        while await redis.hmget(STREAMS.checkpoint, "position", "feedback") != wanted:  # noqa: ASYNC110 - Redis changes
            await asyncio.sleep(0.005)


async def rmse(redis: Any) -> Estimate | None:
    from ragtide_aggregator.checkpoint.loading import load_checkpoint

    state = (await load_checkpoint(redis, STREAMS, StateOptions())).state
    found = [e for e in estimates(state) if e.metric == f"rmse.{ADHERENCE}"]
    return found[0] if found else None


async def letters(redis: Any) -> list[DeadLetter]:
    return [DeadLetter.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.dead_letters)]


async def test_feedback_of_a_sample_weighs_the_inverse_of_its_probability(async_redis: Any) -> None:
    from ragtide_aggregator.checkpoint.loading import load_checkpoint

    await add_event(async_redis, scored(1, 0.25))
    await add_feedback(async_redis, gold(2, 0.0))  # without a probability; it waits for its event
    async with running(async_redis):
        await add_feedback(async_redis, gold(1, 1.0, inclusion_probability=0.25))
        await caught_up(async_redis)
        await add_event(async_redis, scored(2, 0.75))
        await caught_up(async_redis)
    state = (await load_checkpoint(async_redis, STREAMS, StateOptions())).state
    (weighted,) = [e for e in estimates(state) if e.labeler == "gold" and e.estimator == "weighted"]
    assert weighted.n == 2
    assert weighted.estimate == pytest.approx(4 / 5)


@pytest.mark.parametrize("first", ["event", "feedback", "both"])
async def test_feedback_is_joined_whichever_comes_first(async_redis: Any, first: str) -> None:
    async def bring(kind: str) -> None:
        await (add_event(async_redis, scored(1, 0.25)) if kind == "event" else add_feedback(async_redis, gold(1)))

    if first == "both":
        await bring("event")
        await bring("feedback")
    async with running(async_redis):
        if first != "both":
            await bring(first)
            await caught_up(async_redis)
            assert await rmse(async_redis) is None
            await bring("feedback" if first == "event" else "event")
        await caught_up(async_redis)
    found = await rmse(async_redis)
    assert found is not None
    assert found.n == 1
    assert found.estimate == pytest.approx(0.75)
    assert await letters(async_redis) == []
    assert not [name for name in await async_redis.hkeys(STREAMS.checkpoint) if name.startswith(b"pending:")]


async def test_of_each_metric_the_first_gold_score_counts_and_the_others_are_dead_letters(async_redis: Any) -> None:
    await add_event(async_redis, scored(1, 0.5))
    await add_event(async_redis, scored(2, 0.5, gold_scores={ADHERENCE: 0.5}))
    async with running(async_redis):
        await add_feedback(async_redis, gold(1, 1.0))
        await caught_up(async_redis)
        await add_feedback(async_redis, gold(1, 0.0))
        await add_feedback(async_redis, gold(1, 0.5))
        await add_feedback(async_redis, gold(2, 1.0))
        await caught_up(async_redis)
    found = await rmse(async_redis)
    assert found is not None
    assert found.n == 2
    assert found.estimate == pytest.approx((0.25 / 2) ** 0.5)
    refused = await letters(async_redis)
    assert [letter.reason for letter in refused] == ["duplicate"] * 3
    assert all("the first one counts" in letter.detail for letter in refused)
    assert {letter.stream for letter in refused} == {STREAMS.feedback}


async def test_what_cannot_be_joined_is_a_dead_letter_with_its_reason_and_stops_nothing(async_redis: Any) -> None:
    await add_event(async_redis, scored(1))
    await async_redis.xadd(STREAMS.feedback, {"data": b"nonsense"})
    await async_redis.xadd(STREAMS.feedback, {"other": b"field"})
    await async_redis.xadd(STREAMS.feedback, {"data": b'{"pipeline": "shop", "interaction_id": "i-1"}'})
    out_of_range = b'{"pipeline": "shop", "interaction_id": "i-1", "gold_scores": {"trace.adherence": 7}}'
    await async_redis.xadd(STREAMS.feedback, {"data": out_of_range})
    mixed = Feedback(pipeline="shop", interaction_id="i-1", gold_scores={ADHERENCE: 1.0, "trace.completeness": 0.5})
    await add_feedback(async_redis, mixed)
    async with running(async_redis):
        await caught_up(async_redis)
    refused = await letters(async_redis)
    assert [letter.reason for letter in refused] == ["not_json", "missing_data_field", "invalid", "invalid", "invalid"]
    assert "trace.completeness to compare with" in refused[-1].detail
    # The letter leaves out the accepted scores: publishing the letter again must not double them.
    assert Feedback.decode(refused[-1].payload_bytes()).gold_scores == {"trace.completeness": 0.5}
    found = await rmse(async_redis)
    assert found is not None
    assert found.n == 1


async def test_feedback_for_an_interaction_nobody_scored_is_given_up_after_the_window(async_redis: Any) -> None:
    await async_redis.xadd(STREAMS.feedback, {"data": gold(99).encode()}, id="1000-0")
    await async_redis.xadd(STREAMS.feedback, {"data": gold(98).encode()}, id="50000-0")
    await async_redis.xadd(STREAMS.metrics, {"data": scored(1).encode()}, id="100000-0")
    async with running(async_redis, feedback_window_s=60.0):
        await caught_up(async_redis)
    (letter,) = await letters(async_redis)
    assert letter.reason == "unknown_interaction"
    assert "i-99 of pipeline shop" in letter.detail
    assert len([name for name in await async_redis.hkeys(STREAMS.checkpoint) if name.startswith(b"pending:")]) == 1


async def test_counting_again_from_the_start_counts_the_same_gold_scores(async_redis: Any) -> None:
    for number in range(5):
        await add_event(async_redis, scored(number, 0.5))
        await add_feedback(async_redis, gold(number, 1.0))
    await add_feedback(async_redis, gold(0, 0.0))
    found = []
    for _ in range(2):
        async with running(async_redis):
            await caught_up(async_redis)
        found.append(await rmse(async_redis))
        await async_redis.delete(STREAMS.checkpoint)
    assert found[0] is not None
    assert found[0].n == 5
    assert found[1] is not None
    assert (found[1].n, found[1].estimate) == (found[0].n, found[0].estimate)


async def test_gold_scores_are_compared_with_the_judge_too(async_redis: Any) -> None:
    judged = JudgedScores(
        labeler="judge", labeler_version="m", profile="ragbench", scores={ADHERENCE: 1.0}, uniform=True
    )
    await add_event(async_redis, scored(1, 0.5).model_copy(update={"judged": judged}))
    await add_feedback(async_redis, gold(1, 1.0))
    async with running(async_redis):
        await caught_up(async_redis)
    from ragtide_aggregator.checkpoint.loading import load_checkpoint

    state = (await load_checkpoint(async_redis, STREAMS, StateOptions())).state
    found = {e.labeler: e.estimate for e in estimates(state) if e.metric == f"rmse.{ADHERENCE}"}
    assert found == {"test": pytest.approx(0.5), "judge": pytest.approx(0.0)}
    assert {e.labeler: e.n for e in estimates(state) if e.metric == ADHERENCE and e.estimator == "mean"} == {
        "test": 1,
        "judge": 1,
    }


@pytest.mark.parametrize("seed", range(4))
async def test_an_aggregator_that_dies_at_any_commit_joins_each_gold_score_once(
    async_redis: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits fail before they are written, or after (the reply is lost and the process with it), at random."""
    chance = random.Random(seed)
    commit = Committer.commit
    deaths = 0

    async def deadly(self: Committer, step: Step, token: str) -> None:
        nonlocal deaths
        if deaths < 12 and chance.random() < 0.4:
            deaths += 1
            if chance.random() < 0.5:
                await commit(self, step, token)
            raise asyncio.CancelledError
        await commit(self, step, token)

    monkeypatch.setattr(Committer, "commit", deadly)
    numbers = list(range(60))
    things: list[MetricEvent | Feedback] = [scored(n, n / 60) for n in numbers]
    things += [gold(n, 1.0) for n in numbers[::2]] + [gold(n, 0.0) for n in numbers[::4]]
    chance.shuffle(things)
    for thing in things:
        await (add_event(async_redis, thing) if isinstance(thing, MetricEvent) else add_feedback(async_redis, thing))
    stop = asyncio.Event()
    finishing = asyncio.create_task(caught_up(async_redis))
    while not finishing.done():
        await async_redis.delete(STREAMS.lease)  # the dead owner's lease has run out
        service = Aggregator(async_redis, settings(commit_interval_s=0.0, aggregator_batch=3), holder="a")
        running_now = asyncio.create_task(service.run(stop))
        await asyncio.wait([running_now, finishing], return_when=asyncio.FIRST_COMPLETED)
        if not running_now.done():
            stop.set()
        await asyncio.wait([running_now])
    assert deaths >= 2
    found = await rmse(async_redis)
    assert found is not None
    assert found.n == 30
    counted = {
        thing.interaction_id: thing for thing in reversed(things) if isinstance(thing, Feedback)
    }  # the first of each
    expected = [(n / 60 - counted[f"i-{n}"].gold_scores[ADHERENCE]) ** 2 for n in numbers[::2]]
    assert found.estimate == pytest.approx((sum(expected) / 30) ** 0.5, abs=1e-12)
    refused = await letters(async_redis)
    assert len(refused) == 15
    assert {letter.reason for letter in refused} == {"duplicate"}


class NoRedis:
    """Stands where nothing is read: a joiner that only holds and applies."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def joined(order: Sequence[MetricEvent | Feedback], restart_every: int) -> dict[str, tuple[int, float]]:
    """Return n and value of errors and thumbs after these came in this order, with a restart every so often."""
    state, pending = AggregatorState(StateOptions()), PendingFeedback()
    seen: dict[str, MetricEvent] = {}
    graded: dict[str, set[str]] = {}
    fields: dict[str, bytes] = {}
    for number, thing in enumerate(order):
        waiting = [FeedbackEntry(f"{number + 1}-0", thing)] if isinstance(thing, Feedback) else []
        if isinstance(thing, MetricEvent):
            state.apply(thing)
            seen[thing.interaction_id] = thing
            waiting = pending.take(thing)
        for held in waiting:
            about = seen.get(held.feedback.interaction_id)
            if about is None:
                pending.hold(held)
                continue
            before = graded.setdefault(about.interaction_id, set())
            verdict = judge_feedback(held.feedback, about, before)
            if verdict.accepted:
                state.apply_gold(about, verdict.accepted)
                before |= set(verdict.accepted)
        if number % restart_every == 0:
            added, gone = pending.take_changes()
            fields = {n: v for n, v in {**fields, **state.take_changes().rows, **added}.items() if n not in gone}
            state, pending = AggregatorState.from_fields(StateOptions(), fields), PendingFeedback.from_fields(fields)
    return {e.metric: (e.n, e.estimate or 0.0) for e in estimates(state) if e.metric.startswith(("rmse.", "feedback."))}


@given(st.randoms(use_true_random=False), st.integers(1, 9))
def test_any_order_and_any_restarts_join_the_same_gold_scores(chance: Any, restart_every: int) -> None:
    events: list[MetricEvent | Feedback] = [scored(n, n / 10) for n in range(10)]
    feedback: list[MetricEvent | Feedback] = [gold(n, 1.0) for n in range(0, 10, 2)]
    feedback += [gold(n, n % 3 / 2, POSITIVE) for n in range(0, 10, 3)]
    things = events + feedback
    chance.shuffle(things)
    mixed = joined(things, restart_every)
    in_order = joined(events + feedback, 1000)
    assert POSITIVE in mixed
    assert mixed.keys() == in_order.keys()
    for metric, (n, estimate) in in_order.items():
        assert mixed[metric][0] == n
        assert mixed[metric][1] == pytest.approx(estimate, abs=1e-12)


def test_a_joiner_needs_no_redis_for_what_was_held() -> None:
    state, pending = AggregatorState(StateOptions()), PendingFeedback()
    reader = FeedbackReader(NoRedis(), STREAMS, state, pending, window_s=60)  # type: ignore[arg-type]
    pending.hold(FeedbackEntry("1-0", gold(1)))
    state.apply(scored(1))
    reader.joiner.applied("2-0", scored(1))
    assert reader.joiner.joined == 1
    graded, refused = reader.take_changes()
    assert graded == [(STREAMS.graded(interaction_digest("shop", "i-1")), f"{ADHERENCE} 1-0")]
    assert refused == []


def test_feedback_that_waited_longer_than_the_window_is_a_dead_letter_of_its_event() -> None:
    state, pending = AggregatorState(StateOptions()), PendingFeedback()
    reader = FeedbackReader(NoRedis(), STREAMS, state, pending, window_s=60)  # type: ignore[arg-type]
    pending.hold(FeedbackEntry("1000-0", gold(1)))
    state.apply(scored(1))
    reader.joiner.applied("61001-0", scored(1))
    graded, rejected = reader.take_changes()
    assert (reader.joiner.joined, graded) == (0, [])
    assert [letter.reason for letter in rejected] == ["unknown_interaction"]


def test_a_thumb_is_a_value_of_its_own_metric_whatever_the_labeler_gave_and_however_it_came() -> None:
    judged = JudgedScores(
        labeler="judge", labeler_version="1", profile="ragbench", scores={ADHERENCE: 0.5}, inclusion_probability=1.0,
        uniform=True,
    )  # fmt: skip
    scores = {ADHERENCE: 0.5}
    kinds: list[dict[str, Any]] = [
        {"scores": scores},
        {"scores": {}, "absent": {ADHERENCE: "no_sentences"}},
        {"scores": scores, "judged": judged},
    ]
    events = [event(n, **kinds[n % 3], segments={"lang": "en"}) for n in range(30)]
    thumbs = {n: float(n % 4 > 0) for n in range(0, 30, 2)}
    later, inline = AggregatorState(StateOptions()), AggregatorState(StateOptions())
    for n, one in enumerate(events):
        later.apply(one)
        inline.apply(one.model_copy(update={"gold_scores": {POSITIVE: thumbs[n]}}) if n in thumbs else one)
    for n, thumb in thumbs.items():
        verdict = judge_feedback(gold(n, thumb, POSITIVE), events[n], ())
        assert verdict.reason is None
        later.apply_gold(events[n], verdict.accepted)
    for state in (later, inline):
        found = {e.segment: e for e in estimates(state) if e.metric == POSITIVE}
        assert found.keys() == {None, "lang=en"}
        for estimate in found.values():
            assert (estimate.labeler, estimate.n) == ("gold", len(thumbs))
            assert estimate.estimate == pytest.approx(sum(thumbs.values()) / len(thumbs))
    # The other numbers are those without a thumb.
    plain = AggregatorState(StateOptions())
    for one in events:
        plain.apply(one)
    assert [e for e in estimates(later) if e.metric != POSITIVE] == estimates(plain)


def test_a_gold_score_without_a_score_is_counted_and_one_of_an_unknown_metric_is_refused() -> None:
    absent = event(1, {}, absent={ADHERENCE: "language_not_supported"})
    verdict = judge_feedback(gold(1), absent, ())
    assert (verdict.accepted, verdict.uncompared, verdict.reason) == ({ADHERENCE: 1.0}, 1, None)
    assert judge_feedback(gold(1), absent, {ADHERENCE}).reason == "duplicate"
    assert judge_feedback(gold(1, metric="mine.words"), absent, ()).reason == "invalid"
