"""`ragtide items trace` says at each station why an interaction has no score."""

import asyncio
import json
from typing import Any

import pytest
from tests.consumers.specimens.test_keeping import worked
from tests.support.in_process import run_command

from ragtide import LocalLabeler
from ragtide.testing import interaction
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import LABEL_GROUP, CheckpointField, Streams
from ragtide_schemas import DeadLetter, Reason

STREAMS = Streams("ragtide", 0)

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "80")


def facts(capsys: Capture, *arguments: str) -> dict[str, dict[str, Any]]:
    done = run_command(capsys, "trace", *arguments, "--json")
    assert done.code == 0, done.stderr
    return {fact["station"]: fact for fact in map(json.loads, done.stdout.splitlines())}


def test_an_interaction_that_waits_or_is_taken(redis: Any, capsys: Capture) -> None:
    one = interaction(1)
    entry_id = redis.xadd(STREAMS.interactions, {"data": one.encode()}).decode()
    found = facts(capsys, one.interaction_id)
    assert found["published"]["text"] == f"Published as entry {entry_id}."
    assert "no worker has started" in found["label"]["text"]
    redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0")
    assert "no worker has taken it" in facts(capsys, one.interaction_id)["label"]["text"]
    redis.xreadgroup(LABEL_GROUP, "host-1", {STREAMS.interactions: ">"})
    assert "Taken by worker host-1" in facts(capsys, one.interaction_id)["label"]["text"]
    assert "Published as entry" in run_command(capsys, "trace", one.interaction_id).stdout


def test_a_labeled_interaction_is_aggregated_or_waits_for_it(redis: Any, capsys: Capture, redis_url: str) -> None:
    one = interaction(1)

    async def work() -> None:
        async with connect_async(redis_url) as client:
            await worked(client, [one], LocalLabeler())

    asyncio.run(work())
    found = facts(capsys, one.interaction_id, "--pipeline", one.pipeline)
    assert "Finished by a worker" in found["label"]["text"]
    assert "Labeled by local" in found["labeled"]["text"]
    assert "Not aggregated yet" in found["aggregated"]["text"]
    assert "no aggregator owns the partition" in found["aggregated"]["text"]
    last = redis.xinfo_stream(STREAMS.metrics)["last-generated-id"].decode()
    redis.hset(STREAMS.checkpoint, CheckpointField.POSITION, last)
    text = facts(capsys, one.interaction_id, "--pipeline", one.pipeline)["aggregated"]["text"]
    assert "Aggregated" in text
    assert "1h (2026-01-01 00:00 to 2026-01-01 01:00 UTC)" in text
    assert "24h/1h (2025-12-31 01:00 to 2026-01-01 01:00 UTC)" in text


@pytest.mark.parametrize("is_labeled", [False, True])
def test_the_id_of_a_trace_finds_its_interactions(
    is_labeled: bool, redis: Any, capsys: Capture, redis_url: str
) -> None:
    trace = "ab" * 16
    mine = [interaction(number, interaction_id=f"otel-{trace}-{number:016x}") for number in (1, 2)]
    given = {"trace_id": trace}
    others = [interaction(3, interaction_id="by-hand", metadata=given), interaction(4, metadata={"other": trace})]

    async def work() -> None:
        async with connect_async(redis_url) as client:
            await worked(client, mine, LocalLabeler())

    if is_labeled:
        asyncio.run(work())
        redis.xtrim(STREAMS.interactions, maxlen=0)
    else:
        for one in (*mine, *others):
            redis.xadd(STREAMS.interactions, {"data": one.encode()})
    done = run_command(capsys, "trace", trace, "--json")
    stations = [json.loads(line)["station"] for line in done.stdout.splitlines()]
    assert (stations.count("published"), stations.count("labeled")) == ((2, 2) if is_labeled else (3, 0))


def test_a_dead_letter_says_why(redis: Any, capsys: Capture) -> None:
    one = interaction(1)
    letter = DeadLetter.of(
        one.encode(), stream=STREAMS.interactions, entry_id="1-0", reason=Reason.TOO_LARGE, detail="5 MB", component="w"
    )
    # An id that contains this id belongs to another interaction.
    longer = interaction(1).model_copy(update={"interaction_id": f"{one.interaction_id}0"})
    other = letter.model_copy(update={"payload": longer.encode().decode(), "detail": "of another"})
    for stored in (other, letter):
        redis.xadd(STREAMS.dead_letters, {"data": stored.encode()})
    assert "of another" not in run_command(capsys, "trace", one.interaction_id).stdout
    assert "(too_large): 5 MB" in facts(capsys, one.interaction_id)["dead-letter"]["text"]


def test_an_unknown_id_says_how_that_can_be(redis: Any, capsys: Capture) -> None:
    redis.hincrby(STREAMS.dropped, "drop_new", 7)
    done = run_command(capsys, "trace", "i-17")
    assert done.code == 1
    assert "i-17 is not known" in done.stderr
    assert "7 drop_new" in " ".join(done.stderr.split())


def test_spans_that_wait_for_the_rest_of_their_trace_are_told(redis: Any, capsys: Capture) -> None:
    redis.zadd(STREAMS.open_traces, {"ab" * 16: 1_790_000_000_000})
    found = facts(capsys, "ab" * 16)["spans"]
    assert found["at"].startswith("2026-09-21")
    assert "wait for the rest" in found["text"]
