"""Reads the log, the executions, the scores and the dead letters of an experiment into its state."""

from collections.abc import Callable

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.entries import START, Entry
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import read_after
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import settings_of_workspace
from ragtide_schemas import DeadLetter, InvalidEntryError, MetricEvent, Workspace
from ragtide_schemas.experiments import Begun, Execution, decode_entry

from .results import ResultsTable
from .state import ExperimentState

AT_ONCE = 1000
"""Most entries of each stream in one read."""


def streams_of(settings: Settings, run: str | Workspace) -> Streams:
    """Return the keys of an experiment."""
    return settings_of_workspace(settings, run).layout.all()[0]


class ExperimentReader:
    """Reads an experiment into its state; each read continues where the one before it ended.

    Args:
        redis: client.
        streams: keys of the experiment.
        races: whether the state follows the race; a caller that only gives a command needs no race.
    """

    def __init__(self, redis: Redis, streams: Streams, *, races: bool = True) -> None:
        self.redis = redis
        """Client of the next read."""
        self._streams = streams
        self._races = races
        self._positions = dict.fromkeys(
            (streams.executions, streams.metrics, streams.dead_letters, streams.experiment), START
        )
        self.last_entry = START
        """Id of the last entry of the log that was applied."""
        self._log: list[Entry] = []
        """Entries of the log that are read and not yet applied; they survive a failure of Redis in between."""
        self._results = ResultsTable()
        self._state: ExperimentState | None = None

    @property
    def begun(self) -> bool:
        """Whether the first entry of the experiment is read."""
        return self._state is not None

    @property
    def state(self) -> ExperimentState:
        """The state of the experiment.

        Raises: ConfigurationError before the first entry is read.
        """
        if self._state is None:
            raise ConfigurationError("there is no experiment in this workspace: begin one with ragtide experiment run")
        return self._state

    async def read(self, *, wait_ms: int | None = None) -> None:
        """Read all new entries.

        Args:
            wait_ms: milliseconds to wait for a new entry; None to return at once.

        Raises:
            redis.RedisError: some entries may be read already; read again.
        """
        while reply := await read_after(self.redis, self._positions, count=AT_ONCE, block_ms=wait_ms):
            wait_ms = None
            by_stream = dict(reply)
            self._positions |= {stream: entries[-1].entry_id for stream, entries in reply}
            self._log += by_stream.get(self._streams.experiment, [])
            for stream, add in (
                (self._streams.executions, lambda data: self._results.add_execution(Execution.decode(data))),
                (self._streams.metrics, lambda data: self._results.add_event(MetricEvent.decode(data))),
                (self._streams.dead_letters, lambda data: self._results.add_dead_letter(DeadLetter.decode(data))),
            ):
                _add_all(by_stream.get(stream, []), add)
            # Results are written before their comparison point, but may be read later: wait until all are read.
            if all(len(entries) < AT_ONCE for entries in by_stream.values()):
                self._apply_log()
        self._apply_log()

    def _apply_log(self) -> None:
        entries, self._log = self._log, []
        for entry in entries:
            self.last_entry = entry.entry_id
            try:
                written = decode_entry(entry.fields.get(DATA_FIELD, b""))
            except InvalidEntryError:  # any process may write to the log
                continue
            if self._state is not None:
                self._state.apply(written)
            elif isinstance(written, Begun):
                self._state = ExperimentState(written.plan, self._results, races=self._races)


def _add_all(entries: list[Entry], add: Callable[[bytes], None]) -> None:
    for entry in entries:
        data = entry.fields.get(DATA_FIELD)
        if data is not None:
            try:
                add(data)
            except InvalidEntryError:  # the aggregator reports it
                continue
