"""The spend limit: dollars a clock hour and a day, for all workers of a deployment together.

The probable cost of a call is reserved by one script before the call, so that workers cannot overspend together. After
the call the reservation is corrected to the real cost. The reservation of a worker that dies stays counted.
"""

import asyncio
import fcntl
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from uuid import uuid4

from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.calls.endpoint_states import REACHED, spend_periods
from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.redis.keys import Streams, deployment_prefix
from ragtide_runtime.redis.scripts import Lua, ScriptCall, run_script
from ragtide_runtime.redis.server.data_directory import check_private
from ragtide_runtime.settings.labelers import RemoteSettings
from ragtide_schemas import Alert, InvalidEntryError, utc_now

RESERVE: Final = Lua("reserve_spend")
RESOLVE: Final = Lua("resolve_spend_alert")

IN_FLIGHT_S: Final = 900.0
"""Seconds after which the reservation of a call without an answer counts as spent, as that of a worker that died."""

ROOM_S: Final = 0.5
"""Seconds between two tries while only the reservations of calls in flight leave no room for another call."""

RUN: Final = "run"
"""The period of the account of one run: from its beginning to its end, however often it is continued."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Dollars that are reserved for a call, with their hour and day."""

    amount_usd: float
    hour: str
    day: str
    key: str = ""
    """Names it among the calls in flight; empty where these are not counted."""


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit is reached, until its period ends or the limit changes; nothing was reserved."""

    period: str
    """`hour`, `day` or `run`."""
    resumes_in_s: float
    """Seconds until the next period begins; infinite for a run."""


class Spend(Protocol):
    """The account of dollars that calls cost."""

    async def reserve(self, amount_usd: float) -> Reservation | LimitReached:
        """Reserve dollars for a call."""

    async def settle(self, reservation: Reservation, cost_usd: float) -> None:
        """Correct a reservation to the real cost of the call."""


def limit_reached(name: str, now: datetime) -> LimitReached:
    """Return that the limit of the hour, day or run is reached, with the seconds until the next period."""
    if name == RUN:
        return LimitReached(name, math.inf)
    whole = now.replace(minute=0, second=0, microsecond=0)
    ends = whole + timedelta(hours=1) if name == "hour" else whole.replace(hour=0) + timedelta(days=1)
    return LimitReached(name, (ends - now).total_seconds())


class NoSpendLimit:
    """An account without a limit."""

    async def reserve(self, amount_usd: float) -> Reservation | LimitReached:
        """Return an empty reservation."""
        del amount_usd
        return Reservation(0.0, "", "")

    async def settle(self, reservation: Reservation, cost_usd: float) -> None:
        """Do nothing."""


class SpendReply(NamedTuple):
    """The reply of Redis to a reservation."""

    over: str | None
    """`hour` or `day`, whose limit is reached; `wait` if calls in flight may leave room; None if it was reserved."""
    firing: bytes
    """An alert that still fires although calls are made again; empty if there is none."""


def reserve_spend(
    streams: Streams,
    labeler: str,
    periods: tuple[str, str],
    amount_usd: float,
    *,
    limits: tuple[float | None, float | None],
    alert: Alert,
    key: str,
) -> ScriptCall[SpendReply]:
    """Return the call that reserves dollars in an hour and a day, unless a limit would be exceeded.

    Args:
        streams: keys of partition 0 of the deployment.
        periods: names of the hour and of the day.
        amount_usd: dollars to reserve.
        key: names the reservation among the calls in flight.
    """
    keys = (
        *(streams.labeler_spend(labeler, name) for name in (*periods, "alert")),
        streams.alerts,
        streams.labeler_reserved(labeler, periods[1]),
        streams.labeler_spend(labeler, REACHED),
    )
    of_periods = (-1 if limit is None else repr(limit) for limit in limits)
    arguments = (repr(amount_usd), *of_periods, alert.encode(), key, int(1000 * IN_FLIGHT_S))
    return ScriptCall(RESERVE, keys, arguments, _reserved)


def _reserved(reply: list[bytes]) -> SpendReply:
    outcome, firing = reply
    return SpendReply(None if outcome == b"ok" else outcome.decode(), firing)


def resolve_spend_alert(streams: Streams, labeler: str, firing: bytes, resolved: bytes) -> ScriptCall[bool]:
    """Return the call that resolves the firing alert; its reply says whether it was resolved now."""
    keys = (streams.labeler_spend(labeler, "alert"), streams.alerts)
    return ScriptCall(RESOLVE, keys, (firing, resolved), bool)


class RedisSpend:
    """An account in Redis, for all workers.

    A limit that is reached raises one alert, and stays reached until its period ends or the limit changes. The first
    call after that resolves the alert.

    Live traffic, replays and experiments share the account and the alerts stream of the deployment.
    """

    def __init__(
        self,
        redis: Redis,
        prefix: str,
        settings: RemoteSettings,
        *,
        name: str = "judge",
        effect: str = "",
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._redis = redis
        self._name = name
        # All keys are in the slot of partition 0, whose stream gets the alert.
        self._streams = Streams(deployment_prefix(prefix), 0)
        self._settings = settings
        self._effect = effect or settings.over_budget_effect
        self._now = now

    def _key(self, name: str) -> str:
        return self._streams.labeler_spend(self._name, name)

    async def reserve(self, amount_usd: float) -> Reservation | LimitReached:
        """Reserve dollars for a call; wait while only the reservations of calls in flight leave no room.

        Raises:
            redis.RedisError: Redis failed; the dollars may or may not be reserved.
        """
        limits, key = (self._settings.spend_per_hour_usd, self._settings.spend_per_day_usd), uuid4().hex
        while True:
            now = self._now()
            hour, day = periods = spend_periods(now)
            alert = self._alert(now)
            call = reserve_spend(self._streams, self._name, periods, amount_usd, limits=limits, alert=alert, key=key)
            reply = await run_script(self._redis, call)
            if reply.over != "wait":
                break
            await asyncio.sleep(ROOM_S)  # calls in flight may cost less than they reserved
        if reply.over is not None:
            return limit_reached(reply.over, now)
        if reply.firing:
            await self._resolve_alert(reply.firing, now)
        return Reservation(amount_usd, hour, day, key)

    async def _resolve_alert(self, firing: bytes, now: datetime) -> None:
        """Resolve an alert, because calls are made again; an unreadable alert is removed and not published."""
        try:
            resolved = Alert.decode(firing).resolve(now, self._message("is no longer reached")).encode()
        except InvalidEntryError:
            resolved = b""
        with suppress(RedisError):  # the next call tries again
            await run_script(self._redis, resolve_spend_alert(self._streams, self._name, firing, resolved))

    async def settle(self, reservation: Reservation, cost_usd: float) -> None:
        """Correct a reservation to the real cost of the call.

        Raises:
            redis.RedisError: Redis failed; the reservation stays counted.
        """
        difference = cost_usd - reservation.amount_usd
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.incrbyfloat(self._key(reservation.hour), difference)
            pipe.incrbyfloat(self._key(reservation.day), difference)
            pipe.hdel(self._streams.labeler_reserved(self._name, reservation.day), reservation.key)
            await pipe.execute()

    def _message(self, state: str) -> str:
        hour, day = self._settings.spend_per_hour_usd, self._settings.spend_per_day_usd
        limits = " and ".join(
            f"${limit:g} {period}" for limit, period in ((hour, "an hour"), (day, "a day")) if limit is not None
        )
        return f"The {self._name}'s spend limit of {limits} {state}: " + (
            f"{self._effect}. Raise it, or ask for fewer labels." if state == "is reached" else "calls are made again."
        )

    def _alert(self, now: datetime) -> Alert:
        return Alert(
            alert_id=f"{self._name}-spend-{now:%Y%m%d%H%M%S}",
            status="firing",
            rule=f"{self._name}-spend",
            kind="budget",
            pipeline="*",
            metric=f"{self._name}.cost_usd",
            direction="rise",
            fired_at=now,
            message=self._message("is reached"),
        )


class FileSpend:
    """An account in a file, for all processes that use the same data directory, one after another or together.

    The file, such as `judge-spend.json`, holds dollars by hour and day; past periods are removed. The account of a run
    holds the dollars of all its calls. Each change takes a lock file and replaces the file in one step, so a process
    that is killed leaves the old or the new amounts.

    Args:
        data_dir: directory of the file; made if it does not exist.
        settings: the limits of hour and day; None for the account of a run.
        name: of the labeler; of what the run does.
        run_usd: limit of the run; None for no limit.
        now: returns the time.

    Raises:
        ConfigurationError: the file cannot be read or written.
    """

    def __init__(
        self,
        data_dir: Path,
        settings: RemoteSettings | None,
        *,
        name: str = "judge",
        run_usd: float | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._name = name
        self._path = data_dir / f"{name}-spend.json"
        self._limits = (
            {RUN: run_usd}
            if settings is None
            else {"day": settings.spend_per_day_usd, "hour": settings.spend_per_hour_usd}
        )
        self._now = now
        self.reached = False
        """Whether a limit has refused a call of this process."""
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_private(data_dir)
        except (OSError, RedisUnavailable) as error:
            raise ConfigurationError(
                f"{self._path}, which holds the {self._name}'s spend, cannot be used ({error}): set data_dir to a "
                "directory of your own"
            ) from None
        with self._locked():
            self._read()

    async def reserve(self, amount_usd: float) -> Reservation | LimitReached:
        """Reserve dollars for a call."""
        now = self._now()
        hour, day = (RUN, RUN) if RUN in self._limits else spend_periods(now)
        keys = {"hour": hour, "day": day, RUN: RUN}
        with self._locked():
            spent = self._read()
            for name, limit in self._limits.items():
                if limit is not None and spent.get(keys[name], 0.0) + amount_usd > limit:
                    self.reached = True
                    return limit_reached(name, now)
            current = {key: spent.get(key, 0.0) + amount_usd for key in (hour, day)}
            # The amounts of the day before stay for calls that are settled after its end.
            days = {day, spend_periods(now - timedelta(days=1))[1]}
            self._write({key: spent_usd for key, spent_usd in (spent | current).items() if key[:8] in days})
        return Reservation(amount_usd, hour, day)

    @property
    def run_usd(self) -> float:
        """Dollars of the run so far: those of ended calls, and those that are reserved.

        Raises:
            ConfigurationError: the file cannot be read.
        """
        with self._locked():
            return self._read().get(RUN, 0.0)

    async def settle(self, reservation: Reservation, cost_usd: float) -> None:
        """Correct a reservation to the real cost of the call."""
        with self._locked():
            spent = self._read()
            for key in {reservation.hour, reservation.day}:  # in the account of a run they are one
                if key in spent:
                    spent[key] = max(spent[key] + cost_usd - reservation.amount_usd, 0.0)
            self._write(spent)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self._path.with_suffix(".lock"), flags, 0o600)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> dict[str, float]:
        try:
            with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                stored = json.load(file)
            spent = {str(key): float(amount) for key, amount in stored.items()}
            if not all(isfinite(amount) and amount >= 0 for amount in spent.values()):
                raise ValueError("an amount is not 0 or more")  # noqa: TRY301 - reported like any other damage
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._unusable(error) from None
        return spent

    def _write(self, spent: dict[str, float]) -> None:
        new = self._path.with_suffix(".new")
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
                json.dump(spent, file)
            new.replace(self._path)
        except OSError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> ConfigurationError:
        return ConfigurationError(
            f"{self._path}, which holds the {self._name}'s spend, cannot be used ({type(error).__name__}: {error}): "
            "correct or remove the file"
        )
