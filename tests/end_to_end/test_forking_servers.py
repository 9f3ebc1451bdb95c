"""Servers that fork: every worker delivers, whatever the parent's threads did at the fork."""

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.redis_processes import free_port

APPLICATION = """
import os
from ragtide import InteractionProducer
producer = InteractionProducer()
item = dict(question="q", documents=["d"], response="r")
producer.submit(pipeline="shop", interaction_id="boot", **item)
made = 0
def app(environment, start):
    global made
    made += 1
    ok = producer.submit(pipeline="shop", interaction_id=f"{os.getpid()}-{made}", **item)
    start("200 OK", [])
    return [str(os.getpid()).encode() if ok else b""]
"""


def asked(port: int) -> str:
    """Return the process that answered a request; empty while there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
    except OSError:
        return ""
    finally:
        connection.close()


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["sync", "gthread"])
def test_every_worker_of_gunicorn_with_preload_delivers(kind: str, redis: Any, redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APPLICATION, encoding="utf-8")
    port, log = free_port(), tmp_path / "gunicorn.log"
    command = [
        "-m",
        "gunicorn",
        "-k",
        kind,
        "--threads",
        "4",
        "--preload",
        "-w",
        "4",
        "-b",
        f"127.0.0.1:{port}",
        "shop:app",
    ]
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, *command],
            cwd=tmp_path,
            env={**os.environ, "RAGTIDE_REDIS_URL": redis_url},
            stdout=file,
            stderr=file,
        )
    answers: list[str] = []
    try:
        wait_until(lambda: asked(port))
        answers = [asked(port) for _ in range(60)]
        wait_until(lambda: redis.xlen("ragtide:{0}:interactions") >= 61)
    finally:
        server.terminate()
        server.wait(60)
    found = [json.loads(fields[b"data"])["interaction_id"] for _, fields in redis.xrange("ragtide:{0}:interactions")]
    assert len(found) == len(set(found)), "nothing is doubled"
    assert "boot" in found
    assert all(answers), log.read_text()
    assert {one.partition("-")[0] for one in found} >= set(answers)
    assert len(found) >= 1 + len(answers)
