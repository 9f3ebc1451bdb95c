"""Commands into the log of an experiment: each is checked against the newest state, and appended only to that state."""

from collections.abc import AsyncIterator, Iterable
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import append_if_last, read_all
from ragtide_schemas import InvalidEntryError
from ragtide_schemas.experiments import Command, Completed, LogEntry, Paused, decode_entry

from .errors import CommandConflictError, ExperimentError
from .reader import ExperimentReader
from .state import ExperimentState

TRIES: Final = 50
"""How often a command is checked again because the log moved on meanwhile."""


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
    meant = _named(command, reader.state)
    if seen is not None:
        conflict = conflict_of([entry async for entry in _entries_after(redis, streams, seen)], meant)
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


async def _entries_after(redis: Redis, streams: Streams, seen: str) -> AsyncIterator[LogEntry]:
    async for entry in read_all(redis, streams.experiment, after=seen):
        try:
            yield decode_entry(entry.fields.get(DATA_FIELD, b""))
        except InvalidEntryError:  # any process may write to the log
            continue


def _named(command: Command, state: ExperimentState) -> Command:
    if command.config is None or command.config in state.configs:
        return command
    numbers = {f"#{one.index}": name for name, one in state.configs.items()}
    return command.model_copy(update={"config": numbers.get(command.config, command.config)})
