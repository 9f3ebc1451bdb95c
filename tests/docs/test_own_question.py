"""docs/start/own-question.md, step by step: a typed question, its estimate, its alert with a reason, its data set."""

import json
import re
import subprocess
import sys
import threading
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.support.conditions import wait_until
from tests.support.doc_pages import page_text, tagged_block
from tests.support.roles import environment, running

from ragtide.testing import JudgePrompt, Labels, Says, ScriptedJudge
from ragtide_roles.criteria.numbers import rule_for
from ragtide_schemas.criterion import Criterion

pytestmark = pytest.mark.processes

PAGE = page_text("own-question")
FIELDS = dict(line.split(": ", 1) for line in tagged_block(PAGE, "own-question form").splitlines())
REASON = "It states one opening time and asks nothing."
LOCAL = {
    "RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true",
    "RAGTIDE_NOTIFY_GROUP_WAIT_S": "0.5",
    "RAGTIDE_SERVE_PORT": "0",
    "RAGTIDE_RULES_POLL_S": "0.2",
    "RAGTIDE_JUDGE_PRICES": '{"scripted": {"input": 0.1, "output": 0.4}}',
}


@contextmanager
def webhook() -> Iterator[tuple[str, list[str]]]:
    """Run a webhook, and return its address and the texts that were posted to it."""
    texts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["text"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", texts
        server.shutdown()


def _judged(prompt: JudgePrompt) -> Says:
    asks = any("Which shop" in sentence for sentence in prompt.response.values())
    question = FIELDS["Question"]
    labels = Labels(answers={question: "yes" if asks else "no"}, reasons={question: "" if asks else REASON})
    return Says(labels.answer(prompt))


def test_the_form_and_the_settings_of_the_page_are_one_criterion() -> None:
    (table,) = tomllib.loads(tagged_block(PAGE, "own-question criterion"))["judge"]["criteria"]
    criterion = Criterion.model_validate(table)
    assert (criterion.name, criterion.question) == (FIELDS["Name"], FIELDS["Question"])
    assert tagged_block(PAGE, "own-question rule").strip() == rule_for(criterion)


def test_a_typed_question_becomes_an_estimate_an_alert_and_a_data_set(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    settings, log = tmp_path / "ragtide.toml", tmp_path / "up.log"
    with webhook() as (url, texts), ScriptedJudge(always=_judged) as judge:
        variables = {**LOCAL, **judge.environment}

        def run(*arguments: str) -> str:
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=tmp_path,
                env=environment(redis_url, variables),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        code = tagged_block(PAGE, "own-question settings")
        (address,) = re.findall(r'^url = "(.*)"$', code, re.MULTILINE)
        settings.write_text(code.replace(address, url), encoding="utf-8")
        with running("up", redis_url, log, variables):
            wait_until(lambda: b"the page is at http://" in log.read_bytes() and b"worker started" in log.read_bytes())
            (page,) = re.findall(r"the page is at (http://[0-9.:]+)", log.read_text(encoding="utf-8"))
            form = {"name": FIELDS["Name"], "question": FIELDS["Question"], "scale": "yes_no", "rate": "1"}
            request = urllib.request.Request(
                f"{page}/criteria", urlencode(form).encode(), {"Sec-Fetch-Site": "same-origin", "Accept": "text/html"}
            )
            with urllib.request.urlopen(request) as reply:
                assert "criteria.asks_back" in reply.read().decode()
            wait_until(lambda: b"criteria are asked" in log.read_bytes())

            with settings.open("a", encoding="utf-8") as file:
                file.write("\n" + tagged_block(PAGE, "own-question rule"))
            wait_until(lambda: b"new alert rules are in force" in log.read_bytes())

            (tmp_path / "answers.py").write_text(tagged_block(PAGE, "own-question answers"), encoding="utf-8")
            run("answers.py")
            wait_until(lambda: any(f"The judge: {REASON}" in text for text in texts))
            (listed,) = json.loads(run("-m", "ragtide", "criteria", "list", "--json"))
            (number,) = listed["numbers"]
            assert (listed["state"], number["asked"], number["cannot_tell"]) == ("asked", 400, 0)
            assert number["lower"] < number["estimate"] < number["upper"]

            lines = run("-m", "ragtide", "alerts", "--firing", "--json").splitlines()
            (alert,) = [found for found in map(json.loads, lines) if found["metric"] == "criteria.asks_back"]
            dataset = (
                tagged_block(PAGE, "own-question dataset").splitlines()[1].replace(" ID ", f" {alert['alert_id']} ")
            )
            run("-m", *dataset.split())
    rows = [json.loads(line) for line in (tmp_path / "asks-back.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows
    assert {row["question"] for row in rows} == {"When do you open?"}
    assert {prompt.kind for prompt in judge.prompts} == {"trace"}  # in the call that is made anyway
