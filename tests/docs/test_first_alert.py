"""docs/start/first-alert.md, step by step, with an incoming webhook of this machine in place of Slack's."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.doc_pages import blocks_of, page_text
from tests.support.roles import environment, running
from tests.support.slack_webhook import slack_webhook

pytestmark = pytest.mark.processes

PAGE = page_text("first-alert")
SETTINGS, TRY, START, PROVOKE = (block for block in blocks_of(PAGE) if block.tag == "first-alert")
LOCAL = {
    "RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true",  # Slack is not on this machine
    "RAGTIDE_NOTIFY_GROUP_WAIT_S": "0.5",
    "RAGTIDE_SERVE_PORT": "0",
}


def test_an_alert_comes_to_slack_in_the_steps_of_the_page(redis: Any, redis_url: str, tmp_path: Path) -> None:
    variables = environment(redis_url, LOCAL)

    def run(*arguments: str | Path) -> str:
        done = subprocess.run(arguments, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with slack_webhook() as slack:
        (address,) = re.findall(r'^url = "(.*)"$', SETTINGS.code, re.MULTILINE)
        (tmp_path / "ragtide.toml").write_text(SETTINGS.code.replace(address, slack.url), encoding="utf-8")
        (tmp_path / "provoke.py").write_text(PROVOKE.code, encoding="utf-8")
        chmod, test = (shlex.split(line) for line in TRY.code.splitlines())
        run(*chmod)
        assert (tmp_path / "ragtide.toml").stat().st_mode & 0o077 == 0
        assert test[0] == "ragtide"
        assert run(sys.executable, "-m", *test).strip() in PAGE
        assert len(slack.messages) == 1
        _, role = shlex.split(START.code)
        with running(role, redis_url, tmp_path / "up.log", LOCAL):
            run(sys.executable, "provoke.py")
            wait_until(lambda: len(slack.messages) == 2)
        assert slack.refusals == []
    shown = slack.texts[1]
    assert re.fullmatch(r"(\d metrics|trace\.\w+) of trial fell (since .*|from .* to .*)", shown)
    sentences = slack.messages[1]["blocks"][1]["text"]["text"]
    assert "false alarm" in sentences
