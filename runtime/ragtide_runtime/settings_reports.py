"""What each running process says about its settings: which are in force, which wait for a restart, and which are wrong.

A report has digests of settings, and no value. No secret is part of a digest.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast

from redis.asyncio import Redis

from .redis.keys import Streams
from .settings.model import Settings
from .settings.uptake import digests
from .settings.watch import SettingsWatch

WRITE_S: Final = 10.0
"""Seconds after which an unchanged report is written again."""

SILENT_MS: Final = 35_000
"""Milliseconds after its last report from which on a process counts as ended."""

MOST: Final = 1000
"""Most reports that are read."""


@dataclass(frozen=True, slots=True)
class SettingsReport:
    """The report of a process."""

    process: str
    """Its host and process id."""
    roles: tuple[str, ...]
    at_ms: int = 0
    """Time of the report, by Redis's clock."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Digest of each setting in force that has not its default value."""
    given: tuple[str, ...] = ()
    """Settings that the command was given as options."""
    waiting: tuple[str, ...] = ()
    """Changed settings that wait for a restart of the process."""
    refused: str = ""
    """Why the changed settings are not in force, in a sentence."""
    destinations: tuple[str, ...] = ()
    """Names of the destinations to which a notifier sends."""

    @property
    def is_notifier(self) -> bool:
        """Whether the process sends notifications."""
        return "notify" in self.roles


def report_of(watch: SettingsWatch, process: str) -> SettingsReport:
    """Return the report of a process, without its time."""
    loaded = watch.loaded
    return SettingsReport(
        process,
        tuple(sorted(watch.roles)),
        digests=digests(loaded),
        given=tuple(sorted(loaded.given)),
        waiting=watch.waiting,
        refused=watch.refused,
        destinations=tuple(destination.name for destination in watch.destinations) if "notify" in watch.roles else (),
    )


async def write_report(redis: Redis, prefix: str, report: SettingsReport) -> None:
    """Write the report of a process, in place of the one before.

    Raises:
        redis.RedisError: Redis failed.
    """
    now_ms = await _now_ms(redis)
    stored = {**asdict(report), "at_ms": now_ms}
    await redis.hset(Streams(prefix, 0).settings_reports, report.process, json.dumps(stored))


async def remove_report(redis: Redis, prefix: str, process: str) -> None:
    """Remove the report of a process that ends.

    Raises:
        redis.RedisError: Redis failed.
    """
    await redis.hdel(Streams(prefix, 0).settings_reports, process)


async def read_reports(redis: Redis, prefix: str) -> list[SettingsReport]:
    """Return the reports of the processes that run, by name; those of ended processes are removed.

    Raises:
        redis.RedisError: Redis failed.
    """
    key, now_ms = Streams(prefix, 0).settings_reports, await _now_ms(redis)
    stored = cast("dict[bytes, bytes]", await redis.hgetall(key))
    reports = {name: _decode_report(data) for name, data in sorted(stored.items())[:MOST]}
    ended = [name for name, report in reports.items() if report is None or now_ms - report.at_ms > 10 * SILENT_MS]
    if ended:
        await redis.hdel(key, *ended)
    return [report for report in reports.values() if report is not None and now_ms - report.at_ms <= SILENT_MS]


def destinations_in_force(settings: Settings, reports: Iterable[SettingsReport]) -> tuple[str, ...]:
    """Return the names of the destinations of the running notifiers; those of the settings if no notifier runs.

    Args:
        settings: of the process that asks.
    """
    notifiers = [report for report in reports if report.is_notifier]
    if not notifiers:
        return tuple(destination.name for destination in settings.notify.destinations)
    return tuple(dict.fromkeys(name for notifier in notifiers for name in notifier.destinations))


async def _now_ms(redis: Redis) -> int:
    time: Any = await redis.time()
    times = list(time.values()) if isinstance(time, dict) else [time]
    return max(int(seconds) * 1000 + int(micros) // 1000 for seconds, micros in times)


def _decode_report(data: bytes) -> SettingsReport | None:
    """Return a stored report; None for one of another form, because any client may write to Redis."""
    try:
        fields: Any = json.loads(data)
        return SettingsReport(
            str(fields["process"])[:200],
            _texts(fields["roles"]),
            int(fields["at_ms"]),
            {str(name)[:200]: str(digest)[:64] for name, digest in dict(fields["digests"]).items()},
            _texts(fields["given"]),
            _texts(fields["waiting"]),
            str(fields["refused"])[:2000],
            _texts(fields["destinations"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None


def _texts(values: Sequence[object]) -> tuple[str, ...]:
    return tuple(str(text)[:200] for text in list(values)[:MOST])
