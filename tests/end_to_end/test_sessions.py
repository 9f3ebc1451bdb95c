"""Sessions are scored once, and no turn is lost, although workers are killed around their ends."""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import STREAMS, dead_letters, metric_events, running, start_doomed

from ragtide import InteractionProducer, RagInteraction
from ragtide.testing import ScriptedJudge

RESOLVED = {"name": "resolved", "question": "Was the problem solved?", "scale": "yes_no", "unit": "session"}
SESSIONS, TURNS = 12, 3


def turns() -> list[RagInteraction]:
    return [
        RagInteraction(
            interaction_id=f"{session}-{number}",
            pipeline="shop",
            session_id=f"s{session}",
            question=f"Where is parcel {number}?",
            documents=["Parcels take three days."],
            response=f"Parcel {number} of {session} takes three days.",
        )
        for number in range(TURNS)
        for session in range(SESSIONS)
    ]


def is_at_rest(redis: Any) -> bool:
    waiting = redis.xlen(STREAMS.interactions) - redis.zcard(STREAMS.finished)
    return not redis.exists(STREAMS.open_sessions) and waiting == 0


@pytest.mark.parametrize("death", [("sessions", 5, "before"), ("sessions", 5, "after"), ("worker", 1, "after")])
def test_a_killed_worker_loses_no_turn_and_doubles_no_session(
    redis: Any, redis_url: str, tmp_path: Path, death: tuple[str, int, str]
) -> None:
    role, calls, when = death
    with ScriptedJudge() as server:
        extra = {
            **server.environment,
            "RAGTIDE_LABELER": "judge",
            "RAGTIDE_JUDGE_FAMILIES": "[]",
            "RAGTIDE_JUDGE_CRITERIA": json.dumps([RESOLVED]),
            "RAGTIDE_CLUSTERS_QUIET_S": "1",
        }
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(turns())
        # Sessions of a worker that dies at results stay open until it is dead, however slow it is.
        mortal = {**extra, "RAGTIDE_CLUSTERS_QUIET_S": "3600"} if role == "worker" else extra
        victim = start_doomed(
            role, redis_url, tmp_path / "victim.log", "--calls", str(calls), "--when", when, extra=mortal
        )
        assert victim.wait(120) == -signal.SIGKILL
        assert redis.exists(STREAMS.open_sessions)
        with running("worker", redis_url, tmp_path / "worker.log", extra):
            wait_until(lambda: is_at_rest(redis))
        shown = [len(prompt.conversation) // 2 for prompt in server.prompts if prompt.conversation]
    events = metric_events(redis)
    assert Counter(event.is_session for event in events) == {False: SESSIONS * TURNS, True: SESSIONS}
    sessions = [event for event in events if event.is_session]
    assert {event.session_id: event.turn for event in sessions} == {f"s{n}": TURNS - 1 for n in range(SESSIONS)}
    assert all(event.scores == {"criteria.resolved": 1.0} for event in sessions)
    assert set(shown) == {TURNS}
    assert dead_letters(redis) == []
    assert redis.keys("*:session*") == []
