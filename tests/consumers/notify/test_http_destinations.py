"""Every destination over HTTP: what an answer means, limits, secrets, and addresses that are not allowed."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.receiver import Receiver, ScriptedAnswer, destination, receiver
from tests.support.told import told_of

from ragtide_consumers.notify.destinations.addresses import is_public
from ragtide_consumers.notify.destinations.http import LARGEST_ANSWER
from ragtide_consumers.notify.destinations.protocol import Refused, TryLater

SECRET_PATH = "/services/T0123456/B0123456/verysecretkeyofthehook"


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_an_accepted_request_is_delivered(server: Receiver, status: int) -> None:
    server.usual = ScriptedAnswer(status)
    async with destination("webhook", url=server.url) as webhook:
        assert await webhook.deliver(told_of()) == ""
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413])
async def test_a_client_error_is_final(server: Receiver, status: int) -> None:
    server.usual = ScriptedAnswer(status, b"no such hook")
    async with destination("webhook", url=server.url) as webhook:
        with pytest.raises(Refused, match=rf"^ours answered with status {status}: no such hook$"):
            await webhook.deliver(told_of())


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 529])
async def test_a_passing_error_may_be_tried_again(server: Receiver, status: int) -> None:
    server.usual = ScriptedAnswer(status)
    async with destination("webhook", url=server.url) as webhook:
        with pytest.raises(TryLater, match=rf"status {status}$") as failed:
            await webhook.deliver(told_of())
    assert failed.value.retry_after_s is None


async def test_retry_after_is_read_as_seconds_and_as_a_date(server: Receiver) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(minutes=30), usegmt=True)
    server.answers = [
        ScriptedAnswer(429, headers={"retry-after": value}) for value in ("17", later, "999999", "soon", "-3", "nan")
    ]
    found = []
    async with destination("webhook", url=server.url) as webhook:
        for _ in range(6):
            with pytest.raises(TryLater) as failed:
                await webhook.deliver(told_of())
            found.append(failed.value.retry_after_s)
    assert found[0] == 17
    assert 1000 < (found[1] or 0) <= 1800
    assert found[2:] == [3600, None, None, None]


async def test_a_server_that_hangs_is_left_after_the_limit(server: Receiver) -> None:
    server.usual = ScriptedAnswer(hangs=True)
    async with destination("webhook", url=server.url, notify={"timeout_s": 0.05}) as webhook:
        with pytest.raises(TryLater, match=r"no answer within 0\.05 s"):
            await webhook.deliver(told_of())


async def test_the_status_decides_if_the_rest_of_the_answer_does_not_come(server: Receiver) -> None:
    server.answers = [ScriptedAnswer(200, stalls=True), ScriptedAnswer(410, stalls=True)]
    async with destination("webhook", url=server.url, notify={"timeout_s": 0.3}) as webhook:
        await webhook.deliver(told_of())
        with pytest.raises(Refused, match="status 410: x"):
            await webhook.deliver(told_of())


async def test_a_broken_connection_may_be_tried_again(server: Receiver) -> None:
    server.usual = ScriptedAnswer(resets=True)
    async with destination("webhook", url=server.url) as webhook:
        with pytest.raises(TryLater):
            await webhook.deliver(told_of())


async def test_a_huge_answer_is_read_up_to_the_limit(server: Receiver) -> None:
    server.answers = [ScriptedAnswer(200, b"x" * 5_000_000), ScriptedAnswer(400, b"y" * 5_000_000)]
    async with destination("webhook", url=server.url) as webhook:
        await webhook.deliver(told_of())
        with pytest.raises(Refused) as failed:
            await webhook.deliver(told_of())
    assert len(str(failed.value)) < 300 < LARGEST_ANSWER


async def test_a_redirect_is_not_followed(server: Receiver) -> None:
    server.usual = ScriptedAnswer(307, headers={"location": f"{server.url}/private"})
    async with destination("webhook", url=f"{server.url}/hook") as webhook:
        with pytest.raises(Refused, match="redirects with status 307"):
            await webhook.deliver(told_of())
    assert [one.path for one in server.received] == ["/hook"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"])
async def test_a_private_address_is_refused_before_anything_is_sent(server: Receiver, host: str) -> None:
    url = re.sub(r"//[^:]+:", f"//{host}:", server.url)
    async with destination("webhook", url=url, notify={"allow_private": False}) as webhook:
        with pytest.raises(Refused, match=r"not public.*notify\.allow_private"):
            await webhook.deliver(told_of())
    assert server.received == []


async def test_a_name_that_turns_private_after_the_check_is_refused(
    server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is checked at the moment of connecting, so it does not matter what a name meant before."""
    from aiohttp.resolver import ThreadedResolver

    async def rebound(*_: Any, **__: Any) -> list[dict[str, Any]]:
        port = int(server.url.rpartition(":")[2])
        return [{"hostname": "hooks.example", "host": "127.0.0.1", "port": port, "family": 2, "proto": 6, "flags": 0}]

    monkeypatch.setattr(ThreadedResolver, "resolve", rebound)
    async with destination("webhook", url="http://hooks.example/", notify={"allow_private": False}) as webhook:
        with pytest.raises(Refused, match="not public"):
            await webhook.deliver(told_of())
    async with destination("webhook", url="http://hooks.example/") as webhook:
        await webhook.deliver(told_of())
    assert len(server.received) == 1


@for_each(
    "address",
    [
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "127.0.0.2",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "::",
        "::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:a9fe:a9fe",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "::127.0.0.1",
        "2001:0:4136:e378:8000:63bf:f5ff:fffe",
        "2001:db8::1",
        "localhost",
        "",
        "2130706433",
        # Python's own module calls these public before one patch release or another, or always.
        "192.0.0.9",
        "192.0.0.192",
        "192.31.196.1",
        "192.52.193.1",
        "192.88.99.1",
        "192.175.48.1",
        "168.63.129.16",
        "3fff::1",
        "2620:4f:8000::1",
        "2001:4:112::1",
        "2001:1::1",
        "2001:3::1",
        "2001:30::1",
        "64:ff9b::c000:c0",
        "2002:c058:6301::1",
        "2001:0:a00:1:8000:63bf:a247:28dd",
        "2606:4700::5efe:a00:1",
        "2606:4700::200:5efe:7f00:1",
        "5f00::1",
        "fe80::5efe:808:808",
        "::8.8.8.8",
        "::ffff:0:8.8.8.8",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@for_each(
    "address",
    [
        "93.184.216.34",
        "192.0.1.1",
        "2606:4700::1111",
        "2001:4860:4860::8888",
        "::ffff:93.184.216.34",
        "64:ff9b::5db8:d822",
        "2002:808:808::1",
        "2001:0:4136:e378:8000:63bf:f7f7:f7f7",
    ],
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


async def test_no_reason_holds_a_secret(server: Receiver) -> None:
    """The path of a hook is a secret, and a server may repeat it in its answer."""
    echoed = f"no hook at {SECRET_PATH}?sig=0123456789abcdef".encode()
    server.answers = [
        ScriptedAnswer(404, echoed),
        ScriptedAnswer(500, echoed),
        ScriptedAnswer(302),
        ScriptedAnswer(resets=True),
    ]
    url = f"{server.url}{SECRET_PATH}?sig=0123456789abcdef"
    reasons = []
    async with destination("webhook", url=url, token="tokenofthehook", notify={"timeout_s": 5}) as webhook:
        for _ in range(4):
            with pytest.raises((Refused, TryLater)) as failed:
                await webhook.deliver(told_of())
            reasons.append(str(failed.value))
    await server_gone(reasons)
    for reason in reasons:
        for secret in ("verysecretkey", "0123456789abcdef", "tokenofthehook", "T0123456"):
            assert secret not in reason


async def server_gone(reasons: list[str]) -> None:
    """Add the reasons of a closed port, a name that does not exist, and an address that is none."""
    for url in ("http://127.0.0.1:1", "http://hooks.invalid", "http://127.0.0.1:99999"):
        async with destination("webhook", url=url + SECRET_PATH) as webhook:
            with pytest.raises((Refused, TryLater)) as failed:
                await webhook.deliver(told_of())
            reasons.append(str(failed.value))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (
            "webhook",
            {"url": f"https://hooks.example{SECRET_PATH}", "token": "tokenofthehook", "secret": "whsec_" + "YWJj" * 8},
        ),
        ("alertmanager", {"url": "https://am.example", "user": "me", "password": "passwordofmine"}),
        ("pagerduty", {"token": "integrationkey"}),
    ],
)
async def test_a_preview_shows_the_request_without_its_secrets(kind: str, fields: dict[str, Any]) -> None:
    async with destination(kind, **fields) as one:
        shown = repr(one.preview(told_of()))
    assert "POST https://" in shown
    assert "trace.adherence" in shown
    assert "***" in shown
    for secret in ("verysecretkey", "tokenofthehook", "YWJjYWJj", "passwordofmine", "integrationkey", "v1,"):
        assert secret not in shown
