"""The parts of a sharded run: Parquet files with the scores of a shard each, and with its summary. Needs pyarrow.

A part is written under a temporary name and renamed when it is whole, so a run that is killed loses at most the parts
that it was writing. Its columns are those of `score_batches` and the file of each row.
"""

import fcntl
import os
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from threading import Semaphore
from typing import IO, Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pydantic_core import from_json, to_json

from ragtide_aggregator.estimates.estimates import ORDERED
from ragtide_aggregator.events.columns import EventColumns
from ragtide_aggregator.state.state import AggregatorState
from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_consumers.labelers.remote.spend import FileSpend
from ragtide_producers import Row
from ragtide_runtime.errors import RagtideError
from ragtide_runtime.processes.waiting import blocking_iterator
from ragtide_runtime.recordings.parquet import EXACT
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent

from ..replay.tables import columns_of
from ..score.batches import SCHEMA, batch_of, outcomes_of
from ..score.scoring import Outcome
from ..score.summary import NO_TIME, OPTIONS, Summary, decoded, encoded, n_rows, summary_of, summary_of_drawn
from .repeated_ids import IdSample

PART_ROWS: Final = 2_500
"""Rows of a part, if the number of shards is not given and there are few enough."""

MOST_PARTS: Final = 1_000
"""Most parts of a run whose number of shards is not given."""

SHOWN: Final = 20
"""Most problems of a part that are kept as text; its rows have them all."""

_FILE: Final = pa.field("file", pa.dictionary(pa.int32(), pa.string()), nullable=False)
_COLUMNS: Final = pa.schema([_FILE, *SCHEMA])
_KEY: Final = b"ragtide.part"
_FORM: Final = 1
_NAME: Final = re.compile(r"part-(\d{5,})-of-(\d{5,})\.parquet")


class UnusablePartsError(RagtideError):
    """The parts in a folder cannot be continued or merged."""


def shards_of(rows: int) -> int:
    """Return the number of shards of so many rows, if it is not given; it does not depend on the processes."""
    return min(-(-rows // PART_ROWS), MOST_PARTS) or 1


class RowReader(Protocol):
    """Reads rows of an input."""

    def between(self, start: int, stop: int) -> Iterator[Row]:
        """Yield the rows from one place up to another (exclusive); a place is the number of rows before it."""
        ...


class ShardedInput(Protocol):
    """An input of numbered rows, which is scored in shards."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    def shard(self, number: int, shards: int) -> tuple[int, int]:
        """Return the places at which a shard begins and ends."""
        ...

    def reader(self) -> RowReader:
        """Return a reader of the rows."""
        ...

    def source_of(self, place: int, row: Row) -> str:
        """Return where a row comes from: the column `file` of the parts."""
        ...

    def description(self) -> Any:
        """Return what identifies the input, as values of JSON."""


@dataclass(frozen=True)
class ScoringPlan:
    """What is scored in shards, and how; the parts of one folder have one plan."""

    input: ShardedInput
    settings: Settings
    shards: int
    labels: bool = False
    as_worker: bool = False
    """Whether the rows are scored in the place of a worker; then an account of the run is beside the parts."""
    max_cost_usd: float | None = None
    """Limit of that account; parts with different limits belong together."""

    def account(self, folder: Path) -> FileSpend | None:
        """Return the account of the run, of all processes that write parts into a folder; None if it has none.

        Raises:
            ConfigurationError: the account cannot be read or written.
        """
        if not self.as_worker:
            return None
        return FileSpend(folder, None, name="labeling", run_usd=self.max_cost_usd)

    @property
    def numbers(self) -> range:
        """The numbers of all shards."""
        return range(1, self.shards + 1)

    @property
    def identity(self) -> dict[str, Any]:
        """What the parts of one run have in common, as values of JSON."""
        judge = self.settings.judge
        return {
            "rows": self.input.rows,
            "shards": self.shards,
            "labels": self.labels,
            "labeler": self.settings.labeler,
            "profiles": [self.settings.profile, self.settings.claim_profile],
            "judge": [judge.model, judge.base_url, list(judge.families)],
            "input": blake2b(to_json(self.input.description()), digest_size=8).hexdigest(),
        }


@dataclass
class PartTotals:
    """What is known of the rows of a part, or of all parts of a run, without reading them."""

    counts: Counter[str] = field(default_factory=Counter)
    """Rows `scored`, and rows with `problems`."""
    cost_usd: float = 0.0
    problems: list[tuple[str, int, str]] = field(default_factory=list)
    """File, row and text of the first problems of each part."""
    columns: dict[str, str] = field(default_factory=dict)
    """The latest column of each field that has another name in the files."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What the rows have that is not scored on purpose, by name."""
    ids: IdSample = field(default_factory=IdSample)
    summary: Summary = field(default_factory=lambda: Summary((), ()))
    """With the events that cannot be counted as its problems."""

    def add(self, part: "PartTotals") -> None:
        """Add the rows of a part, but not its summary."""
        self.counts.update(part.counts)
        self.cost_usd += part.cost_usd
        self.problems += part.problems
        self.columns |= part.columns
        self.left_out.update(part.left_out)
        self.ids.merge(part.ids.kept())

    @property
    def repeats(self) -> int:
        """About how many rows repeat the id of another row."""
        return self.ids.repeats(self.counts["scored"])


@dataclass(frozen=True)
class ScoredPart:
    """A part of a run."""

    number: int
    """Number of its shard, from 1."""
    identity: Mapping[str, Any]
    labeler: str
    """The labeler that was asked, with its version and profile."""
    totals: PartTotals
    rejected: Sequence[tuple[int, str, str]] = ()
    """Of rows that were scored in the place of a worker: those whose event cannot be counted, by their number in the
    part, from 0, with reason and sentence."""


Show = Callable[[int, float], None]
"""Called with numbers of rows and dollars that are finished since the last call."""


def part_path(folder: Path, number: int, shards: int) -> Path:
    """Return the file of a part, by the number of its shard, from 1."""
    return folder / f"part-{number:05}-of-{shards:05}.parquet"


def missing_parts(folder: Path, plan: ScoringPlan, numbers: Iterable[int]) -> list[int]:
    """Return the shards whose parts are not in a folder.

    Args:
        folder: of the parts; it need not exist.
        numbers: of the shards, from 1.

    Raises:
        UnusablePartsError: the folder has a part of another run.
    """
    wanted = from_json(to_json(plan.identity))
    for path, _, _ in _parts_in(folder):
        identity = read_part(path).identity
        differing = [name for name in wanted if identity.get(name) != wanted[name]]
        if differing:
            shown = ", ".join(f"{name} {identity.get(name)!r}, now {wanted[name]!r}" for name in differing)
            raise UnusablePartsError(f"{path} is of another run ({shown}): give another --output")
    return [number for number in numbers if not part_path(folder, number, plan.shards).exists()]


def write_parts(folder: Path, plan: ScoringPlan, numbers: Iterable[int], show: Show = lambda _rows, _usd: None) -> None:
    """Score shards, and write their parts.

    Args:
        folder: of the parts; made if it does not exist.
        numbers: of the shards, from 1, rising: each file of text is read once.
        show: takes the progress.

    Raises:
        CostLimitReached: the limit of cost of the run is reached.
        RagtideError: the input cannot be read, a part cannot be written, or no more rows can be labeled now.
    """
    reader, numbers = plan.input.reader(), list(numbers)
    if not numbers:
        return
    may_begin, labelers, account = Semaphore(1), list[LabelerId](), plan.account(folder)

    def groups() -> Iterator[Iterator[Row]]:
        for number in numbers:
            may_begin.acquire()  # the part before it is written: a process that is killed loses one part
            yield reader.between(*plan.input.shard(number, plan.shards))

    def outcomes() -> AsyncGenerator[list[Outcome]]:
        return outcomes_of(
            groups(),
            plan.settings,
            keep_answers=True,
            ready=labelers.append,
            as_worker=plan.as_worker,
            account=account,
        )

    with closing(blocking_iterator(outcomes)) as scored:
        try:
            next(scored)  # the labeler is ready
            labeler = " ".join(filter(None, astuple(labelers[0])))
            _check_labeler(folder, labeler)
            for number in numbers:
                path = part_path(folder, number, plan.shards)
                folder.mkdir(parents=True, exist_ok=True)
                with _whole_file(path) as file:
                    _write_part(file, plan, number, labeler, scored, show)
                may_begin.release()
        except OSError as error:
            raise UnusablePartsError(f"{folder} cannot be written ({error.strerror}): give another --output") from None
        finally:
            may_begin.release()


def _check_labeler(folder: Path, labeler: str) -> None:
    for path, _, _ in _parts_in(folder)[:1]:
        scored_by = read_part(path).labeler
        if scored_by != labeler:
            raise UnusablePartsError(
                f"{path} was scored by {scored_by}, and the labeler is {labeler} now: give another --output"
            )


@contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes] | None]:
    temporary = path.with_name(f".{path.name}.tmp")
    with os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnusablePartsError(f"{path} is being written by another process: wait for it, or end it") from None
        # The lock may be that of a file which its process has given its name since it was opened.
        with suppress(FileNotFoundError):
            is_mine = os.path.samestat(os.fstat(file.fileno()), temporary.stat())
            if path.exists() or not is_mine:
                if is_mine:
                    temporary.unlink()
                yield None
                return
        file.truncate(0)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


class _UnwrittenPart:
    """The rows of a part so far.

    Args:
        keeps_rejected: whether all events that cannot be counted are kept, as a worker's would become dead letters.
    """

    def __init__(self, *, keeps_rejected: bool) -> None:
        self.totals = PartTotals()
        self.state = AggregatorState(OPTIONS)
        self.not_counted: list[str] = []
        self.rejected: list[tuple[int, str, str]] | None = [] if keeps_rejected else None
        self.drawn: list[MetricEvent] = []

    def add(self, outcomes: Sequence[Outcome], files: Sequence[str], batch: Any) -> None:
        """Count outcomes, and add the scores of their batch to the sums."""
        totals = self.totals
        ids: list[str] = []
        rows: list[int] = []
        for outcome, file, problem in zip(outcomes, files, batch["problem"].to_pylist(), strict=True):
            totals.columns |= outcome.row.columns
            totals.left_out.update(outcome.row.left_out)
            totals.cost_usd += 0.0 if outcome.event is None else outcome.event.cost_usd
            if outcome.event is not None and problem is None:
                totals.counts["scored"] += 1
                if outcome.event.drawn is not None:
                    self.drawn.append(outcome.event)
                totals.ids.add(outcome.event.pipeline, outcome.event.interaction_id)
                ids.append(outcome.event.interaction_id)
                rows.append(totals.counts["scored"] + totals.counts["problems"] - 1)
                continue
            totals.counts["problems"] += 1
            if len(totals.problems) < SHOWN:
                totals.problems.append((file, outcome.row.line, problem or ""))
        for rejected in self.state.apply_columns(columns_of_results(pa.Table.from_batches([batch]))):
            totals.counts["not_counted"] += 1
            if self.rejected is not None:
                self.rejected.append((rows[rejected.place], rejected.error.reason, rejected.error.detail))
            if len(self.not_counted) < SHOWN:
                self.not_counted.append(f"{ids[rejected.place]}: {rejected.error.detail}")


def _write_part(  # noqa: PLR0917 - what the parts of a run share, and one part
    file: IO[bytes] | None,
    plan: ScoringPlan,
    number: int,
    labeler: str,
    scored: Iterator[list[Outcome]],
    show: Show,
) -> None:
    """Write the outcomes of a shard as a part; without a file they are read and left, because it is there already."""
    place, stop = plan.input.shard(number, plan.shards)
    part = _UnwrittenPart(keeps_rejected=plan.as_worker)
    writer = None if file is None else parquet.ParquetWriter(file, _COLUMNS, compression="zstd")
    try:
        while place < stop:
            outcomes = next(scored)
            files = [plan.input.source_of(place + at, outcome.row) for at, outcome in enumerate(outcomes)]
            place, cost_usd = place + len(outcomes), part.totals.cost_usd
            batch = batch_of(outcomes, labels=plan.labels)
            part.add(outcomes, files, batch)
            if writer is not None:
                names = pa.array(files, pa.string()).dictionary_encode()
                writer.write_batch(pa.RecordBatch.from_arrays([names, *batch.columns], schema=_COLUMNS))
            show(len(outcomes), part.totals.cost_usd - cost_usd)
        if writer is not None:
            writer.add_key_value_metadata({_KEY: to_json(_footer(plan, number, labeler, part))})
    finally:
        if writer is not None:
            writer.close()


def _footer(plan: ScoringPlan, number: int, labeler: str, part: _UnwrittenPart) -> dict[str, Any]:
    totals = part.totals
    level = plan.settings.confidence
    summary = summary_of(part.state, strategy="normal", confidence=level)
    if part.drawn:
        by_hand = n_rows(summary) - len(part.drawn)
        summary = summary_of_drawn(part.drawn, by_hand, strategy="normal", confidence=level)
    assert summary.sums is not None  # noqa: S101 - for the type checker: it is of a state
    return {
        "form": _FORM,
        "number": number,
        "identity": plan.identity,
        "labeler": labeler,
        "counts": dict(totals.counts),
        "cost_usd": totals.cost_usd,
        "problems": totals.problems,
        "columns": totals.columns,
        "left_out": totals.left_out,
        "summary": encoded(summary.sums, part.not_counted).decode(),
        "ids": totals.ids.kept(),
        **({} if part.rejected is None else {"rejected": part.rejected}),
    }


def read_part(path: Path) -> ScoredPart:
    """Return what is known of a part.

    Raises:
        UnusablePartsError: the file cannot be read, is no part, or has the name of another part.
    """
    try:
        footer = from_json((parquet.read_metadata(path).metadata or {})[_KEY])
        if footer["form"] != _FORM:
            raise UnusablePartsError(f"{path} is a part of another version of ragtide: score the input again")
        named = part_path(path.parent, footer["number"], footer["identity"]["shards"])
        if named.name != path.name:
            raise UnusablePartsError(f"{path} is the part {named.name}: give it its name again, or remove it")
        totals = PartTotals(
            Counter(footer["counts"]),
            footer["cost_usd"],
            [(file, row, problem) for file, row, problem in footer["problems"]],
            footer["columns"],
            Counter(footer.get("left_out", {})),
            summary=decoded(footer["summary"].encode()),
        )
        totals.ids.merge((digest, count) for digest, count in footer["ids"])
        return ScoredPart(
            footer["number"],
            footer["identity"],
            footer["labeler"],
            totals,
            [(row, reason, detail) for row, reason, detail in footer.get("rejected", ())],
        )
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
        shown = f"{type(error).__name__}: {error}"[:200]
        raise UnusablePartsError(
            f"{path} cannot be read ({shown}): remove it, and give the command that wrote it again"
        ) from None


def _parts_in(folder: Path) -> list[tuple[Path, int, int]]:
    if not folder.is_dir():
        return []
    matches = [(path, _NAME.fullmatch(path.name)) for path in folder.iterdir()]
    return sorted(((path, int(name[1]), int(name[2])) for path, name in matches if name), key=lambda part: part[1])


def all_parts(folder: Path) -> list[Path]:
    """Return the parts in a folder, in the order of their rows.

    Raises:
        UnusablePartsError: there are no parts, some are missing, or they are of runs with other numbers of shards.
    """
    listed = _parts_in(folder)
    if not listed:
        raise UnusablePartsError(f"{folder} has no parts: give a folder that ragtide score --output has filled")
    shards = {count for _, _, count in listed}
    if len(shards) > 1:
        several = " and ".join(f"{count:,}" for count in sorted(shards))
        raise UnusablePartsError(f"{folder} has parts of {several} shards: keep those of one run")
    missing = sorted(set(range(1, max(shards) + 1)) - {number for _, number, _ in listed})
    if missing:
        shown = ", ".join(f"{number}/{max(shards)}" for number in missing[:5])
        more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
        raise UnusablePartsError(f"{folder} has no part of {shown}{more}: score these shards first")
    return [path for path, _, _ in listed]


def merge_parts(folder: Path, *, strategy: str, confidence: float, show: Show = lambda _rows, _usd: None) -> PartTotals:
    """Return all parts in a folder together, with a summary equal to the bit to that of one part with all rows.

    Most strategies need only the summaries of the parts. Intervals that depend on the order of the rows (`auto`,
    `running`) are computed from the scores of all rows, in their order.

    Args:
        strategy: method of the intervals.
        confidence: level of the intervals.
        show: takes the progress of rows that are read.

    Raises:
        UnusablePartsError: there are no parts, some are missing, or they are of several runs.
    """
    listed = all_parts(folder)
    totals, state, not_counted = PartTotals(), AggregatorState(OPTIONS), list[str]()
    first: ScoredPart | None = None
    ordered = strategy in ORDERED
    drawn: list[MetricEvent] = []
    by_hand = 0

    def states() -> Iterator[AggregatorState]:
        nonlocal first, by_hand
        for path in listed:
            part = read_part(path)
            first = part if first is None else first
            if (part.identity, part.labeler) != (first.identity, first.labeler):
                raise UnusablePartsError(f"{path} is of another run than {listed[0].name}: keep those of one run")
            totals.add(part.totals)
            not_counted.extend(part.totals.summary.problems)
            sums = part.totals.summary.sums
            if sums is not None and sums.drawn:
                drawn.extend(sums.drawn_events())
                by_hand += sums.by_hand
            else:
                by_hand += n_rows(part.totals.summary)
            if ordered:
                for columns in _columns_in(path):
                    state.apply_columns(columns)
                    show(len(columns), 0.0)
            elif sums is not None:
                yield sums.state()
                show(sum(part.totals.counts.values()), 0.0)

    merged = AggregatorState.merged(states(), OPTIONS)
    if drawn:
        weighted = summary_of_drawn(drawn, by_hand, strategy=strategy, confidence=confidence, ordered=ordered)
        totals.summary = replace(weighted, problems=not_counted)
        return totals
    totals.summary = summary_of(
        state if ordered else merged,
        strategy=strategy,
        confidence=confidence,
        problems=not_counted,
        ordered=ordered,
    )
    return totals


def _columns_in(path: Path) -> Iterator[Any]:
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=10_000):
            yield columns_of_results(pa.Table.from_batches([batch]).drop_columns(["file"]))


def columns_of_results(results: Any) -> EventColumns:
    """Return results of `score_batches` as columns of metric events, in their order; rows with a problem are left out.

    Args:
        results: a table with the columns of `score_batches`.
    """
    table = recorded(results)
    return columns_of(table, np.asarray(table["occurred_at"].cast(pa.int64()).to_numpy() // 1000))


def recorded(table: Any) -> Any:
    """Return the scored rows among results as a table of a recording: with a column for each metric."""
    table = table.filter(pc.is_null(table["problem"])).drop_columns(["problem", "row", "diagnosis", "labels"])
    occurred = pc.fill_null(table["occurred_at"], pa.scalar(NO_TIME, table.schema.field("occurred_at").type))
    table = table.set_column(table.schema.get_field_index("occurred_at"), "occurred_at", occurred)
    size = table.num_rows
    added = {
        "labeled_at": occurred,
        "latency_s": pa.array(np.zeros(size)),
        "entry_id": pa.array(["0-0"] * size, pa.string()),
        "partition": pa.array(np.zeros(size, dtype=np.int32)),
        EXACT: pa.nulls(size, pa.string()),
    }
    for name in ("scores", "gold_scores"):
        added |= {f"{name}.{metric}": column for metric, column in _by_metric(table[name].combine_chunks()).items()}
        table = table.drop_columns([name])
    for name, column in added.items():
        table = table.append_column(name, column)
    return table


def _by_metric(maps: Any) -> dict[str, Any]:
    if isinstance(maps, pa.ChunkedArray):
        maps = pa.concat_arrays(maps.chunks) if maps.num_chunks else pa.nulls(0, maps.type)
    offsets = np.asarray(maps.offsets)
    begin, end = (int(offsets[0]), int(offsets[-1])) if offsets.size else (0, 0)
    keys = maps.keys.slice(begin, end - begin).dictionary_encode()
    values = np.asarray(maps.items.slice(begin, end - begin))
    rows, codes = np.repeat(np.arange(len(maps)), np.diff(offsets)), np.asarray(keys.indices)
    columns = {}
    for code, metric in enumerate(keys.dictionary.to_pylist()):
        mine = codes == code
        column, empty = np.zeros(len(maps)), np.ones(len(maps), dtype=bool)
        column[rows[mine]], empty[rows[mine]] = values[mine], False
        columns[metric] = pa.array(column, mask=empty)
    return columns
