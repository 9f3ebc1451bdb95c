"""Reads alert rules, evaluators and criteria anew while a process runs: after SIGHUP, or when the file has changed.

In a terminal SIGHUP means that the terminal was closed, so it still ends the process there.
"""

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal

import structlog

from ..errors import ConfigurationError
from ..redis.keys import workspace_of
from .alerting import default_rules_of
from .model import Settings, load_settings, settings_file

Outcome = Literal["taken", "unchanged", "refused"]
"""`taken` if a watched setting changed, `refused` if a setting is wrong and the process keeps those that it has."""

OUTCOMES: Final[tuple[Outcome, ...]] = ("taken", "unchanged", "refused")

Taker = Callable[[Settings], object]
"""Takes settings in which some of the watched settings are new."""

RULES: Final = ("alerts", "alert_defaults", "budget")
"""The settings of alert rules."""

EVALUATORS: Final = ("labeler", "evaluators")
"""The settings of who scores an interaction."""

CRITERIA: Final = ("judge.criteria",)
"""The settings of what a judge is asked."""

SETTLED_S: Final = 1.0
"""Seconds for which a changed file must stay the same before it is read: a program may still write it."""

UNCHANGED: Final = "the alert rules and evaluators stay as they are, because the settings are wrong"

log = structlog.get_logger("ragtide.rules")


class RulesWatch:
    """Gives new alert rules with their budget, and new evaluators and criteria, to the roles of a process.

    Only the settings in `RULES`, `EVALUATORS` and `CRITERIA` are taken; a change of any other setting needs a restart.

    Args:
        settings: with which the process has started.
        check: raises a `ConfigurationError` if rules do not suit their metrics.
        count: called with the outcome of each reading.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        check: Callable[[Settings], None] = lambda _: None,
        count: Callable[[Outcome], None] = lambda _: None,
    ) -> None:
        self._settings = self._started_with = settings
        self._check = check
        self._count = count
        self._takers: list[tuple[Taker, tuple[str, ...]]] = []
        self._asked = asyncio.Event()
        self._digest = _digest()
        self._had_file = self._digest is not None

    @contextmanager
    def giving(self, taker: Taker, names: tuple[str, ...] = RULES) -> Iterator[None]:
        """Call `taker` with settings that have new values during the body of a `with`; at once if they are new already.

        Args:
            taker: takes the settings.
            names: of the settings that it is for, of those that are watched.
        """
        registered = taker, names
        self._takers.append(registered)
        if _differ(self._settings, self._started_with, names):
            taker(self._settings)
        try:
            yield
        finally:
            self._takers.remove(registered)

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set."""
        loop, poll_s = asyncio.get_running_loop(), self._settings.rules_poll_s
        if not sys.stdin.isatty():
            loop.add_signal_handler(signal.SIGHUP, self._asked.set)
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: self._asked.set())
        seen = self._digest
        try:
            while True:
                pause_s = poll_s if seen == self._digest else min(poll_s, SETTLED_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s or None):
                        await self._asked.wait()
                if stop.is_set():
                    return
                before, seen = seen, await asyncio.to_thread(_digest)
                if self._asked.is_set() or before == seen != self._digest:
                    self._asked.clear()
                    self._digest = seen
                    await self.read()
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            stopping.cancel()

    async def read(self) -> Outcome:
        """Read the settings, and give those that have changed to the roles. It raises no error."""
        before = self._settings
        if self._had_file and not settings_file().exists():
            log.warning(UNCHANGED, detail=f"{settings_file()} was removed: write it again, or restart without it")
            self._count("refused")
            return "refused"
        try:
            found = await asyncio.to_thread(_with_rules, self._settings, self._check)
        except ConfigurationError as error:
            log.warning(UNCHANGED, detail=str(error))
            self._count("refused")
            return "refused"
        if not _differ(found, before, (*RULES, *EVALUATORS, *CRITERIA)):
            log.info("the alert rules have not changed")
            self._count("unchanged")
            return "unchanged"
        self._settings = found
        for taker, names_of in self._takers:
            if _differ(found, before, names_of):
                taker(found)
        if _differ(found, before, RULES):
            _log_rules(found, before)
        self._count("taken")
        return "taken"


def _log_rules(found: Settings, before: Settings) -> None:
    names = {rule.name for rule in found.alerts}, {rule.name for rule in before.alerts}
    changed = {rule.name for rule in found.alerts if rule not in before.alerts}
    log.info(
        "new alert rules are in force",
        rules=len(found.alerts),
        new=sorted(names[0] - names[1]),
        changed=sorted(changed & names[1]),
        removed=sorted(names[1] - names[0]),
        defaults=default_rules_of(found.alerts),
    )


def _value(settings: Settings, name: str) -> object:
    found: object = settings
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _differ(first: Settings, second: Settings, names: tuple[str, ...]) -> bool:
    return any(_value(first, name) != _value(second, name) for name in names)


def with_rules_of_now(settings: Settings) -> Settings:
    """Return settings with the rules of the file and the environment as they are now, for a process that starts again.

    If a setting is wrong now, its rules stay, as they do in a process that runs. The rules of a workspace are in Redis.
    """
    if workspace_of(settings.prefix) is not None:
        return settings
    try:
        return _with_rules(settings)
    except ConfigurationError as error:
        log.warning(UNCHANGED, detail=str(error))
        return settings


def _with_rules(settings: Settings, check: Callable[[Settings], None] = lambda _: None) -> Settings:
    """Return settings with the watched settings of the file and the environment.

    Without a file they stay: a process keeps its environment, and a file that is missing for a moment removes no rule.

    Raises:
        ConfigurationError: a setting is wrong.
    """
    if not settings_file().exists() and "RAGTIDE_CONFIG" not in os.environ:
        return settings
    found = load_settings(prefix=settings.prefix, partitions=settings.partitions)
    changes: dict[str, object] = {name: getattr(found, name) for name in RULES}
    if not settings.was_given_labeler:
        changes |= {"labeler": found.labeler, "evaluators": found.evaluators}
    changes["judge"] = settings.judge.model_copy(update={"criteria": found.judge.criteria})
    changed = settings.model_copy(update=changes)
    for evaluator in changed.evaluators:
        try:
            changed.of_evaluator(evaluator)
        except ValueError as error:
            raise ConfigurationError(f"settings: {error}") from None
    check(changed)
    return changed


def _digest() -> bytes | None:
    """Return a digest of the settings' file; None if it cannot be read."""
    try:
        return hashlib.sha256(settings_file().read_bytes()).digest()
    except OSError:
        return None
