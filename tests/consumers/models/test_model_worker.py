"""A worker with a small ONNX model on real streams."""

from pathlib import Path
from typing import Any

import pytest
from tests.consumers.models.small_models import write, write_encoder
from tests.consumers.test_worker import dead_letters, events, read, working
from tests.support.conditions import until
from tests.support.roles import STREAMS, estimates, interactions, running, wait_for_aggregation, wait_for_events

from ragtide import InteractionProducer
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.settings.model import Settings


async def test_a_worker_labels_a_stream_with_a_model(
    redis: Any, async_redis: Any, redis_url: str, tmp_path: Path
) -> None:
    folder, reranker = write(tmp_path / "small"), write(tmp_path / "reranker", labels=("LABEL_0",))
    models = {"support": str(folder), "relevance": str(reranker)}
    with InteractionProducer(redis_url) as producer:
        producer.publish_many(interactions(40))
    async with (
        labeler_of(Settings.model_validate({"labeler": "model", "models": models}), None) as labeler,
        working(async_redis, labeler, worker_concurrency=16) as worker,
    ):
        await worker.take(await read(async_redis))

        async def finished() -> bool:
            return len(await events(async_redis)) == 40

        await until(finished)
        found = await events(async_redis)
        assert await dead_letters(async_redis) == []
    assert {(event.labeler, event.labeler_version) for event in found} == {("model", labeler.version)}
    assert all({"trace.adherence", "trace.context_relevance"} <= event.scores.keys() for event in found)


@pytest.mark.processes
def test_similarity_of_a_sample_goes_from_the_stream_to_the_estimates(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    extra = {
        "RAGTIDE_LABELER": "cascade",
        "RAGTIDE_CASCADE_REFERENCE": "model",
        "RAGTIDE_CASCADE_RATE": "0.5",
        "RAGTIDE_MODELS_SIMILARITY": str(write_encoder(tmp_path / "encoder")),
    }
    with InteractionProducer(redis_url) as producer:
        producer.publish_many(interactions(40))
    with (
        running("worker", redis_url, tmp_path / "worker.log", extra),
        running("aggregator", redis_url, tmp_path / "aggregator.log"),
    ):
        wait_for_events(redis, 40)
        wait_for_aggregation(redis)
    assert redis.xlen(STREAMS.dead_letters) == 0
    found = {
        (one["labeler"], one["metric"]): one
        for one in estimates(redis_url)
        if one["segment"] is None and one["estimator"] == "mean"
    }
    for metric in ("similarity.support", "similarity.match"):
        estimate = found["model", metric]
        assert 6 < estimate["n"] + estimate["n_absent"] < 34
        assert 0 < estimate["estimate"] <= 1
        assert ("local", metric) not in found
    adherence = found["local", "trace.adherence"]
    assert adherence["n"] + adherence["n_absent"] == 40


@pytest.mark.heavy
@pytest.mark.processes
def test_a_model_goes_from_the_stream_to_the_estimates(redis: Any, redis_url: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "small")
    extra = {"RAGTIDE_LABELER": "model", "RAGTIDE_MODELS_SUPPORT": str(folder)}
    with InteractionProducer(redis_url) as producer:
        producer.publish_many(interactions(200))
    with (
        running("worker", redis_url, tmp_path / "worker.log", extra),
        running("aggregator", redis_url, tmp_path / "aggregator.log"),
    ):
        wait_for_events(redis, 200)
        wait_for_aggregation(redis)
    assert redis.xlen(STREAMS.dead_letters) == 0
    found = {estimate["metric"]: estimate for estimate in estimates(redis_url) if estimate["segment"] is None}
    assert found["trace.adherence"]["n"] + found["trace.adherence"]["n_absent"] == 200
    assert found["trace.adherence"]["labeler"] == "model"
