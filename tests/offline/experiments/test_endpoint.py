"""HTTP endpoints as targets."""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.offline.experiments.items import ITEM

from ragtide_offline.experiments.errors import AnswerError
from ragtide_offline.experiments.targets import Target, target_of


async def test_an_endpoint_is_asked_over_http() -> None:
    asked: list[Mapping[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        k = asked[-1]["parameters"]["k"]
        if k == 0:
            return web.Response(status=503, text="busy")
        if k == 1:
            return web.Response(text="no json")
        if k == 2:
            return web.json_response(["list"])
        return web.json_response({"documents": ["a"], "response": "b", "completion_tokens": 7, "cost_usd": 0.5})

    app = web.Application()
    app.router.add_post("/answer", answer)
    async with TestServer(app) as server, target_of(str(server.make_url("/answer"))) as target:
        for k, words in ((0, "answered 503: busy"), (1, "not JSON"), (2, "must be an object")):
            with pytest.raises(AnswerError, match=words):
                await target.answer(ITEM, {"k": k})
        found = await target.answer(ITEM, {"k": 3})
    assert (found.response, found.tokens, found.cost_usd) == ("b", 7, 0.5)
    assert asked[-1] == {"question": ITEM.question, "item_id": "q1", "parameters": {"k": 3}}


@asynccontextmanager
async def endpoint(reply: Callable[[], web.Response]) -> AsyncIterator[tuple[Target, str]]:
    """Serve a reply, and return the target that asks for it, and its URL."""

    async def answer(_: web.Request) -> web.Response:
        return reply()

    app = web.Application()
    app.router.add_post("/answer", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("/answer"))
        async with target_of(url) as target:
            yield target, url


def packed(body: bytes, encoding: str = "gzip", status: int = 200) -> Callable[[], web.Response]:
    data = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    return lambda: web.Response(status=status, body=data, headers={"Content-Encoding": encoding})


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_packed_answer_is_unpacked(encoding: str) -> None:
    body = json.dumps({"documents": ["d" * 300_000], "response": "r"}).encode()
    async with endpoint(packed(body, encoding)) as (target, _):
        assert (await target.answer(ITEM, {})).documents == ["d" * 300_000]


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_unpacks_to_too_much_is_refused_while_it_is_read(status: int) -> None:
    async with endpoint(packed(b" " * 200_000_000, status=status)) as (target, _):
        tracemalloc.start()
        try:
            with pytest.raises(AnswerError, match="larger than 8 MB after decompression"):
                await target.answer(ITEM, {})
            assert tracemalloc.get_traced_memory()[1] < 60_000_000
        finally:
            tracemalloc.stop()


async def test_an_answer_of_any_size_is_not_read_whole() -> None:
    async with endpoint(lambda: web.Response(body=b"[" * 9_000_000)) as (target, _):
        with pytest.raises(AnswerError, match="larger than 8 MB"):
            await target.answer(ITEM, {})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (lambda: web.Response(body=b"[" * 99_000), "not JSON"),
        (lambda: web.Response(body=b"[" * 200_000), "more than 100,000 objects and lists"),
        (lambda: web.Response(body=b"x", headers={"Content-Encoding": "br"}), "packed as 'br'"),
        (lambda: web.Response(body=b"no gzip at all", headers={"Content-Encoding": "gzip"}), "not packed as gzip"),
        (lambda: web.Response(status=307, headers={"Location": "http://other/x"}), "a redirect to 'http://other/x'"),
    ],
)
async def test_an_answer_that_is_none_is_told_in_a_sentence(reply: Callable[[], web.Response], words: str) -> None:
    async with endpoint(reply) as (target, _):
        with pytest.raises(AnswerError, match=words):
            await target.answer(ITEM, {})


async def test_a_redirect_is_not_followed() -> None:
    async with (
        endpoint(lambda: web.json_response({"documents": ["a"], "response": "b"})) as (_, where),
        endpoint(lambda: web.Response(status=307, headers={"Location": where})) as (target, _),
    ):
        with pytest.raises(AnswerError, match="redirects are not followed"):
            await target.answer(ITEM, {})
