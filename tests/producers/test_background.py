"""`submit`: the application never waits, nothing is lost uncounted, and the end of the process sends the rest."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from redis import RedisError
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess

from ragtide import Dropped, InteractionProducer, InvalidEntryError, ProducerCounts, QueueFullError, RagInteraction
from ragtide.testing import interaction
from ragtide_producers.publishing import sending
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import partition_of
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_runtime.settings.model import Settings, load_settings

pytestmark = pytest.mark.processes

STREAMS = Streams("ragtide", 0)
NOWHERE = "redis://user:s3cret@127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again soon: a test's Redis comes back within the second."""
    monkeypatch.setattr(sending, "LONGEST_PAUSE_S", 0.1)
    monkeypatch.setattr(sending, "LONGEST_WAIT_FOR_ROOM_S", 0.1)


def settings(redis_url: str, cap: int = 1_000_000, partitions: int = 1, **producer: Any) -> Settings:
    return load_settings(redis_url=redis_url, interactions_cap=cap, partitions=partitions, producer=producer)


def ids(redis: Any, streams: Streams = STREAMS) -> list[str]:
    return [RagInteraction.decode(fields[b"data"]).interaction_id for _, fields in redis.xrange(streams.interactions)]


def dropped(redis: Any, streams: Streams = STREAMS) -> dict[str, int]:
    return {field.decode(): int(count) for field, count in redis.hgetall(streams.dropped).items()}


def adds_up(counts: ProducerCounts) -> bool:
    settled = counts.published + counts.duplicates + sum(counts.dropped.values())
    return counts.submitted == settled + counts.queued


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ragtide-producer"]


def test_what_is_submitted_is_in_the_stream_in_order_after_a_flush(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url) as producer:
        assert all(producer.submit(interaction(n)) for n in range(450))
        assert producer.flush(20)
        assert ids(redis) == [f"i-{n}" for n in range(450)]
        assert producer.counts == ProducerCounts(
            submitted=450, published=450, duplicates=0, dropped={}, queued=0, resent=0
        )


def test_an_id_that_is_there_is_a_duplicate(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url) as producer:
        producer.publish(interaction(1))
        producer.submit(interaction(1))
        producer.submit(interaction(2))
        producer.submit(interaction(2))
        assert producer.flush(20)
        assert (producer.counts.published, producer.counts.duplicates) == (1, 2)
    assert ids(redis) == ["i-1", "i-2"]


def test_closing_flushes_and_ends_the_thread_and_another_submit_starts_another(redis: Any, redis_url: str) -> None:
    producer = InteractionProducer(redis_url)
    assert threads() == []
    for n in range(2):
        producer.submit(interaction(n))
        assert len(threads()) == 1
        producer.close()
        assert threads() == []
    assert ids(redis) == ["i-0", "i-1"]
    assert producer.counts.published == 2


async def test_the_awaited_forms_flush_too(async_redis: Any, redis_url: str) -> None:
    async with InteractionProducer(redis_url) as producer:
        producer.submit(interaction(1))
        assert await producer.aflush(20)
        assert await async_redis.xlen(STREAMS.interactions) == 1
        producer.submit(interaction(2))
    assert await async_redis.xlen(STREAMS.interactions) == 2


def test_pipelines_go_to_their_partitions(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, partitions=4)) as producer:
        for n in range(40):
            producer.submit(interaction(n, pipeline=f"p-{n}"))
    for partition in range(4):
        expected = [f"i-{n}" for n in range(40) if partition_of(f"p-{n}", 4) == partition]
        assert expected
        assert ids(redis, Streams("ragtide", partition)) == expected


def test_many_threads_submit_and_the_counts_add_up_at_every_moment(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, queue=100)) as producer:
        taken: Counter[bool] = Counter()

        def submit(first: int) -> None:
            taken.update([producer.submit(interaction(n)) for n in range(first, first + 500)])

        writers = [threading.Thread(target=submit, args=(first,)) for first in range(0, 4000, 500)]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            counts = producer.counts
            assert adds_up(counts)
            assert counts.queued <= 100
        assert producer.flush(20)
        counts = producer.counts
    assert adds_up(counts)
    assert (counts.submitted, counts.queued) == (4000, 0)
    assert (counts.published, counts.dropped.get(Dropped.QUEUE_FULL, 0)) == (taken[True], taken[False])
    assert len(ids(redis)) == counts.published
    assert dropped(redis).get("queue_full", 0) == taken[False]


def test_a_redis_that_cannot_be_reached_fills_the_queue_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    producer = InteractionProducer(settings=settings(NOWHERE, queue=100, flush_s=0.0))
    assert [producer.submit(interaction(n)) for n in range(1000)] == [True] * 100 + [False] * 900
    assert producer.counts == ProducerCounts(1000, 0, 0, {Dropped.QUEUE_FULL: 900}, 100, 0)
    wait_until(lambda: caplog.records)
    assert not producer.flush(0.0)
    producer.close()
    assert producer.counts == ProducerCounts(1000, 0, 0, {Dropped.QUEUE_FULL: 900, Dropped.UNSENT: 100}, 0, 0)
    messages = [record.getMessage() for record in caplog.records if record.name == "ragtide.producer"]
    assert len(messages) == 2
    assert "127.0.0.1:1" in messages[0]
    assert messages[1].startswith("100 interactions were not sent")
    assert "s3cret" not in caplog.text


def test_an_outage_is_logged_once_however_long_it_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "LONGEST_PAUSE_S", 0.001)
    tries: list[str] = []

    def refuses(url: str, _: Path, **__: object) -> None:
        tries.append(url)
        raise ConnectionRefusedError("not there")

    monkeypatch.setattr(sending, "resolve_redis", refuses)
    with InteractionProducer(settings=settings(NOWHERE, flush_s=0.0)) as producer:
        producer.submit(interaction(1))
        wait_until(lambda: len(tries) > 50)
        assert len(caplog.records) == 1


@pytest.mark.parametrize("url", ["htp://nonsense", "redis://", "redis://host:notaport/0"])
def test_a_malformed_url_is_said_once_and_costs_the_application_nothing(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with InteractionProducer(settings=settings(url, flush_s=0.0)) as producer:
        assert producer.submit(interaction(1))
        wait_until(lambda: "not a Redis URL" in caplog.text)
    assert producer.counts.dropped == {Dropped.UNSENT: 1}


def test_texts_bound_the_queue_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragtide_producers.publishing.background.QUEUE_BYTES", 1_000_000)
    with InteractionProducer(settings=settings(NOWHERE, flush_s=0.0)) as producer:
        large = [producer.submit(interaction(n, documents=["x" * 300_000])) for n in range(5)]
        assert large == [True] * 3 + [False] * 2
        assert producer.submit(interaction(5))


def test_a_redis_that_stands_still_holds_nobody_up(tmp_path: Path) -> None:
    with RedisProcess(tmp_path, "save ''") as server:
        producer = InteractionProducer(settings=settings(server.url, queue=500, flush_s=0.2))
        producer.submit(interaction(0))
        assert producer.flush(20)
        server.signal(signal.SIGSTOP)
        try:
            # Would one submit wait for a reply, this would take the socket's timeout, 30 s.
            started = time.monotonic()
            assert sum(producer.submit(interaction(n)) for n in range(1, 1001)) == 500
            producer.close()
            assert time.monotonic() - started < 25
        finally:
            server.signal(signal.SIGCONT)
        counts = producer.counts
        assert (counts.published, counts.dropped) == (1, {Dropped.QUEUE_FULL: 500, Dropped.UNSENT: 500})
        # The reply that comes after all changes nothing that was counted.
        wait_until(lambda: threads() == [])
        assert producer.counts == counts


async def test_the_event_loop_goes_on_while_redis_stands_still(tmp_path: Path) -> None:
    with RedisProcess(tmp_path, "save ''") as server:
        async with InteractionProducer(settings=settings(server.url, flush_s=0.2)) as producer:
            producer.submit(interaction(0))
            assert await producer.aflush(20)
            server.signal(signal.SIGSTOP)
            producer.submit(interaction(1))
            flushing = asyncio.create_task(producer.aflush(60))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not flushing.done()
            server.signal(signal.SIGCONT)
            assert await flushing
        assert producer.counts.published == 2


def test_what_was_held_during_an_outage_is_sent_when_it_is_over(tmp_path: Path) -> None:
    server = RedisProcess(tmp_path, "save ''")
    with InteractionProducer(settings=settings(server.url, queue=10)) as producer:
        for n in range(15):
            producer.submit(interaction(n))
        with server:
            assert producer.flush(20)
            with connect(server.url) as redis:
                assert ids(redis) == [f"i-{n}" for n in range(10)]
                assert dropped(redis) == {"queue_full": 5}


def test_a_full_stream_is_waited_for_in_the_background_and_then_the_queue_fills(
    redis: Any, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with InteractionProducer(settings=settings(redis_url, cap=10, queue=20)) as producer:
        for n in range(10):
            producer.submit(interaction(n))
        assert producer.flush(20)
        for n in range(10, 40):
            producer.submit(interaction(n))
        wait_until(lambda: "ragtide:{0}:interactions is full" in caplog.text)
        assert producer.counts.dropped == {Dropped.QUEUE_FULL: 10}
        assert redis.xlen(STREAMS.interactions) == 10
        for _ in range(2):
            wait_until(lambda: redis.xlen(STREAMS.interactions) == 10)
            redis.xtrim(STREAMS.interactions, maxlen=0, approximate=False)
        assert producer.flush(20)
        assert producer.counts.published == 30
    assert dropped(redis) == {"queue_full": 10}


@pytest.mark.parametrize("policy", ["drop_new", "sample"])
def test_what_the_policy_drops_is_counted_here_and_there(policy: str, redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, cap=10, policy=policy)) as producer:
        for n in range(100):
            producer.submit(interaction(n))
        assert producer.flush(20)
        counts = producer.counts
    assert adds_up(counts)
    assert counts.published == redis.xlen(STREAMS.interactions) <= 10
    assert dropped(redis) == {policy: 100 - counts.published}
    assert counts.dropped == {Dropped(policy): 100 - counts.published}


def test_what_is_no_interaction_is_counted_and_stops_nothing(
    redis: Any, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with InteractionProducer(redis_url) as producer:
        for bad in ("text", 3):
            assert not producer.submit(bad)  # type: ignore[arg-type]
        assert producer.submit(interaction(1, documents=["x" * 900_000] * 6))  # seen when it is encoded
        assert producer.submit(interaction(2))
        assert producer.flush(20)
        assert producer.counts.dropped == {Dropped.INVALID: 3}
    assert (ids(redis), dropped(redis)) == (["i-2"], {"invalid": 3})
    first, second = (record.getMessage() for record in caplog.records)
    assert "got a str: give a RagInteraction, a dict or keyword fields" in first
    assert "interaction i-1 has" in second
    assert "send fewer or shorter documents" in second


def test_an_interaction_is_taken_as_a_dict_or_as_keyword_fields(redis: Any, redis_url: str) -> None:
    fields = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": ""}
    with InteractionProducer(redis_url) as producer:
        assert producer.submit({**fields, "interaction_id": "i-0"})
        assert producer.submit(**fields, interaction_id="i-1")
        assert producer.submit(fields, interaction_id="i-2", documents=[])
        assert producer.flush(20)
    assert ids(redis) == ["i-0", "i-1", "i-2"]


@pytest.mark.parametrize(
    "mistake",
    [
        (None, {}, "pipeline is missing: add it; question is missing: add it"),
        ({"pipeline": "shop"}, {"question": "q", "documents": ["d"]}, "response is missing: add it"),
        (None, {"pipeline": "s", "question": "", "documents": [], "response": ""}, "question must not be empty"),
        (None, {"pipeline": "s", "question": "q", "documents": [], "respnse": "r"}, "respnse is not a field of this"),
        ({1: 2}, {}, "pipeline is missing"),
        (interaction(1), {"pipeline": "other"}, "give one or the other"),
        (None, {"pipeline": "\x00", "question": "q", "documents": [], "response": "r"}, "pipeline"),
    ],
)
def test_submit_never_raises_and_counts_what_is_invalid(
    mistake: tuple[Any, dict[str, Any], str], redis: Any, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    given, fields, said = mistake
    with InteractionProducer(redis_url) as producer:
        assert [producer.submit(given, **fields) for _ in range(100)] == [False] * 100
        assert producer.flush(20)
        counts = producer.counts
    assert (counts.submitted, counts.dropped) == (100, {Dropped.INVALID: 100})
    assert adds_up(counts)
    assert dropped(redis) == {"invalid": 100}
    (record,) = caplog.records
    assert said in record.getMessage()


def test_many_kinds_of_mistakes_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with InteractionProducer(settings=settings(NOWHERE, flush_s=0.0)) as producer:
        for n in range(1000):
            assert not producer.submit({f"field_{n}": 1})
        assert producer.counts.dropped == {Dropped.INVALID: 1000}
    assert sum("invalid and dropped" in record.getMessage() for record in caplog.records) == 20


def test_counts_that_redis_refuses_hold_up_no_interaction(redis: Any, redis_url: str) -> None:
    redis.set(STREAMS.dropped, "not a hash")
    with InteractionProducer(settings=settings(redis_url, flush_s=0.0)) as producer:
        producer.submit()
        wait_until(lambda: producer.counts.dropped)
        for n in range(3):
            producer.submit(interaction(n))
            wait_until(lambda n=n: len(ids(redis)) == n + 1)  # type: ignore[misc]
        assert not producer.flush(0.0)
        redis.delete(STREAMS.dropped)
        assert producer.flush(20)
    assert dropped(redis) == {"invalid": 1}


def test_a_strict_producer_raises_what_others_count() -> None:
    with InteractionProducer(settings=settings(NOWHERE, queue=1, flush_s=0.0), strict=True) as producer:
        with pytest.raises(InvalidEntryError, match="interaction i-0 has"):
            producer.submit(interaction(0, documents=["x" * 900_000] * 6))
        assert producer.submit(interaction(1))
        with pytest.raises(QueueFullError, match="check that Redis can be reached"):
            producer.submit(interaction(2))
        for moment in (45413.5, "1999-12-31T00:00:00Z", datetime(1999, 12, 31, tzinfo=UTC)):
            with pytest.raises(InvalidEntryError, match=r"^occurred_at is "):
                producer.submit(pipeline="p", question="q", documents=["d"], response="r", occurred_at=moment)
    assert producer.counts.dropped == {Dropped.QUEUE_FULL: 1, Dropped.UNSENT: 1}


def test_what_is_given_up_is_told_to_a_redis_that_answers(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, cap=1, flush_s=0.05)) as producer:
        for n in range(4):
            producer.submit(interaction(n))
        wait_until(lambda: redis.xlen(STREAMS.interactions) == 1)
    assert (producer.counts.published, producer.counts.dropped) == (1, {Dropped.UNSENT: 3})
    assert dropped(redis) == {"unsent": 3}


def test_the_end_of_the_process_flushes(redis: Any, redis_url: str) -> None:
    script = _script("for n in range(500): producer.submit(interaction(n))")
    done = run_script(script, redis_url)
    assert (done.returncode, done.stderr) == (0, "")
    assert ids(redis) == [f"i-{n}" for n in range(500)]


def test_the_end_of_the_process_flushes_into_an_embedded_redis_too(tmp_path: Path) -> None:
    done = run_script(_script("producer.submit(interaction(1))"), None)
    assert (done.returncode, done.stderr) == (0, "")
    with InteractionProducer() as producer:
        assert not producer.publish(interaction(1)).added


def test_the_end_of_the_process_waits_only_so_long_and_says_what_it_gives_up() -> None:
    done = run_script(
        _script("for n in range(5): producer.submit(interaction(n))"), NOWHERE, RAGTIDE_PRODUCER_FLUSH_S="0.2"
    )
    assert done.returncode == 0
    assert "5 interactions were not sent within 0.2 s and are dropped" in done.stderr


def test_a_forked_child_sends_its_own_and_nothing_of_its_parent(redis: Any, redis_url: str) -> None:
    body = """
for n in range(300): producer.submit(interaction(n))
child = os.fork()
if child == 0:
    assert producer.counts.submitted == 0, producer.counts
    for n in range(1000, 1300): producer.submit(interaction(n))
    assert producer.flush(20)
    assert producer.counts.published == 300, producer.counts
else:
    assert os.waitpid(child, 0)[1] == 0
    for n in range(300, 400): producer.submit(interaction(n))
    assert producer.flush(20)
    assert (producer.counts.submitted, producer.counts.published) == (400, 400), producer.counts
"""
    done = run_script(_script(body), redis_url)
    assert done.returncode == 0, done.stderr
    assert sorted(ids(redis)) == sorted(f"i-{n}" for n in [*range(400), *range(1000, 1300)])


def test_a_child_delivers_whatever_other_threads_did_at_the_fork(redis: Any, redis_url: str) -> None:
    body = """
import threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of every fork beside threads
stop = threading.Event()
def submitting():
    while not stop.is_set():
        producer.submit(interaction(0))
def making():
    while not stop.is_set():
        with InteractionProducer() as another:
            another.publish(interaction(0))
for work in (submitting, submitting, making): threading.Thread(target=work, daemon=True).start()
producer.publish(interaction(0))
for n in range(20):
    child = os.fork()
    if child == 0:
        assert producer.submit(interaction(1000 + n)) and producer.publish(interaction(2000 + n)).added
        assert producer.flush(60), producer.counts
        assert (producer.counts.submitted, producer.counts.published) == (1, 1), producer.counts
        os._exit(0)
    for _ in range(6000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done: break
        time.sleep(0.01)
    assert done and status == 0, (n, done, status)
stop.set()
"""
    done = run_script(_script(body), redis_url)
    assert done.returncode == 0, done.stderr
    found = ids(redis)
    assert sorted(found) == sorted({"i-0", *(f"i-{base + n}" for base in (1000, 2000) for n in range(20))})


def test_a_child_reads_no_script_lock_of_its_parent(redis: Any, redis_url: str) -> None:
    """The fork comes while the parent reads its script files for the first time."""
    body = """
import pathlib, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
real, reading = pathlib.Path.read_text, threading.Event()
def slow(self, *arguments, **options):
    if self.suffix == ".lua":
        reading.set(); time.sleep(0.3)
    return real(self, *arguments, **options)
pathlib.Path.read_text = slow
producer.submit(interaction(1))
assert reading.wait(60)
child = os.fork()
if child == 0:
    for _ in range(4): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    producer.submit(interaction(2))
    os._exit(0 if producer.flush(60) else 1)
assert os.waitpid(child, 0)[1] == 0
assert producer.flush(60)
"""
    done = run_script(_script(body), redis_url)
    assert done.returncode == 0, done.stderr
    assert sorted(ids(redis)) == ["i-1", "i-2"]


IMPORTS = """
import logging, sys, threading
from ragtide import InteractionProducer
from ragtide_runtime.processes.forks import NOT_FORKING
unsafe, tried = set(), threading.Event()
class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread() and not NOT_FORKING._lock._is_owned():
            unsafe.add(name)
class Warned(logging.Handler):
    def emit(self, record): tried.set()
sys.meta_path.insert(0, Watch())
logging.getLogger("ragtide.producer").addHandler(Warned())
producer = InteractionProducer()
producer.submit(interaction_id="i-1", pipeline="shop", question="q", documents=["d"], response="r")
producer.submit_feedback(pipeline="shop", interaction_id="i-1", gold_scores={"trace.adherence": 1.0})
while not producer.flush(0.1) and not tried.wait(0.1): pass
print(producer.counts.published + producer.feedback_counts.published, *sorted(unsafe & sys.modules.keys()))
"""
"""Prints which modules the threads of a producer import while a fork would not wait for them."""


@pytest.mark.parametrize(
    "address",
    [
        "the server",
        "embedded",
        "redis://localhost:1",
        "rediss://localhost:1",
        "unix:///nowhere.sock",
        "redis+cluster://localhost:1",
        "redis+sentinel://localhost:1/master",
    ],
)
def test_a_fork_waits_for_every_import_of_the_threads(redis_url: str, address: str) -> None:
    """A child would wait for ever for a module that its parent's thread was importing."""
    urls = {"the server": redis_url, "embedded": None}
    done = run_script(IMPORTS, urls.get(address, address), RAGTIDE_PRODUCER_FLUSH_S="0.1")
    assert done.stdout.split() == ["2" if address in urls else "0"], done.stdout + done.stderr


MULTIPROCESSING = """
import multiprocessing, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from ragtide import InteractionProducer
def item(n):
    return {"interaction_id": f"i-{n}", "pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}
def work(producer, n):
    producer.submit(item(n))
if __name__ == "__main__":
    producer = InteractionProducer()
    producer.submit(item(0))
    assert producer.flush(60)
    for number, method in enumerate(("fork", "spawn", "forkserver"), 1):
        child = multiprocessing.get_context(method).Process(target=work, args=(producer, number))
        child.start()
        child.join()
        assert child.exitcode == 0, (method, child.exitcode)
"""


def test_the_end_of_a_child_of_multiprocessing_sends_its_queue(redis: Any, redis_url: str, tmp_path: Path) -> None:
    script = tmp_path / "children.py"
    script.write_text(MULTIPROCESSING, encoding="utf-8")
    environment = {**os.environ, "RAGTIDE_REDIS_URL": redis_url}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(ids(redis)) == ["i-0", "i-1", "i-2", "i-3"]


def test_a_child_of_multiprocessing_says_what_it_could_not_send(tmp_path: Path) -> None:
    script = tmp_path / "children.py"
    body = MULTIPROCESSING.replace("    assert producer.flush(60)\n", "").replace(
        '("fork", "spawn", "forkserver")', '("fork",)'
    )
    script.write_text(body, encoding="utf-8")
    environment = {**os.environ, "RAGTIDE_REDIS_URL": NOWHERE, "RAGTIDE_PRODUCER_FLUSH_S": "0.2"}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stderr.count("1 interactions were not sent within 0.2 s and are dropped") == 2
    assert "s3cret" not in done.stderr


def _script(body: str) -> str:
    return f"""
import os
from ragtide import InteractionProducer, RagInteraction
def interaction(n):
    return RagInteraction(interaction_id=f"i-{{n}}", pipeline="shop", question="q", documents=["d"], response="r")
producer = InteractionProducer()
{body}
"""


def run_script(script: str, redis_url: str | None, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **environment} | ({"RAGTIDE_REDIS_URL": redis_url} if redis_url else {})
    return subprocess.run(
        [sys.executable, "-c", script], env=given, capture_output=True, text=True, timeout=300, check=False
    )


def lose_replies(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Make Redis do as it is told, but lose its first replies."""
    send, left = run_scripts_blocking, [True] * count

    def loses_the_reply(*arguments: Any) -> Any:
        replies = send(*arguments)
        if left:
            left.pop()
            raise RedisError("the connection was lost")
        return replies

    monkeypatch.setattr("ragtide_producers.publishing.sending.run_scripts_blocking", loses_the_reply)


def test_a_lost_reply_makes_no_duplicates(redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_replies(monkeypatch, 2)
    with InteractionProducer(redis_url) as producer:
        for n in range(10):
            producer.submit(interaction(n))
        assert producer.flush(20)
        assert (producer.counts.published, producer.counts.duplicates) == (10, 0)
    assert ids(redis) == [f"i-{n}" for n in range(10)]


def test_a_lost_reply_of_a_stream_that_became_full_leaves_the_counts_right(
    redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_replies(monkeypatch, 2)
    full = load_settings(redis_url=redis_url, interactions_cap=6, producer={"policy": "drop_new"})
    with InteractionProducer(settings=full) as producer:
        for n in (*range(8), 2, 8):
            producer.submit(interaction(n))
        assert producer.flush(20)
        counts = producer.counts
    assert (counts.published, counts.duplicates, counts.dropped) == (6, 1, {Dropped.DROP_NEW: 3})
    assert ids(redis) == [f"i-{n}" for n in range(6)]


def test_a_mistake_of_ours_does_not_end_the_thread(
    redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    send, failing = run_scripts_blocking, [True, True]

    def fails_twice(*arguments: Any) -> Any:
        if failing:
            failing.pop()
            raise ValueError("a mistake")
        return send(*arguments)

    monkeypatch.setattr("ragtide_producers.publishing.sending.run_scripts_blocking", fails_twice)
    with InteractionProducer(redis_url) as producer:
        producer.submit(interaction(1))
        assert producer.flush(20)
    assert ids(redis) == ["i-1"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_long_history_is_cut_to_its_last_turns(redis: Any, redis_url: str) -> None:
    turns = [{"question": f"q-{n}", "response": "r"} for n in range(25)]
    with InteractionProducer(redis_url, strict=True) as producer:
        assert producer.submit(pipeline="p", question="And?", documents=[], response="r", history=turns)
        assert producer.flush(20)
    [(_, fields)] = redis.xrange(STREAMS.interactions)
    found = RagInteraction.decode(fields[b"data"])
    assert [turn.question for turn in found.history or ()] == [f"q-{n}" for n in range(5, 25)]


@pytest.mark.parametrize("strict", [False, True])
def test_a_submitted_interaction_is_encoded_once(
    redis: Any, redis_url: str, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []
    encode = RagInteraction.encode

    def counted(item: RagInteraction) -> bytes:
        encoded.append(item.interaction_id)
        return encode(item)

    monkeypatch.setattr(RagInteraction, "encode", counted)
    with InteractionProducer(redis_url, strict=strict) as producer:
        assert producer.submit(interaction(1))
        assert producer.flush(20)
    assert ids(redis) == encoded == ["i-1"]
