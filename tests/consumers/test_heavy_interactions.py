"""The local labeler on interactions as large as the schema admits: bounded work, outside the event loop."""

import asyncio
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.test_worker import STREAMS, events, publish
from tests.support.conditions import until

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.local import overlap
from ragtide_consumers.labelers.local.overlap import Overlap, overlap_of, words_of
from ragtide_consumers.labelers.local.words import LONGEST_WORD, MOST_WORDS, number_words, vocabulary
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.text.sentences import HEAVY_CHARS
from ragtide_consumers.worker.app import run_workers
from ragtide_consumers.worker.telemetry import WorkerTelemetry
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.settings.model import load_settings
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry

SENTENCES = st.lists(st.lists(st.sampled_from("bcdfghjk"), max_size=6), min_size=1, max_size=12)


@given(st.lists(SENTENCES, max_size=3), SENTENCES, st.lists(st.sampled_from("bcdz"), max_size=4))
def test_weights_are_those_of_comparing_all_pairs_and_the_way_for_large_interactions_changes_no_bit(
    documents: list[list[list[str]]], response: list[list[str]], question: list[str]
) -> None:
    texts = [[" ".join(words) for words in document] for document in documents]
    compared = words_of(" ".join(question), texts, [" ".join(words) for words in response])
    expected = _straightforward([words for document in documents for words in document], response, set(question))
    bits: list[list[bytes]] = []
    with pytest.MonkeyPatch.context() as patch:
        for cells, at_once in ((1_000_000, 1_000_000), (0, 1_000_000), (0, 1)):
            patch.setattr(overlap, "_CELLS", cells)
            patch.setattr(overlap, "_AT_ONCE", at_once)
            found = overlap_of(compared)
            for field, values in expected.items():
                assert getattr(found, field).tolist() == pytest.approx(values, abs=2e-4), field
            bits.append([getattr(found, name).tobytes() for name in Overlap.__slots__])
    assert bits[0] == bits[1] == bits[2]


def _straightforward(
    documents: list[list[str]], response: list[list[str]], question: set[str]
) -> dict[str, list[float]]:
    """Return the weights by the formula: every response sentence with every document sentence."""
    sentences = [set(words) for words in documents]
    n = len(sentences)

    def weight(words: set[str]) -> float:
        counts = [sum(word in sentence for sentence in sentences) for word in words]
        return sum(math.log1p((n - count + 0.5) / (count + 0.5)) for count in counts)

    texts = [set(words) for words in response]
    everything = set[str]().union(*texts)
    known = everything | question
    other = math.log1p((n - 1 + 0.5) / 1.5) if n else 0.0
    own = [weight(known.intersection(words)) + other * sum(word not in known for word in words) for words in documents]
    return {
        "question": [weight(sentence & question) / (weight(question) or 1) for sentence in sentences],
        "answer": [
            weight(sentence & everything - question) / (weight(everything - question) or 1) for sentence in sentences
        ],
        "of_response": [max(weight(text & sentence) / (weight(text) or 1) for text in texts) for sentence in sentences],
        "in_response": [
            max(weight(text & sentence) for text in texts) / (whole or 1)
            for sentence, whole in zip(sentences, own, strict=True)
        ],
        "best": [
            max((weight(text & sentence) / (weight(text) or 1) for sentence in sentences), default=0.0)
            for text in texts
        ],
        "asked": [weight(text & question) / (weight(text) or 1) for text in texts],
        "n_new": [float(len(text - question.union(*sentences))) for text in texts],
    }


def test_scores_of_real_interactions_do_not_change_by_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    labeler, rows = LocalLabeler(), demo_interactions()[:100]
    expected = [labeler.label_now(row) for row in rows]
    monkeypatch.setattr(overlap, "_CELLS", 0)
    monkeypatch.setattr(overlap, "_AT_ONCE", 50)
    assert [labeler.label_now(row) for row in rows] == expected


def heavy(sentences: int, common: str = "") -> RagInteraction:
    lines = "\n".join(f"{common}w{number}" for number in range(sentences))
    return RagInteraction(
        pipeline="p", interaction_id="heavy", question="What is it?", documents=[lines], response=lines
    )


def test_time_grows_no_faster_than_the_text() -> None:
    labeler = LocalLabeler()

    def seconds(sentences: int) -> float:
        interaction, started = heavy(sentences), time.process_time()
        labeler.label_now(interaction)
        return time.process_time() - started

    seconds(500)
    # Four times the text: four times the time, or sixteen times if every sentence is compared with every other.
    assert min(seconds(10_000) for _ in range(2)) < 9 * min(seconds(2500) for _ in range(2))


def test_where_too_many_words_are_shared_the_scores_are_absent_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    labeler = LocalLabeler()
    assert labeler.label_now(heavy(1100, "cat ")).scores
    monkeypatch.setattr(overlap, "MOST_MATCHES", 1_000_000)
    labeling = labeler.label_now(heavy(1100, "cat "))
    assert labeling.scores == {}
    assert {str(labeling.absent[name]) for name in labeling.absent} >= {"too_long"}
    assert labeler.label_now(heavy(1100)).scores, "many sentences alone are not too many"


def test_words_that_are_remembered_are_short_and_few() -> None:
    long = f"{'x' * 100_000} Ж{'ж' * 100_000}"
    first, second = number_words([long, long.upper()], vocabulary()).numbers.reshape(2, 2).tolist()
    assert first == second
    assert max(map(len, vocabulary())) <= LONGEST_WORD
    for start in range(0, 3 * MOST_WORDS, 10_000):
        number_words([" ".join(f"w{number}" for number in range(start, start + 10_000))], vocabulary())
    assert len(vocabulary()) <= MOST_WORDS + 10_000


def test_threads_give_every_word_a_number_of_its_own() -> None:
    def read(thread: int) -> list[int]:
        return [
            number
            for _ in range(20)
            for number in number_words([f"{thread}w{_}x{i}" for i in range(50)], vocabulary()).numbers.tolist()
        ]

    with ThreadPoolExecutor(8) as threads:
        found = [number for numbers in threads.map(read, range(8)) for number in numbers]
    assert len(set(found)) == len(found)


async def test_a_heavy_interaction_holds_up_neither_the_others_nor_signs_of_life(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = threading.Event(), threading.Event()
    label_now = LocalLabeler.label_now

    def waits(self: LocalLabeler, interaction: RagInteraction, *similar: Sequence[float]) -> Labeling:
        if interaction.interaction_id == "heavy":
            begun.set()
            assert gate.wait(60), "in the event loop this ends only here, since nothing else is done meanwhile"
        return label_now(self, interaction, *similar)

    monkeypatch.setattr(LocalLabeler, "label_now", waits)
    interaction = heavy(HEAVY_CHARS // 5)
    await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: interaction.encode()})
    stop, health = asyncio.Event(), Health()
    settings = load_settings(worker_min_idle_s=0.5)
    running = asyncio.create_task(
        run_workers(settings, redis_url, LocalLabeler(), stop, telemetry=WorkerTelemetry(ProcessTelemetry(health)))
    )
    try:
        await until(lambda: asyncio.sleep(0, begun.is_set()))
        await publish(async_redis, *["fine."] * 20)
        await until(lambda: _has(async_redis, 20))
        assert health.alive().ok
        (consumer,) = await async_redis.xinfo_consumers(STREAMS.interactions, "label")
        assert consumer["pending"] == 1
        gate.set()
        await until(lambda: _has(async_redis, 21))
    finally:
        gate.set()
        stop.set()
        await running
    assert (await events(async_redis))[-1].interaction_id == "heavy"


async def _has(redis: Any, count: int) -> bool:
    return bool(await redis.xlen(STREAMS.metrics) == count)
