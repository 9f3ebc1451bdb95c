"""The examples of production monitoring and of messages, run as a user runs them, beside a real `ragtide up`."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.alerts import alert
from tests.support.conditions import wait_until
from tests.support.roles import STREAMS, command, environment, running
from tests.support.slack_webhook import SlackWebhook, slack_webhook

EXAMPLES = Path(__file__).parents[2] / "examples"
MONITORING = EXAMPLES / "production_monitoring.py"
SUBSCRIBER = EXAMPLES / "alert_to_message.py"


def configured(webhook: SlackWebhook, folder: Path) -> dict[str, str]:
    """Return the environment of a deployment with the configuration of the example, and this address in it."""
    text = (EXAMPLES / "alert_to_message.toml").read_text(encoding="utf-8")
    written, found = re.subn('(?m)^url = ".*"$', f'url = "{webhook.url}"', text)
    assert found == 1
    file = folder / "ragtide.toml"
    file.write_text(written, encoding="utf-8")
    file.chmod(0o600)
    return {
        "RAGTIDE_CONFIG": str(file),
        "RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true",
        "RAGTIDE_NOTIFY_GROUP_WAIT_S": "0",
    }


@contextmanager
def subscribed(url: str, address: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the subscriber of the example."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, SUBSCRIBER], env=environment(url, {"CHAT_URL": address}), stdout=file, stderr=file
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_application_shows_intervals_and_an_alert_which_comes_as_a_message(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    with slack_webhook() as team, slack_webhook() as chat:
        extra = {**configured(team, tmp_path), "RAGTIDE_SERVE_PORT": "0"}
        with (
            running("up", redis_url, tmp_path / "up.log", extra),
            subscribed(redis_url, chat.url, tmp_path / "chat.log"),
        ):
            done = subprocess.run(
                [sys.executable, MONITORING], env=environment(redis_url), capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            wait_until(lambda: team.messages and chat.messages)
    assert (team.refusals, chat.refusals) == ([], [])
    assert re.search(
        r"^(retrieval\.match|trace\.context_utilization|feedback\.positive) of tea-shop fell from",
        done.stdout,
        re.MULTILINE,
    )
    rows = re.findall(r"^(\S+) +([\d.]+) \(([\d.]+) to ([\d.]+)\), (\d+) answers$", done.stdout, re.MULTILINE)
    assert {"trace.adherence", "retrieval.match"} <= {metric for metric, *_ in rows}
    for metric, *numbers in rows:
        mean, lower, upper, n = map(float, numbers)
        assert lower <= mean <= upper, metric
        assert n > 400, "the alert is about the answers after the first 400"
    assert "of tea-shop fell" in team.texts[0]
    assert chat.texts[0].startswith(":red_circle: *firing*")
    assert "of tea-shop fell" in chat.texts[0]


def test_production_monitoring_takes_sixty_lines() -> None:
    assert len(MONITORING.read_text(encoding="utf-8").splitlines()) <= 60


def test_a_message_of_the_configuration_can_be_tried_beforehand(tmp_path: Path) -> None:
    with slack_webhook() as team:
        done = command("redis://127.0.0.1:1/0", "notify", "test", extra=configured(team, tmp_path))
        assert (done.returncode, done.stdout) == (0, "team (slack): accepted\n"), done.stderr
        assert len(team.messages) == 1


def test_an_alert_that_could_not_be_posted_comes_again(redis: Any, redis_url: str, tmp_path: Path) -> None:
    redis.xadd(STREAMS.alerts, {"data": alert("a").encode()})
    with slack_webhook() as chat:
        with subscribed(redis_url, f"{chat.url}-of-somebody-else", tmp_path / "log") as process:
            assert process.wait(60) == 1
        assert (chat.messages, chat.refusals) == ([], ["no_service"])
        with subscribed(redis_url, chat.url, tmp_path / "log"):
            wait_until(lambda: chat.messages)
        assert "Alert a." in chat.texts[0]


def test_a_subscriber_without_an_address_says_what_is_missing(redis_url: str, tmp_path: Path) -> None:
    with subscribed(redis_url, "", tmp_path / "log") as process:
        assert process.wait(60) == 1
    assert (tmp_path / "log").read_text().startswith("CHAT_URL is no address: set it")


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    found = {path.name for path in EXAMPLES.iterdir() if path.name not in {"README.md", "__pycache__"}}
    assert [name for name in sorted(found) if f"({name}" not in listed] == []
