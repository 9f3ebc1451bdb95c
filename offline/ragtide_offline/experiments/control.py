"""Commands to an experiment, from any process that reaches its Redis: stop, resume, clone, delete, set limits.

Each command is checked against the newest state, and appended to the log only while the log has this state.
"""

import getpass
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from redis.asyncio import Redis

from ragtide_runtime.processes.waiting import blocking
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import append_if_last, read_all
from ragtide_runtime.redis.url import resolve_redis
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_runtime.workspaces import get_workspace
from ragtide_schemas import InvalidEntryError, describe
from ragtide_schemas.experiments import Command, Completed, LogEntry, Paused, decode_entry

from .board import Board, board
from .errors import CommandConflictError, ExperimentError
from .reader import ExperimentReader, streams_of
from .state import ExperimentState

TRIES: Final = 50
"""How often a command is checked again because the log moved on meanwhile."""

T = TypeVar("T")


async def check_command(
    redis: Redis, streams: Streams, reader: ExperimentReader, command: Command, *, seen: str | None = None
) -> Command:
    """Return a command as the log takes it, with the name of its config in place of a number such as `#3`.

    Args:
        redis: client.
        streams: keys of the experiment.
        reader: of the experiment; it is brought to the end of the log.
        command: the command.
        seen: id of the last entry of the log that its author saw; None if the author has looked at nothing.

    Raises:
        CommandConflictError: an entry after `seen` changes the meaning of the command.
        ExperimentError: the command would have no effect; the message says why.
    """
    await reader.read()
    meant = command
    if command.config is not None and command.config not in reader.state.configs:
        numbers = {f"#{status.index}": name for name, status in reader.state.configs.items()}
        meant = command.model_copy(update={"config": numbers.get(command.config, command.config)})
    if seen is not None:
        entries: list[LogEntry] = []
        async for entry in read_all(redis, streams.experiment, after=seen):
            with suppress(InvalidEntryError):  # any process may write to the log
                entries.append(decode_entry(entry.fields.get(DATA_FIELD, b"")))
        conflict = conflict_of(entries, meant)
        if conflict is not None:
            raise CommandConflictError(f"experiment {reader.state.plan.run}: {conflict}")
    refusal = reader.state.refusal(meant) or reader.state.doubt(meant)
    if refusal is not None:
        raise ExperimentError(f"experiment {reader.state.plan.run}: {refusal}")
    return meant


async def give_command(
    redis: Redis, streams: Streams, reader: ExperimentReader, command: Command, *, seen: str | None = None
) -> bool:
    """Give a command, and return whether a driver runs and follows it now.

    The log takes it only while its last entry is the one that the check has seen. So of two equal commands at the same
    time one is followed, and the author of the other learns of the first.

    Raises:
        CommandConflictError, ExperimentError: as in `check_command`; nothing was written.
        redis.RedisError: the command may or may not have been written.
    """
    for _ in range(TRIES):
        meant = await check_command(redis, streams, reader, command, seen=seen)
        if await append_if_last(redis, streams.experiment, reader.last_entry, [meant.encode()]):
            return bool(await redis.exists(streams.driver))
    raise ExperimentError(f"experiment {reader.state.plan.run}: its log does not rest: give the command again")


def conflict_of(entries: Iterable[LogEntry], command: Command) -> str | None:
    """Return why entries since a look at the experiment change the meaning of a command; None if none does.

    Comparison points, limits and commands about other configs change nothing. A command about the same config does, and
    so does a clone of the same name, the end of the experiment, and for a command that continues it a pause.
    """
    for entry in entries:
        match entry:
            case Command(op="limits"):
                continue
            case Command() if entry.config == command.config and entry.op != "clone":
                return f"{entry.by} gave the command {entry.op} to config {entry.config!r} after you looked: look again"
            case Command(op="clone") if entry.clone in (command.clone, command.config) and entry.clone is not None:
                return f"{entry.by} added the config {entry.clone!r} after you looked: look again"
            case Completed():
                return "the experiment was completed after you looked: look again"
            case Paused() if command.op in ("resume", "clone"):
                return "the experiment was paused after you looked, and this command continues it: look again"
    return None


class ExperimentControl:
    """Gives commands to an experiment, and reads its leaderboard.

    Every command is one entry of the experiment's log. It takes effect from the most recent comparison point.

    Args:
        name: of the experiment.
        redis_url: Redis to use; by default that of the settings.
        by: author of the commands; the user's name unless given.
        settings: all settings at once, instead of the URL and the environment.
    """

    def __init__(
        self, name: str, *, redis_url: str | None = None, by: str | None = None, settings: Settings | None = None
    ) -> None:
        self.name = name
        self._settings = settings or load_settings(**({} if redis_url is None else {"redis_url": redis_url}))
        self._by = by or _user()

    def stop(self, config: str, reason: str = "") -> bool:
        """Stop a config: it is no longer called, and its results are kept.

        Args:
            config: name of the config.
            reason: why, for the log.

        Returns: whether a driver runs and follows the command now. Without a driver the command takes effect when the
            experiment continues. The other commands return the same.

        Raises:
            ExperimentError: the command would have no effect, for example if there is no such config.
        """
        return self._give(op="stop", config=config, reason=reason)

    def resume(self, config: str, *, keep: bool = False, reason: str = "") -> bool:
        """Resume a stopped config; with `keep` the race must not stop it again.

        Args:
            config: name of the config.
            keep: whether the race must not stop it again.
            reason: why, for the log.
        """
        return self._give(op="resume", config=config, keep=keep, reason=reason)

    def clone(self, config: str, clone: str, *, reason: str = "", **parameters: Any) -> bool:
        """Add a config with the parameters of another config, except those given here.

        The clone begins with the items still to come, and runs on the earlier items at the end. Answers of a config
        with the same parameters are copied without a call. A parameter that the target does not take is refused. If
        the target takes any parameter, a parameter that no config has is refused.

        Args:
            config: name of the config to start from.
            clone: name of the new config.
            reason: why, for the log.
            parameters: those that differ.
        """
        return self._give(op="clone", config=config, clone=clone, parameters=parameters, reason=reason)

    def delete(self, config: str, reason: str = "") -> bool:
        """Stop a config for good, and remove it from leaderboard and report.

        Args:
            config: name of the config.
            reason: why, for the log.
        """
        return self._give(op="delete", config=config, reason=reason)

    def limits(self, *, max_cost_usd: float | None = None, max_tokens: int | None = None) -> bool:
        """Set new limits; a paused experiment may then continue.

        Args:
            max_cost_usd: most dollars of all calls; None is no limit.
            max_tokens: most tokens of all calls; None is no limit.
        """
        return self._give(op="limits", limits={"max_cost_usd": max_cost_usd, "max_tokens": max_tokens})

    def _give(self, **fields: Any) -> bool:
        try:
            return self.give(Command(by=self._by, **fields))
        except ValidationError as error:
            raise ExperimentError(f"experiment {self.name}: {describe(error)}") from None

    def give(self, command: Command) -> bool:
        """Give a command, and return whether a driver runs; `#3` means the config with the number 3.

        Raises:
            ExperimentError: the command would have no effect; the message says why.
        """

        async def append(redis: Redis, streams: Streams, reader: ExperimentReader) -> bool:
            return await give_command(redis, streams, reader, command)

        return self._with_reader(append, races=False)

    def board(self) -> Board:
        """Return the leaderboard of this moment."""
        return board(self.state())

    def state(self) -> ExperimentState:
        """Return the state of this moment, from which `board` is computed."""

        async def read(_: Redis, __: Streams, reader: ExperimentReader) -> ExperimentState:
            return reader.state

        return self._with_reader(read)

    def _with_reader(
        self, body: Callable[[Redis, Streams, ExperimentReader], Awaitable[T]], *, races: bool = True
    ) -> T:
        async def read(url: str) -> T:
            async with connect_async(url) as redis:
                await get_workspace(redis, self._settings, self.name)
                streams = streams_of(self._settings, self.name)
                reader = ExperimentReader(redis, streams, races=races)
                await reader.read()
                return await body(redis, streams, reader)

        with resolve_redis(self._settings.redis_address, self._settings.data_dir) as handle:
            return blocking(read(handle.url))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without a name, as containers have
        return "unknown"
