"""The notifier of a process: it sends the alerts of every partition that no other notifier owns."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Final

import aiohttp
import structlog
from redis.asyncio import Redis

from ragtide_runtime.calls.breaker import Breaker
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.ownership.owner import PartitionOwner
from ragtide_runtime.ownership.ownership import Lease, Ownership, process_name
from ragtide_runtime.redis.client import CONNECTIONS, connect_async
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.notify import DestinationSettings, NotifySettings
from ragtide_runtime.settings.watch import NOTIFY, SettingsWatch
from ragtide_runtime.telemetry.health import Heartbeat, ProcessTelemetry

from .destinations.alertmanager import Alertmanager
from .destinations.apprise import AppriseService
from .destinations.email import Email
from .destinations.http import HttpDestination, open_session
from .destinations.pagerduty import PagerDuty
from .destinations.protocol import Destination
from .destinations.slack import Slack
from .destinations.teams import Teams
from .destinations.webhook import Webhook
from .session import NotifySession, OpenDestination, known_destination
from .telemetry import ROLE, NotifyTelemetry

NO_DESTINATION: Final = (
    "notify.destinations is empty: add [[notify.destinations]] to the settings (ragtide docs notify)"
)
"""Why a notifier does not start."""

BREAKER_FAILURES = 5
"""Failures in a row after which a destination is not called for a while."""

BREAKER_PAUSE_S = 5.0
"""The first pause; it doubles up to a minute."""

BREAKER_LONGEST_S = 60.0
"""The longest pause."""

log = structlog.get_logger("ragtide.notify")


@asynccontextmanager
async def open_destinations(settings: Settings) -> AsyncIterator[dict[str, OpenDestination]]:
    """Open the destinations of the settings for the body of an `async with`, by name.

    Raises:
        ConfigurationError: a library that a destination needs is not installed.
    """
    notify = settings.notify
    async with open_session(notify) as session:
        by_name: dict[str, OpenDestination] = {}
        try:
            for chosen in notify.destinations:
                destination = destination_of(chosen, notify, session, prefix=settings.prefix)
                breaker = Breaker(failures=BREAKER_FAILURES, pause_s=BREAKER_PAUSE_S, longest_s=BREAKER_LONGEST_S)
                known = known_destination(chosen, destination, notify)
                by_name[chosen.name] = OpenDestination(known, destination, breaker)
            yield by_name
        finally:
            for opened in by_name.values():
                await opened.destination.aclose()


async def run_notifier(
    settings: Settings, url: str, stop: asyncio.Event, process: ProcessTelemetry, rules: SettingsWatch | None = None
) -> None:
    """Send alerts to their destinations until `stop` is set.

    Changed settings of notifications are taken while it runs: messages in flight are finished, and what waits in the
    outbox is sent by the new settings. Without a destination it waits for one.

    Args:
        process: health and metrics.
        rules: gives changed settings; None leaves them as they are.

    Raises:
        ConfigurationError: there is no destination and none can come, or a library is not installed.
    """
    if rules is None and not settings.notify.destinations:
        raise ConfigurationError(NO_DESTINATION)
    telemetry = NotifyTelemetry(settings.partitions, (), process)
    wanted, changed = settings, asyncio.Event()

    def take(new: Settings) -> None:
        nonlocal wanted
        wanted = new
        changed.set()

    in_force: Settings | None = None
    with nullcontext() if rules is None else rules.giving(take, NOTIFY):
        while not stop.is_set():
            changed.clear()
            chosen = wanted
            try:
                async with open_destinations(chosen) as destinations:
                    in_force = chosen
                    if rules is not None:
                        rules.destinations = chosen.notify.destinations
                    telemetry.take_destinations(tuple(destinations))
                    async with _either(stop, changed) as ended:
                        if destinations:
                            await _notify(chosen, url, destinations, telemetry, ended)
                        else:
                            await _wait_for_destination(process, ended)
            except ConfigurationError as error:
                if in_force is None or rules is None or in_force is chosen:
                    raise
                rules.refuse(str(error))
                wanted = in_force  # until the settings change again


async def _notify(
    settings: Settings,
    url: str,
    destinations: Mapping[str, OpenDestination],
    telemetry: NotifyTelemetry,
    ended: asyncio.Event,
) -> None:
    async with connect_async(url, connections=CONNECTIONS + settings.partitions) as redis:
        await Notifier(redis, settings, destinations, telemetry).run(ended)


async def _wait_for_destination(process: ProcessTelemetry, ended: asyncio.Event) -> None:
    log.info("no destination: alerts are sent to nobody until the settings name one")
    heartbeat = Heartbeat(ROLE)
    with process.health.reporting(ROLE, heartbeat), heartbeat.idle("there is no destination"):
        await ended.wait()


@asynccontextmanager
async def _either(first: asyncio.Event, second: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set as soon as one of two is."""
    either = asyncio.Event()
    waits = [asyncio.create_task(event.wait()) for event in (first, second)]
    for wait in waits:
        wait.add_done_callback(lambda _: either.set())
    try:
        yield either
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)


class Notifier:
    """The notifier of one process: it owns each partition that no other notifier owns."""

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        destinations: Mapping[str, OpenDestination],
        telemetry: NotifyTelemetry | None = None,
    ) -> None:
        self._redis = redis
        self._settings = settings
        self._destinations = destinations
        self._telemetry = telemetry or NotifyTelemetry(settings.partitions, tuple(destinations))
        leases = [
            Lease(redis, streams, holder=process_name(), lease_s=settings.lease_s, role="notifier")
            for streams in settings.layout.all()
        ]
        self._owner = PartitionOwner(redis, leases, self._notify, telemetry=self._telemetry)

    async def run(self, stop: asyncio.Event) -> None:
        """Send notifications until `stop` is set."""
        await self._owner.run(stop)

    async def _notify(self, ownership: Ownership) -> None:
        session = NotifySession(
            self._redis,
            self._settings.notify,
            ownership,
            prefix=self._settings.prefix,
            destinations=self._destinations,
            telemetry=self._telemetry,
        )
        await session.run()


def destination_of(
    settings: DestinationSettings, notify: NotifySettings, session: aiohttp.ClientSession, *, prefix: str = "ragtide"
) -> Destination:
    """Return the destination that the settings describe.

    Args:
        notify: settings of all notifications.
        session: that `open_session` returned; the caller closes it after the destinations.
        prefix: of the keys in Redis; webhooks name the deployment by it.

    Raises:
        ConfigurationError: a library that the kind needs is not installed.
    """
    if settings.kind == "webhook":
        return Webhook(settings, notify, session, prefix=prefix)
    if settings.kind == "email":
        return Email(settings, notify)
    if settings.kind == "apprise":
        return AppriseService(settings, notify)
    return _OVER_HTTP[settings.kind](settings, notify, session)


_OVER_HTTP: Final[Mapping[str, type[HttpDestination]]] = {
    "alertmanager": Alertmanager,
    "pagerduty": PagerDuty,
    "slack": Slack,
    "teams": Teams,
}
