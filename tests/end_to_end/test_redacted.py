"""With redaction on, no text that it removes stays in Redis once the interactions are trimmed, and none leaves."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import until
from tests.support.receiver import receiver
from tests.support.roles import STREAMS, interactions, running

from ragtide import InteractionProducer, RagInteraction
from ragtide.testing import ScriptedJudge

PRIVATE = b"private@example.com"
RULE = {"name": "floor", "kind": "threshold", "metric": "trace.adherence", "target": 0.99, "severity": "page"}


def private(one: RagInteraction) -> RagInteraction:
    """Return an interaction with the address in each of its texts."""
    address = PRIVATE.decode()
    changes: dict[str, Any] = {
        "question": f"{one.question} I am {address}.",
        "documents": [*(f"{document.text} Ask {address}." for document in one.documents)],
        "response": f"{one.response} Ask {address}.",
        "reference_answer": f"Ask {address}.",
        "history": [{"question": f"Is {address} there?", "response": f"No, {address} is not."}],
        "metadata": {"customer": address},
        "steps": [
            {"name": "lookup", "kind": "tool", "documents": [0], "arguments": {"customer": [address]}},
            {"name": "search", "kind": "tool", "query": f"orders of {address}", "error": f"no orders of {address}"},
        ],
        "occurred_at": None,
    }
    given = one.model_dump(mode="json", exclude_none=True) | changes
    return RagInteraction.model_validate({name: value for name, value in given.items() if value is not None})


@pytest.mark.heavy
async def test_nothing_in_redis_in_a_message_or_in_a_log_has_a_text_that_redaction_removes(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "up.log"
    async with receiver() as server:
        with ScriptedJudge() as judge:
            extra = {
                **judge.environment,
                "RAGTIDE_LABELER": "cascade",
                "RAGTIDE_CASCADE_RATE": "0.5",
                "RAGTIDE_JUDGE_MODEL": "m",
                "RAGTIDE_JUDGE_API_KEY": "none",
                "RAGTIDE_JUDGE_REDACT": json.dumps(["email"]),
                "RAGTIDE_SPECIMENS_SAMPLE": "1",
                "RAGTIDE_ALERTS": json.dumps([RULE | {"min_effect": 0.0, "run_length": 100}]),
                "RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true",
                "RAGTIDE_NOTIFY_DESTINATIONS": json.dumps([{"name": "hook", "kind": "webhook", "url": server.url}]),
            }
            with running("up", redis_url, log, extra):
                with InteractionProducer(redis_url) as producer:
                    producer.publish_many([private(interaction) for interaction in interactions(120)])
                await until(lambda: redis.xlen(STREAMS.metrics) >= 120 and not redis.xlen(STREAMS.interactions))
                await until(lambda: server.received)
            asked = judge.requests
        kept = dict(held(redis))
    assert asked
    assert any(b":specimen:" in key for key in kept), "specimens were kept"
    assert any(b":judge" in key for key in kept), "answers of the judge were kept"
    assert [key for key, value in kept.items() if PRIVATE in value] == []
    assert [one for one in asked if PRIVATE in json.dumps(one).encode()] == []
    assert [one for one in server.received if PRIVATE in one.body] == []
    assert PRIVATE not in log.read_bytes()


def held(redis: Any) -> Iterator[tuple[bytes, bytes]]:
    """Yield every key with everything that it holds, decompressed."""
    read = {
        b"string": lambda key: [redis.get(key)],
        b"hash": lambda key: [part for pair in redis.hgetall(key).items() for part in pair],
        b"stream": lambda key: [part for _, fields in redis.xrange(key) for pair in fields.items() for part in pair],
        b"set": redis.smembers,
        b"zset": lambda key: redis.zrange(key, 0, -1),
        b"list": lambda key: redis.lrange(key, 0, -1),
    }
    for key in redis.scan_iter():
        yield key, b"\n".join([key, *(plain(part) for part in read[redis.type(key)](key))])


def plain(value: bytes) -> bytes:
    try:
        return zlib.decompress(value)
    except zlib.error:
        return value
