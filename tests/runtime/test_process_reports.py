"""Processes of one command report metrics and health: they add up, and counters never fall when one is replaced."""

from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.conditions import until

from ragtide_consumers.worker.telemetry import WorkerTelemetry
from ragtide_roles.supervising import process_context
from ragtide_runtime.telemetry.catalogue import HIGHEST, JUDGE
from ragtide_runtime.telemetry.health import SILENT_S, Heartbeat, ProcessTelemetry
from ragtide_runtime.telemetry.metric import Metric, family, merged
from ragtide_runtime.telemetry.process_reports import (
    LATE_S,
    REPORT_BYTES,
    ProcessCheck,
    ProcessReport,
    ReportSlot,
    reporting,
)


@pytest.fixture
def slot() -> ReportSlot:
    return ReportSlot(process_context())


def samples(families: Any) -> dict[tuple[str, ...], float]:
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def worked(labeled: int, in_flight: int) -> ProcessTelemetry:
    process = ProcessTelemetry()
    telemetry = WorkerTelemetry(process)
    telemetry.outcomes("local", ["emitted"])["emitted"].inc(labeled)
    telemetry.in_work["partition 0"] = [f"entry {number}" for number in range(in_flight)]
    for _ in range(labeled):
        telemetry.labeling_took("local", 0.002)
    return process


def test_counters_histograms_and_entries_in_flight_add_up() -> None:
    found = samples(merged([*worked(3, 1).registry.collect(), *worked(4, 2).registry.collect()], HIGHEST))
    assert found["ragtide_labelings_total", "local", "emitted"] == 7
    assert found["ragtide_labelings_in_flight",] == 3
    assert found["ragtide_labeling_seconds_count", "local"] == 7
    assert found["ragtide_labeling_seconds_bucket", "local", "+Inf"] == 7
    assert found["ragtide_labeling_seconds_sum", "local"] == pytest.approx(0.014)
    assert [name for name, *_ in found if name.endswith("_created")] == []


def test_the_start_of_several_processes_is_that_of_the_first() -> None:
    metric = Metric("process_start_time_seconds", "gauge", "Start.")
    found = samples(merged([family(metric, [((), 7.0)]), family(metric, [((), 5.0)])]))
    assert found == {("process_start_time_seconds",): 5.0}


def test_a_breaker_is_open_if_one_is_and_allowed_calls_add_up() -> None:
    registries = [CollectorRegistry() for _ in range(3)]
    for number, registry in enumerate(registries):
        JUDGE.breaker_open.gauge(registry).labels("m").set(number > 0)
        JUDGE.calls_allowed.gauge(registry).labels("m").set(5)
    found = samples(merged([family for registry in registries for family in registry.collect()], HIGHEST))
    assert found["ragtide_judge_breaker_open", "m"] == 1
    assert found["ragtide_judge_calls_allowed", "m"] == 15


def test_the_last_report_is_read_and_one_that_is_too_long_changes_nothing(slot: ReportSlot) -> None:
    assert slot.read() is None
    for number in range(3):
        report = ProcessReport(float(number), ("a",), ("b", "c"), (("name", "", "gauge", "", [["name", {}, inf]]),))
        slot.write(report)
        found = slot.read()
        assert found is not None
        assert found.at == number
        assert (found.stuck, found.unready) == (("a",), ("b", "c"))
        assert samples(found.families) == {("name",): inf}
    slot.write(ProcessReport(9.0, mistake="x" * REPORT_BYTES))
    kept = slot.read()
    assert kept is not None
    assert kept.at == 2


async def test_a_successor_continues_counters_and_not_gauges(slot: ReportSlot) -> None:
    async with reporting(worked(3, 2), slot):
        pass
    first = slot.read()
    assert first is not None
    assert samples(first.families)["ragtide_labelings_in_flight",] == 2
    ended = first.ended("ended by signal SIGKILL")
    slot.write(ended)
    assert ("ragtide_labelings_in_flight",) not in samples(ended.families)
    async with reporting(worked(4, 1), slot):
        await until(lambda: (slot.read() or first).at > ended.at)
        found = samples((slot.read() or first).families)
    assert found["ragtide_labelings_total", "local", "emitted"] == 7
    assert found["ragtide_labeling_seconds_count", "local"] == 7
    assert found["ragtide_labelings_in_flight",] == 1


async def test_health_is_that_of_the_report(slot: ReportSlot) -> None:
    process, check = ProcessTelemetry(), ProcessCheck("worker process 2", slot)
    assert (check.alive(None).ok, check.ready().ok) == (True, False)
    heartbeat = Heartbeat("loop")
    with process.health.reporting("worker", heartbeat):
        heartbeat.failed("committing fails")
        async with reporting(process, slot):
            await until(lambda: slot.read() is not None)
            assert "loop: committing fails" in check.ready().detail
            assert check.alive(None).ok
            heartbeat.beat("labels")
            process.health.redis_answered()
            await until(lambda: check.ready().ok)


@pytest.mark.parametrize(
    ("silent_s", "alive", "ready"), [(0.0, True, True), (LATE_S, True, False), (SILENT_S, False, False)]
)
def test_a_process_without_reports_is_unready_and_later_stuck(
    silent_s: float, alive: bool, ready: bool, slot: ReportSlot
) -> None:
    slot.write(ProcessReport(monotonic() - silent_s))
    check = ProcessCheck("worker process 2", slot)
    assert (check.alive(None).ok, check.ready().ok) == (alive, ready)
    slot.write(replace(ProcessReport(monotonic()), stuck=("loop: no heartbeat for 61 s",)))
    assert not check.alive(None).ok
