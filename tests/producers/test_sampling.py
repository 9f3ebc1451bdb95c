"""A producer with `sample`: a hash decides, every process decides alike, and the probability is recorded."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.models import INTERACTION
from tests.support.names import NAME_CHARACTERS

from ragtide import InteractionProducer, InvalidEntryError, RagInteraction
from ragtide.testing import interaction
from ragtide_consumers.labelers.cascade import position
from ragtide_producers.publishing.batch_publisher import BatchPublisher
from ragtide_producers.publishing.routes import InteractionRoute, Publication
from ragtide_producers.publishing.sampling import Sampling, drawn_for
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import Streams, identity_digest
from ragtide_runtime.settings.model import load_settings

STREAMS = Streams("ragtide", 0)
IDS = [f"i-{number}" for number in range(4000)]
NAME = st.text(NAME_CHARACTERS, min_size=1, max_size=20)


def published(redis: Any) -> list[RagInteraction]:
    return [RagInteraction.decode(fields[b"data"]) for _, fields in redis.xrange(STREAMS.interactions)]


@pytest.mark.pure
@given(NAME, NAME, st.floats(1e-9, 1), st.floats(1e-9, 1))
def test_a_larger_sample_holds_a_smaller_one(pipeline: str, name: str, one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert not Sampling(small).keeps(pipeline, name) or Sampling(large).keeps(pipeline, name)


@pytest.mark.pure
@given(INTERACTION)
def test_without_sampling_an_interaction_is_sent_as_it_is(given: RagInteraction) -> None:
    assert Sampling().sampled(given) is given


@pytest.mark.pure
@given(INTERACTION, st.floats(1e-3, 1, exclude_max=True))
def test_the_probability_multiplies_that_of_the_source(given: RagInteraction, share: float) -> None:
    sampling = Sampling(share)
    if given.sampling_probability * share < 1e-9:
        return
    sampled = sampling.sampled(given)
    assert (sampled is not None) == sampling.keeps(given.pipeline, given.interaction_id)
    if sampled is not None:
        assert sampled.sampling_probability == given.sampling_probability * share
        changes = {"sampling_probability": given.sampling_probability}
        assert sampled.model_copy(update=changes) == given


def policy_draw(pipeline: str, interaction_id: str) -> float:
    """The draw of the policy `sample`, as publish_interactions.lua takes it from the digest."""
    return int.from_bytes(identity_digest(pipeline, interaction_id)[:6], "big") / 2**48


@pytest.mark.pure
def test_a_sample_is_independent_of_the_other_draws() -> None:
    """The policy `sample` and the cascade draw by the same ids: their samples must not be those of the producer."""
    kept = [name for name in IDS if Sampling(0.25).keeps("shop", name)]
    assert len(kept) / len(IDS) == pytest.approx(0.25, abs=0.03)
    for other in (policy_draw, position):
        assert sum(other("shop", name) < 0.25 for name in kept) / len(kept) == pytest.approx(0.25, abs=0.06)
    assert sum(drawn_for("help", "interaction", name) < 0.25 for name in kept) / len(kept) == pytest.approx(
        0.25, abs=0.06
    )


@pytest.mark.pure
def test_a_sample_of_sessions_keeps_them_whole() -> None:
    sampling = Sampling(0.5, "session")
    for session in ("s-1", "s-2", "s-3", "s-4"):
        assert len({sampling.keeps("shop", name, session) for name in IDS[:50]}) == 1
    assert {sampling.keeps("shop", "i-1", f"s-{number}") for number in range(20)} == {True, False}
    # Without a session an interaction is decided by itself.
    assert [sampling.keeps("shop", name) for name in IDS] == [Sampling(0.5).keeps("shop", name) for name in IDS]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sample": 0.0}, "sample is 0: give the share"),
        ({"sample": 1.5}, "sample is 1.5"),
        ({"sample": float("nan")}, "sample is nan"),
        ({"sample_by": "user"}, "sample_by is 'user': give one of interaction, session"),
    ],
)
def test_a_wrong_sample_is_refused_in_words(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        InteractionProducer("redis://127.0.0.1:1/0", **wrong)


@pytest.mark.pure
def test_a_probability_that_cannot_be_recorded_is_refused() -> None:
    kept = next(number for number in range(20) if Sampling(0.5).keeps("shop", f"i-{number}"))
    rare = interaction(kept, pipeline="shop").model_copy(update={"sampling_probability": 1e-9})
    with pytest.raises(InvalidEntryError, match="sampling_probability 1e-09 times"):
        Sampling(0.5).sampled(rare)


@pytest.mark.pure
def test_the_outcomes_of_a_call_keep_their_order() -> None:
    route, left_out = InteractionRoute.of(load_settings()), range(0, 100, 3)
    publisher = BatchPublisher(
        route.layout,
        [
            Publication(f"i-{number}", None, added=False, sampled_out=True)
            if number in left_out
            else route.command(interaction(number))
            for number in range(100)
        ],
        block_s=1.0,
    )
    sent: list[str] = []
    while batch := publisher.batch():
        sent += [command.interaction_id for command in batch]
        publisher.complete([Publication(command.interaction_id, "1-0", added=True) for command in batch])
    found = publisher.publications()
    assert [publication.interaction_id for publication in found] == [f"i-{number}" for number in range(100)]
    assert [publication.interaction_id for publication in found if not publication.sampled_out] == sent
    assert len(sent) == 66


@pytest.mark.redis
async def test_every_way_of_publishing_sends_the_same_sample(redis: Any, redis_url: str) -> None:
    every = [interaction(number) for number in range(60)]
    with InteractionProducer(redis_url, sample=0.4) as producer:
        expected = [one.interaction_id for one in every if producer.keeps(one.pipeline, one.interaction_id)]
        assert 0 < len(expected) < 60
        found = producer.publish_many(every)
        assert [one.interaction_id for one in found if one.added] == expected
        assert [one.interaction_id for one in found if one.sampled_out] == [
            one.interaction_id for one in every if one.interaction_id not in expected
        ]
        assert all(one.entry_id is None and one.dropped is None for one in found if one.sampled_out)
        assert producer.publish(every[0]).sampled_out == ("i-0" not in expected)
    assert {(one.interaction_id, one.sampling_probability) for one in published(redis)} == {
        (name, 0.4) for name in expected
    }
    # Published again by the other ways: everything of the sample is there already.
    async with InteractionProducer(redis_url, sample=0.4) as producer:
        again = await producer.apublish_many(every)
        assert not any(one.added for one in again)
        assert all(producer.submit(one) for one in every)
        assert producer.submit(pipeline="shop") is False
        assert await producer.aflush(20)
        counts = producer.counts
    assert (counts.submitted, counts.duplicates, counts.sampled_out) == (61, len(expected), 60 - len(expected))
    assert counts.submitted == counts.published + counts.duplicates + sum(counts.dropped.values()) + counts.sampled_out
    assert redis.hgetall(STREAMS.dropped) == {b"invalid": b"1"}


@pytest.mark.redis
def test_feedback_is_never_left_out(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url, sample=0.1) as producer:
        for name in IDS[:30]:
            assert producer.submit_feedback(pipeline="shop", interaction_id=name, gold_scores={"trace.adherence": 1.0})
        assert producer.flush(20)
        assert (producer.feedback_counts.published, producer.feedback_counts.sampled_out) == (30, 0)
    assert redis.xlen(STREAMS.feedback) == 30


@pytest.mark.redis
def test_the_settings_sample_unless_the_argument_says_otherwise(redis: Any, redis_url: str) -> None:
    settings = load_settings(redis_url=redis_url, producer={"sample": 0.3, "sample_by": "session"})
    every = [interaction(number, session_id=f"s-{number // 4}") for number in range(40)]
    with InteractionProducer(settings=settings) as producer:
        found = producer.publish_many(every)
    kept = {one.interaction_id for one in found if one.added}
    assert 0 < len(kept) < 40
    assert len(kept) % 4 == 0
    with InteractionProducer(settings=settings, sample=1.0) as producer:
        assert not any(one.sampled_out for one in producer.publish_many(every))
    assert redis.xlen(STREAMS.interactions) == 40


@pytest.mark.processes
def test_another_process_decides_the_same() -> None:
    program = (
        "from ragtide_producers.publishing.sampling import Sampling\n"
        "print(*(int(Sampling(0.5).keeps('shop', f'i-{n}')) for n in range(200)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert [int(word) for word in done.stdout.split()] == [Sampling(0.5).keeps("shop", f"i-{n}") for n in range(200)]
