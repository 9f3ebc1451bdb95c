"""Whatever another server answers, each client ends with its own error, in its time, and beside the event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import aiohttp
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from tests.consumers.judge.asking import TOWER
from tests.offline.experiments.items import ITEM
from tests.support.hostile_server import ATTACKS, JUNK, SMALL_JUNK, hostile
from tests.support.receiver import destination
from tests.support.told import told_of

from ragtide_consumers.labelers.models import hub, hub_client
from ragtide_consumers.labelers.models.hub import HubModel, download
from ragtide_consumers.labelers.protocol import LabelerUnavailable
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.notify.destinations.protocol import Refused, TryLater
from ragtide_offline.experiments.errors import AnswerError
from ragtide_offline.experiments.targets import target_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside import answers, json_values
from ragtide_runtime.service_client import ServiceClient, ServiceError, ServiceNames
from ragtide_runtime.settings.labelers import ModelsSettings
from ragtide_runtime.settings.model import Settings

LIMIT_S = 1.0
"""Seconds that each client gives an answer. It is no measure: a machine may be slow."""


class Row(BaseModel):
    name: str
    numbers: list[int]


@asynccontextmanager
async def counted_turns() -> AsyncIterator[list[int]]:
    """Give the number of turns of the event loop meanwhile."""
    turns = [0]

    async def turn() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(turn())
    try:
        yield turns
    finally:
        task.cancel()


@pytest.fixture(autouse=True)
def large_answers_are_decoded_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the event loop counts or unpacks a large answer."""
    counting, unpacking = json_values.has_more_values, answers.unpack

    def check(size: int) -> None:
        assert size <= answers.INLINE_BYTES or threading.current_thread() is not threading.main_thread()

    def counted(body: bytes, parts: int, commas: int) -> bool:
        check(len(body))
        return counting(body, parts, commas)

    def unpacked(body: bytes, packings: str | None, most: int) -> bytes:
        found = unpacking(body, packings, most)
        check(len(found))
        return found

    monkeypatch.setattr(answers, "has_more_values", counted)
    monkeypatch.setattr(answers, "unpack", unpacked)


async def ask_judge(url: str, _: Path) -> None:
    judge = {"model": "m", "base_url": f"{url}/v1", "attempts": 1, "timeout_s": LIMIT_S, "cache_ttl_s": 0.0}
    async with labeler_of(Settings.model_validate({"labeler": "judge", "judge": judge}), None) as labeler:
        await labeler.label(TOWER)


async def ask_service(url: str, _: Path) -> None:
    service = {"url": url, "attempts": 1, "timeout_s": LIMIT_S, "cache_ttl_s": 0.0}
    async with labeler_of(Settings.model_validate({"labeler": "nli", "services": {"nli": service}}), None) as labeler:
        await labeler.label(TOWER)


async def download_model(url: str, folder: Path) -> None:
    settings = ModelsSettings.model_validate({"support": f"a/b@{'0' * 40}", "hub_url": url})
    with patch("ragtide_consumers.labelers.models.hub.MODEL_BYTES", 1_000_000):
        await download(HubModel("a/b", "0" * 40, "model.onnx"), settings, folder, "models.support")


async def read_service(url: str, _: Path) -> None:
    names = ServiceNames("the address", "the token")
    async with ServiceClient(url, None, names, timeout_s=LIMIT_S) as service:
        await service.get("/v1/fleet", TypeAdapter(list[Row]))


async def ask_target(url: str, _: Path) -> None:
    async with asyncio.timeout(LIMIT_S), target_of(url) as target:
        await target.answer(ITEM, {})


CLIENTS: dict[str, tuple[Callable[[str, Path], Awaitable[None]], tuple[type[Exception], ...]]] = {
    "judge": (ask_judge, (LabelerUnavailable,)),
    "service": (ask_service, (LabelerUnavailable,)),
    "hub": (download_model, (ConfigurationError,)),
    "ragtide serve": (read_service, (ServiceError,)),
    "target": (ask_target, (AnswerError, TimeoutError, OSError, aiohttp.ClientError)),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_hostile_answer_is_an_error_of_the_client(
    client: str, attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("PAUSE_S", 0.0), ("SILENCE_S", LIMIT_S), ("ATTEMPTS", 1)):
        monkeypatch.setattr(hub, name, value)
    monkeypatch.setattr(hub_client, "SILENCE_S", LIMIT_S)
    ask, errors = CLIENTS[client]
    async with hostile(ATTACKS[attack]) as url, counted_turns() as turns:
        with pytest.raises(errors) as found:
            await ask(url, tmp_path)
    assert len(str(found.value)) < 10_000
    assert turns[0] > 1


@pytest.mark.parametrize(
    ("kind", "attack"),
    [
        *(("webhook", attack) for attack in ATTACKS),
        # All of them read in the same way.
        *((kind, "an endless body") for kind in ("slack", "alertmanager", "teams")),
    ],
)
async def test_a_destination_reads_the_beginning_of_an_answer_only(kind: str, attack: str) -> None:
    async with (
        hostile(ATTACKS[attack]) as url,
        destination(kind, url=url, notify={"timeout_s": LIMIT_S}) as receiver,
        counted_turns(),
    ):
        found = await asyncio.gather(receiver.deliver(told_of()), return_exceptions=True)
    assert all(isinstance(result, str | TryLater | Refused) and len(str(result)) < 2_000 for result in found)


async def test_a_mail_server_that_never_ends_its_reply_is_given_up() -> None:
    lines = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal lines
        try:
            while True:
                writer.write(b"220-one more line\r\n" * 100)
                lines += 100
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    mail = {"host": "127.0.0.1", "port": port, "tls": "none", "sender": "a@b.example", "to": ["c@d.example"]}
    async with server, destination("email", notify={"timeout_s": 60.0}, **mail) as receiver:
        with pytest.raises(TryLater):
            await receiver.deliver(told_of())


async def test_a_list_with_millions_of_errors_ends_at_the_first_one() -> None:
    adapter = TypeAdapter(list[Row])
    with pytest.raises(ValidationError) as found:
        await asyncio.to_thread(answers.validate, adapter, SMALL_JUNK)
    assert found.value.error_count() < 10
    many = b"[" + b'"a",' * 1_000_000 + b'"a"]'
    for nested in (b'[{"name": "x", "numbers": ' + many + b"}]", b'{"name": ' + many + b"}"):
        with pytest.raises(answers.AnswerTooLargeError):
            await asyncio.to_thread(answers.validate, adapter, nested)
    assert answers.validate(adapter, b'[{"name": "x", "numbers": [1]}]') == [Row(name="x", numbers=[1])]


async def test_limits_hold_before_anything_is_decoded() -> None:
    def never(_: bytes) -> Any:
        raise AssertionError("it was decoded")

    for body, limits in ((JUNK, answers.AnswerLimits(bytes=len(JUNK))), (SMALL_JUNK, answers.USUAL)):
        with pytest.raises(answers.AnswerTooLargeError):
            await answers.decode(body, None, never, limits)
