"""The services of Apprise."""

import logging
import sys
from collections.abc import AsyncIterator

import pytest
from tests.support.receiver import Receiver, ScriptedAnswer, destination, receiver
from tests.support.told import RESOLVED, drift, told_of

from ragtide_consumers.notify.destinations.protocol import Refused, TryLater
from ragtide_runtime.errors import ConfigurationError

# Apprise imports a module that Python 3.13 removes.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


def url_of(server: Receiver) -> str:
    return server.url.replace("http://", "json://") + "/secretpath"


async def test_a_service_gets_title_and_text(server: Receiver) -> None:
    async with destination("apprise", url=url_of(server)) as service:
        assert service.grouped
        await service.deliver(told_of())
        await service.deliver(told_of(drift(status="resolved", resolved_at=RESOLVED)))
    first, second = (one.json for one in server.received)
    assert first["title"] == "trace.adherence of shop fell from 0.910 to 0.712"
    assert "https://ragtide.example/a/adherence-3f2a9c" in first["message"]
    assert (first["type"], second["type"]) == ("failure", "success")


async def test_no_name_mentions_anybody(server: Receiver) -> None:
    async with destination("apprise", url=url_of(server)) as service:
        await service.deliver(told_of(drift(pipeline="@here <@U1> <!channel>", segment="(@everyone")))
    told = server.received[0].json
    for text in (told["title"], told["message"]):
        for mention in ("@here", "@U1", "@everyone", "<!channel"):
            assert mention not in text
    assert "https://ragtide.example/a/adherence-3f2a9c" in told["message"]


async def test_a_refusal_may_be_tried_again_and_logs_no_address(
    server: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.usual = ScriptedAnswer(500)
    async with destination("apprise", url=url_of(server)) as service:
        with pytest.raises(TryLater, match="did not take the message"):
            await service.deliver(told_of())
    logged = [record.getMessage() for record in caplog.records if record.name != "aiohttp.access"]  # that is the server
    assert "secretpath" not in " ".join(logged)


async def test_a_private_address_is_refused_before_anything_is_sent(server: Receiver) -> None:
    async with destination("apprise", url=url_of(server), notify={"allow_private": False}) as service:
        with pytest.raises(Refused, match="not public"):
            await service.deliver(told_of())
    assert server.received == []
    async with destination("apprise", url=url_of(server)) as service:
        await service.deliver(told_of())
    assert len(server.received) == 1


@pytest.mark.parametrize("url", ["nosuchservice://secret", "json://a.example,json://b.example"])
async def test_an_address_that_apprise_does_not_know_is_refused_at_the_start(server: Receiver, url: str) -> None:
    with pytest.raises(ConfigurationError, match="not one address that Apprise knows") as failed:
        async with destination("apprise", url=url):
            pass
    assert "secret" not in str(failed.value)


async def test_a_preview_shows_no_address(server: Receiver) -> None:
    async with destination("apprise", url=url_of(server)) as service:
        (shown,) = service.preview(told_of())
    assert shown.target == "Apprise json://***"


async def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigurationError, match=r"ragtide\[apprise\]"):
        async with destination("apprise", url="json://example.org"):
            pass
