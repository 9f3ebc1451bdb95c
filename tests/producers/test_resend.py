"""Items that Redis confirmed and then lost are sent again, and no item twice."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.producers.test_background import adds_up, ids, settings
from tests.support.conditions import wait_until
from tests.support.redis_processes import RedisProcess

from ragtide import Dropped, InteractionProducer
from ragtide.testing import interaction
from ragtide_producers.publishing import sending
from ragtide_producers.publishing.outbox import Sent
from ragtide_producers.publishing.partition_buffer import PartitionBuffer, RoundTrip
from ragtide_producers.publishing.routes import InteractionRoute, QueuedItem, publications
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import load_settings

pytestmark = pytest.mark.processes

STREAMS = Streams("ragtide", 0)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LONGEST_PAUSE_S", 0.1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisProcess]:
    with RedisProcess(tmp_path, "save ''") as server:
        yield server


def lose_everything(server: RedisProcess) -> None:
    server.kill()
    server.start()


def stored(server: RedisProcess) -> list[str]:
    with connect(server.url) as redis:
        return ids(redis)


def test_after_a_loss_the_last_seconds_are_there_again_exactly_once(
    server: RedisProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with InteractionProducer(settings=settings(server.url, resend_s=60)) as producer:
        for n in range(540):
            producer.submit(interaction(n))
        assert producer.flush(20)
        lose_everything(server)
        assert stored(server) == []
        producer.submit(interaction(540))
        wait_until(lambda: producer.counts.resent == 540)
        assert producer.flush(20)
        assert sorted(stored(server)) == sorted(f"i-{n}" for n in range(541))
        counts = producer.counts
    assert (counts.published, counts.duplicates, counts.resent) == (541, 0, 540)
    assert adds_up(counts)
    assert "lost interactions that it had confirmed; 540 are sent again" in caplog.text


def test_a_loss_is_noticed_even_if_nothing_more_is_submitted(server: RedisProcess) -> None:
    with InteractionProducer(settings=settings(server.url, resend_s=3.0)) as producer:
        for n in range(10):
            producer.submit(interaction(n))
        assert producer.flush(20)
        lose_everything(server)
        wait_until(lambda: len(stored(server)) == 10)
        assert producer.counts.published == 10


def test_a_second_loss_is_mended_too(server: RedisProcess) -> None:
    with InteractionProducer(settings=settings(server.url, resend_s=60)) as producer:
        for round_ in range(3):
            producer.submit(interaction(round_))
            assert producer.flush(20)
            wait_until(lambda round_=round_: len(stored(server)) == round_ + 1)  # type: ignore[misc]
            if round_ < 2:
                lose_everything(server)
        assert sorted(stored(server)) == ["i-0", "i-1", "i-2"]
        assert producer.counts.published == 3


def test_a_redis_that_lost_nothing_gets_nothing_again(redis: Any, redis_url: str) -> None:
    with InteractionProducer(settings=settings(redis_url, resend_s=60)) as producer:
        for n in range(10):
            producer.submit(interaction(n))
        assert producer.flush(20)
        redis.client_kill_filter(_type="normal", skipme=True)
        producer.submit(interaction(10))
        assert producer.flush(20)
        counts = producer.counts
    assert (counts.published, counts.duplicates, counts.resent) == (11, 0, 0)
    assert len(ids(redis)) == 11


def test_resend_s_zero_sends_nothing_again(server: RedisProcess) -> None:
    with InteractionProducer(settings=settings(server.url, resend_s=0)) as producer:
        producer.submit(interaction(0))
        assert producer.flush(20)
        lose_everything(server)
        producer.submit(interaction(1))
        assert producer.flush(20)
        assert stored(server) == ["i-1"]


def buffer(**changes: Any) -> PartitionBuffer:
    return PartitionBuffer(**{"keep_s": 2.0, "safe_s": 100.0, "most": 1000, "most_bytes": 10**9, **changes})


def send(
    sender: PartitionBuffer,
    now: float,
    *numbers: int,
    there: bool = True,
    words: list[str] | None = None,
) -> Any:
    routing = InteractionRoute.of(load_settings())
    sender.add((QueuedItem(interaction(n), 0, 1), routing.command(interaction(n))) for n in numbers)
    count = len(sender.batch())
    given = [f"{int(now * 1000)}-{at}" for at in range(count)]
    return complete(sender, given if words is None else words, there=there, now=now)


def complete(sender: PartitionBuffer, words: list[str], *, now: float, there: bool = True) -> RoundTrip:
    batch = sender.batch()
    outcomes = publications([one.interaction_id for one in batch], " ".join(words).encode()) if batch else []
    return sender.complete(outcomes, probe_found=there, now=now)


def names(sender: PartitionBuffer) -> list[str]:
    return [command.interaction_id for command in sender.batch()]


def test_what_is_sent_again_is_what_was_confirmed_after_the_last_look_but_for_the_stated_seconds() -> None:
    sender = buffer()
    send(sender, 1.0, 1)
    send(sender, 2.0, 2)
    send(sender, 3.5, 3)  # sees that 1 was there for more than two seconds
    settled = send(sender, 50.0, 4, there=False)
    assert (settled.lost, names(sender)) == (2, ["i-2", "i-3"])


def test_a_look_after_a_quiet_while_forgets_everything() -> None:
    sender = buffer()
    send(sender, 1.0, 1)
    assert sender.check_at == 3.0
    assert not sender.is_due(2.9)
    assert sender.is_due(3.0)
    send(sender, 3.0)
    assert not sender.is_due(1e9)
    assert sender.probe is None


def test_what_redis_may_have_forgotten_the_id_of_is_not_sent_again() -> None:
    sender = buffer(safe_s=10.0)
    send(sender, 1.0, 1)
    settled = send(sender, 12.0, 2, there=False)
    assert (settled.lost, names(sender)) == (0, [])


def test_an_id_that_was_there_long_ago_is_no_probe() -> None:
    sender = buffer()
    send(sender, 1.0, 1)
    probe = sender.probe
    send(sender, 1.1, 2, words=["=5-0"])
    assert sender.probe == probe
    send(sender, 1.2, 3)
    assert sender.probe != probe


def test_what_is_kept_is_bounded_by_number_and_by_bytes() -> None:
    size = len(InteractionRoute.of(load_settings()).command(interaction(1)).payload)
    for bounds in ({"most": 3}, {"most_bytes": 3 * size + 1}):
        sender = buffer(**bounds)
        send(sender, 1.0, 1, 2, 3, 4, 5)
        send(sender, 1.1, there=False)
        assert names(sender) == ["i-3", "i-4", "i-5"]


def test_after_a_lost_reply_there_already_means_published() -> None:
    sender = buffer()
    routing = InteractionRoute.of(load_settings())
    held = [QueuedItem(interaction(n), 0, 1) for n in range(2)]
    sender.add([(held[0], routing.command(interaction(0)))])
    sender.failed(len(sender.batch()))
    sender.add([(held[1], routing.command(interaction(1)))])
    settled = complete(sender, ["=1-1", "=1-2"], now=1.0)
    assert settled.outcomes == [(held[0], Sent.PUBLISHED), (held[1], Sent.DUPLICATE)]


def test_after_a_lost_reply_each_item_of_the_batch_has_its_own_outcome() -> None:
    sender = buffer()
    route = InteractionRoute.of(load_settings())
    # The first three were added, the fourth has the id of the second, and the fifth found no room.
    sent = [interaction(number) for number in (0, 1, 2, 1, 3)]
    held = [QueuedItem(item, 0, 1) for item in sent]
    sender.add(zip(held, map(route.command, sent), strict=True))
    sender.failed(len(sender.batch()))
    settled = complete(sender, ["=1-1", "=1-2", "=1-3", "=1-2", "drop_new"], now=1.0)
    outcomes = [Sent.PUBLISHED, Sent.PUBLISHED, Sent.PUBLISHED, Sent.DUPLICATE, Dropped.DROP_NEW]
    assert settled.outcomes == list(zip(held, outcomes, strict=True))


def test_what_has_no_room_when_it_is_sent_again_is_counted_as_dropped() -> None:
    sender = buffer()
    send(sender, 1.0, 1, 2)
    send(sender, 1.1, there=False)
    settled = complete(sender, ["drop_new", "2-2"], now=1.2)
    assert (settled.resent, settled.dropped_again, settled.outcomes) == (1, [Dropped.DROP_NEW], [])


def test_what_finds_no_room_waits_in_its_order_and_is_asked_one_by_one() -> None:
    sender = buffer()
    settled = send(sender, 1.0, 1, 2, 3, words=["1-1", "full", "full"])
    assert (settled.full, names(sender)) == (True, ["i-2"])
    send(sender, 1.1, words=["1-2"])
    assert names(sender) == ["i-3"]
