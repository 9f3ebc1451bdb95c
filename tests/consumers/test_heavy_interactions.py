"""The local labeler on interactions as large as the schema admits: bounded work, outside the event loop."""

import asyncio
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.test_worker import STREAMS, events, publish
from tests.support.conditions import until

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.local import overlap
from ragtide_consumers.labelers.local.labeler import HEAVY_CHARS
from ragtide_consumers.labelers.local.overlap import Overlap
from ragtide_consumers.labelers.local.words import STEMS, content_words
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.worker.app import run_workers
from ragtide_consumers.worker.telemetry import WorkerTelemetry
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.settings.model import load_settings
from ragtide_runtime.telemetry.health import Health
from ragtide_runtime.telemetry.process import ProcessTelemetry

SENTENCES = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), min_size=1, max_size=12)


@given(st.lists(SENTENCES, min_size=1, max_size=3), SENTENCES, st.sampled_from([0, 2, 256]))
def test_only_sentences_that_share_a_word_are_compared_and_no_bit_changes(
    documents: list[list[list[str]]], response: list[list[str]], long: int
) -> None:
    texts = [dict.fromkeys(words) for words in response]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlap, "_LONG", long)
        compared = Overlap(documents, (word for words in response for word in words))
        expected = _straightforward(compared, texts, long)
        for cells, at_once in ((1_000_000, 1_000_000), (0, 1_000_000), (0, 1)):
            patch.setattr(overlap, "_CELLS", cells)
            patch.setattr(overlap, "_AT_ONCE", at_once)
            found = compared.matches(texts)
            for field, values in expected.items():
                assert getattr(found, field).tobytes() == values.tobytes(), field


def _straightforward(compared: Overlap, texts: list[dict[str, None]], long: int) -> dict[str, np.ndarray]:
    """Return what `matches` returns, by the formula: every response sentence with every document sentence."""
    shared = np.zeros((len(texts), len(compared.sentences)))
    counts = {word: sum(word in sentence for sentence in compared.sentences) for words in texts for word in words}
    for row, words in enumerate(texts):
        for column, sentence in enumerate(compared.sentences):
            for word in sorted(words, key=lambda word: counts[word] > long):
                if word in sentence:
                    shared[row, column] += compared.total([word])
    whole = np.array([compared.total(words) or 1.0 for words in texts])
    own = np.array([compared.total(dict.fromkeys(sentence)) or 1.0 for sentence in compared.sentences])
    shares = shared / whole[:, None]
    return {
        "of_response": shares.max(axis=0),
        "in_response": shared.max(axis=0) / own,
        "best": shares.max(axis=1),
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

    seconds(1000)
    # Four times the text: four times the time, or sixteen times if every sentence is compared with every other.
    assert min(seconds(20_000) for _ in range(2)) < 9 * min(seconds(5000) for _ in range(2))


def test_where_too_many_words_are_shared_the_scores_are_absent_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    labeler = LocalLabeler()
    assert labeler.label_now(heavy(1100, "cat ")).scores
    monkeypatch.setattr(overlap, "MOST_MATCHES", 1_000_000)
    labeling = labeler.label_now(heavy(1100, "cat "))
    assert labeling.scores == {}
    assert {str(labeling.absent[name]) for name in labeling.absent} >= {"too_long"}
    assert labeler.label_now(heavy(1100)).scores, "many sentences alone are not too many"


def test_long_words_are_not_remembered() -> None:
    assert content_words(f"{'x' * 100_000} Ж{'ж' * 100_000}") != []
    assert max(map(len, STEMS)) <= 64


async def test_a_heavy_interaction_holds_up_neither_the_others_nor_signs_of_life(
    async_redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = threading.Event(), threading.Event()
    label_now = LocalLabeler.label_now

    def waits(self: LocalLabeler, interaction: RagInteraction) -> Labeling:
        if interaction.interaction_id == "heavy":
            begun.set()
            assert gate.wait(60), "in the event loop this ends only here, since nothing else is done meanwhile"
        return label_now(self, interaction)

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
