"""A canary whose answers are worse: Argo aborts it, Flagger rolls it back, and the notification has both numbers."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from tests.end_to_end.test_up import address_in
from tests.github.test_action import installed_job
from tests.support.conditions import until
from tests.support.receiver import Receiver, receiver
from tests.support.roles import running
from tests.support.rollout_tools import AnalysisRun, flagger_hook, flagger_payload

from ragtide.testing import Labels, ScriptedJudge
from ragtide.testing.judge_prompt import JudgePrompt
from ragtide_schemas import Alert

pytestmark = pytest.mark.processes

READ, WRITE = "a-token-that-may-only-read-0123456789", "a-token-that-may-only-write-0123456789"
SENTENCE = "It is painted in brown."
"""A sentence of every answer; only the judge sees whether it is supported."""
STABLE, CANARY = "6b9c7d8f5c", "7c9d8f6b5d"
ARGS = {"pipeline": "helpdesk", "from": STABLE, "to": CANARY, "token": READ}
OPTIONS = ("url", "pipeline", "from", "to", "until", "junit")
"""Options of the action's command."""


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


def supported(number: int, *, canary_falls: bool) -> bool:
    """Return whether an answer is supported: nine of ten are, and of a canary that falls one of ten."""
    is_tenth = number // 2 % 10 == 0
    return is_tenth if number % 2 and canary_falls else not is_tenth


def labels(canary_falls: bool) -> Any:
    def answer(prompt: JudgePrompt) -> Labels:
        number = int(prompt.question.rpartition("(")[2].rstrip(")"))
        return Labels(supported={SENTENCE: supported(number, canary_falls=canary_falls)})

    return answer


def traffic() -> Iterator[list[dict[str, Any]]]:
    """Yield answers: first of the stable version alone, then of both at once, of which the odd are the canary's."""
    for start in count(0, 20):
        yield [
            {
                "interaction_id": f"i-{number}",
                "pipeline": "helpdesk",
                "question": f"When was the tower built? ({number})",
                "documents": [{"id": "a", "text": "The tower was built in 1889. It stands beside the river."}],
                "response": f"The tower was built in 1889. {SENTENCE}",
                "segments": {"version": CANARY if start and number % 2 else STABLE},
            }
            for number in range(start, start + 20)
            if start or number % 2 == 0
        ]


async def send(url: str, headers: Mapping[str, str], body: Any = None) -> tuple[int, bytes]:
    """Return status and body of a request: a POST if it has a body."""

    def call() -> tuple[int, bytes]:
        data = None if body is None else json.dumps(body).encode()
        sent = {**headers, "Content-Type": "application/json"}
        try:
            with urlopen(Request(url, data=data, headers=sent), timeout=60) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()

    return await asyncio.to_thread(call)


class Deployment:
    """A `ragtide up` with a scripted judge, and the traffic of both versions through its HTTP door."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self.traffic = traffic()
        self.run = AnalysisRun({**ARGS, "address": self.address})
        self.published = 0

    async def publish(self) -> None:
        """Send the next answers of both versions, and wait until they have scores: a minute of Argo has gone."""
        answers = next(self.traffic)
        status, body = await send(f"{self.address}/v1/interactions", {"Authorization": f"Bearer {WRITE}"}, answers)
        assert status < 300, body
        self.published += len(answers)
        await until(self.scored)

    async def scored(self) -> bool:
        """Return whether every answer has a score."""
        path = "/v1/estimates?pipeline=helpdesk&metric=trace.adherence&window=all"
        status, body = await send(f"{self.address}{path}", self.run.headers)
        means = json.loads(body) if status == 200 else []
        return any(mean["n"] == self.published for mean in means if mean["segment"] is None)

    async def measured(self) -> bool:
        """Let Argo measure once, and return whether its run has ended; then come the next answers."""
        answer = await send(self.run.url, self.run.headers)
        if self.run.measure(lambda *_: answer) != "Running":
            return True
        await self.publish()
        return False

    async def flagger(self, kind: str) -> tuple[int, bytes]:
        """Call the committed webhook of Flagger as Flagger does."""
        hook = flagger_hook(kind)
        address = urlsplit(hook["url"].replace("TOKEN", READ))
        # Flagger's client sends what stands before the host as basic authentication.
        login = base64.b64encode(f"{address.username}:{address.password}".encode()).decode()
        url = f"{self.address}{address.path}?{address.query}"
        return await send(url, {"Authorization": f"Basic {login}"}, flagger_payload(hook, {"to": CANARY}))


@asynccontextmanager
async def deployed(redis_url: str, folder: Path, server: Receiver, *, canary_falls: bool) -> AsyncIterator[Deployment]:
    """Run `ragtide up` as a process."""
    destination = {"name": "hook", "kind": "webhook", "url": server.url, "on": ["firing", "release.not_worse"]}
    tokens = [
        {"name": "rollouts", "token": READ, "access": ["read"]},
        {"name": "application", "token": WRITE, "access": ["write"]},
    ]
    with ScriptedJudge(always=labels(canary_falls)) as judge:
        extra = {
            **judge.environment,
            "RAGTIDE_SERVE_PORT": "0",
            "RAGTIDE_SERVE_TOKENS": json.dumps(tokens),
            "RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true",
            "RAGTIDE_NOTIFY_GROUP_WAIT_S": "0",
            "RAGTIDE_NOTIFY_DESTINATIONS": json.dumps([destination]),
        }
        log = folder / "up.log"
        with running("up", redis_url, log, extra):
            address = await asyncio.to_thread(address_in, log)
            await until(lambda: "aggregating a partition" in log.read_text())
            yield Deployment(address)


def told(server: Receiver, event: str) -> list[Alert]:
    """Return the alerts of the notifications about an event."""
    return [Alert.model_validate(got.json["data"]) for got in server.received if got.json.get("event") == event]


async def test_a_canary_that_is_worse_is_aborted_and_the_notification_has_both_numbers(
    redis: Any, redis_url: str, server: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with deployed(redis_url, tmp_path, server, canary_falls=True) as deployment:
        await until(deployment.measured)
        assert deployment.run.phase == "Failed"
        assert deployment.run.values[-1] == "worse"
        # The token of the rollout tool may ask, and do nothing else.
        refused, _ = await send(f"{deployment.address}/v1/interactions", deployment.run.headers, [])
        assert refused == 403
        assert (await deployment.flagger("rollback"))[0] == 200
        status, why = await deployment.flagger("confirm-promotion")
        assert status == 409
        assert CANARY in why.decode()
        await until(lambda: told(server, "release.worse"))
        (alert,) = told(server, "release.worse")
        monkeypatch.setenv("RAGTIDE_MCP_TOKEN", READ)
        options = {**ARGS, "url": deployment.address, "until": "2m", "junit": "release.xml"}
        inputs = {"command": "release watch", "options": "\n".join(f"--{name}={options[name]}" for name in OPTIONS)}
        done = await asyncio.to_thread(installed_job(tmp_path).act, inputs, ["Decide"])
    assert (done.outputs, done.code) == ({"outcome": "fail", "exit-code": "4"}, 4), done.printed
    assert "trace.adherence" in done.summary
    assert alert.release is not None
    assert (alert.release.from_version, alert.release.to_version) == (STABLE, CANARY)
    (adherence,) = (row for row in alert.release.metrics if row.metric == "trace.adherence")
    assert adherence.before is not None
    assert adherence.after is not None
    before, after = adherence.before.estimate, adherence.after.estimate
    assert before is not None
    assert after is not None
    assert after < before
    (message,) = (got for got in server.received if got.json.get("event") == "release.worse")
    assert f"{before:.3f}" in message.body.decode()
    assert f"{after:.3f}" in message.body.decode()


async def test_a_canary_that_is_as_good_is_promoted_and_nothing_fires(
    redis: Any, redis_url: str, server: Receiver, tmp_path: Path
) -> None:
    async with deployed(redis_url, tmp_path, server, canary_falls=False) as deployment:
        await until(deployment.measured, 400)
        assert deployment.run.phase == "Successful"
        assert (await deployment.flagger("confirm-promotion"))[0] == 200
        assert (await deployment.flagger("rollback"))[0] == 409
        await until(lambda: told(server, "release.not_worse"))
    assert told(server, "release.worse") == []
