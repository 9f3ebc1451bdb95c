"""No way of publishing puts the id of a user as it is into Redis."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.stored import everything_in

from ragtide import InteractionProducer, RagInteraction, hashed_user_id
from ragtide_producers import FileOptions
from ragtide_producers.file_publisher import publish_file
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import load_settings

STREAM = Streams("ragtide", 0).interactions
SALT = "0123456789abcdef"
GIVEN = RagInteraction(
    interaction_id="i-1",
    pipeline="shop",
    question="q",
    documents=["d"],
    response="r",
    user_id="alice@example.com",
    session_id="s-1",
    turn=2,
    cluster="batch-7",
)


def _published(producer: InteractionProducer, place: Path) -> None:
    del place
    producer.publish(GIVEN)


def _many(producer: InteractionProducer, place: Path) -> None:
    del place
    producer.publish_many([GIVEN])


def _asynchronous(producer: InteractionProducer, place: Path) -> None:
    del place

    async def publish() -> None:
        async with producer:
            await producer.apublish(GIVEN)

    asyncio.run(publish())


def _submitted(producer: InteractionProducer, place: Path) -> None:
    del place
    assert producer.submit(GIVEN)
    assert producer.flush(30)


def _submitted_fields(producer: InteractionProducer, place: Path) -> None:
    del place
    assert producer.submit(GIVEN.model_dump())
    assert producer.flush(30)


def _of_a_file(producer: InteractionProducer, place: Path) -> None:
    file = place / "interactions.jsonl"
    file.write_bytes(GIVEN.encode())
    (batch,) = publish_file(producer, file, FileOptions(), rate=None)
    assert batch.counts()["published"] == 1


WAYS = [_published, _many, _asynchronous, _submitted, _submitted_fields, _of_a_file]


@pytest.mark.parametrize("publish", WAYS)
@pytest.mark.parametrize("salt", [None, SALT])
def test_every_way_of_publishing_stores_the_pseudonym_only(
    publish: Callable[[InteractionProducer, Path], None],
    salt: str | None,
    redis: Any,
    redis_url: str,
    tmp_path: Path,
) -> None:
    with InteractionProducer(settings=load_settings(redis_url=redis_url, user_id_salt=salt)) as producer:
        publish(producer, tmp_path)
    ((_, fields),) = redis.xrange(STREAM)
    stored = RagInteraction.decode(fields[DATA_FIELD])
    assert stored == GIVEN.model_copy(update={"user_id": hashed_user_id("alice@example.com", (salt or "").encode())})
    found = everything_in(redis)
    assert "batch-7" in found
    assert "alice" not in found
    assert SALT not in found


@pytest.mark.parametrize("publish", WAYS)
def test_by_setting_the_id_stays(
    publish: Callable[[InteractionProducer, Path], None], redis: Any, redis_url: str, tmp_path: Path
) -> None:
    with InteractionProducer(settings=load_settings(redis_url=redis_url, hash_user_ids=False)) as producer:
        publish(producer, tmp_path)
    ((_, fields),) = redis.xrange(STREAM)
    assert RagInteraction.decode(fields[DATA_FIELD]) == GIVEN


def test_an_odd_id_of_a_user_is_neither_in_the_log_nor_on_the_stream(
    redis: Any, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with InteractionProducer(redis_url) as producer:
        for number, user_id in enumerate(["alice\n", {"name": "alice"}, ["alice"], object]):
            assert producer.submit({**GIVEN.model_dump(), "interaction_id": str(number), "user_id": user_id})
    assert "alice" not in caplog.text
    entries = redis.xrange(STREAM)
    assert len(entries) == 4
    assert not any(b"alice" in fields[DATA_FIELD] for _, fields in entries)
