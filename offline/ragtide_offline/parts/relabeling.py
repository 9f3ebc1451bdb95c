"""Labels the interactions of a recording again in several processes, then replays their metric events in order.

The processes write parts, as `ragtide score --processes` does. The replay reads the parts as a recording of metric
events in which each event has the entry id of its interaction: no number depends on the processes or on the clock.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet
from redis.asyncio import Redis

from ragtide_roles.rule_checks import check_rules, known_metrics
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.recordings.parquet import entries_of
from ragtide_runtime.redis.keys import identity_digest
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import parts_folder

from ..replay.plan import ReplayPlan, begin, settings_of_replay
from ..replay.replay import WorkspaceReplay
from ..replay.result import ReplayResult
from ..replay.selection import SCOPE_FIELDS, EntryCounts, count_selected
from ..replay.session import ReplayProgress
from ..replay.speed import Speed
from ..replay.tables import scope_counts
from ..sessions import refuse_sessions, session_criteria
from .part_files import ScoringPlan, all_parts, missing_parts, read_part, recorded, shards_of
from .processes import write_parts_together
from .recorded_input import RecordedInput

ShowLabeled = Callable[[int, float], None]
"""Shows the number of finished interactions, and the dollars that were spent on those of this process."""


class PartsRelabeling:
    """Labels the interactions of a recording again, in processes, and aggregates them in a workspace.

    Args:
        settings: of the deployment.
        plan: of the replay, with `in_parts`.
        processes: number of processes.

    Raises:
        ConfigurationError: a rule is wrong, or nothing is selected.
        UnreadableRecordingError: a file of the recording is missing or damaged.
    """

    def __init__(self, settings: Settings, plan: ReplayPlan, processes: int) -> None:
        check_rules(plan.rules, known_metrics(settings))
        self._settings = settings
        self._plan = plan
        self._processes = processes
        options = plan.info(settings, 0).options
        self.total = count_selected(plan.recording, EntryKind.INTERACTIONS, plan.selection, ()).total
        """Number of selected interactions."""
        self._input = RecordedInput.of(plan.recording, plan.selection, plan.run, options)

    async def run(
        self, redis: Redis, stop: asyncio.Event, show_labeled: ShowLabeled, show: Callable[[ReplayProgress], None]
    ) -> ReplayResult:
        """Begin or continue the replay, until the end or until `stop` is set.

        Args:
            redis: client.
            stop: set to end; the parts of processes that are killed then are labeled again by the next call.
            show_labeled: shows the progress of labeling.
            show: shows the progress of the replay of the metric events.

        Raises:
            ConfigurationError: another replay has the name of the workspace, or a criterion is about sessions.
            UnusablePartsError: the recording has grown since the beginning, or another process labels these parts.
            RagtideError: the problem of a process.
        """
        workspace = await begin(redis, self._settings, self._plan.info(self._settings, self.total))
        replay, started = WorkspaceReplay(redis, self._settings, self._plan, workspace), time.monotonic()
        settings = settings_of_replay(self._settings, workspace)
        refuse_sessions(session_criteria(settings))
        plan = ScoringPlan(self._input, settings, shards_of(self.total))
        folder = parts_folder(self._settings, self._plan.run)
        await self._label(folder, plan, stop, show_labeled)
        done = self.total - sum(self._rows(plan, number) for number in missing_parts(folder, plan, plan.numbers))
        counts: dict[str, Any] = {"n": 0, "population_size": self.total, "complete": False}
        if done == self.total:
            found = await asyncio.to_thread(relabeled, folder, self._plan.recording)
            of_parts = replace(self._plan, recording=found.recording)
            counts = await replace(replay, plan=of_parts).aggregate(found.counted, Speed(), stop, show)
            counts |= {
                "population_size": self.total - found.duplicates,
                "duplicates": found.duplicates,
                "problems": found.problems.total(),
                "cost_usd": found.cost_usd,
                "problem": found.problem,
            }
        counts["labeled"] = done
        return await replay.result(counts, time.monotonic() - started)

    async def _label(self, folder: Path, plan: ScoringPlan, stop: asyncio.Event, show: ShowLabeled) -> None:
        """Write the missing parts."""
        waiting = missing_parts(folder, plan, plan.numbers)
        done, spent = self.total - sum(self._rows(plan, number) for number in waiting), 0.0
        ended = Event()

        def add(rows: int, cost_usd: float) -> None:
            nonlocal done, spent
            done, spent = done + rows, spent + cost_usd
            show(done, spent)

        def label() -> None:
            write_parts_together(folder, plan, waiting, self._processes, add, stop=ended)

        labeling = asyncio.create_task(asyncio.to_thread(label))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([labeling, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.set()
            stopping.cancel()
            await labeling

    @staticmethod
    def _rows(plan: ScoringPlan, number: int) -> int:
        start, stop = plan.input.shard(number, plan.shards)
        return stop - start


@dataclass(frozen=True, slots=True)
class _LabeledPart:
    """A part, with the partitions of its rows."""

    path: Path
    partitions: frozenset[int]
    skipped: tuple[int, ...] = ()
    """Rows, from 0, of interactions whose id an earlier one has."""

    def events(self) -> Any:
        """Return the metric events as a table of a recording."""
        with parquet.ParquetFile(self.path) as file:
            table = file.read()
        taken = np.ones(table.num_rows, dtype=bool)
        taken[list(self.skipped)] = False
        table = table.filter(pc.and_(pa.array(taken), pc.is_null(table["problem"])))
        places = pc.split_pattern(table["file"].cast(pa.string()).combine_chunks(), "-").flatten().to_numpy(False)
        ms, numbers, partitions = places.reshape(-1, 3).T
        found = recorded(table.drop_columns(["file"]))
        columns = {
            "entry_id": pa.array([f"{first}-{second}" for first, second in zip(ms, numbers, strict=True)], pa.string()),
            "entry_ms": pa.array(ms.astype(np.uint64)),
            "entry_number": pa.array(numbers.astype(np.uint64)),
            "partition": pa.array(partitions.astype(np.int32)),
        }
        for name, column in columns.items():
            if name in found.column_names:
                found = found.drop_columns([name])
            found = found.append_column(name, column)
        return found


@dataclass(frozen=True, slots=True)
class RelabeledRecording(Recording):
    """A recording whose metric events are those of parts; all else is as it was recorded."""

    parts: Sequence[_LabeledPart] = ()

    def tables(
        self,
        kind: EntryKind | str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        pipelines: Collection[str] | None = None,
        partitions: Collection[int] | None = None,
    ) -> Iterator[Any]:
        """Yield tables as `Recording.tables`; those of metric events are not limited by time or pipeline."""
        if EntryKind(kind) is not EntryKind.METRICS:
            yield from Recording.tables(
                self, kind, since=since, until=until, pipelines=pipelines, partitions=partitions
            )
            return
        for part in self.parts:
            wanted = part.partitions if partitions is None else part.partitions.intersection(partitions)
            if not wanted:
                continue
            events = part.events()
            for partition in sorted(wanted):
                table = events.filter(pc.equal(events["partition"], partition))
                if table.num_rows:
                    yield table

    def entries(
        self,
        kind: EntryKind | str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        pipelines: Collection[str] | None = None,
        partitions: Collection[int] | None = None,
    ) -> Iterator[RecordedEntry]:
        """Yield entries as `Recording.entries`; metric events are those of `tables`."""
        if EntryKind(kind) is EntryKind.METRICS:
            for table in self.tables(kind, partitions=partitions):
                yield from entries_of(EntryKind.METRICS, table)
            return
        yield from Recording.entries(self, kind, since=since, until=until, pipelines=pipelines, partitions=partitions)


@dataclass(frozen=True, slots=True)
class Relabeled:
    """The metric events of all parts."""

    recording: RelabeledRecording
    counted: EntryCounts
    """Numbers of metric events, by `SCOPE_FIELDS`. Those of a scope have the problems of its pipeline, too: an
    interaction without scores is a part of the population, and its labeler and segments are not known."""
    problems: Counter[str]
    """Interactions that could not be labeled, by pipeline."""
    problem: str | None
    """The first of them."""
    duplicates: int
    """Interactions that are left out, because an earlier one has the same id."""
    cost_usd: float


def relabeled(folder: Path, recording: Recording) -> Relabeled:
    """Return the metric events of all parts of a folder, after a pass over them.

    Args:
        folder: with all parts.
        recording: whose interactions were labeled.

    Raises:
        UnusablePartsError: a part is missing or cannot be read.
    """
    paths = all_parts(folder)
    cost_usd, problems, problem = 0.0, Counter[str](), None
    digests: list[NDArray[np.uint64]] = []
    partitions: list[frozenset[int]] = []
    for path in paths:
        part, names = read_part(path), _RowNames.of(path)
        cost_usd += part.cost_usd
        if problem is None and part.problems:
            problem = part.problems[0][2]
        problems.update(pipeline for (pipeline, _), scored in zip(names.ids, names.scored, strict=True) if not scored)
        digests.append(np.array([_number(name) for name in names.ids], dtype=np.uint64))
        partitions.append(names.partitions)
    skipped = list(_repeated(paths, digests))
    parts = [_LabeledPart(*of_part) for of_part in zip(paths, partitions, skipped, strict=True)]
    of_parts = RelabeledRecording(recording.url, recording.partitions, recording._store, parts)
    tables = of_parts.tables(EntryKind.METRICS)
    counted = EntryCounts.of(chain.from_iterable(scope_counts(table, SCOPE_FIELDS) for table in tables))
    for scope in counted.scopes:
        counted.scopes[scope] += problems[scope.fields[0] or ""]
    return Relabeled(of_parts, counted, problems, problem, sum(map(len, skipped)), cost_usd)


class _RowNames(NamedTuple):
    """The names of the rows of a part."""

    ids: list[tuple[str, str]]
    """Pipeline and interaction id."""
    scored: list[bool]
    partitions: frozenset[int]

    @classmethod
    def of(cls, path: Path) -> Self:
        with parquet.ParquetFile(path) as file:
            table = file.read(columns=["file", "pipeline", "interaction_id", "problem"])
        ids = zip(table["pipeline"].to_pylist(), table["interaction_id"].to_pylist(), strict=True)
        places = table["file"].cast(pa.string()).to_pylist()
        partitions = frozenset(int(place.rpartition("-")[2]) for place in places)
        return cls(list(ids), pc.is_null(table["problem"]).to_pylist(), partitions)


def _number(name: tuple[str, str]) -> int:
    return int.from_bytes(identity_digest(*name)[:8])


def _repeated(paths: Sequence[Path], digests: Sequence[NDArray[np.uint64]]) -> Iterator[tuple[int, ...]]:
    """Yield the rows of each part with scores of an interaction whose id an earlier row with scores has."""
    numbers, counts = np.unique(np.concatenate(digests), return_counts=True)
    doubtful = numbers[counts > 1]
    seen: set[tuple[str, str]] = set()
    for path, of_part in zip(paths, digests, strict=True):
        rows = np.flatnonzero(np.isin(of_part, doubtful)).tolist()
        found = []
        names = _RowNames.of(path) if rows else None
        for row in rows:
            if names is not None and names.scored[row]:
                if names.ids[row] in seen:
                    found.append(row)
                seen.add(names.ids[row])
        yield tuple(found)
