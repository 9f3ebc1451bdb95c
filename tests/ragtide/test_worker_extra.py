"""An installation with the extra `worker` alone runs a worker, and names the extra that another command needs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import environment, interactions, metric_events

from ragtide import InteractionProducer
from ragtide.cli import NOT_IN_WORKER

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]

WORKER_ALONE = f"""
import sys
for name in {NOT_IN_WORKER!r}:
    sys.modules[name] = None
sys.argv = ["ragtide", *sys.argv[1:]]
from ragtide.cli import run
run()
"""


def worker_alone(*arguments: str) -> list[str]:
    return [sys.executable, "-c", WORKER_ALONE, *arguments]


@pytest.mark.pure
def test_the_modules_that_a_worker_lacks_are_those_of_the_extra() -> None:
    service = PROJECT["optional-dependencies"]["service"]
    assert service[0] == "ragtide[worker]"
    assert sorted(requirement.partition(">")[0] for requirement in service[1:]) == sorted(NOT_IN_WORKER)


@pytest.mark.processes
def test_a_worker_labels_without_scipy(redis_url: str, redis: Any, tmp_path: Path) -> None:
    with InteractionProducer(redis_url) as producer:
        producer.publish_many(interactions(3))
    log = tmp_path / "worker.log"
    with (
        log.open("wb") as file,
        subprocess.Popen(
            worker_alone("worker"), env=environment(redis_url), stdout=file, stderr=file, cwd=tmp_path
        ) as worker,
    ):
        try:
            wait_until(lambda: worker.poll() is not None or len(metric_events(redis)) == 3)
            worker.terminate()
            assert worker.wait(60) == 0, log.read_text()
        finally:
            worker.kill()
    assert len(metric_events(redis)) == 3


@pytest.mark.processes
@pytest.mark.parametrize("arguments", [("aggregator",), ("score", "some.jsonl")])
def test_another_command_names_its_extra(redis_url: str, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "some.jsonl").write_bytes(b"".join(interaction.encode() + b"\n" for interaction in interactions(3)))
    done = subprocess.run(
        worker_alone(*arguments),
        env=environment(redis_url),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 1
    assert re.match(r"ragtide: this command needs (scipy|jinja2), which", done.stderr.splitlines()[-1])
    assert done.stderr.endswith("pip install 'ragtide[service]'\n")
    assert "Traceback" not in done.stderr
