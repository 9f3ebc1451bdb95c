"""`submit_feedback`: as safe in a request path as `submit`."""

import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import redis.connection
from tests.producers.test_background import NOWHERE, adds_up, dropped, lose_replies, run_script, settings
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess

from ragtide import Dropped, Feedback, InteractionProducer, InvalidEntryError, ProducerCounts, QueueFullError
from ragtide.testing import interaction
from ragtide_producers.publishing import sending
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.layout import partition_of

pytestmark = pytest.mark.processes

STREAMS = Streams("ragtide", 0)
THUMB = {"trace.adherence": 1.0}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LONGEST_PAUSE_S", 0.1)


def feedback(number: int, pipeline: str = "shop") -> Feedback:
    return Feedback(pipeline=pipeline, interaction_id=f"i-{number}", gold_scores=THUMB)


def given(client: Any, streams: Streams = STREAMS) -> list[str]:
    return [Feedback.decode(fields[b"data"]).interaction_id for _, fields in client.xrange(streams.feedback)]


def test_feedback_is_in_its_stream_after_a_flush_in_whatever_form_it_is_given(redis: Any, redis_url: str) -> None:
    with InteractionProducer(redis_url) as producer:
        assert producer.submit_feedback(feedback(0))
        assert producer.submit_feedback({"pipeline": "shop", "interaction_id": "i-1", "gold_scores": THUMB})
        assert producer.submit_feedback(pipeline="shop", interaction_id="i-2", gold_scores=THUMB)
        assert producer.flush(20)
        assert given(redis) == ["i-0", "i-1", "i-2"]
        assert producer.feedback_counts == ProducerCounts(
            submitted=3, published=3, duplicates=0, dropped={}, queued=0, resent=0
        )
        assert producer.counts.submitted == 0


def test_feedback_goes_to_the_partition_of_its_interactions_pipeline(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, partitions=4)) as producer:
        for name in ("shop", "help", "search"):
            producer.submit(interaction(1, pipeline=name))
            producer.submit_feedback(feedback(1, name))
        assert producer.flush(20)
    for name in ("shop", "help", "search"):
        streams = Streams("ragtide", partition_of(name, 4))
        assert redis.xlen(streams.feedback) == redis.xlen(streams.interactions) > 0


def test_a_frozen_redis_is_never_waited_for_by_the_thread_that_submits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talking: set[int] = set()
    read_response = redis.connection.Connection.read_response

    def noted(self: Any, *arguments: Any, **options: Any) -> Any:
        talking.add(threading.get_ident())
        return read_response(self, *arguments, **options)

    with RedisProcess(tmp_path, "save ''") as server:
        monkeypatch.setattr(redis.connection.Connection, "read_response", noted)
        producer = InteractionProducer(settings=settings(server.url, queue=500, flush_s=0.2))
        assert producer.submit_feedback(feedback(0))
        assert producer.flush(20)
        server.signal(signal.SIGSTOP)
        try:
            assert sum(producer.submit_feedback(feedback(n)) for n in range(1, 1001)) == 500
            # The queue of feedback is full, that of interactions is not.
            assert producer.submit(interaction(1))
            producer.close()
        finally:
            server.signal(signal.SIGCONT)
        counts = producer.feedback_counts
    assert talking
    assert threading.get_ident() not in talking
    assert (counts.published, counts.dropped) == (1, {Dropped.QUEUE_FULL: 500, Dropped.UNSENT: 500})
    assert adds_up(counts)


def test_what_was_held_while_redis_was_absent_is_sent_when_it_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisProcess(tmp_path, "save ''")
    with InteractionProducer(settings=settings(server.url, queue=10)) as producer:
        for n in range(15):
            producer.submit_feedback(feedback(n))
        wait_until(lambda: "feedback items are queued" in caplog.text)
        with server:
            assert producer.flush(20)
            with connect(server.url) as client:
                assert given(client) == [f"i-{n}" for n in range(10)]
                assert dropped(client) == {"feedback": 5}
    assert caplog.text.count("cannot be used") == 1


def test_what_redis_confirmed_and_lost_is_sent_again(tmp_path: Path) -> None:
    with (
        RedisProcess(tmp_path, "save ''") as server,
        InteractionProducer(settings=settings(server.url, resend_s=60)) as producer,
    ):
        for n in range(300):
            producer.submit_feedback(feedback(n))
        assert producer.flush(20)
        server.kill()
        server.start()
        producer.submit_feedback(feedback(300))
        wait_until(lambda: producer.feedback_counts.resent == 300)
        assert producer.flush(20)
        with connect(server.url) as client:
            assert sorted(given(client)) == sorted(f"i-{n}" for n in range(301))
        assert producer.feedback_counts.published == 301


def test_what_the_aggregator_has_trimmed_is_not_sent_again(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, resend_s=60)) as producer:
        for n in range(10):
            producer.submit_feedback(feedback(n))
        assert producer.flush(20)
        redis.xtrim(STREAMS.feedback, maxlen=0, approximate=False)
        producer.submit_feedback(feedback(10))
        assert producer.flush(20)
        assert producer.feedback_counts.resent == 0
    assert given(redis) == ["i-10"]
    (mark, *_) = redis.keys("ragtide:{0}:feedback-probe:*")
    assert 0 < redis.ttl(mark) <= 600


def test_a_lost_reply_makes_no_second_entry(redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_replies(monkeypatch, 1)
    with InteractionProducer(redis_url) as producer:
        producer.submit_feedback(feedback(0))
        assert producer.flush(20)
        assert (producer.feedback_counts.published, producer.feedback_counts.duplicates) == (1, 0)
    assert given(redis) == ["i-0"]


def test_invalid_feedback_is_counted_and_said_once(
    redis: Any, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with InteractionProducer(redis_url) as producer:
        for _ in range(50):
            assert not producer.submit_feedback(
                pipeline="shop", interaction_id="i-1", gold_scores={"trace.adherence": 7}
            )
        assert not producer.submit_feedback(interaction(1))  # type: ignore[arg-type]
        assert producer.flush(20)
        assert producer.feedback_counts.dropped == {Dropped.INVALID: 51}
    assert dropped(redis) == {"feedback": 51}
    first, second = (record.getMessage() for record in caplog.records)
    assert "gold_scores.trace.adherence is 7" in first
    assert "got a RagInteraction: give a Feedback, a dict or keyword fields" in second


def test_a_strict_producer_raises_what_others_count() -> None:
    with InteractionProducer(settings=settings(NOWHERE, queue=1, flush_s=0.0), strict=True) as producer:
        with pytest.raises(InvalidEntryError, match="gold_scores is missing"):
            producer.submit_feedback(pipeline="shop", interaction_id="i-1")
        assert producer.submit_feedback(feedback(1))
        with pytest.raises(QueueFullError, match=r"is full \(1 feedback items"):
            producer.submit_feedback(feedback(2))


def test_the_end_of_the_process_sends_feedback_and_a_forked_child_only_its_own(redis: Any, redis_url: str) -> None:
    script = """
import os, warnings
from ragtide import InteractionProducer
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of every fork beside threads
producer = InteractionProducer()
def give(n): producer.submit_feedback(pipeline="shop", interaction_id=f"i-{n}", gold_scores={"trace.adherence": 1.0})
for n in range(100): give(n)
child = os.fork()
for n in range(1000, 1100) if child == 0 else range(100, 200): give(n)
if child == 0:
    assert producer.flush(20) and producer.feedback_counts.published == 100, producer.feedback_counts
else:
    assert os.waitpid(child, 0)[1] == 0
"""
    done = run_script(script, redis_url)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(given(redis)) == sorted(f"i-{n}" for n in [*range(200), *range(1000, 1100)])
