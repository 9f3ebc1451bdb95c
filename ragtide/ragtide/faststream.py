"""Alerts, metric events and estimates in a FastStream application of your own.

A handler of `alerts_of` gets the alerts of every partition, from FastStream's own subscribers. This module needs the
extra `ragtide[faststream]`.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from ragtide_consumers.alert_subscriber import checked_claim_idle, checked_group
from ragtide_runtime.redis.consumer_groups import create_groups
from ragtide_runtime.redis.entries import FASTSTREAM_FIELD, Entry, Unreadable
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.redis.layout import check_layout
from ragtide_runtime.settings.application import ApplicationSettings
from ragtide_schemas import Alert, Estimate, MetricEvent
from ragtide_schemas.base import WireModel

try:
    from faststream import AckPolicy, FastStream
    from faststream.asgi import AsgiFastStream
    from faststream.exceptions import AckMessage
    from faststream.redis import RedisBroker, RedisStreamMessage, StreamSub
except ImportError as error:
    raise ImportError(f"ragtide.faststream needs {error.name}: pip install 'ragtide[faststream]'") from error

__all__ = ["alerts_of", "estimates_of", "events_of"]

POLL_MS: Final = 1000
"""Milliseconds that a read waits for an entry, and between two searches for entries that a dead process left."""

Handler = TypeVar("Handler", bound=Callable[..., Any])

log: Final = logging.getLogger("ragtide.faststream")


def alerts_of(
    app: FastStream | AsgiFastStream,
    group: str,
    *,
    from_start: bool = False,
    claim_idle_s: float = 60.0,
    settings: ApplicationSettings | None = None,
) -> Callable[[Handler], Handler]:
    """Return a decorator: its handler gets every change of an alert, of all partitions, as an `Alert`.

    Redis keeps the position of the group, and processes of one group share its alerts. An alert is acknowledged when
    the handler returns, so it comes at least once: it comes again if the handler raised, or if its process died. An
    entry that cannot be read is acknowledged and logged, and the handler does not get it.

    When the application starts, it checks that the deployment has these partitions, and creates the group where it is
    missing.

    Args:
        app: the FastStream application; its first `RedisBroker` reads the streams.
        group: name of the consumer group, of 1 to 100 characters; `record` and `notify` belong to ragtide.
        from_start: begin with the first entry that the streams still hold instead of the next entry. A group that
            exists continues at its position instead.
        claim_idle_s: seconds after which an unfinished entry comes again, so more than a handler takes.
        settings: prefix and partitions of the deployment; by default those of the environment, such as
            `RAGTIDE_PREFIX` and `RAGTIDE_PARTITIONS`.

    Raises:
        ValueError: an argument is wrong.
        ConfigurationError: a setting is wrong; when the application starts: the deployment has other partitions.
    """
    return _handlers(app, "alerts", Alert, group, from_start, claim_idle_s, settings)


def events_of(
    app: FastStream | AsgiFastStream,
    group: str,
    *,
    from_start: bool = False,
    claim_idle_s: float = 60.0,
    settings: ApplicationSettings | None = None,
) -> Callable[[Handler], Handler]:
    """Return a decorator: its handler gets the scores of every interaction, as a `MetricEvent`; no ticks.

    It is as `alerts_of`. Redis keeps metric events until every group has them: remove the group with the application.

    Args:
        app: the FastStream application; its first `RedisBroker` reads the streams.
        group: name of the consumer group, of 1 to 100 characters; `record` and `notify` belong to ragtide.
        from_start: begin with the first entry that the streams still hold instead of the next entry.
        claim_idle_s: seconds after which an unfinished entry comes again, so more than a handler takes.
        settings: prefix and partitions of the deployment; by default those of the environment.

    Raises:
        ValueError: an argument is wrong.
        ConfigurationError: a setting is wrong; when the application starts: the deployment has other partitions.
    """
    return _handlers(app, "metrics", MetricEvent, group, from_start, claim_idle_s, settings)


def estimates_of(
    app: FastStream | AsgiFastStream,
    group: str,
    *,
    from_start: bool = False,
    claim_idle_s: float = 60.0,
    settings: ApplicationSettings | None = None,
) -> Callable[[Handler], Handler]:
    """Return a decorator: its handler gets estimates of whole pipelines that changed, each as an `Estimate`.

    It is as `alerts_of`. The stream is capped, so a group that does not read loses the oldest.

    Args:
        app: the FastStream application; its first `RedisBroker` reads the streams.
        group: name of the consumer group, of 1 to 100 characters; `record` and `notify` belong to ragtide.
        from_start: begin with the first entry that the streams still hold instead of the next entry.
        claim_idle_s: seconds after which an unfinished entry comes again, so more than a handler takes.
        settings: prefix and partitions of the deployment; by default those of the environment.

    Raises:
        ValueError: an argument is wrong.
        ConfigurationError: a setting is wrong; when the application starts: the deployment has other partitions.
    """
    return _handlers(app, "estimates", Estimate, group, from_start, claim_idle_s, settings)


def _handlers(  # noqa: PLR0917 - the arguments of the functions above
    app: FastStream | AsgiFastStream,
    name: str,
    model: type[WireModel],
    group: str,
    from_start: bool,
    claim_idle_s: float,
    settings: ApplicationSettings | None,
) -> Callable[[Handler], Handler]:
    broker = next((broker for broker in app.brokers if isinstance(broker, RedisBroker)), None)
    if broker is None:
        raise ValueError("app has no broker of Redis: give FastStream(RedisBroker(url))")
    layout = (settings or ApplicationSettings.of_application()).layout
    streams = [getattr(partition, name) for partition in layout.all()]
    reader = _EntryReader(model)
    checked_group(group)
    idle_ms = max(int(1000 * checked_claim_idle(claim_idle_s)), 1)

    async def open_groups() -> None:
        redis: Any = await broker.connect()
        await check_layout(redis, layout)
        await create_groups(redis, streams, group, from_start=from_start)

    def decorator(handler: Handler) -> Handler:
        subscribed: Any = handler
        for stream in streams:
            # FastStream reads new entries with one subscriber, and those that a dead process left with another one.
            # Entries that wait behind a slow handler would look left, so each read takes one entry.
            for min_idle_ms in (None, idle_ms):
                source = StreamSub(
                    stream,
                    group=group,
                    consumer=group,  # one name for all processes: entries are taken over by their idle time alone
                    max_records=1,
                    polling_interval=POLL_MS,
                    min_idle_time=min_idle_ms,
                )
                subscribed = broker.subscriber(
                    stream=source,
                    parser=reader.parse,
                    decoder=reader.decode,
                    ack_policy=AckPolicy.NACK_ON_ERROR,
                    include_in_schema=min_idle_ms is None,
                )(subscribed)
        return subscribed  # type: ignore[no-any-return]  # FastStream's wrapper, which is called as the handler

    app.on_startup(open_groups)
    return decorator


class _EntryReader:
    """Reads an entry as its model."""

    def __init__(self, model: type[WireModel]) -> None:
        self._model = model
        self._unreadable = Unreadable(model.__name__.lower())

    async def parse(self, raw: Any, original: Callable[[Any], Awaitable[RedisStreamMessage]]) -> RedisStreamMessage:
        # FastStream's parser reads its own envelope. Of other fields it makes JSON, which bytes that are no text end.
        message = await original(raw if FASTSTREAM_FIELD in raw["data"] else {**raw, "data": {}})
        message.raw_message = raw
        message.body = raw["data"].get(DATA_FIELD, message.body)
        return message

    async def decode(self, message: RedisStreamMessage) -> WireModel:
        raw: Any = message.raw_message
        # FastStream's broker for tests gives no id.
        entry = Entry(next(iter(raw["message_ids"]), b"an entry").decode(), raw["data"])
        item = self._unreadable.decode(self._model, raw["channel"], entry)
        if item is None:
            if warning := self._unreadable.due_warning():
                log.warning("%s", warning)
            raise AckMessage
        if isinstance(item, MetricEvent) and item.is_tick:
            raise AckMessage
        return item
