"""Reads the settings anew while a process runs: after SIGHUP, or when the file or a file of secrets has changed.

`uptake.py` says which settings a running role takes. Of the others a report says that they wait for a restart.
In a terminal SIGHUP means that the terminal was closed, so it still ends the process there.
"""

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import structlog

from ..errors import ConfigurationError
from ..redis.keys import workspace_of
from .alerting import default_rules_of
from .environment import SECRETS_DIR
from .model import Settings, load_settings
from .notify import DestinationSettings
from .toml_file import settings_file
from .uptake import changed_settings, roles_with, with_live_settings

Outcome = Literal["taken", "unchanged", "refused"]
"""`taken` if a live setting changed, `refused` if a setting is wrong and the process keeps those that it has."""

OUTCOMES: Final[tuple[Outcome, ...]] = ("taken", "unchanged", "refused")

Taker = Callable[[Settings], object]
"""Takes settings in which some of the watched settings are new."""

RULES: Final = ("alerts", "alert_defaults", "budget")
"""The settings of alert rules."""

CRITERIA: Final = ("judge.criteria",)
"""The settings of what a judge is asked."""

LABELING: Final = (
    *("labeler", "evaluators", "profile", "claim_profile"),
    *("local", "judge", "models", "services", "cascade"),
)
"""The settings of the labelers, criteria excepted."""

AGGREGATION: Final = (*RULES, "stall")
"""The settings that a running aggregator takes."""

NOTIFY: Final = ("notify",)
"""The settings of notifications."""

PAGE: Final = (*RULES, *LABELING, *NOTIFY)
"""The settings that a running `ragtide serve` takes."""

SETTLED_S: Final = 1.0
"""Seconds for which a changed file must stay the same before it is read: a program may still write it."""

UNCHANGED: Final = "the settings in force stay as they are, because the changed settings are wrong"

log = structlog.get_logger("ragtide.settings")


class SettingsWatch:
    """Gives changed settings to the roles of a process, those that running roles take, and knows which others wait.

    Args:
        settings: with which the process has started.
        roles: of the process; a changed setting that none of them reads is no change.
        check: raises a `ConfigurationError` if rules do not suit their metrics.
        count: called with the outcome of each reading.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        roles: Collection[str] = (),
        check: Callable[[Settings], None] = lambda _: None,
        count: Callable[[Outcome], None] = lambda _: None,
    ) -> None:
        self.settings = self._started_with = settings
        """The settings in force."""
        self.loaded = settings.as_loaded
        """The settings in force as they were loaded: without what the process changed for itself."""
        self.roles = frozenset(roles)
        self.refused = ""
        """Why the changed settings are not in force, in a sentence; empty if they are."""
        self.waiting: tuple[str, ...] = ()
        """Names of changed settings that wait for a restart of this process."""
        self.destinations: Sequence[DestinationSettings] = ()
        """Destinations to which the notifier of the process sends."""
        self._check = check
        self._count = count
        self._takers: list[tuple[Taker, tuple[str, ...], tuple[str, ...]]] = []
        self._asked = asyncio.Event()
        self._digest = _digest()
        self._had_file = settings_file().exists()

    @contextmanager
    def giving(self, taker: Taker, names: tuple[str, ...] = RULES, *, without: tuple[str, ...] = ()) -> Iterator[None]:
        """Call `taker` with settings that have new values during the body of a `with`; at once if they are new already.

        Args:
            taker: takes the settings.
            names: of the settings or tables that it is for, of those that running roles take.
            without: names of settings in these tables that it is not for.
        """
        registered = taker, names, without
        self._takers.append(registered)
        if _differ(self.settings, self._started_with, names, without):
            taker(self.settings)
        try:
            yield
        finally:
            self._takers.remove(registered)

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set."""
        loop = asyncio.get_running_loop()
        if not sys.stdin.isatty():
            loop.add_signal_handler(signal.SIGHUP, self._asked.set)
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: self._asked.set())
        seen = self._digest
        try:
            while True:
                poll_s = self.settings.rules_poll_s
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
        before = self.settings
        if self._had_file and not settings_file().exists():
            return self._refuse(f"{settings_file()} was removed: write it again, or restart without it")
        try:
            loaded = await asyncio.to_thread(_loaded_now, self.settings)
            taken = with_live_settings(self.settings, self.settings.for_this_process(loaded))
            await asyncio.to_thread(_check_all, taken, self._check)
        except ConfigurationError as error:
            return self._refuse(str(error))
        self.refused = ""
        self.loaded = with_live_settings(self.loaded, loaded)
        self._wait_for_restart(changed_settings(self.loaded, loaded))
        if not changed_settings(before, taken):
            log.info("no setting that a running role takes has changed")
            self._count("unchanged")
            return "unchanged"
        self.settings = taken
        for taker, names, without in self._takers:
            if _differ(taken, before, names, without):
                taker(taken)
        self._log_taken(before)
        self._count("taken")
        return "taken"

    def refuse(self, sentence: str) -> None:
        """Report that a role cannot take its changed settings, and keeps those that it has."""
        self.refused = sentence
        log.warning(UNCHANGED, detail=sentence)

    def _refuse(self, sentence: str) -> Outcome:
        self.refuse(sentence)
        self._count("refused")
        return "refused"

    def _wait_for_restart(self, names: Collection[str]) -> None:
        mine = self.roles or frozenset(("worker", "aggregator"))
        waiting = tuple(name for name in names if roles_with(name, mine))
        if waiting and waiting != self.waiting:
            roles = sorted(frozenset().union(*(roles_with(name, mine) for name in waiting)))
            log.warning("changed settings wait for a restart", settings=list(waiting), restart=roles)
        self.waiting = waiting

    def _log_taken(self, before: Settings) -> None:
        if _differ(self.settings, before, RULES):
            rules, rules_before = self.settings.alerts, before.alerts
            names, names_before = {rule.name for rule in rules}, {rule.name for rule in rules_before}
            log.info(
                "new alert rules are in force",
                rules=len(rules),
                new=sorted(names - names_before),
                changed=sorted({rule.name for rule in rules if rule not in rules_before} & names_before),
                removed=sorted(names_before - names),
                defaults=default_rules_of(rules),
            )
        changed = changed_settings(before, self.settings)
        others = [name for name in changed if name not in RULES and name != "budget"]
        if others:
            log.info("changed settings are read, and the roles take them", settings=others)


def _differ(first: Settings, second: Settings, names: tuple[str, ...], without: tuple[str, ...] = ()) -> bool:
    return any(_is_in(name, names) and not _is_in(name, without) for name in changed_settings(first, second))


def _is_in(name: str, tables: tuple[str, ...]) -> bool:
    return any(name == table or name.startswith(f"{table}.") for table in tables)


def with_live_settings_of_now(settings: Settings) -> Settings:
    """Return settings with the live settings of the file as they are now, for a process that starts again.

    If a setting is wrong now, they stay, as they do in a process that runs. The rules of a workspace are in Redis.
    """
    if workspace_of(settings.prefix) is not None:
        return settings
    try:
        loaded = _loaded_now(settings)
        taken = with_live_settings(settings, settings.for_this_process(loaded))
        _check_all(taken, lambda _: None)
    except ConfigurationError as error:
        log.warning(UNCHANGED, detail=str(error))
        return settings
    return taken.with_loaded(with_live_settings(settings.as_loaded, loaded))


def _loaded_now(settings: Settings) -> Settings:
    if not settings_file().exists() and not {"RAGTIDE_CONFIG", SECRETS_DIR} & os.environ.keys():
        return settings.as_loaded
    return load_settings(**settings.given)


def _check_all(settings: Settings, check: Callable[[Settings], None]) -> None:
    for evaluator in settings.evaluators:
        try:
            settings.of_evaluator(evaluator)
        except ValueError as error:
            raise ConfigurationError(f"settings: {error}") from None
    check(settings)


def _digest() -> bytes | None:
    folder = os.environ.get(SECRETS_DIR)
    files = [settings_file(), *(sorted(Path(folder).glob("*")) if folder else ())]
    digests = []
    for file in files:
        with suppress(OSError):
            digests.append(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return hashlib.sha256(b"".join(digests)).digest() if digests else None
