"""Submits items without waiting: the application's side of the queue, also at exit and in forked processes."""

import atexit
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from ragtide_runtime.processes.forks import NOT_FORKING, at_exit_of_child, begin_anew_in_children
from ragtide_runtime.redis.server import CLOSE_TIMEOUT_S
from ragtide_runtime.settings.application import ApplicationSettings
from ragtide_schemas import InvalidEntryError, Reason

from ..errors import QueueFullError
from .outbox import QUEUE_BYTES, Outbox, ProducerCounts
from .routes import Item, Route
from .sending import BackgroundSender, Mistakes, refused

log: Final = logging.getLogger("ragtide.producer")

LAST_REPORT_S = 1.0
"""Seconds for which closing waits at last for the report of dropped items to Redis."""


class Background:
    """Queues interactions or feedback from any thread. A daemon thread, which the first item starts, sends them.

    A forked child starts with an empty queue, because its parent sends the queued items.

    Args:
        route: command and destination of the items.
        strict: whether to raise errors that are otherwise only counted.
        at_exit: called at the end of the process; must call `close`.
    """

    def __init__(
        self, settings: ApplicationSettings, route: Route, *, strict: bool, at_exit: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._route = route
        self._strict = strict
        self._at_exit = at_exit
        self._reset()
        begin_anew_in_children(self)

    def _reset(self) -> None:
        self._starting = threading.RLock()
        self._outbox = Outbox(self._settings.producer.queue, QUEUE_BYTES)
        self._mistakes = Mistakes(self._route.kind)
        self._sender: BackgroundSender | None = None
        self._thread: threading.Thread | None = None

    def in_child(self) -> None:
        """Reset in a forked process, because the queued items belong to its parent."""
        # Keep a reference, so that nothing is closed: the parent uses the same sockets and locks.
        self._of_parent = self._sender
        self._reset()

    def submit(self, given: Item | Mapping[str, Any] | None, fields: Mapping[str, Any]) -> bool:
        """Queue an item and return True, or drop and count it and return False; True if it is not in the sample.

        Args:
            given: the item, or a mapping of its fields.
            fields: more fields, by keyword.

        Raises:
            InvalidEntryError: in strict mode, for an item that is invalid or too large.
            QueueFullError: in strict mode, if the queue is full.
        """
        try:
            with NOT_FORKING:
                item = self._item(given, fields)
                if item.left_out:
                    self._outbox.count_values(item.left_out)
                    self._mistakes.log_left_out(item.left_out)
                queued = self._route.queued(item)
                if self._strict and queued is not None:
                    queued.command = self._route.command(queued.item, queued.traceparent)
        except Exception as error:  # noqa: BLE001  # the application may submit anything
            if self._strict:
                raise refused(error) from None
            self._outbox.refuse(self._partition_of(given, fields))
            self._mistakes.log(error)
            self._started()  # the thread reports the drop
            return False
        if queued is None:
            self._outbox.leave_out()
            return True
        taken = self._outbox.put(queued) and self._started()
        if self._strict and not taken:
            raise QueueFullError(
                f"the queue of the producer is full ({self._outbox.counts().queued} {self._route.kind}): check "
                "that Redis can be reached and that workers keep up, or raise producer.queue"
            )
        return taken

    def _item(self, given: Item | Mapping[str, Any] | None, fields: Mapping[str, Any]) -> Any:
        if given is None:
            return self._route.read(fields)
        if isinstance(given, Mapping):
            return self._route.read({**given, **fields})
        expected = self._route.item_type
        if not isinstance(given, expected):
            raise InvalidEntryError(
                Reason.INVALID, f"got a {type(given).__name__}: give a {expected.__name__}, a dict or keyword fields"
            )
        if fields:
            raise InvalidEntryError(
                Reason.INVALID, f"got a {expected.__name__} and the fields {', '.join(fields)}: give one or the other"
            )
        return given

    def _partition_of(self, given: object, fields: Mapping[str, Any]) -> int:
        """Return the partition in which an invalid item is counted: its own if known, otherwise 0."""
        names = {**given, **fields} if isinstance(given, Mapping) else fields
        pipeline, interaction_id = names.get("pipeline"), names.get("interaction_id")
        known = isinstance(pipeline, str) and isinstance(interaction_id, str | None)
        try:
            return self._route.layout.of(str(pipeline), str(interaction_id or "")).partition if known else 0
        except ValueError:  # lone surrogates have no bytes
            return 0

    def _started(self) -> bool:
        if self._sender is not None:
            return True
        with self._starting:
            if self._sender is not None:
                return True
            sender = BackgroundSender(
                self._settings, self._route, self._outbox, mistakes=self._mistakes, before_exit=self._register
            )
            thread = threading.Thread(target=sender.run, name="ragtide-producer", daemon=True)
            self._register()
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down, or the process has too many threads
                self._outbox.give_up()
                return False
            self._sender, self._thread = sender, thread
            return True

    def _register(self) -> None:
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)
        at_exit_of_child(self._at_exit)

    def counts(self) -> ProducerCounts:
        """Return the counts of submitted items and their outcomes."""
        return self._outbox.counts()

    def nudge(self) -> None:
        """Let a waiting thread try again at once."""
        if self._sender is not None:
            self._sender.nudge()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Return whether all queued items are in Redis, or dropped and reported, within the timeout.

        Args:
            timeout_s: by default `producer.flush_s`.
        """
        self.nudge()
        return self._outbox.wait_complete(self._settings.producer.flush_s if timeout_s is None else timeout_s)

    def close(self, flush_s: float) -> None:
        """Flush for at most `flush_s`, drop the other items, and end the thread; a later submit starts a new thread."""
        sender, thread = self._sender, self._thread
        if sender is None or thread is None:
            return
        self.flush(flush_s)
        given_up = self._outbox.give_up()
        with self._starting:
            self._sender = self._thread = None
        if sender.end(LAST_REPORT_S):
            thread.join(CLOSE_TIMEOUT_S)
        if given_up:
            log.warning(
                "%d %s were not sent within %g s and are dropped",
                given_up,
                self._route.kind,
                self._settings.producer.flush_s,
            )
