"""`ragtide up` serves the page: at which address, and when it does not."""

import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.support.conditions import wait_until
from tests.support.in_process import run_command
from tests.support.roles import begin, command, estimates, interactions, kill, running

from ragtide import InteractionProducer
from ragtide.cli.running.roles import listen_for_page
from ragtide.testing import Labels, ScriptedJudge
from ragtide.testing.judge_prompt import JudgePrompt
from ragtide_consumers.labelers.cascade import position
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction

pytestmark = pytest.mark.processes


def address_in(log: Path) -> str:
    """Return the address of the page, which is the first thing that a process prints."""
    wait_until(lambda: log.exists() and log.read_text().count("\n") >= 2)
    first = log.read_text().splitlines()[0]
    assert first.startswith("the page is at http://127.0.0.1:")
    return first.split()[4].rstrip(";")


def answers(address: str) -> bool:
    """Return whether the page is there."""
    try:
        with urlopen(address, timeout=10) as answer:
            return b"<!doctype html>" in answer.read()
    except OSError:
        return False


def test_the_page_is_served_by_default_and_a_second_process_takes_another_port(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    with running("up", redis_url, logs[0]):
        first = address_in(logs[0])
        with running("up", redis_url, logs[1]):
            second = address_in(logs[1])
            assert first != second
            assert "; port 8080 is taken" in logs[1].read_text().splitlines()[0]
            wait_until(lambda: answers(first) and answers(second))


def test_no_page_serves_nothing(redis: Any, redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    process = begin(redis_url, log, "up", "--no-page")
    try:
        wait_until(lambda: log.exists() and "aggregating a partition" in log.read_text())
        assert "the page is at" not in log.read_text()
        assert '"event": "serving"' not in log.read_text()
    finally:
        kill(process)


def test_without_the_extra_it_runs_and_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ragtide_web.server", None)
    assert listen_for_page(Settings(), is_asked_for=False) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install 'ragtide[service,web]'" in line
    with pytest.raises(ConfigurationError, match="pip install"):
        listen_for_page(Settings(), is_asked_for=True)


def test_no_page_and_a_port_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "up", "--no-page", "--port", "0")
    assert done.code == 2
    assert "--no-page" in done.told


SENTENCE = "It is painted in brown."
"""A sentence of every answer; only the judge sees whether it is supported."""


def answers_about_the_tower(first: int, count: int) -> list[RagInteraction]:
    """Return answers that look alike to the local labeler."""
    return [
        RagInteraction(
            interaction_id=f"tower-{number}",
            pipeline="tower",
            question=f"When was the tower built? ({number})",
            documents=("The tower was built in 1889. It stands beside the river.",),
            response=f"The tower was built in 1889. {SENTENCE}",
        )
        for number in range(first, first + count)
    ]


@pytest.mark.heavy
def test_up_with_a_judge_goes_from_no_configuration_to_a_fall_that_only_the_judge_sees(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    log, before = tmp_path / "up.log", 1200

    def labels(prompt: JudgePrompt) -> Labels:
        number = int(prompt.question.rpartition("(")[2].rstrip(")"))
        unsupported = (number % 10 == 0) == (number < before)
        return Labels(supported={SENTENCE: not unsupported})

    def judged() -> int:
        means = [mean for mean in estimates(redis_url) if (mean["labeler"], mean["estimator"]) == ("judge", "mean")]
        return max((mean["n"] for mean in means if mean["metric"] == "trace.adherence"), default=0)

    with ScriptedJudge() as judge, InteractionProducer(redis_url) as producer:
        judge.script.append(Labels())  # about the test item
        judge.always = labels
        key = {"OPENAI_BASE_URL": judge.url, "OPENAI_API_KEY": "sk-end-to-end-0123456789"}
        process = begin(redis_url, log, "up", "--judge", "--port", "0", extra=key)
        try:
            wait_until(lambda: process.poll() is not None or "aggregating a partition" in log.read_text())
            producer.publish_many(answers_about_the_tower(0, before))
            asked = sum(place(number) < 0.05 for number in range(before))
            wait_until(lambda: judged() == asked)
            assert not fired(redis_url)
            producer.publish_many(answers_about_the_tower(before, 800))
            wait_until(lambda: bool(fired(redis_url)))
            (address,) = re.findall(r"the page is at (http://\S+)", log.read_text())
            with urlopen(address, timeout=10) as page:
                text = page.read().decode()
        finally:
            kill(process)
    assert {(alert["metric"], alert["labeler"], alert["pipeline"]) for alert in fired(redis_url)} <= {
        (metric, "judge", "tower") for metric in ("trace.adherence", "trace.context_relevance")
    }
    assert "adherence" in text.partition('id="alerts"')[2].partition("</section>")[0]
    assert 'labeler = "cascade"' in (tmp_path / "ragtide.toml").read_text()
    assert "sk-end-to-end" not in log.read_text() + (tmp_path / "ragtide.toml").read_text()


def place(number: int) -> float:
    """Return the place of an answer about the tower in the draw of the judge's sample."""
    return position("tower", f"tower-{number}")


def fired(url: str) -> list[dict[str, Any]]:
    """Return the alerts that have fired."""
    done = command(url, "alerts", "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_up_with_a_judge_goes_from_no_configuration_to_a_judged_number(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "up.log"
    with ScriptedJudge() as judge:
        endpoint = {"OPENAI_BASE_URL": judge.url, "OPENAI_API_KEY": "sk-end-to-end-0123456789"}
        process = begin(redis_url, log, "up", "--judge", "--no-page", extra=endpoint)
        try:
            wait_until(lambda: process.poll() is not None or "aggregating a partition" in log.read_text())
            with InteractionProducer(redis_url) as producer:
                producer.publish_many(interactions(400))
            wait_until(lambda: any(mean["labeler"] == "judge" and mean["n"] for mean in estimates(redis_url)))
        finally:
            kill(process)
    assert 'labeler = "cascade"' in (tmp_path / "ragtide.toml").read_text()
    assert "sk-end-to-end" not in log.read_text() + (tmp_path / "ragtide.toml").read_text()


@pytest.mark.heavy
def test_roles_that_run_take_a_judge_that_is_set_up(redis: Any, redis_url: str, tmp_path: Path) -> None:
    log = tmp_path / "up.log"
    with ScriptedJudge() as judge:
        key = {"OPENAI_BASE_URL": judge.url, "OPENAI_API_KEY": "sk-end-to-end-0123456789"}
        process = begin(redis_url, log, "up", "--no-page", extra={**key, "RAGTIDE_RULES_POLL_S": "0.1"})
        try:
            wait_until(lambda: "aggregating a partition" in log.read_text())
            done = command(redis_url, "judge", "setup", "--rate", "0.5", "--yes", extra=key)
            assert done.returncode == 0, done.stderr
            wait_until(lambda: "a new labeler is in force" in log.read_text())
            with InteractionProducer(redis_url) as producer:
                producer.publish_many(interactions(100))
            wait_until(lambda: any(mean["labeler"] == "judge" and mean["n"] for mean in estimates(redis_url)))
        finally:
            kill(process)
