import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.producers.test_background import adds_up

from ragtide import Dropped
from ragtide.testing import interaction
from ragtide_producers.publishing.outbox import Outbox, Sent
from ragtide_producers.publishing.routes import QueuedItem

OUTCOMES: list[Any] = [*Sent, Dropped.DROP_NEW, Dropped.SAMPLE, Dropped.INVALID]
ONE = interaction(1)
ENDED = threading.Event()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(1, 40)),
            st.tuples(st.just("take"), st.integers(1, 5)),
            st.tuples(st.just("settle"), st.sampled_from(OUTCOMES)),
            st.tuples(st.just("give up"), st.none()),
        ),
        max_size=80,
    )
)
def test_whatever_happens_the_counts_add_up_and_the_bounds_hold(steps: list[tuple[str, Any]]) -> None:
    outbox, accepted = Outbox(10, 200), 0
    sent: list[QueuedItem] = []
    sizes: dict[QueuedItem, int] = {}
    for step, value in steps:
        if step == "put":
            held = QueuedItem(ONE, 0, value)
            room = len(sizes) < 10 and sum(sizes.values()) + value <= 200
            assert outbox.put(held) == room
            if room:
                sizes[held] = value
                accepted += 1
        elif step == "take":
            sent += outbox.take(value, 0.0, ENDED)
        elif step == "settle" and sent:
            held = sent.pop(0)
            outbox.complete([(held, value)])
            outbox.complete([(held, Sent.PUBLISHED)])  # a reply that comes twice, or too late
            sizes.pop(held, None)
        elif step == "give up":
            assert outbox.give_up() == len(sizes)
            sizes.clear()
        counts = outbox.counts()
        assert adds_up(counts)
        assert counts.queued == len(sizes)
        assert counts.submitted == accepted + counts.dropped.get(Dropped.QUEUE_FULL, 0)
        reported_here = sum(outbox.unreported().values())
        by_script = counts.dropped.get(Dropped.DROP_NEW, 0) + counts.dropped.get(Dropped.SAMPLE, 0)
        assert reported_here == sum(counts.dropped.values()) - by_script


def test_a_drop_is_reported_once() -> None:
    outbox = Outbox(1, 100)
    for _ in range(3):
        outbox.put(QueuedItem(ONE, 7, 1))
    drops = outbox.unreported()
    assert drops == {(7, Dropped.QUEUE_FULL): 2}
    outbox.put(QueuedItem(ONE, 7, 1))
    outbox.reported(drops)
    assert outbox.unreported() == {(7, Dropped.QUEUE_FULL): 1}
    outbox.reported(outbox.unreported())
    assert outbox.unreported() == {}


def test_waiting_ends_when_what_was_there_is_settled_and_reported() -> None:
    outbox = Outbox(1, 100)
    first = QueuedItem(ONE, 0, 1)
    outbox.put(first)
    outbox.put(QueuedItem(ONE, 0, 1))
    assert not outbox.wait_complete(0.0)
    outbox.take(1, 0.0, ENDED)
    outbox.complete([(first, Sent.PUBLISHED)])
    assert not outbox.wait_complete(0.0)
    outbox.reported(outbox.unreported())
    assert outbox.wait_complete(0.0)


def test_one_thread_may_submit_while_it_submits() -> None:
    outbox = Outbox(10, 100)

    class Interrupted(QueuedItem):
        @property
        def size_bytes(self) -> int:
            """Submit another one, as a signal handler does in the middle of `put`."""
            assert outbox.put(QueuedItem(ONE, 0, 1))
            return 1

        @size_bytes.setter
        def size_bytes(self, value: int) -> None:
            """Ignore it."""

    assert outbox.put(Interrupted(ONE, 0, 1))
    assert outbox.counts().queued >= 2
