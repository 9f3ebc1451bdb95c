"""Scores the shards of a plan in several processes, and gathers their progress."""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event, Thread
from typing import Final, cast

from ragtide_runtime.errors import RagtideError
from ragtide_runtime.processes.children import spawned, spawning
from ragtide_runtime.telemetry.logs import configure_logging

from ..score.scoring import CostLimitReached, ScoringStopped
from .part_files import ScoringPlan, Show, write_parts

LOOK_S: Final = 0.2
"""Most seconds until a stop is noticed."""


def write_parts_together(
    folder: Path,
    plan: ScoringPlan,
    numbers: Sequence[int],
    processes: int,
    show: Show,
    *,
    stop: Event | None = None,
) -> None:
    """Score shards in several processes, and write their parts.

    Of four processes the first takes the shards 1, 5, 9 and so on, so that each reads a file of text once. The limits
    of endpoints are divided among the processes; they share the spend limit and the answers that are kept, in files of
    the data directory, and the account of the run. If a process dies, the others go on, and its other shards are
    missing.

    Args:
        numbers: of the shards, from 1, rising.
        processes: number of processes.
        show: takes the progress.
        stop: ends the processes when it is set; then also one process is not this process.

    Raises:
        CostLimitReached: the limit of cost of the run is reached, and there is no other problem.
        RagtideError: the problem of a process, after the others have ended.
    """
    processes = min(processes, len(numbers))
    if not processes:
        return
    if processes <= 1 and stop is None:
        write_parts(folder, plan, numbers, show)
        return
    context = multiprocessing.get_context("spawn")
    readers: dict[Connection, BaseProcess] = {}
    problems: list[ScoringStopped] = []
    with _ended(readers):
        for number in range(processes):
            own = replace(plan, settings=plan.settings.of_process(number, processes))
            reader, writer = context.Pipe(duplex=False)
            work = folder, own, numbers[number::processes], writer
            process = context.Process(target=_run, args=work, name=f"ragtide score {number}", daemon=True)
            readers[reader] = process
            with spawning():
                process.start()
            writer.close()
        while readers and not (stop is not None and stop.is_set()):
            for reader in cast("list[Connection]", wait(list(readers), None if stop is None else LOOK_S)):
                try:
                    message = reader.recv()
                except EOFError:
                    ended = readers.pop(reader)
                    ended.join()
                    if ended.exitcode:
                        problems.append(_ending(ended.exitcode))
                    continue
                if isinstance(message, ScoringStopped):
                    problems.append(message)
                else:
                    show(*message)
    if problems:
        over_cost = all(isinstance(problem, CostLimitReached) for problem in problems)
        raise (CostLimitReached if over_cost else ScoringStopped)("; ".join(dict.fromkeys(map(str, problems))))


def _ending(code: int) -> ScoringStopped:
    how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with the code {code}"
    return ScoringStopped(
        f"a scoring process {how}: give the same command again, which scores the parts that are missing"
    )


@contextmanager
def _ended(readers: dict[Connection, BaseProcess]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in readers.values():
            if process.pid is not None:
                process.kill()
        for process in readers.values():
            if process.pid is not None:
                process.join()


def _run(folder: Path, plan: ScoringPlan, numbers: Sequence[int], writer: Connection) -> None:
    spawned()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes
    Thread(target=_end_with_parent, name="ragtide parent", daemon=True).start()
    configure_logging("error")
    try:
        write_parts(folder, plan, numbers, lambda rows, usd: writer.send((rows, usd)))
    except RagtideError as error:
        writer.send((CostLimitReached if isinstance(error, CostLimitReached) else ScoringStopped)(str(error)))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
