"""The bridge of a process: one direction takes interactions from a topic, up to three others send to topics.

Each direction has a connection of its own. A broker that fails is tried again for as long as the bridge runs, and so is
Redis; meanwhile the bridge is not ready, and logs one line at the start and one at the end. A topic that is missing at
the start ends the bridge with a sentence; one that vanishes later is waited for.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import structlog
from redis.asyncio import Redis

from ragtide_roles.doctor.finding import Finding
from ragtide_roles.running import together
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.processes.waiting import Backoff, end, sleep_or_stop
from ragtide_runtime.redis.client import CONNECTIONS, connect_async
from ragtide_runtime.redis.failures import explained
from ragtide_runtime.settings.bridge import BridgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_runtime.telemetry.logs import say_role
from ragtide_runtime.telemetry.outages import Outage, redis_outage
from ragtide_schemas import DeadLetter, Reason
from ragtide_schemas.printable import printable

from .addresses import BrokerAddress, check_mqtt_topic, check_nats_subject, read_address
from .intake import REDIS_ERRORS, Intake, RedisWriter, StoppedError
from .links import (
    CONNECT_S,
    GRACE_S,
    Link,
    MessageTooLargeError,
    Outgoing,
    Received,
    Take,
    TopicMissingError,
    link_class,
)
from .outlet import Outlet, Output, group_of, source_of
from .telemetry import ROLE, BridgeTelemetry

OUTPUTS: Final[tuple[Output, ...]] = ("alerts", "events", "estimates")

CHECK_S: Final = 2.0
"""Seconds between two checks of a broker."""
LONGEST_PAUSE_S: Final = 5.0
"""Most seconds between two tries to connect."""
OPEN_S: Final = 12 * CONNECT_S
"""Most seconds in which a link opens: a group of Kafka waits for members that died, and then for all to join again."""
SEND_S: Final = 4 * CONNECT_S
"""Most seconds in which a broker confirms messages."""

CLIENT_LOGS: Final = ("nats", "aio_pika", "aiormq", "aiokafka")
"""Loggers of the clients. They report what `Outage` reports, too, and some quote URLs."""

log = structlog.get_logger("ragtide.bridge")


def bridge_addresses(settings: BridgeSettings) -> dict[str, BrokerAddress]:
    """Return the topics of a bridge by their direction: `from`, `alerts`, `events`, `estimates`.

    Args:
        settings: of the bridge.

    Raises:
        ConfigurationError: there is no topic, or a URL is wrong.
    """
    urls = {
        "from": settings.source,
        "alerts": settings.alerts,
        "events": settings.events,
        "estimates": settings.estimates,
    }
    addresses = {
        direction: replace(read_address(_option(direction), url.get_secret_value()), is_target=direction != "from")
        for direction, url in urls.items()
        if url is not None
    }
    if not addresses:
        raise ConfigurationError("the bridge has no topic: give --from or --to-alerts, such as nats://host/rag.answers")
    for direction, address in addresses.items():
        if address.is_otlp and address.is_target:
            raise ConfigurationError(f"bridge --to-{direction} begins with otlp+: only --from takes spans")
        if address.kind == "mqtt":
            check_mqtt_topic(_option(direction), address.topic, sends=address.is_target)
        if address.kind == "nats":
            check_nats_subject(_option(direction), address.topic, sends=address.is_target)
    return addresses


def _option(direction: str) -> str:
    return f"bridge --{'' if direction == 'from' else 'to-'}{direction}"


async def run_bridge(settings: Settings, url: str, stop: asyncio.Event, process: ProcessTelemetry) -> None:
    """Run the bridge until `stop` is set.

    Args:
        settings: of the process.
        url: of Redis.
        stop: ends the bridge.
        process: health and metrics.

    Raises:
        ConfigurationError: a URL is wrong, a package is not installed, or a topic does not exist.
    """
    say_role(ROLE)
    addresses = bridge_addresses(settings.bridge)
    for name in CLIENT_LOGS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    telemetry = BridgeTelemetry(process, *addresses)
    async with connect_async(url, connections=CONNECTIONS + len(addresses)) as redis:
        works: list[Coroutine[Any, Any, None]] = []
        for direction, address in addresses.items():
            if direction == "from":
                works += _inlets(redis, settings, address, telemetry, stop, process)
            else:
                output = next(output for output in OUTPUTS if output == direction)
                writer = RedisWriter(redis, settings, telemetry, stop, direction)
                sender = Sender(redis, settings, Outlet(output, settings.layout), address, telemetry, writer)
                works.append(sender.run(stop))
        with process.health.reporting(ROLE, *telemetry.loops.values()):
            await together(*works, stop=stop)


def _inlets(  # noqa: PLR0917 - what all directions share
    redis: Redis,
    settings: Settings,
    address: BrokerAddress,
    telemetry: BridgeTelemetry,
    stop: asyncio.Event,
    process: ProcessTelemetry,
) -> list[Coroutine[Any, Any, None]]:
    if not address.is_otlp:
        intake = Intake(redis, settings, address, telemetry, stop)
        return [Receiver(settings, intake, address, telemetry).run(stop)]
    try:
        from ragtide_producers.ingest.service import run_ingest  # noqa: PLC0415 - an extra of its own
        from ragtide_producers.ingest.telemetry import IngestTelemetry  # noqa: PLC0415

        from .span_intake import SpanIntake  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"spans need {error.name}, which is not installed: pip install 'ragtide[service,web]'"
        ) from error
    ingest = IngestTelemetry(process)
    spans = SpanIntake(redis, settings, address, telemetry, stop, ingest)
    return [
        Receiver(settings, spans, address, telemetry).run(stop),
        run_ingest(settings, redis, stop, ingest),
    ]


class _LinkKeeper:
    """Keeps the link of one direction: opens it, checks it, and opens another one when its broker fails."""

    def __init__(self, settings: Settings, direction: str, address: BrokerAddress, telemetry: BridgeTelemetry) -> None:
        self._settings = settings.bridge
        self._direction = direction
        self._address = address
        self._telemetry = telemetry
        self._loop = telemetry.loops[direction]
        self._outage = Outage(f"The broker of {address.shown}").attempt("connecting")
        self._backoff = Backoff(longest_s=LONGEST_PAUSE_S)
        self._make = link_class(address.kind)
        self._was_open = self._is_working = False

    async def open(self, take: Take | None) -> Link:
        """Return an open link.

        Raises:
            ConfigurationError: the topic does not exist at the start.
            BrokerFailedError: the broker failed.
        """
        link = self._make(self._address, self._settings.group, self._settings.batch)
        try:
            async with asyncio.timeout(OPEN_S):
                await link.open(take)
        except TopicMissingError as error:
            await _closed(link)
            if not self._was_open:
                raise ConfigurationError(str(error)) from None
            raise BrokerFailedError(str(error)) from error
        except link.errors as error:
            await _closed(link)
            raise BrokerFailedError(explained(error)) from error
        except BaseException:
            await _closed(link)
            raise
        self._was_open = True
        return link

    def works(self) -> None:
        """Report that the broker does what it is asked for; a broker that only answers may refuse every message."""
        if self._is_working:
            return
        self._is_working = True
        self._outage.succeeded()
        self._backoff.succeeded()
        self._telemetry.connected(self._direction, is_connected=True)
        log.info("bridge connected", direction=self._direction, topic=self._address.shown)

    async def failed(self, error: Exception, stop: asyncio.Event) -> None:
        """Wait after a failure of the broker."""
        self.report(error)
        await sleep_or_stop(stop, self._backoff.pause_s())

    def report(self, error: Exception) -> None:
        """Report a failure of the broker."""
        self._is_working = False
        self._telemetry.connected(self._direction, is_connected=False)
        self._outage.failed(error)
        self._loop.failed(f"the broker failed: {error}")


class BrokerFailedError(Exception):
    """A broker failed: it is tried again."""


def _failures(link: Link) -> tuple[type[Exception], ...]:
    return (TopicMissingError, *link.errors)


async def _closed(link: Link) -> None:
    """Close a link, however long its client would take."""
    with suppress(TimeoutError):
        async with asyncio.timeout(3 * GRACE_S):
            await link.close()


class Receiver(_LinkKeeper):
    """Takes the messages of a topic into Redis.

    Args:
        settings: of the process.
        intake: writes them.
        address: of the topic.
        telemetry: of the bridge.
    """

    def __init__(self, settings: Settings, intake: Intake, address: BrokerAddress, telemetry: BridgeTelemetry) -> None:
        super().__init__(settings, "from", address, telemetry)
        self._intake = intake
        self._taking = 0
        self._defect: asyncio.Future[None] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Take messages until `stop` is set; those that are being taken are finished first.

        Args:
            stop: ends it.

        Raises:
            ConfigurationError: the topic does not exist at the start.
        """
        while not stop.is_set():
            self._defect = asyncio.get_running_loop().create_future()
            try:
                link = await self.open(self._take)
                self.works()
                try:
                    await self._watch(link, stop)
                except BrokerFailedError as error:
                    self.report(error)  # before the client takes its time to close
                    raise
                finally:
                    await _closed(link)
            except BrokerFailedError as error:
                await self.failed(error, stop)

    async def _watch(self, link: Link, stop: asyncio.Event) -> None:
        defect = self._defect
        while not await sleep_or_stop(stop, CHECK_S):
            if defect is not None and defect.done():
                defect.result()
            try:
                async with asyncio.timeout(2 * CONNECT_S):
                    await link.check()
            except _failures(link) as error:
                raise BrokerFailedError(explained(error)) from error
            if not self._taking:
                self._loop.beat("taking messages")

    async def _take(self, messages: Sequence[Received]) -> bool:
        """Take messages; a defect of this code ends the bridge and must not acknowledge anything."""
        defect = self._defect
        if defect is None or defect.done():
            return False
        self._taking += 1
        try:
            await self._intake.take(messages)
        except StoppedError:
            return False
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - raised by `_watch`; the client of the broker would swallow it
            if not defect.done():
                defect.set_exception(error)
            return False
        finally:
            self._taking -= 1
        self._loop.beat("taking messages")
        return True


class Sender(_LinkKeeper):
    """Sends the entries of streams to a topic.

    Args:
        redis: client.
        settings: of the process.
        outlet: makes the messages.
        address: of the topic.
        telemetry: of the bridge.
        writer: writes dead letters.
    """

    def __init__(  # noqa: PLR0917 - what all directions share, and two of its own
        self,
        redis: Redis,
        settings: Settings,
        outlet: Outlet,
        address: BrokerAddress,
        telemetry: BridgeTelemetry,
        writer: RedisWriter,
    ) -> None:
        super().__init__(settings, outlet.output, address, telemetry)
        self._writer = writer
        self._outlet = outlet
        self._source = source_of(outlet, address, redis, at_once=settings.bridge.batch)
        self._redis_outage = redis_outage(redis).attempt(f"reading {outlet.output}")
        self._is_reading = False

    async def run(self, stop: asyncio.Event) -> None:
        """Send entries until `stop` is set.

        Args:
            stop: ends it.

        Raises:
            ConfigurationError: the topic does not exist at the start.
        """
        try:
            while not stop.is_set():
                try:
                    link = await self.open(None)
                    watching = asyncio.create_task(self._check_forever(link))
                    try:
                        with suppress(StoppedError):
                            await self._send_all(link, watching, stop)
                    finally:
                        await end(watching)
                        await _closed(link)
                except BrokerFailedError as error:
                    self._source.restart()
                    await self.failed(error, stop)
        finally:
            if self._is_reading:
                await self._source.close(finished=False)

    async def _check_forever(self, link: Link) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            async with asyncio.timeout(2 * CONNECT_S):
                await link.check()

    async def _send_all(self, link: Link, watching: asyncio.Task[None], stop: asyncio.Event) -> None:
        pause, is_failing = Backoff(), False
        while not stop.is_set():
            if watching.done():
                try:
                    watching.result()
                except _failures(link) as error:
                    raise BrokerFailedError(explained(error)) from error
            try:
                if not self._is_reading:
                    await self._source.open()
                    self._is_reading = True
                elif is_failing:
                    await self._source.recover()
                entries = await self._source.read_all()
            except REDIS_ERRORS as error:
                is_failing = True
                self._redis_outage.failed(error)
                self._loop.failed(f"Redis failed: {error}")
                await sleep_or_stop(stop, pause.pause_s())
                continue
            is_failing = False
            self._redis_outage.succeeded()
            pause.succeeded()
            await self._send(link, self._outlet.messages(entries))
            self.works()
            self._source.finish()
            self._loop.beat(f"sending {self._direction}")

    async def _send(self, link: Link, messages: Sequence[Outgoing]) -> None:
        warning = self._outlet.unreadable.due_warning()
        if warning is not None:
            log.warning(warning)
        waiting = list(messages)
        while waiting:
            try:
                async with asyncio.timeout(SEND_S):
                    await link.send(waiting)
            except MessageTooLargeError as error:
                waiting.remove(error.message)
                await self._reject(error)
            except _failures(link) as error:
                raise BrokerFailedError(explained(error)) from error
            else:
                self._telemetry.sent(self._direction, len(waiting))
                return

    async def _reject(self, error: MessageTooLargeError) -> None:
        stream, _, entry_id = error.message.message_id.rpartition("/")
        detail = f"{self._address.shown} takes no message of this size ({error}): let its topic take larger ones"
        letter = DeadLetter.of(
            error.message.body,
            stream=stream,
            entry_id=entry_id,
            reason=Reason.TOO_LARGE,
            detail=printable(detail),
            component=ROLE,
        )
        await self._writer.reject([letter])


async def forget_bridge(redis: Redis, settings: Settings) -> int:
    """Remove the positions of the topics to which a bridge sends, and return the number of removed groups.

    Entries are then trimmed without waiting for the bridge.

    Args:
        redis: client.
        settings: of the deployment, with the topics.

    Raises:
        ConfigurationError: a URL is wrong.
        redis.RedisError: Redis failed.
    """
    removed = 0
    for direction, address in bridge_addresses(settings.bridge).items():
        for output in OUTPUTS:
            if output == direction:
                group = group_of(output, address)
                for stream in Outlet(output, settings.layout).streams:
                    if await redis.exists(stream):
                        removed += await redis.xgroup_destroy(stream, group)
    return removed


async def topic_findings(settings: Settings) -> list[Finding]:
    """Return a finding about each topic: whether its broker answers and has it. None is read or written."""
    try:
        addresses = bridge_addresses(settings.bridge)
    except ConfigurationError as error:
        return [Finding("problem", "bridge", str(error), "correct the settings of the bridge")]
    return await asyncio.gather(*(_finding(direction, address, settings) for direction, address in addresses.items()))


async def _finding(direction: str, address: BrokerAddress, settings: Settings) -> Finding:
    subject = f"bridge {direction}"
    try:
        link = link_class(address.kind)(address, settings.bridge.group, settings.bridge.batch)
    except ConfigurationError as error:
        return Finding("problem", subject, str(error), "install the extra")
    try:
        async with asyncio.timeout(2 * CONNECT_S):
            await link.open(None)
            await link.check()
    except TopicMissingError as error:
        return Finding("problem", subject, str(error), "create the topic, or correct its name")
    except link.errors as error:
        problem = f"the broker of {address.shown} does not answer: {explained(error)}"
        return Finding("problem", subject, problem, "start the broker, or correct the URL")
    finally:
        with suppress(TimeoutError):
            await link.close()
    return Finding("ok", subject, address.shown)
