import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.conditions import wait_until
from tests.support.roles import (
    STREAMS,
    command,
    dead_letters,
    estimates,
    interactions,
    kill,
    metric_events,
    running,
    start,
    start_doomed,
    wait_for_aggregation,
    wait_for_events,
)

from ragtide import InteractionProducer, LocalLabeler, RagInteraction
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import load_settings
from ragtide_schemas import MetricEvent


def publish(url: str, batch: list[RagInteraction]) -> None:
    with InteractionProducer(url) as producer:
        assert all(publication.added for publication in producer.publish_many(batch))


def assert_scored_exactly_once(redis: Any, published: list[RagInteraction]) -> None:
    events = metric_events(redis)
    assert len(events) == len(published)
    assert {event.interaction_id for event in events} == {interaction.interaction_id for interaction in published}
    assert dead_letters(redis) == []
    assert redis.xpending(STREAMS.interactions, "label")["pending"] == 0


def assert_means_equal_a_direct_computation(url: str, published: list[RagInteraction]) -> None:
    """Compare every estimate of the whole pipeline with NumPy over scores computed here, without any stream."""
    labeler = LocalLabeler()
    scores: dict[str, list[float]] = {}
    # Equal content has equal scores, so each different text is labeled once.
    known: dict[tuple[str, str, bool], dict[str, float]] = {}
    for interaction in published:
        content = interaction.question, interaction.response, bool(interaction.calls)
        if content not in known:
            known[content] = dict(labeler.label_now(interaction).scores)
        for metric, score in known[content].items():
            scores.setdefault(metric, []).append(score)
            gold = interaction.gold_scores.get(metric)
            if gold is not None:
                scores.setdefault(f"rmse.{metric}", []).append((score - gold) ** 2)
    found = {e["metric"]: e for e in estimates(url) if e["segment"] is None}
    for metric, values in scores.items():
        expected = float(np.mean(values))
        if metric.startswith("rmse."):
            expected = float(np.sqrt(expected))
        assert found[metric]["n"] == len(values)
        assert found[metric]["estimate"] == pytest.approx(expected, abs=1e-12, rel=0)
        assert found[metric]["lower"] <= expected <= found[metric]["upper"]


@pytest.mark.heavy
def test_5000_interactions_two_workers_and_an_aggregator_score_each_exactly_once(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    published = interactions(5000)
    with (
        running("worker", redis_url, tmp_path / "worker-1.log"),
        running("worker", redis_url, tmp_path / "worker-2.log"),
        running("aggregator", redis_url, tmp_path / "aggregator.log"),
    ):
        publish(redis_url, published)
        wait_for_events(redis, len(published))
        wait_for_aggregation(redis)
        assert len({entry["name"] for entry in redis.xinfo_consumers(STREAMS.interactions, "label")}) == 2
    assert_scored_exactly_once(redis, published)
    # Both ended with nothing in hand, and left the group.
    assert redis.xinfo_consumers(STREAMS.interactions, "label") == []
    assert_means_equal_a_direct_computation(redis_url, published)


def test_what_was_published_before_any_worker_started_is_scored(redis: Any, redis_url: str, tmp_path: Path) -> None:
    published = interactions(50)
    publish(redis_url, published)
    with running("worker", redis_url, tmp_path / "worker.log"):
        wait_for_events(redis, len(published))
    assert_scored_exactly_once(redis, published)


def test_a_killed_worker_loses_nothing_and_doubles_nothing(redis: Any, redis_url: str, tmp_path: Path) -> None:
    published = interactions(1500)
    publish(redis_url, published)
    victim = start_doomed("worker", redis_url, tmp_path / "victim.log", "--calls", "10")
    assert victim.wait(120) == -signal.SIGKILL
    assert 0 < redis.xlen(STREAMS.metrics) < len(published)
    assert redis.xpending(STREAMS.interactions, "label")["pending"] > 0, "the worker held nothing when it was killed"
    with running("worker", redis_url, tmp_path / "worker.log"):
        wait_for_events(redis, len(published))
        wait_until(lambda: redis.xpending(STREAMS.interactions, "label")["pending"] == 0)
    assert_scored_exactly_once(redis, published)
    assert {event.scores.get("tool.orders.failed") for event in metric_events(redis)} == {None, 1.0}


def test_the_innocent_neighbours_of_a_deadly_entry_are_scored(redis: Any, redis_url: str, tmp_path: Path) -> None:
    """Every worker that comes to the deadly entry dies at once, with all it holds, until the entry is given up."""
    (tmp_path / "mortal.py").write_text(
        "import os\n"
        "from ragtide import Labeling\n"
        "class Mortal:\n"
        "    name, version, profile = 'mortal', '1', 'ragbench'\n"
        "    async def label(self, interaction):\n"
        "        if interaction.interaction_id == 'i-00021':\n"
        "            os._exit(9)\n"
        "        return Labeling(scores={'trace.adherence': 1.0})\n"
        "mortal = Mortal()\n"
    )
    published = interactions(40)
    publish(redis_url, published)
    extra = {
        "RAGTIDE_LABELER": "mortal:mortal",
        "RAGTIDE_MAX_DELIVERIES": "1",
        "RAGTIDE_WORKER_CONCURRENCY": "100",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    }
    deaths = 0
    for _ in range(8):
        worker = start("worker", redis_url, tmp_path / "worker.log", extra)
        wait_until(lambda one=worker: one.poll() is not None or dead_letters(redis))  # type: ignore[misc]
        if dead_letters(redis):
            break
        deaths += 1
    wait_for_events(redis, 39)
    kill(worker)
    # One with all it held, and as often as it was tried alone.
    assert deaths == 4
    (victim,) = (one for one in published if one.interaction_id == "i-00021")
    (letter,) = dead_letters(redis)
    assert letter.reason == "too_many_deliveries"
    assert RagInteraction.decode(letter.payload_bytes()) == victim
    assert victim.calls
    scored = sorted(event.interaction_id for event in metric_events(redis))
    assert scored == sorted(one.interaction_id for one in published if one.interaction_id != "i-00021")
    with running("worker", redis_url, tmp_path / "worker.log"):
        assert command(redis_url, "dead-letters", "retry", "--all").returncode == 0
        wait_for_events(redis, len(published))
    assert_scored_exactly_once(redis, published)
    assert metric_events(redis)[-1].scores["tool.orders.failed"] == 1.0


@pytest.mark.heavy
def test_a_worker_that_is_asked_to_stop_finishes_or_hands_back_what_it_has_taken(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    published = interactions(1500)
    publish(redis_url, published)
    # With this idle time the second worker would wait for minutes for what the first one merely left behind.
    patient = {"RAGTIDE_WORKER_MIN_IDLE_S": "600"}
    asked = start_doomed(
        "worker", redis_url, tmp_path / "worker.log", "--calls", "3", "--signal", "TERM", extra=patient
    )
    assert asked.wait(120) == 0, (tmp_path / "worker.log").read_text()
    assert 0 < redis.xlen(STREAMS.metrics) < len(published)
    with running("worker", redis_url, tmp_path / "worker-2.log", patient):
        wait_for_events(redis, len(published))
    assert_scored_exactly_once(redis, published)


@pytest.mark.heavy
def test_a_killed_aggregator_ends_with_the_numbers_and_alerts_of_a_quiet_run(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    good = interactions(800)
    worse = [
        interaction.model_copy(
            update={
                "interaction_id": f"w-{number:05d}",
                "response": good[(number + 7) % len(good)].response,
                "gold_scores": {},
            }
        )
        for number, interaction in enumerate(good)
    ]
    everything = good + worse
    # Small steps, so that there is a middle to be killed in.
    # Without specimens an alert names every interaction that moved it most, as the direct computation does.
    plain = {"RAGTIDE_SPECIMENS_ENABLED": "false"}
    small = {"RAGTIDE_AGGREGATOR_BATCH": "10", "RAGTIDE_COMMIT_INTERVAL_S": "0", **plain}
    with running("worker", redis_url, tmp_path / "worker.log"):
        for turn, begin in enumerate(range(0, len(everything), 400)):
            publish(redis_url, everything[begin : begin + 400])
            wait_for_events(redis, begin + 400)
            last = order(redis.xrevrange(STREAMS.metrics, count=1)[0][0].decode())
            # The first commit holds the first read. A slow commit is followed by many reads before the next.
            options = (["--calls", "2", "--when", "before"], ["--calls", "1", "--when", "after"])[turn % 2]
            victim = start_doomed("aggregator", redis_url, tmp_path / "aggregator.log", *options, extra=small)
            assert victim.wait(120) == -signal.SIGKILL
            assert (0, 0) < aggregated(redis) < last
        with running("aggregator", redis_url, tmp_path / "aggregator.log", plain):
            wait_for_aggregation(redis)
    quiet = AggregatorState(state_options(load_settings()))
    for entry_id, fields in redis.xrange(STREAMS.metrics):
        quiet.apply(MetricEvent.decode(fields[DATA_FIELD]), order(entry_id.decode())[0])
    changes = quiet.take_changes()
    stored = {name.decode(): data for name, data in redis.hgetall(STREAMS.checkpoint).items()}
    kept_by_the_owner = (
        "position",
        "feedback",
        "version",
        "steps",
        "owed",
        "changed:",
        "names",
        "seen_ids:",
        "health:",
        "alert:stall-",
    )
    assert {name: data for name, data in stored.items() if not name.startswith(kept_by_the_owner)} == changes.rows
    alerts = [fields[DATA_FIELD] for _, fields in redis.xrange(STREAMS.alerts)]
    assert alerts == [alert.encode() for alert in changes.alerts]
    assert alerts, "the answers got worse, so at least one alert must have fired"


def aggregated(redis: Any) -> tuple[int, int]:
    """Return the last metric event in the checkpoint, as what entry ids are ordered by."""
    position = redis.hget(STREAMS.checkpoint, "position")
    return (0, 0) if position is None else order(position.decode())


@pytest.mark.heavy
def test_pipelines_in_several_partitions_are_all_scored_and_shown_together(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    spread = {"RAGTIDE_PARTITIONS": "3"}
    published = [
        interaction.model_copy(update={"pipeline": f"pipeline-{number % 12}"})
        for number, interaction in enumerate(interactions(120))
    ]
    with InteractionProducer(redis_url, partitions=3) as producer:
        producer.publish_many(published)
    used = [partition for partition in range(3) if redis.xlen(Streams("ragtide", partition).interactions)]
    assert used == [0, 1, 2]

    def adherence() -> list[int]:
        found = json.loads(command(redis_url, "estimates", "--json", extra=spread).stdout)
        return [e["n"] for e in found if e["metric"] == "trace.context_utilization" and e["segment"] is None]

    with running("up", redis_url, tmp_path / "up.log", spread):
        wait_until(lambda: sum(adherence()) == 120)
    assert adherence() == [10] * 12


@pytest.mark.heavy
def test_workers_go_on_after_somebody_flushed_redis(redis: Any, redis_url: str, tmp_path: Path) -> None:
    with running("up", redis_url, tmp_path / "up.log"):
        publish(redis_url, interactions(20))
        wait_for_events(redis, 20)
        redis.flushall()
        publish(redis_url, interactions(30))
        wait_for_events(redis, 30)
        wait_for_aggregation(redis)
        found = [e for e in estimates(redis_url) if e["metric"] == "trace.context_utilization" and e["segment"] is None]
        assert [e["n"] for e in found] == [30]
