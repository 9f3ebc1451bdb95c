"""Submitting without waiting: the application's side of the queue, and what happens at its end and in its children."""

import atexit
import logging
import os
import threading
from typing import Final
from weakref import WeakSet

from ragtide_runtime.embedded import CLOSE_TIMEOUT_S
from ragtide_runtime.settings import Settings
from ragtide_runtime.tracing import trace_publishing
from ragtide_schemas import RagInteraction

from .counts import ProducerCounts
from .errors import QueueFullError
from .outbox import Held, Outbox
from .publication import Addressing
from .sending import Delivery

log: Final = logging.getLogger("ragtide.producer")

LAST_REPORT_S = 1.0
"""Seconds that closing waits, after everything else, for Redis to hear what was given up."""

ITEM_BYTES = 1000
"""What an interaction is estimated to hold besides its texts."""


class Background:
    """Takes interactions from any thread, and has a daemon thread send them; the first one starts it.

    A forked child starts with nothing: what was queued is its parent's to send.

    Args:
        settings: which Redis, and how.
        addressing: where interactions go.
        strict: raise what is otherwise only counted.
    """

    def __init__(self, settings: Settings, addressing: Addressing, *, strict: bool) -> None:
        self._settings = settings
        self._addressing = addressing
        self._strict = strict
        self._reset()
        _ALL.add(self)

    def _reset(self) -> None:
        self._starting = threading.RLock()
        self._outbox = Outbox(self._settings.producer.queue, self._settings.producer.queue_bytes)
        self._delivery: Delivery | None = None
        self._thread: threading.Thread | None = None

    def in_child(self) -> None:
        """Start with nothing, in a process that was forked from the one that has it."""
        # Kept, not closed: the parent uses the same sockets and locks.
        self._of_parent = self._delivery
        self._reset()

    def submit(self, interaction: RagInteraction) -> bool:
        """Return whether the interaction was taken; if not, it is dropped and counted.

        Raises:
            InvalidEntryError: strict, and it is too large.
            QueueFullError: strict, and the queue is full.
        """
        if self._strict:
            self._addressing.call(interaction)
        taken = self._outbox.put(self._held(interaction))
        if self._delivery is None and not self._start():
            taken = False
        if self._strict and not taken:
            raise QueueFullError(
                f"the producer holds {self._outbox.counts().queued} interactions and takes no more: look whether Redis "
                "can be reached and workers keep up, or raise producer.queue"
            )
        return taken

    def _held(self, interaction: RagInteraction) -> Held:
        try:
            streams = self._addressing.layout.of(interaction.pipeline, interaction.interaction_id)
            return Held(interaction, streams.partition, _size(interaction), trace_publishing(interaction))
        except Exception:  # noqa: BLE001  # not an interaction: the thread will find out and count it
            return Held(interaction, 0, 0)

    def _start(self) -> bool:
        with self._starting:
            if self._delivery is not None:
                return True
            delivery = Delivery(self._settings, self._addressing, self._outbox, before_exit=self._register)
            thread = threading.Thread(target=delivery.run, name="ragtide-producer", daemon=True)
            self._register()
            try:
                thread.start()
            except RuntimeError:  # the interpreter is going down, or the process may have no more threads
                self._outbox.give_up()
                return False
            self._delivery, self._thread = delivery, thread
            return True

    def _register(self) -> None:
        """Be the next to be called at exit: before an embedded Redis that was opened meanwhile is stopped."""
        atexit.unregister(self.close)
        atexit.register(self.close)

    def counts(self) -> ProducerCounts:
        """Return what was submitted and what became of it."""
        return self._outbox.counts()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Return whether all that is held now reached Redis, or was dropped and reported, within the timeout.

        Args:
            timeout_s: by default `producer.flush_s`.
        """
        if self._delivery is not None:
            self._delivery.nudge()
        return self._outbox.wait_settled(self._settings.producer.flush_s if timeout_s is None else timeout_s)

    def close(self) -> None:
        """Flush, give up the rest, and end the thread; another submit starts another."""
        delivery, thread = self._delivery, self._thread
        if delivery is None or thread is None:
            return
        self.flush()
        given_up = self._outbox.give_up()
        with self._starting:
            self._delivery = self._thread = None
        if delivery.end(LAST_REPORT_S):
            thread.join(CLOSE_TIMEOUT_S)
        atexit.unregister(self.close)
        if given_up:
            log.warning(
                "%d interactions were not sent within %g s and are given up", given_up, self._settings.producer.flush_s
            )


def _size(interaction: RagInteraction) -> int:
    """Return about how many bytes an interaction holds, cheaply."""
    texts = len(interaction.question) + len(interaction.response) + len(interaction.reference_answer or "")
    return ITEM_BYTES + texts + sum(len(document.text) for document in interaction.documents)


_ALL: Final[WeakSet[Background]] = WeakSet()


def _after_fork() -> None:
    for background in list(_ALL):
        background.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
