"""Subscribes to alerts: yields changes of alerts that a filter selects, in the order of their stream."""

import asyncio
import logging
import math
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any, Final, Self, TypeVar, get_args

from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.processes.waiting import Backoff
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.entries import Entry, Unreadable
from ragtide_runtime.redis.failures import explained
from ragtide_runtime.redis.keys import NOTIFY_GROUP, RECORD_GROUP
from ragtide_runtime.redis.layout import check_layout
from ragtide_runtime.redis.url import RedisHandle, redact, resolve_redis
from ragtide_runtime.settings.application import ApplicationSettings
from ragtide_schemas import Alert
from ragtide_schemas.alert_rule import AlertStatus, Severity

from .alert_reading import AlertGroupSource, AlertSource, AlertTail

LONGEST_PAUSE_S: Final = 5.0
"""Most seconds between two tries to reach a Redis that does not answer."""

LONGEST_GROUP: Final = 100
"""Most characters in the name of a group."""

# The subscriber runs in the user's own application, which logs by the standard library.
log: Final = logging.getLogger("ragtide.alerts")


class AlertSubscriber:
    """Yields changes of alerts: `async with AlertSubscriber() as alerts: async for alert in alerts: ...`.

    Blocking code uses `with` and `for`. An alert fires, may be explained once while it fires (its `cause` or
    its `moved_step` is known then), and resolves, under one id.

    **With a group**, Redis keeps the position of the group, so alerts wait while no subscriber runs. Subscribers of one
    group, in any number of processes, share its alerts; each group gets all alerts. An alert is acknowledged after the
    body: when the loop asks for the next alert, or when the `with` block ends without an exception. So an alert comes
    at least once. It comes again if the body raises, if the process dies, or if a new loop over the same subscriber
    begins. Order holds within a partition while no alert comes again.

    **Without a group**, it is a live tail: every subscriber gets all alerts from its own start, and remembers the id of
    the last alert of each partition in its process only.

    Both survive a restart of Redis: they connect again, with a growing pause between the tries, and continue after the
    last alert, so no alert is missed. If Redis lost the end of a stream, the aggregator writes the lost alerts again,
    under the same `alert_id`. An unreadable entry is skipped, counted in `unreadable.count`, and logged. Skipped
    entries and alerts that a filter excludes are acknowledged.

    Args:
        redis_url: Redis to use; by default `RAGTIDE_REDIS_URL`, or else the Redis that ragtide runs on this machine.
        group: name of the consumer group, of 1 to 100 characters; `record` and `notify` belong to ragtide.
        from_start: begin with the first alert that the stream still holds instead of the next alert. A group that
            exists continues at its position instead.
        pipeline: shell pattern of the pipeline, or several; alerts of the whole deployment have the pipeline `*`, which
            the pattern `[*]` matches. By default every pipeline.
        rule: shell pattern of the name of the rule, or several; by default every rule.
        severity: `page`, `ticket` or `info`, or several; by default all.
        status: `firing`, `explained` or `resolved`, or several; by default all.
        claim_idle_s: seconds after which another subscriber of the group takes over an alert of a process that died. A
            body may take longer: the claim is renewed while the event loop runs.
        settings: all settings at once, instead of the URL and the environment.

    Raises:
        ValueError: an argument is wrong.
        ConfigurationError: a setting is wrong; when it is opened: the deployment has other partitions.
        RedisUnavailable: Redis cannot be reached when the subscriber is opened.
    """

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        group: str | None = None,
        from_start: bool = False,
        pipeline: str | Sequence[str] | None = None,
        rule: str | Sequence[str] | None = None,
        severity: Severity | Sequence[Severity] | None = None,
        status: AlertStatus | Sequence[AlertStatus] | None = None,
        claim_idle_s: float = 60.0,
        settings: ApplicationSettings | None = None,
    ) -> None:
        self._group = None if group is None else checked_group(group)
        self._claim_idle_s = checked_claim_idle(claim_idle_s)
        self._filter = AlertFilter(pipeline=pipeline, rule=rule, severity=severity, status=status)
        self._settings = settings or ApplicationSettings.of_application(
            **({} if redis_url is None else {"redis_url": redis_url})
        )
        self._from_start = from_start
        self._handle: RedisHandle | None = None
        self._redis: Redis | None = None
        self._source: AlertSource | None = None
        self._loop: BackgroundLoop | None = None
        self.unreadable = Unreadable("alert")
        """The entries that were skipped."""

    async def __aenter__(self) -> Self:
        if self._redis is not None:
            raise RuntimeError("the subscriber is open already: make another one")
        self._handle = await asyncio.to_thread(resolve_redis, self._settings.redis_address, self._settings.data_dir)
        self._redis = connect_async(self._handle.url)
        source = self._new_source(self._redis)
        try:
            await check_layout(self._redis, self._settings.layout)
            await source.open()
        except RedisError as error:
            url = redact(self._handle.url)
            await self._disconnect()
            raise RedisUnavailable(f"{url}: {explained(error)}; try again when Redis works") from error
        except ConfigurationError:
            await self._disconnect()
            raise
        self._source = source
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        source, self._source = self._source, None
        self._warn()
        try:
            if source is not None:
                await source.close(finished=kind is None)
        finally:
            await self._disconnect()

    async def __aiter__(self) -> AsyncIterator[Alert]:
        source = self._source
        if source is None:
            raise RuntimeError("the subscriber is not open: use it in `with` or `async with`")
        source.restart()
        while True:
            entry = await self._read(source)
            if entry is None:
                self._warn()
                continue
            alert = self.unreadable.decode(Alert, *entry)
            if alert is not None and self._filter.matches(alert):
                yield alert
            source.finish()

    def __enter__(self) -> Self:
        loop = BackgroundLoop()
        try:
            loop.run(self.__aenter__())
        except BaseException:
            loop.close()
            raise
        self._loop = loop
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.run(self.__aexit__(kind, error, trace))
            finally:
                loop.close()

    def __iter__(self) -> Iterator[Alert]:
        loop = self._loop
        if loop is None:
            raise RuntimeError(
                "the subscriber is not open for blocking code: use `with`, or `async for` in `async with`"
            )
        alerts = aiter(self)

        async def following() -> Alert:
            return await anext(alerts)

        while True:
            yield loop.run(following())

    def _new_source(self, redis: Redis) -> AlertSource:
        keys = [streams.alerts for streams in self._settings.layout.all()]
        if self._group is None:
            return AlertTail(redis, keys, from_start=self._from_start)
        return AlertGroupSource(redis, keys, self._group, from_start=self._from_start, claim_idle_s=self._claim_idle_s)

    async def _disconnect(self) -> None:
        if self._redis is not None:
            await self._redis.aclose()
            self._redis = None
        if self._handle is not None:
            await asyncio.to_thread(self._handle.close)
            self._handle = None

    async def _read(self, source: AlertSource) -> tuple[str, Entry] | None:
        backoff = Backoff(longest_s=LONGEST_PAUSE_S)
        cancelled = _cancellations()
        while True:
            try:
                if backoff.failing:
                    await source.recover()
                    log.warning("%s can be used again; alerts continue after the last alert", self._address)
                    backoff.succeeded()
                entry = await source.read()
            except (RedisError, OSError) as error:
                if not backoff.failing:
                    log.warning("%s cannot be used (%s); alerts wait for it", self._address, explained(error))
            else:
                if _cancellations() > cancelled:  # inside the Redis client one can be lost if a reply has just arrived
                    raise asyncio.CancelledError
                return entry
            await asyncio.sleep(backoff.pause_s())

    def _warn(self) -> None:
        warning = self.unreadable.due_warning()
        if warning is not None:
            log.warning("%s", warning)

    @property
    def _address(self) -> str:
        return "Redis" if self._handle is None else redact(self._handle.url)


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def checked_claim_idle(claim_idle_s: float) -> float:
    """Return the seconds after which an unfinished entry is taken over.

    Raises:
        ValueError: they are no positive number.
    """
    if not (math.isfinite(claim_idle_s) and claim_idle_s > 0):
        raise ValueError(f"claim_idle_s is {claim_idle_s!r}: give a positive number of seconds")
    return claim_idle_s


def checked_group(group: str) -> str:
    """Return the name of a consumer group of a user.

    Raises:
        ValueError: it is no such name, or one of ragtide's own.
    """
    if not isinstance(group, str) or not 1 <= len(group) <= LONGEST_GROUP or not group.isprintable() or " " in group:
        raise ValueError(f"group is {group!r}: give 1 to {LONGEST_GROUP} printable characters without spaces")
    if group in (RECORD_GROUP, NOTIFY_GROUP):
        raise ValueError(f"group is {group!r}, which belongs to ragtide itself: choose another name")
    return group


SEVERITIES: Final[tuple[str, ...]] = get_args(Severity)
STATUSES: Final[tuple[str, ...]] = get_args(AlertStatus)


class AlertFilter:
    """The alerts that a subscriber wants: an alert must match every argument that is given.

    Args:
        pipeline: shell pattern of the pipeline, or several; `[*]` is the pipeline `*` of deployment-wide alerts.
        rule: shell pattern of the name of the rule, or several.
        severity: severity, or several.
        status: status, or several.

    Raises:
        ValueError: an argument is empty or has an unknown value.
    """

    def __init__(self, *, pipeline: Any = None, rule: Any = None, severity: Any = None, status: Any = None) -> None:
        self._pipelines = _texts("pipeline", pipeline)
        self._rules = _texts("rule", rule)
        self._severities = _texts("severity", severity, SEVERITIES)
        self._statuses = _texts("status", status, STATUSES)

    def matches(self, alert: Alert) -> bool:
        """Return whether an alert is wanted."""
        return (
            (self._severities is None or alert.severity in self._severities)
            and (self._statuses is None or alert.status in self._statuses)
            and (self._pipelines is None or any(fnmatchcase(alert.pipeline, pattern) for pattern in self._pipelines))
            and (self._rules is None or any(fnmatchcase(alert.rule, pattern) for pattern in self._rules))
        )


def _texts(name: str, value: str | Sequence[str] | None, known: Sequence[str] = ()) -> tuple[str, ...] | None:
    if value is None:
        return None
    texts = (value,) if isinstance(value, str) else tuple(value)
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"{name} is {value!r}: give a text, or a list with at least one text; None takes every alert")
    for text in texts:
        if known and text not in known:
            raise ValueError(f"{name} is {text!r}: give one of {', '.join(known)}")
    return texts


T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines in a daemon thread; `close` ends the thread."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ragtide alerts", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; an exception such as KeyboardInterrupt cancels it.

        Raises:
            RuntimeError: this is a forked child, which has not the thread of its parent.
        """
        if os.getpid() != self._pid:
            work.close()
            raise RuntimeError("the subscriber was opened before this process was forked: open another one here")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and the thread; in a forked child, which has no such thread, do nothing."""
        if os.getpid() != self._pid:
            return
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
