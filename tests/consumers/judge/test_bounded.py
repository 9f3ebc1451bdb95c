"""The client bounds replies of an endpoint: their size after decompression is limited, and redirects are refused."""

import gzip
import json
import tracemalloc
import zlib

import pytest
from tests.consumers.judge.asking import SECRET, TOWER, judge

from ragtide.testing import Raw, ScriptedJudge, Status
from ragtide_consumers.labelers.remote.errors import EndpointMisconfigured, EndpointUnavailable

pytestmark = pytest.mark.processes

MB = 2**20


def bomb(packing: str, megabytes: int) -> Raw:
    packed = b" " * (megabytes * MB)
    for part in packing.split(", "):
        packed = gzip.compress(packed, 1) if part == "gzip" else zlib.compress(packed, 1)
    return Raw(packed, headers={"content-encoding": packing})


@pytest.fixture(scope="module", params=["gzip", "deflate", "gzip, gzip"])
def packed(request: pytest.FixtureRequest) -> Raw:
    return bomb(request.param, 150)


async def test_a_reply_that_unpacks_to_much_more_takes_no_memory(server: ScriptedJudge, packed: Raw) -> None:
    server.always = packed
    async with judge(server, attempts=2) as labeler:
        tracemalloc.start()
        try:
            with pytest.raises(EndpointUnavailable, match="larger than 8 MB after decompression"):
                await labeler.label(TOWER)
            assert tracemalloc.get_traced_memory()[1] < 64 * MB
        finally:
            tracemalloc.stop()
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("code", "said"), [(200, "larger than 8 MB"), (401, "status 401"), (429, "status 429"), (500, "status 500")]
)
async def test_a_reply_without_an_end_is_not_read_to_it(server: ScriptedJudge, code: int, said: str) -> None:
    server.always = Raw(b" " * MB, code=code, times=300)
    async with judge(server, attempts=1) as labeler:
        with pytest.raises(EndpointUnavailable, match=said):
            await labeler.label(TOWER)
    assert server.raw_sent < 100 * MB


@pytest.mark.parametrize("packing", [None, "gzip", "deflate"])
async def test_a_reply_that_is_large_and_within_the_limit_is_read(server: ScriptedJudge, packing: str | None) -> None:
    async with judge(server) as labeler:
        await labeler.label(TOWER)
        reply = server.usual(server.requests[0], None)
        body = json.dumps({**reply, "padding": "x" * (6 * MB)}).encode()
        headers = {} if packing is None else {"content-encoding": packing}
        packed = {"gzip": gzip.compress, "deflate": zlib.compress, None: lambda data: data}[packing](body)
        server.script.append(Raw(packed, headers=headers))
        labeling = await labeler.label(TOWER)
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.counters == {"judge_calls": 1}


async def test_bytes_that_are_not_packed_as_they_say_are_a_failure(server: ScriptedJudge) -> None:
    server.script.append(Raw(b"{}", headers={"content-encoding": "gzip"}))
    async with judge(server) as labeler:
        assert (await labeler.label(TOWER)).counters == {"judge_calls": 2, "judge_retries": 1}


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_says_where_it_leads(server: ScriptedJudge, code: int) -> None:
    with ScriptedJudge() as elsewhere:
        server.always = Status(code, headers={"location": f"{elsewhere.url}/chat/completions"})
        async with judge(server, breaker_pause_s=60) as labeler:
            with pytest.raises(EndpointMisconfigured, match=f"redirects to {elsewhere.url}/chat/completions"):
                await labeler.label(TOWER)
    assert elsewhere.requests == []
    assert len(server.requests) == 1


async def test_the_address_of_a_redirect_is_shown_without_the_key_and_without_controls(server: ScriptedJudge) -> None:
    server.always = Status(307, headers={"location": f"http://elsewhere/?key={SECRET}\x1b[2J"})
    async with judge(server) as labeler:
        with pytest.raises(EndpointMisconfigured) as caught:
            await labeler.label(TOWER)
    assert SECRET not in str(caught.value)
    assert str(caught.value).isprintable()
