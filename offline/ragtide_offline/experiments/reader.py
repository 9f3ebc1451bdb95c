"""Reading an experiment: its log, executions, scores and dead letters, from the start and then what is new."""

from collections.abc import Callable

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.log import START, Entry, read_after
from ragtide_schemas import DeadLetter, InvalidEntryError, MetricEvent
from ragtide_schemas.experiments import Begun, Execution, Order, Progress, decode_entry

from .decisions import Judging
from .results import Book

AT_ONCE = 1000
"""Entries of each stream read at once."""


class ExperimentReader:
    """An experiment as it is read: the same for the racer, for people who watch, and for reports.

    Args:
        redis: where it is.
        streams: keys of its run.
        races: whether the race is run along, to decide; who only looks needs none.
    """

    def __init__(self, redis: Redis, streams: Streams, *, races: bool = False) -> None:
        self._redis = redis
        self._streams = streams
        self._races = races
        self._positions = dict.fromkeys(
            (streams.executions, streams.metrics, streams.dead_letters, streams.experiment), START
        )
        self.book = Book()
        self.orders: list[Order] = []
        """Orders that changed something, in the order of the log."""
        self.refused: list[tuple[Order, str]] = []
        """Orders that changed nothing, with why."""
        self.last_entry = START
        """Id of the last entry of the log that was taken."""
        self._log: list[Entry] = []
        """Entries of the log that were read and not taken: a failure of Redis in between must not lose them."""
        self._progress: Progress | None = None
        self.judging: Judging | None = None

    @property
    def begun(self) -> bool:
        """Whether the beginning of the experiment was read."""
        return self._progress is not None

    @property
    def progress(self) -> Progress:
        """Where the experiment stands.

        Raises: ConfigurationError before its beginning was read.
        """
        if self._progress is None:
            raise ConfigurationError("there is no experiment in this run: begin one with ragtide experiment run")
        return self._progress

    async def read(self, *, wait_ms: int | None = None) -> bool:
        """Read all there is, and return whether there was anything new.

        Args:
            wait_ms: milliseconds to wait if there is nothing; None for not at all.

        Raises:
            redis.RedisError: some may have been read; read again.
        """
        anything = False
        while found := await read_after(self._redis, self._positions, count=AT_ONCE, block_ms=wait_ms):
            anything, wait_ms = True, None
            by_stream = dict(found)
            self._positions |= {stream: entries[-1].entry_id for stream, entries in found}
            self._log += by_stream.get(self._streams.experiment, [])
            for stream, take in (
                (self._streams.executions, lambda data: self.book.add_execution(Execution.decode(data))),
                (self._streams.metrics, lambda data: self.book.add_event(MetricEvent.decode(data))),
                (self._streams.dead_letters, lambda data: self.book.add_letter(DeadLetter.decode(data))),
            ):
                self._take(stream, by_stream.get(stream, []), take)
            # What a look in the log is about was written before it, but may not have been read yet.
            if all(len(entries) < AT_ONCE for entries in by_stream.values()):
                self._take_log()
        self._take_log()
        return anything

    def _take(self, stream: str, entries: list[Entry], take: Callable[[bytes], None]) -> None:
        for entry in entries:
            data = entry.fields.get(DATA_FIELD)
            if data is not None:
                try:
                    take(data)
                except InvalidEntryError:  # the aggregator says what is wrong with it
                    continue

    def _take_log(self) -> None:
        entries, self._log = self._log, []
        for entry in entries:
            self.last_entry = entry.entry_id
            try:
                written = decode_entry(entry.fields.get(DATA_FIELD, b""))
            except InvalidEntryError:  # anybody may write there
                continue
            if self._progress is None:
                if isinstance(written, Begun):
                    self._begin(Progress.begin(written))
                continue
            refusal = self._progress.apply(written) if self.judging is None else self.judging.apply(written)
            if isinstance(written, Order):
                if refusal is None:
                    self.orders.append(written)
                else:
                    self.refused.append((written, refusal))

    def _begin(self, progress: Progress) -> None:
        self._progress = progress
        if self._races:
            self.judging = Judging(progress, self.book)
