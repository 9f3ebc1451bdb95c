import json
from pathlib import Path
from typing import Any

import pytest
from faststream.redis import RedisBroker
from tests.support.conditions import wait_until
from tests.support.forked import ForkedProcess
from tests.support.redis_cli import redis_cli
from tests.support.roles import (
    STREAMS,
    command,
    dead_letters,
    interactions,
    metric_events,
    running,
    wait_for_aggregation,
)

from ragtide import InteractionProducer
from ragtide_schemas import Reason, from_milliseconds
from ragtide_schemas.dead_letter import beginning_of
from ragtide_schemas.limits import ENTRY_MAX_BYTES

GOOD: dict[str, Any] = {
    "pipeline": "shop",
    "question": "When was the tower built?",
    "documents": [{"text": "The tower was built in 1889. It is made of iron."}],
    "response": "It was built in 1889.",
}


CALL: dict[str, Any] = {"name": "search", "kind": "tool", "round": 2, "query": "tower", "documents": [0], "returned": 3}


def with_(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


BAD: dict[str, tuple[bytes, Reason, str]] = {
    "not JSON": (b"hello", Reason.NOT_JSON, "JSON"),
    "not UTF-8": (b'{"pipeline": "\xff"}', Reason.NOT_JSON, "JSON"),
    "torn JSON": (with_()[:-10], Reason.NOT_JSON, "JSON"),
    "a list": (b"[1, 2]", Reason.INVALID, "array"),
    "wrong type": (with_(question=[42]), Reason.INVALID, "question"),
    "documents not a list": (with_(documents=42), Reason.INVALID, "documents"),
    "a printed object": (with_(response="<generator object f at 0x7f7a9a8b3890>"), Reason.INVALID, "no text"),
    "missing field": (without("response"), Reason.INVALID, "response is missing"),
    "no documents field": (with_(documents=None), Reason.INVALID, "documents"),
    "blank document": (with_(documents=[{"text": " "}]), Reason.INVALID, "documents.0.text"),
    "no response field": (with_(response=None), Reason.INVALID, "response"),
    "document of 5 MB": (with_(documents=[{"text": "x" * 5_000_000}]), Reason.TOO_LARGE, "bytes"),
    "document of 2 MB": (with_(documents=[{"text": "x" * 2_000_000}]), Reason.TOO_LARGE, "documents.0.text"),
    "rounds that fall": (with_(steps=[CALL, {**CALL, "round": 1}]), Reason.INVALID, "round"),
    "a call of a document that is not there": (with_(steps=[{**CALL, "documents": [1]}]), Reason.INVALID, "document 1"),
    "65 calls": (with_(steps=[CALL] * 65), Reason.TOO_LARGE, "steps"),
    "17 tools": (with_(steps=[{**CALL, "name": f"t{n}"} for n in range(17)]), Reason.INVALID, "steps"),
    "messages in a plain XADD": (with_(messages=[]), Reason.INVALID, "messages is not a field"),
    "NaN": (with_(response=float("nan")), Reason.INVALID, "response is no finite number"),
    "unknown field": (with_(respnse="typo"), Reason.INVALID, "respnse"),
    "naive time": (with_(occurred_at="2026-01-01T00:00:00"), Reason.INVALID, "time zone"),
    "time before 1970": (with_(occurred_at="1969-12-31T23:59:59Z"), Reason.INVALID, "from 1970 to 2200"),
    "newer schema": (with_(schema_version=99), Reason.UNKNOWN_SCHEMA_VERSION, "schema_version 99"),
}


@pytest.fixture
def worker(redis: Any, redis_url: str, tmp_path: Path) -> Any:
    del redis  # flushed before the worker starts
    with running("worker", redis_url, tmp_path / "worker.log") as process:
        yield process


def test_every_kind_of_bad_entry_becomes_a_dead_letter_with_its_reason_and_the_worker_goes_on(
    redis: Any, worker: ForkedProcess
) -> None:
    ids = {redis.xadd(STREAMS.interactions, {"data": payload}).decode(): name for name, (payload, _, _) in BAD.items()}
    ids[redis.xadd(STREAMS.interactions, {"something": "else"}).decode()] = "no field data"
    after = redis.xadd(STREAMS.interactions, {"data": with_(interaction_id="after", metadata={"a": float("nan")})})
    wait_until(lambda: len(dead_letters(redis)) == len(ids) and len(metric_events(redis)) == 1)
    assert [event.entry_id for event in metric_events(redis)] == [after.decode()]
    for letter in dead_letters(redis):
        name = ids.pop(letter.entry_id)
        payload, reason, words = BAD.get(name, (b"something=else", Reason.MISSING_DATA_FIELD, "data"))
        whole = len(payload) <= ENTRY_MAX_BYTES
        assert (letter.reason, letter.payload_bytes()) == (reason, payload if whole else beginning_of(payload)), name
        assert letter.size_bytes == (None if whole else len(payload)), name
        assert words in letter.detail, name
        assert len(letter.detail) < 500, name
    assert not ids
    assert redis.xpending(STREAMS.interactions, "label")["pending"] == 0
    assert worker.poll() is None


def test_a_second_entry_with_the_same_interaction_id_is_a_dead_letter_not_a_second_score(
    redis: Any, worker: ForkedProcess
) -> None:
    first = redis.xadd(STREAMS.interactions, {"data": with_(interaction_id="same")})
    wait_until(lambda: len(metric_events(redis)) == 1)
    second = redis.xadd(STREAMS.interactions, {"data": with_(interaction_id="same")})
    wait_until(lambda: len(dead_letters(redis)) == 1)
    (letter,) = dead_letters(redis)
    assert (letter.entry_id, letter.reason) == (second.decode(), Reason.DUPLICATE)
    assert [event.entry_id for event in metric_events(redis)] == [first.decode()]


def test_the_producer_after_a_plain_xadd_of_the_same_id_adds_nothing(
    redis: Any, redis_url: str, worker: ForkedProcess
) -> None:
    (interaction,) = interactions(1)
    entry = redis.xadd(STREAMS.interactions, {"data": interaction.encode()})
    wait_until(lambda: len(metric_events(redis)) == 1)
    with InteractionProducer(redis_url) as producer:
        publication = producer.publish(interaction)
    assert (publication.added, publication.entry_id) == (False, entry.decode())


def test_a_time_that_was_never_set_and_absurd_metric_events_end_no_aggregator(
    redis: Any, redis_url: str, worker: ForkedProcess, tmp_path: Path
) -> None:
    with running("aggregator", redis_url, tmp_path / "aggregator.log") as aggregator:
        entry = redis.xadd(STREAMS.interactions, {"data": with_(occurred_at="0001-01-01T00:00:00Z")}).decode()
        wait_until(lambda: len(metric_events(redis)) == 1)
        (event,) = metric_events(redis)
        assert event.occurred_at == from_milliseconds(int(entry.partition("-")[0]))
        fields = event.model_dump(mode="json", exclude_none=True)
        for absurd in ({"occurred_at": "0001-01-01T00:00:00Z"}, {"latency_s": 1e12}, {"cost_usd": 1e308}):
            redis.xadd(STREAMS.metrics, {"data": json.dumps({**fields, **absurd})})
        after = redis.xadd(STREAMS.metrics, {"data": json.dumps({**fields, "interaction_id": "after"})})
        wait_until(lambda: redis.hget(STREAMS.checkpoint, "position") == after)
        assert [letter.reason for letter in dead_letters(redis)] == [Reason.INVALID] * 3
        assert aggregator.poll() is None


def test_redis_cli_with_plain_json_is_enough(redis: Any, redis_url: str, worker: ForkedProcess, tmp_path: Path) -> None:
    entry = redis_cli(redis_url, "XADD", "ragtide:{0}:interactions", "*", "data", with_().decode())
    wait_until(lambda: len(metric_events(redis)) == 1)
    (event,) = metric_events(redis)
    assert event.entry_id == entry
    assert event.interaction_id == f"entry-{entry}"
    assert event.scores["trace.supported_fraction"] > 0.5


async def test_what_faststreams_own_publisher_sends_is_understood(
    redis: Any, redis_url: str, worker: ForkedProcess
) -> None:
    async with RedisBroker(redis_url) as broker:
        await broker.publish({**GOOD, "interaction_id": "by-faststream"}, stream=STREAMS.interactions)
    wait_until(lambda: len(metric_events(redis)) == 1)
    assert metric_events(redis)[0].interaction_id == "by-faststream"


def test_bad_metric_events_become_dead_letters_and_the_aggregator_goes_on(
    redis: Any, redis_url: str, worker: ForkedProcess, tmp_path: Path
) -> None:
    with running("aggregator", redis_url, tmp_path / "aggregator.log") as aggregator:
        redis.xadd(STREAMS.metrics, {"data": b"hello"})
        redis.xadd(STREAMS.metrics, {"other": b"{}"})
        redis.xadd(STREAMS.interactions, {"data": with_()})
        wait_until(lambda: redis.xlen(STREAMS.metrics) == 3)
        good = redis.xrevrange(STREAMS.metrics, count=1)[0][1][b"data"]
        redis.xadd(STREAMS.metrics, {"data": good.replace(b'"trace.adherence":0', b'"trace.adherence":7')})
        wait_for_aggregation(redis)
        assert aggregator.poll() is None
    reasons = [letter.reason for letter in dead_letters(redis)]
    assert reasons == [Reason.NOT_JSON, Reason.MISSING_DATA_FIELD, Reason.INVALID]


def test_dead_letters_are_listed_and_published_again_once(redis: Any, redis_url: str, worker: ForkedProcess) -> None:
    redis.xadd(STREAMS.interactions, {"data": with_(response=[3], steps=[CALL])})
    redis.xadd(STREAMS.interactions, {"data": b"\xff\xfe"})
    wait_until(lambda: len(dead_letters(redis)) == 2)
    listed = [json.loads(line) for line in command(redis_url, "dead-letters", "--json").stdout.splitlines()]
    assert [letter["reason"] for letter in listed] == ["invalid", "not_json"]
    only = command(redis_url, "dead-letters", "--json", "--reason", "not_json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in only] == [listed[1]["id"]]
    assert "response" in command(redis_url, "dead-letters").stdout
    retried = command(redis_url, "dead-letters", "retry", listed[0]["id"])
    assert retried.returncode == 0, retried.stderr
    # Nothing was mended, so it comes back as a new dead letter of a new entry, and the old one is gone.
    wait_until(lambda: redis.xlen(STREAMS.interactions) == 3 and len(dead_letters(redis)) == 2)
    assert redis.xrange(STREAMS.dead_letters, listed[0]["id"], listed[0]["id"]) == []
