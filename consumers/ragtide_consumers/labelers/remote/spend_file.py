"""The spend limit of work without Redis: dollars a clock hour and a day, in a file that outlives the process."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from math import isfinite
from pathlib import Path

from ragtide_runtime.calls.endpoint_states import spend_periods
from ragtide_runtime.errors import ConfigurationError, RedisUnavailable
from ragtide_runtime.redis.server.data_directory import check_private
from ragtide_runtime.settings.labelers import RemoteSettings
from ragtide_schemas import utc_now

from .spend import LimitReached, Reservation, reached


class FileSpend:
    """An account in a file, for all processes that use the same data directory, one after another or together.

    The file, such as `judge-spend.json`, holds dollars by hour and day; past periods are removed. Each change takes a
    lock file and replaces the file in one step, so a process that is killed leaves the old or the new amounts.

    Args:
        data_dir: directory of the file; made if it does not exist.
        settings: the limits.
        name: of the labeler.
        now: returns the time.

    Raises:
        ConfigurationError: the file cannot be read or written.
    """

    def __init__(
        self, data_dir: Path, settings: RemoteSettings, *, name: str = "judge", now: Callable[[], datetime] = utc_now
    ) -> None:
        self._name = name
        self._path = data_dir / f"{name}-spend.json"
        self._hour_limit = settings.spend_per_hour_usd
        self._day_limit = settings.spend_per_day_usd
        self._now = now
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
        hour, day = spend_periods(now)
        with self._locked():
            spent = self._read()
            for name, key, limit in (("day", day, self._day_limit), ("hour", hour, self._hour_limit)):
                if limit is not None and spent.get(key, 0.0) + amount_usd > limit:
                    return reached(name, now)
            current = {key: spent.get(key, 0.0) + amount_usd for key in (hour, day)}
            # The amounts of the day before stay for calls that are settled after its end.
            days = {day, spend_periods(now - timedelta(days=1))[1]}
            self._write({key: spent_usd for key, spent_usd in (spent | current).items() if key[:8] in days})
        return Reservation(amount_usd, hour, day)

    async def settle(self, reservation: Reservation, cost_usd: float) -> None:
        """Correct a reservation to the real cost of the call."""
        with self._locked():
            spent = self._read()
            for key in (reservation.hour, reservation.day):
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
                found = json.load(file)
            spent = {str(key): float(amount) for key, amount in found.items()}
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
