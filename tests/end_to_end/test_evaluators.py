"""Several evaluators in processes: each scores its interactions once, whatever dies, and a change needs no restart."""

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import (
    STREAMS,
    dead_letters,
    estimates,
    interactions,
    metric_events,
    running,
    start_doomed,
    wait_for_aggregation,
    wait_for_events,
)

from ragtide import InteractionProducer
from ragtide.testing import ScriptedJudge

pytestmark = pytest.mark.processes

FILE = """
rules_poll_s = 0.1

[judge]
model = "model-x"
base_url = "{url}"
api_key = "none"

[[evaluators]]
name = "cheap"
labeler = "local"

[[evaluators]]
name = "judged"
labeler = "judge"
rate = {rate}
"""


def settings_file(folder: Path, text: str) -> dict[str, str]:
    file = folder / "ragtide.toml"
    file.write_text(text, encoding="utf-8")
    return {"RAGTIDE_CONFIG": str(file)}


def assert_scored_once(redis: Any, published: list[Any], judged: set[str] | None = None) -> None:
    events = metric_events(redis)
    assert sorted(event.interaction_id for event in events) == sorted(one.interaction_id for one in published)
    assert dead_letters(redis) == []
    assert {event.labeler for event in events} == {"local"}
    beside = {event.interaction_id: event.beside or () for event in events}
    assert {len(parts) for parts in beside.values()} <= {0, 1}
    if judged is not None:
        assert {interaction_id for interaction_id, parts in beside.items() if parts} == judged


@pytest.mark.heavy
@pytest.mark.parametrize("calls", [3, 5, 8])
def test_a_killed_worker_commits_all_scores_of_an_interaction_or_none(
    calls: int, redis: Any, redis_url: str, tmp_path: Path
) -> None:
    published = interactions(200)
    with ScriptedJudge() as server:
        extra = settings_file(tmp_path, FILE.format(url=server.url, rate=0.3))
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(published)
        victim = start_doomed("worker", redis_url, tmp_path / "victim.log", "--calls", str(calls), extra=extra)
        assert victim.wait(120) == -signal.SIGKILL
        judged = {event.interaction_id for event in metric_events(redis) if event.beside}
        with (
            running("worker", redis_url, tmp_path / "worker.log", {**extra, "RAGTIDE_WORKER_MIN_IDLE_S": "1"}),
            running("aggregator", redis_url, tmp_path / "aggregator.log", extra),
        ):
            wait_for_events(redis, len(published))
            wait_until(lambda: redis.xpending(STREAMS.interactions, "label")["pending"] == 0)
            wait_for_aggregation(redis)
    assert_scored_once(redis, published)
    after = {event.interaction_id for event in metric_events(redis) if event.beside}
    assert judged <= after
    assert 30 < len(after) < 95
    n = {(e["labeler"], e["n"]) for e in estimates(redis_url) if e["metric"] == "trace.adherence" and not e["segment"]}
    scored = [part for event in metric_events(redis) for part in event.parts() if "trace.adherence" in part.scores]
    by_labeler = Counter(part.labeler for part in scored)
    assert n == set(by_labeler.items())


def test_new_evaluators_are_in_force_without_a_restart_and_wrong_ones_are_not(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    first, second = interactions(60)[:30], interactions(60)[30:]
    with ScriptedJudge() as server:
        extra = settings_file(tmp_path, FILE.format(url=server.url, rate=1.0).partition("[[evaluators]]")[0])
        log = tmp_path / "worker.log"
        with running("worker", redis_url, log, extra) as process, InteractionProducer(redis_url) as producer:
            producer.publish_many(first)
            wait_for_events(redis, 30)
            assert not any(event.beside for event in metric_events(redis))
            settings_file(tmp_path, FILE.format(url=server.url, rate=7.0))
            wait_until(lambda: b"stay as they are" in log.read_bytes())
            settings_file(tmp_path, FILE.format(url=server.url, rate=1.0))
            wait_until(lambda: b"a new labeler is in force" in log.read_bytes())
            producer.publish_many(second)
            wait_for_events(redis, 60)
            assert process.poll() is None
    assert_scored_once(redis, [*first, *second], {one.interaction_id for one in second})
    assert "Traceback" not in log.read_text(encoding="utf-8")
