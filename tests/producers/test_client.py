import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from redis.connection import Connection
from tests.support.conditions import wait_until
from tests.support.one_address import OneAddress
from tests.support.redis_processes import RedisProcess

from ragtide import Feedback, InteractionProducer, InvalidEntryError, RagInteraction, RedisUnavailable
from ragtide.testing import interaction, interactions
from ragtide_producers.publishing.batch_publisher import BATCH
from ragtide_producers.publishing.routes import InteractionRoute
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.layout import partition_of
from ragtide_runtime.settings.model import load_settings

pytestmark = pytest.mark.processes

STREAM = Streams("ragtide", 0).interactions


def test_publishing_adds_one_entry_with_one_field(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url) as producer:
        publication = producer.publish(interaction())
    ((entry_id, fields),) = redis.xrange(STREAM)
    assert (publication.added, publication.entry_id) == (True, entry_id.decode())
    assert list(fields) == [DATA_FIELD]
    assert RagInteraction.decode(fields[DATA_FIELD]) == interaction(occurred_at=_time(fields))


def _time(fields: Any) -> Any:
    return RagInteraction.decode(fields[DATA_FIELD]).occurred_at


def test_the_same_id_again_adds_nothing_and_names_the_first_entry(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url) as producer:
        first = producer.publish(interaction())
        second = producer.publish(interaction(response="another"))
    assert (second.added, second.entry_id) == (False, first.entry_id)
    assert redis.xlen(STREAM) == 1


def test_the_same_id_in_another_pipeline_is_another_interaction(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url) as producer:
        assert producer.publish(interaction(pipeline="a")).added
        assert producer.publish(interaction(pipeline="b")).added
    assert redis.xlen(STREAM) == 2


def test_after_the_window_an_id_is_new_again(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url, dedupe_window_s=0.05) as producer:
        producer.publish(interaction())
        wait_until(lambda: producer.publish(interaction()).added)
    assert redis.xlen(STREAM) == 2


def test_a_batch_keeps_its_order_beyond_one_round_trip(redis: Any, redis_url: str) -> None:
    names = [f"i-{number}" for number in range(450)]
    with InteractionProducer(redis_url) as producer:
        publications = producer.publish_many(interaction(interaction_id=name) for name in names)
    assert [publication.interaction_id for publication in publications] == names
    stored = [RagInteraction.decode(fields[DATA_FIELD]).interaction_id for _, fields in redis.xrange(STREAM)]
    assert stored == names


def test_nulls_and_blanks_are_left_out_however_they_are_submitted(redis: Any, redis_url: str) -> None:
    needed = {
        "pipeline": "shop",
        "question": "q",
        "documents": [{"text": "d", "id": None, "metadata": None}],
        "response": "r",
    }
    nulls = dict.fromkeys(RagInteraction.model_fields.keys() - needed.keys())
    with InteractionProducer(redis_url) as producer:
        assert producer.submit(**needed, **nulls)
        assert producer.submit({**needed, **nulls})
        assert producer.submit({**needed, **dict.fromkeys(nulls, "")})
        assert producer.submit(RagInteraction(**needed, **nulls))
        assert producer.publish(RagInteraction(**needed, **nulls)).added
        scores = {"pipeline": "shop", "interaction_id": "i", "gold_scores": {"trace.adherence": 1.0}}
        assert producer.submit_feedback(**scores, given_at=None, metadata=None, annotator="", schema_version=None)
        assert producer.flush()
    assert redis.xlen(STREAM) == 5
    assert redis.xlen(Streams("ragtide", 0).feedback) == 1


async def test_many_tasks_publishing_one_id_add_one_entry(async_redis: Any, redis_url: str) -> None:
    async with InteractionProducer(redis_url) as producer:
        publications = await asyncio.gather(*(producer.apublish(interaction()) for _ in range(40)))
    assert sum(publication.added for publication in publications) == 1
    assert len({publication.entry_id for publication in publications}) == 1
    assert await async_redis.xlen(STREAM) == 1


async def test_one_producer_serves_both_kinds_of_code(async_redis: Any, redis_url: str) -> None:
    async with InteractionProducer(redis_url) as producer:
        assert (await producer.apublish_many(interactions(2)))[1].added
        assert not producer.publish(interaction()).added
    assert await async_redis.xlen(STREAM) == 2


async def test_feedback_goes_to_the_partition_of_its_pipeline_in_both_kinds_of_code(
    async_redis: Any, redis_url: str
) -> None:
    grades = [
        Feedback(pipeline=name, interaction_id=f"i-{number}", gold_scores={"trace.adherence": 1.0})
        for number, name in enumerate(("a", "b", "c", "a"))
    ]
    async with InteractionProducer(redis_url, partitions=4) as producer:
        assert await producer.apublish_feedback(grades) == 4
        assert await asyncio.to_thread(producer.publish_feedback, grades) == 4
    for name in "abc":
        stream = Streams("ragtide", partition_of(name, 4)).feedback
        found = [Feedback.decode(fields[DATA_FIELD]) for _, fields in await async_redis.xrange(stream)]
        assert [one for one in found if one.pipeline == name] == [
            grade for grade in grades if grade.pipeline == name
        ] * 2


def test_pipelines_go_to_their_partitions(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url, partitions=4, prefix="mine") as producer:
        for number in range(20):
            producer.publish(interaction(interaction_id=f"i-{number}", pipeline=f"p-{number}"))
    for partition in range(4):
        for _, fields in redis.xrange(Streams("mine", partition).interactions):
            assert partition_of(RagInteraction.decode(fields[DATA_FIELD]).pipeline, 4) == partition
    assert sum(redis.xlen(Streams("mine", partition).interactions) for partition in range(4)) == 20


def test_each_partition_takes_one_call_for_a_batch(redis: Any, redis_url: str) -> None:
    batch = [interaction(interaction_id=f"i-{number}", pipeline=f"p-{number % 20}") for number in range(160)]
    with InteractionProducer(redis_url, partitions=4) as producer:
        producer.publish(interaction(interaction_id="first"))  # loads the script
        redis.config_resetstat()
        publications = producer.publish_many(batch)
    assert [publication.interaction_id for publication in publications] == [one.interaction_id for one in batch]
    assert all(publication.added for publication in publications)
    assert redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 4


def test_a_batch_of_large_interactions_takes_more_calls(redis: Any, redis_url: str) -> None:
    large = [interaction(number, documents=["x" * 900_000] * 2) for number in range(5)]
    with InteractionProducer(redis_url) as producer:
        producer.publish(interaction(interaction_id="first"))
        redis.config_resetstat()
        assert all(publication.added for publication in producer.publish_many(large))
    assert redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 3


@pytest.mark.parametrize("kind", ["blocking", "asynchronous"])
async def test_after_a_lost_reply_all_is_published_again_and_nothing_is_there_twice(kind: str, tmp_path: Path) -> None:
    batch = interactions(2 * BATCH + 200)
    lengths: list[int] = []
    with RedisProcess(tmp_path, "save ''") as server, connect(server.url) as redis:

        async def publish(producer: InteractionProducer) -> int:
            if kind == "blocking":
                found = await asyncio.to_thread(producer.publish_many, batch)
            else:
                found = await producer.apublish_many(batch)
            return sum(publication.added for publication in found)

        with InteractionProducer(server.url) as producer:
            producer.publish(batch[7])
        # The first connection looks at the server, the second publishes.
        for replies in range(10):
            with OneAddress(server.port, cut_after=(100, replies)) as address:
                async with InteractionProducer(address.url) as producer:
                    try:
                        await publish(producer)
                    except RedisUnavailable:
                        lengths.append(redis.xlen(STREAM))
                        # The server may still work on a call that was sent before the loss was noticed.
                        assert await publish(producer) <= len(batch) - lengths[-1]
                        assert redis.xlen(STREAM) == len(batch)
                        redis.xtrim(STREAM, maxlen=0)
                        redis.delete(*redis.scan_iter(match="*owner*"))
        stored = [RagInteraction.decode(fields[DATA_FIELD]).interaction_id for _, fields in redis.xrange(STREAM)]
    assert len(stored) == len(set(stored))
    assert min(lengths) == 0, "lost before the first call"
    assert max(lengths) >= BATCH, "lost with the reply of a call"


def test_a_batch_that_is_cut_on_its_way_is_not_in_the_stream(tmp_path: Path) -> None:
    batch = interactions(200)
    route = InteractionRoute.of(load_settings())
    call = route.call([route.command(one) for one in batch])
    with RedisProcess(tmp_path, "save ''") as server, InteractionProducer(server.url) as producer:
        producer.publish(interaction(1000))  # loads the script
        connection: Any = Connection
        command = b"".join(connection().pack_command(*call.command()))
        with socket.create_connection(("127.0.0.1", server.port)) as sending:
            sending.sendall(command[: len(command) // 2])
        assert all(publication.added for publication in producer.publish_many(batch))
        with connect(server.url) as redis:
            assert redis.xlen(STREAM) == 201


def test_an_interaction_too_large_for_one_entry_is_refused_and_its_batch_not_sent(redis: Any, redis_url: str) -> None:
    large = interaction(interaction_id="large", documents=["x" * 900_000] * 6)
    with InteractionProducer(redis_url) as producer, pytest.raises(InvalidEntryError, match="interaction large has"):
        producer.publish_many([interaction(interaction_id="small"), large])
    assert redis.xlen(STREAM) == 0


def test_a_redis_that_is_not_there_is_named_without_its_password() -> None:
    url = "redis://user:s3cret@127.0.0.1:1/0"
    with InteractionProducer(url) as producer, pytest.raises(RedisUnavailable, match=r"127\.0\.0\.1:1") as caught:
        producer.publish(interaction())
    assert "s3cret" not in str(caught.value)


def test_scripts_that_redis_forgot_are_sent_again(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url) as producer:
        producer.publish(interaction(interaction_id="a"))
        redis.script_flush()
        assert producer.publish(interaction(interaction_id="b")).added


def test_without_a_url_a_redis_of_this_machine_is_used_and_stopped() -> None:
    with InteractionProducer() as producer:
        assert producer.publish(interaction()).added
    with InteractionProducer() as producer:
        assert not producer.publish(interaction()).added


def test_publishing_needs_none_of_the_service_libraries() -> None:
    code = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numpy", "scipy", "faststream", "typer", "rich", "structlog", "sentencex"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from ragtide import InteractionProducer, RagInteraction, RedisUnavailable
InteractionProducer("redis://127.0.0.1:1")
try:
    from ragtide import LocalLabeler
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'ragtide[service]'" in done.stdout
