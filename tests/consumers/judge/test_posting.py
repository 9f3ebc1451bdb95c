"""How a judge and a service are reached: through the proxy of the environment, with a key, and over TLS."""

import base64
import re

import pytest
from tests.consumers.judge.asking import SECRET, TOWER, judge

from ragtide.testing import Raw, ScriptedJudge
from ragtide_consumers.labelers.remote.errors import EndpointUnavailable
from ragtide_consumers.labelers.remote.posting import POST_ERRORS, Poster

pytestmark = pytest.mark.processes


class Proxy(ScriptedJudge):
    """Answers for `judge.invalid`, whose whole address is in the first line of a request to a proxy."""

    base = "http://judge.invalid/v1"


async def test_a_judge_is_asked_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy() as proxy:
        port = re.findall(r":(\d+)", proxy.url)[0]
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "")
        async with judge(proxy, base_url="http://judge.invalid/v1") as labeler:
            assert (await labeler.label(TOWER)).counters == {"judge_calls": 1}
        monkeypatch.setenv("no_proxy", "judge.invalid")
        async with judge(proxy, base_url="http://judge.invalid/v1", attempts=1) as labeler:
            with pytest.raises(EndpointUnavailable):
                await labeler.label(TOWER)
    assert len(proxy.requests) == 1


async def test_a_request_has_the_key_and_the_organization_and_project_of_the_environment(
    server: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    async with judge(server) as labeler:
        await labeler.label(TOWER)
    sent = server.headers[0]
    assert sent["authorization"] == f"Bearer {SECRET}"
    assert sent["openai-organization"] == "org-1"
    assert sent["openai-project"] == "proj-1"


async def test_a_name_and_a_password_in_the_address_are_used_instead_of_the_key(server: ScriptedJudge) -> None:
    async with judge(server, base_url=server.url.replace("//", "//me:secret@")) as labeler:
        await labeler.label(TOWER)
    assert server.headers[0]["authorization"] == f"Basic {base64.b64encode(b'me:secret').decode()}"


async def test_half_of_a_surrogate_pair_in_a_reply_does_not_make_it_unusable(server: ScriptedJudge) -> None:
    async with judge(server) as labeler:
        body = b'{"choices": [{"message": {"content": "cut \\ud83d"}, "finish_reason": "stop"}]}'
        server.script.append(Raw(body))
        labeling = await labeler.label(TOWER)
    assert labeling.counters["judge_repairs"] == 1  # it was read, and had no labels


async def test_an_address_with_tls_that_nothing_serves_is_a_failure_of_the_endpoint() -> None:
    poster = Poster("https://127.0.0.1:9/v1/chat/completions", {})
    with pytest.raises(POST_ERRORS):
        await poster.post(b"{}", bytes)
    await poster.aclose()
