"""Redis is restored from an older copy: the recording puts back what it lost, each interaction once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess
from tests.support.roles import command, running, wait_for_aggregation

from ragtide import InteractionProducer, RagInteraction, Recording
from ragtide_schemas import Feedback

pytestmark = pytest.mark.processes


def interactions(first: int, last: int) -> list[RagInteraction]:
    return [
        RagInteraction(
            interaction_id=f"i-{number}",
            pipeline="shop",
            question=f"question {number}?",
            documents=["The tower was built in 1889."],
            response="It was built in 1889.",
        )
        for number in range(first, last)
    ]


def counted(url: str, extra: dict[str, str]) -> int:
    found = json.loads(command(url, "estimates", "--json", extra=extra).stdout)
    return max((row["n"] for row in found if row["metric"] == "trace.adherence"), default=0)


def recorded(url: Path, kind: str) -> int:
    return Recording.open(str(url)).count(kind) if (url / "manifests").exists() else 0


def doctor(url: str, extra: dict[str, str]) -> dict[str, Any]:
    found = json.loads(command(url, "doctor", "--json", extra=extra).stdout)
    findings = found if isinstance(found, list) else found["findings"]
    (finding,) = [finding for finding in findings if finding["subject"] == "recording"]
    return dict(finding)


def test_an_older_copy_of_redis_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    server, archive = RedisProcess(tmp_path / "redis", "appendonly no", "save ''"), tmp_path / "recording"
    extra = {"RAGTIDE_RECORDER_URL": str(archive), "RAGTIDE_RECORDER_ROLL_S": "0.1", "RAGTIDE_LABELER": "local"}
    with server:
        with running("up", server.url, tmp_path / "up.log", extra):
            with InteractionProducer(server.url) as producer:
                producer.publish_many(interactions(0, 30))
            wait_until(lambda: counted(server.url, extra) == 30)
            wait_until(lambda: recorded(archive, "interactions") == 30 and recorded(archive, "metrics") == 30)
        server.client.save()
        shutil.copy(server.folder / "dump.rdb", tmp_path / "copy.rdb")
        with running("up", server.url, tmp_path / "up.log", extra):
            with InteractionProducer(server.url) as producer:
                producer.publish_many(interactions(30, 50))
                producer.publish_feedback(
                    [Feedback(interaction_id="i-31", pipeline="shop", gold_scores={"trace.adherence": 1.0})]
                )
            wait_until(lambda: counted(server.url, extra) == 50)
            wait_until(lambda: recorded(archive, "interactions") == 50 and recorded(archive, "feedback") == 1)
        assert doctor(server.url, extra)["level"] == "ok"
    shutil.copy(tmp_path / "copy.rdb", server.folder / "dump.rdb")
    with server, running("up", server.url, tmp_path / "up.log", extra):
        wait_until(lambda: b"Redis lost its end" in (tmp_path / "up.log").read_bytes())
        wait_until(lambda: doctor(server.url, extra)["level"] == "problem")
        assert "20 recorded interactions and 1 feedback item" in doctor(server.url, extra)["found"]
        with InteractionProducer(server.url) as producer:  # an application sends two of them again, and a new one
            producer.publish_many(interactions(48, 51))
        wait_until(lambda: counted(server.url, extra) == 33)
        wait_until(lambda: recorded(archive, "interactions") == 33)
        done = command(server.url, "replay", str(archive), "--restore", "--json", extra=extra)
        assert json.loads(done.stdout) == {"interactions": 18, "known": 0, "feedback": 1, "left": 0}, done.stderr
        wait_until(lambda: counted(server.url, extra) == 51)
        again = command(server.url, "replay", str(archive), "--restore", "--json", extra=extra)
        assert json.loads(again.stdout)["interactions"] == 0, again.stderr
        wait_until(lambda: doctor(server.url, extra)["level"] == "ok")
        with server.client as client:
            wait_for_aggregation(client)
        assert counted(server.url, extra) == 51
        assert recorded(archive, "interactions") == 51
        refused = command(server.url, "replay", str(archive), "--restore", "--speed", "10x", extra=extra)
        assert refused.returncode != 0
        assert "--speed" in refused.stderr
