"""What a process of a command reports to the process that serves its endpoints: metrics and health, in shared memory.

Each process has a slot, into which only it writes while it runs. A report of a process that was killed stays, so that
its successor continues its counters. What a killed process counted after its last report is not in them.
"""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.context import BaseContext
from time import monotonic
from typing import Any, Final
from zlib import crc32

import structlog
from prometheus_client.core import Metric

from .catalogue import HIGHEST
from .health import SILENT_S, CheckResult, ProcessTelemetry
from .metric import merged

REPORT_S: Final = 1.0
"""Seconds between two reports."""

LATE_S: Final = 10.0
"""Seconds without a report after which a process is not ready."""

REPORT_BYTES: Final = 262_144
"""Most bytes of a report; one of a worker with a judge has about twenty thousand."""

log = structlog.get_logger("ragtide")


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The report of a process."""

    at: float
    """Monotonic time of the report, which all processes of a machine share."""
    stuck: tuple[str, ...] = ()
    """Checks of liveness that failed, each with its detail."""
    unready: tuple[str, ...] = ()
    """Checks of readiness that failed, each with its detail."""
    metrics: tuple[Any, ...] = ()
    """Families of its metrics, as rows."""
    mistake: str = ""
    """The user's mistake that ended the process, in one sentence."""

    @property
    def families(self) -> list[Metric]:
        """The metrics."""
        return [_family(*row) for row in self.metrics]

    def ended(self, why: str) -> "ProcessReport":
        """Return the report of a process that does not run: it keeps the counters alone."""
        lasting = tuple(row for row in self.metrics if row[2] in ("counter", "histogram"))
        return replace(self, at=monotonic(), stuck=(), unready=(why,), metrics=lasting)


def _row(family: Metric) -> tuple[str, str, str, str, list[tuple[str, dict[str, str], float]]]:
    samples = [(sample.name, dict(sample.labels), sample.value) for sample in family.samples]
    return family.name, family.documentation, family.type, family.unit, samples


def _family(name: str, documentation: str, kind: str, unit: str, samples: Iterable[Sequence[Any]]) -> Metric:
    family = Metric(name, documentation, kind, unit)
    for sample, labels, value in samples:
        family.add_sample(sample, labels, value)
    return family


class ReportSlot:
    """The shared memory for the report of one process.

    A report is written into one of two halves, and a byte then names this half. So a process that is killed while it
    writes leaves the report before.

    Args:
        context: which starts the processes that share it.
    """

    _HALF: Final = struct.Struct("<II")

    def __init__(self, context: BaseContext) -> None:
        self._memory: Any = context.RawArray("B", 1 + 2 * REPORT_BYTES)

    def write(self, report: ProcessReport) -> None:
        """Write a report in place of the one before; one that is too long is dropped, and logged."""
        data = json.dumps(asdict(report)).encode()
        if len(data) > REPORT_BYTES - self._HALF.size:
            log.error("the report of a process is too long: its metrics stay as they were", bytes=len(data))
            return
        memory = memoryview(self._memory).cast("B")
        half = 2 if memory[0] == 1 else 1
        start = 1 + (half - 1) * REPORT_BYTES
        self._HALF.pack_into(memory, start, len(data), crc32(data))
        memory[start + self._HALF.size : start + self._HALF.size + len(data)] = data
        memory[0] = half

    def read(self) -> ProcessReport | None:
        """Return the last report; None if there is none."""
        memory = memoryview(self._memory).cast("B")
        while half := memory[0]:
            start = 1 + (half - 1) * REPORT_BYTES
            length, checksum = self._HALF.unpack_from(memory, start)
            data = bytes(memory[start + self._HALF.size : start + self._HALF.size + length])
            if crc32(data) == checksum:  # it differs if two reports were written meanwhile
                fields: dict[str, Any] = json.loads(data)
                lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
                return ProcessReport(**{**fields, **lists})
        return None


@asynccontextmanager
async def reporting(process: ProcessTelemetry, slot: ReportSlot) -> AsyncIterator[None]:
    """Report metrics and health of this process for the body of an `async with`, and a last time at its end.

    The counters continue those of the process that had the slot before.
    """
    before = slot.read()
    inherited = [] if before is None else before.ended("").families

    def report() -> None:
        health = process.health
        families = merged([*inherited, *process.registry.collect()], HIGHEST)
        slot.write(
            ProcessReport(
                monotonic(),
                tuple(health.alive().as_dict()["missing"]),
                tuple(health.ready().as_dict()["missing"]),
                tuple(map(_row, families)),
            )
        )

    async def run() -> None:
        while True:
            report()
            await asyncio.sleep(REPORT_S)

    running = asyncio.create_task(run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])
        report()


class ProcessCheck:
    """The health check of another process of the command, by its reports."""

    def __init__(self, name: str, slot: ReportSlot) -> None:
        self._name = name
        self._slot = slot

    def alive(self, redis_since: float | None) -> CheckResult:
        """Return whether it reports, and no loop of it is stuck."""
        del redis_since  # a report says what its process knows of Redis, and needs no Redis
        return self._result(SILENT_S, lambda report: report.stuck)

    def ready(self) -> CheckResult:
        """Return whether it reports, and does its work."""
        return self._result(LATE_S, lambda report: report.unready)

    def _result(self, limit_s: float, failed: Any) -> CheckResult:
        report = self._slot.read()
        if report is None:
            return CheckResult(self._name, limit_s == SILENT_S, "starting")
        silent_s = monotonic() - report.at
        if silent_s >= limit_s:
            return CheckResult(self._name, False, f"no report for {silent_s:.0f} s")
        return CheckResult(self._name, not failed(report), "; ".join(failed(report)) or "reports")
