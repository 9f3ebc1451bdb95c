"""Workers that ask a judge, as real processes, against a judge that misbehaves."""

from collections import Counter
from pathlib import Path
from typing import Any

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
    wait_for_aggregation,
    wait_for_events,
)

from ragtide import InteractionProducer
from ragtide.testing import Drops, Hangs, Labels, Reply, Says, ScriptedJudge, Status
from ragtide_consumers.labelers.judge.self_consistency import is_asked_twice

SECRET = "sk-end-to-end-0123456789"


def judge_settings(server: ScriptedJudge, **more: str) -> dict[str, str]:
    return {
        **server.environment,
        "RAGTIDE_JUDGE_MODEL": "m",
        "RAGTIDE_JUDGE_API_KEY": SECRET,
        "RAGTIDE_JUDGE_BREAKER_PAUSE_S": "0.2",
        **more,
    }


@pytest.mark.heavy
def test_every_interaction_is_judged_once_by_a_judge_with_every_fault_and_a_worker_that_is_killed(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    published = [
        interaction.model_copy(update={"question": f"{interaction.question} ({number})"})
        for number, interaction in enumerate(interactions(300))
    ]
    faults: list[Reply] = [
        Status(429, headers={"retry-after": "0.1"}), Status(500), Hangs(), Drops(), Says("not json"), Says("{"),
        Status(503), Says('{"all_relevant_sentence_keys": ["9z"]}'), Says("", tool_calls=True),
    ]  # fmt: skip
    with ScriptedJudge(latency_s=0.05) as server:
        # A good answer after each: an endpoint that only fails is left alone for longer and longer.
        spaced = [behavior for fault in faults * 3 for behavior in (fault, Labels())]
        server.script += spaced
        settings = judge_settings(server, RAGTIDE_JUDGE_TIMEOUT_S="1")  # an endpoint that hangs is among the faults
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(published)
        victim = start("worker", redis_url, tmp_path / "victim.log", settings)
        wait_until(lambda: redis.xlen(STREAMS.metrics) >= 50)
        kill(victim)
        assert redis.xlen(STREAMS.metrics) < len(published)
        server.script += spaced
        with (
            running("worker", redis_url, tmp_path / "worker.log", settings),
            running("aggregator", redis_url, tmp_path / "aggregator.log"),
        ):
            wait_for_events(redis, len(published))
            wait_for_aggregation(redis)
        asked = len(server.requests)
    events = metric_events(redis)
    assert sorted(event.interaction_id for event in events) == [one.interaction_id for one in published]
    assert dead_letters(redis) == []
    assert {(event.labeler, event.profile, event.prompts) for event in events} == {
        ("judge", "ragbench", ("trace.en.1",))
    }
    assert all(event.scores for event in events)
    assert sum(event.counters.get("judge_retries", 0) for event in events) > 0
    assert asked >= len(published)
    (found,) = [e for e in estimates(redis_url) if e["metric"] == "trace.adherence" and e["segment"] is None]
    # A refusal claims nothing, so it has no adherence.
    assert (found["n"], found["labeler"]) == (sum("trace.adherence" in event.scores for event in events), "judge")
    said = (tmp_path / "worker.log").read_text() + (tmp_path / "victim.log").read_text()
    assert SECRET not in said


@pytest.mark.heavy
def test_labeling_that_takes_longer_than_a_worker_may_be_idle_is_not_taken_over(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    """Roles here take over what has been idle for two seconds; the judge takes five."""
    published = interactions(20)
    with ScriptedJudge(latency_s=5.0) as server:
        settings = judge_settings(
            server, RAGTIDE_JUDGE_TIMEOUT_S="30", RAGTIDE_JUDGE_CACHE_TTL_S="0", RAGTIDE_WORKER_MIN_IDLE_S="2"
        )
        with (
            running("worker", redis_url, tmp_path / "one.log", settings),
            running("worker", redis_url, tmp_path / "two.log", settings),
        ):
            with InteractionProducer(redis_url) as producer:
                producer.publish_many(published)
            wait_for_events(redis, len(published))
        asked = len(server.requests)
    assert asked == len(published)
    assert dead_letters(redis) == []
    assert "took over" not in (tmp_path / "one.log").read_text() + (tmp_path / "two.log").read_text()


@pytest.mark.heavy
def test_a_cascade_judges_the_same_sample_again_in_a_replay(redis: Any, redis_url: str, tmp_path: Path) -> None:
    published = interactions(200)
    chosen: list[list[str]] = []
    with ScriptedJudge() as server:
        settings = judge_settings(
            server, RAGTIDE_LABELER="cascade", RAGTIDE_CASCADE_RATE="0.2", RAGTIDE_JUDGE_CACHE_TTL_S="0"
        )
        for number in range(2):
            redis.flushall()
            with InteractionProducer(redis_url) as producer:
                producer.publish_many(published)
            with (
                running("worker", redis_url, tmp_path / f"worker-{number}.log", settings),
                running("aggregator", redis_url, tmp_path / f"aggregator-{number}.log"),
            ):
                wait_for_events(redis, len(published))
                wait_for_aggregation(redis)
            events = metric_events(redis)
            assert {event.labeler for event in events} == {"local"}
            chosen.append(sorted(event.interaction_id for event in events if event.judged is not None))
            found = {
                e["labeler"]: e["n"]
                for e in estimates(redis_url)
                if e["metric"] == "trace.adherence" and e["segment"] is None
            }
            judged = [event.judged for event in events if event.judged is not None]
            assert found == {
                "local": sum("trace.adherence" in event.scores for event in events),
                "judge": sum("trace.adherence" in one.scores for one in judged),
            }
    assert chosen[0] == chosen[1]
    assert 15 < len(chosen[0]) < 70


@pytest.mark.heavy
def test_a_share_is_asked_twice_and_estimated_with_its_segments(redis: Any, redis_url: str, tmp_path: Path) -> None:
    published = [
        interaction.model_copy(update={"segments": {"lang": "de" if number % 2 else "en"}})
        for number, interaction in enumerate(interactions(120))
    ]
    chosen = {one.interaction_id: one.segments["lang"] for one in published if is_asked_twice(one, 0.3)}
    with ScriptedJudge() as server:
        settings = judge_settings(server, RAGTIDE_JUDGE_REPEAT_SHARE="0.3")
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(published)
        with (
            running("worker", redis_url, tmp_path / "worker.log", settings),
            running("aggregator", redis_url, tmp_path / "aggregator.log"),
        ):
            wait_for_events(redis, len(published))
            wait_for_aggregation(redis)
    events = metric_events(redis)
    scored = {event.interaction_id for event in events if "judge.self_consistency" in event.scores}
    assert scored == set(chosen), "the hash of the id alone chooses"
    assert {event.interaction_id for event in events if event.counters.get("asked_again")} == scored
    assert all(event.scores["judge.self_consistency"] == 1.0 for event in events if event.interaction_id in scored)
    found = {e["segment"]: e for e in estimates(redis_url) if e["metric"] == "judge.self_consistency"}
    sizes: dict[str | None, int] = {f"lang={value}": n for value, n in Counter(chosen.values()).items()}
    sizes[None] = len(chosen)
    assert {segment: (one["n"], one["estimate"]) for segment, one in found.items()} == {
        segment: (n, 1.0) for segment, n in sizes.items()
    }


def test_a_worker_without_a_model_ends_with_one_sentence(redis_url: str) -> None:
    done = command(redis_url, "worker", extra={"RAGTIDE_LABELER": "judge"})
    assert done.returncode == 1
    assert "judge.model is not set" in done.stderr
    assert "Traceback" not in done.stderr
