"""What a traffic needs: every figure is a sum of parts, from unit costs that a file has."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.metric_events import event

from ragtide_aggregator.state.options import KeyCaps
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_offline.capacity.judging import example_interactions
from ragtide_offline.capacity.planning import (
    UTILIZATION,
    Capacity,
    PlannedTraffic,
    capacity_of,
    changed_keys,
    ten_times,
)
from ragtide_offline.capacity.unit_costs import SHIPPED, read_unit_costs
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import SpecimenSettings

pytestmark = pytest.mark.pure

COSTS = read_unit_costs(SHIPPED)
SETTINGS = Settings()
LINEAR = {"publishing", "reading and finishing", "labeler local", "labeler judge"}
"""WorkPart whose cost is that of an interaction times the rate."""

traffics = st.builds(
    PlannedTraffic,
    rate=st.floats(0.01, 1e5),
    documents=st.floats(0, 100),
    document_kib=st.floats(0.01, 1000),
    pipelines=st.integers(1, 100_000),
    local_share=st.sampled_from([0.0, 1.0]),
    judge_share=st.floats(0, 1),
)


def needs(traffic: PlannedTraffic, **changes: Any) -> Capacity:
    return capacity_of(traffic, SETTINGS.model_copy(update=changes), COSTS)


def by_work(found: Capacity) -> dict[tuple[str, str], float]:
    return {(part.role, part.work): part.processors for part in found.work}


@given(traffics, st.floats(1.5, 50))
def test_the_work_of_interactions_is_linear_in_the_rate(traffic: PlannedTraffic, factor: float) -> None:
    low, high = (by_work(needs(found)) for found in (traffic, replace(traffic, rate=factor * traffic.rate)))
    for name, processors in low.items():
        if name[1] in LINEAR:
            assert high[name] == pytest.approx(factor * processors)


@given(traffics, st.floats(1.1, 50))
def test_no_figure_falls_with_the_rate_and_none_rises_faster(traffic: PlannedTraffic, factor: float) -> None:
    low, high = needs(traffic), needs(replace(traffic, rate=factor * traffic.rate))
    for name in ("received_bytes", "sent_bytes", "memory_bytes", "backlog_bytes"):
        least, most = getattr(low, name), factor * getattr(low, name)
        assert least * (1 - 1e-9) <= getattr(high, name) <= most * (1 + 1e-9)
    for role in ("producer", "aggregator", "redis"):
        assert low.processors(role) * (1 - 1e-9) <= high.processors(role) <= factor * low.processors(role) * (1 + 1e-9)


@given(traffics, st.floats(1, 50), st.floats(1, 50))
def test_more_or_longer_documents_never_cost_less(traffic: PlannedTraffic, more: float, longer: float) -> None:
    large = replace(traffic, documents=traffic.documents + more, document_kib=traffic.document_kib * longer)
    low, high = needs(traffic), needs(large)
    for role in ("producer", "worker", "redis"):
        assert high.processors(role) >= low.processors(role)
    assert high.received_bytes >= low.received_bytes
    assert high.memory_bytes >= low.memory_bytes


@given(traffics)
def test_a_role_is_the_sum_of_its_parts_and_has_room_in_its_processes(traffic: PlannedTraffic) -> None:
    found = needs(traffic)
    shown = found.as_dict()
    for role, figures in shown["roles"].items():
        parts = [part["processors"] for part in shown["work"] if part["role"] == role]
        assert figures["processors"] == pytest.approx(sum(parts))
        assert figures["processors"] <= figures["processes"] * UTILIZATION * (1 + 1e-9)
        assert (figures["processes"] - 1) * UTILIZATION < max(figures["processors"], UTILIZATION / 2)
    assert shown["memory_bytes"] == pytest.approx(sum(part["bytes"] for part in shown["memory"]))
    json.dumps(shown)


@given(traffics, st.floats(0.05, 60))
def test_changed_keys_are_at_most_those_of_all_events_and_at_most_all_keys_a_commit(
    traffic: PlannedTraffic, interval_s: float
) -> None:
    changed = changed_keys(traffic, 6, interval_s)
    assert 0 < changed <= 6 * traffic.rate * (1 + 1e-9)
    assert changed <= 6 * traffic.pipelines / interval_s * (1 + 1e-9)
    assert changed_keys(traffic, 6, 0) == pytest.approx(6 * traffic.rate)


def test_changed_keys_are_those_of_a_simulated_traffic() -> None:
    import numpy as np

    rng = np.random.default_rng(7)
    counts = rng.poisson(0.5, size=(400, 1000))  # commits by pipelines, at 2 a second and a commit each 0.25 s
    simulated = 3 * (counts > 0).sum(axis=1).mean() / 0.25
    assert changed_keys(PlannedTraffic(rate=2000, pipelines=1000), 3, 0.25) == pytest.approx(simulated, rel=0.01)


@given(traffics, st.integers(1, 1024), st.floats(0.05, 60))
def test_commits_are_at_most_one_an_event_and_one_a_partition_and_interval(
    traffic: PlannedTraffic, partitions: int, interval_s: float
) -> None:
    costs = COSTS.model_copy(update={"worker_idle_us": 0.0})
    found = capacity_of(traffic, Settings(partitions=partitions, commit_interval_s=interval_s), costs)
    assert 0 < found.commits <= min(traffic.rate, partitions / interval_s) * (1 + 1e-9)


def used(found: Capacity) -> dict[str, float]:
    return {limit.limit: limit.used for limit in found.limits}


@given(traffics, st.integers(1, 200))
def test_the_partitions_that_are_needed_have_room_for_all_keys(traffic: PlannedTraffic, keys: int) -> None:
    large = replace(traffic, keys=keys)
    partitions = needs(large).partitions_needed
    assert keys * large.pipelines <= partitions * SETTINGS.partition_keys_cap
    if partitions <= large.pipelines:
        costs = COSTS.model_copy(update={"worker_idle_us": 0.0})
        found = capacity_of(large, SETTINGS.model_copy(update={"partitions": partitions}), costs)
        assert used(found)["keys of a partition"] <= 1 + 1e-9


@given(traffics)
def test_limits_are_the_fullest_first_and_rise_with_every_size(traffic: PlannedTraffic) -> None:
    found = needs(traffic)
    assert [limit.used for limit in found.limits] == sorted(used(found).values(), reverse=True)
    for size, larger in ten_times(traffic, COSTS).items():
        for limit, share in used(needs(larger)).items():
            # More pipelines with the same traffic spread it over more partitions.
            if size != "pipelines" or limit.startswith(("keys", "history")):
                assert share >= used(found)[limit] * (1 - 1e-9), (size, limit)


def test_one_pipeline_is_in_one_partition_unless_it_is_split() -> None:
    def aggregator(pipelines: int, **changes: Any) -> float:
        traffic = PlannedTraffic(rate=5000, pipelines=pipelines)
        return used(needs(traffic, partitions=8, **changes))["aggregator of a partition"]

    assert aggregator(1) > 4 * aggregator(8)
    assert aggregator(1, splits={"shop": 8}) == pytest.approx(aggregator(1) / 8)


@for_each("keys, other", [(2, 0), (3, 0), (4, 1)])
def test_the_limit_of_keys_is_that_of_an_aggregator(keys: int, other: int) -> None:
    """Above 100% of its keys, and not before, a partition counts pipelines in `other`."""
    pipelines, cap = 4, 12
    state = AggregatorState(StateOptions(caps=KeyCaps(cap, cap)))
    metrics = ("trace.adherence", "trace.utilization", "trace.completeness")[: keys - 1]  # and the time of labeling
    for number in range(pipelines):
        state.apply(event(number, dict.fromkeys(metrics, 0.5), pipeline=f"p{number}"))
    names = [key.pipeline for key in state.keys]
    assert names.count("p0") == keys
    traffic = PlannedTraffic(rate=1, pipelines=pipelines, keys=keys)
    found = capacity_of(traffic, Settings(partition_keys_cap=cap, keys_cap=cap), COSTS)
    assert (used(found)["keys of a partition"] > 1) == (other > 0)
    assert len({name for name in names if name.startswith("other")}) == other


def test_a_shorter_feedback_window_and_no_specimens_take_less_memory() -> None:
    traffic = PlannedTraffic(rate=500)
    whole = needs(traffic).memory_bytes
    assert needs(traffic, feedback_window_s=3600.0).memory_bytes < whole
    assert needs(traffic, specimens=SpecimenSettings(enabled=False)).memory_bytes < whole
    assert "specimens" not in {part.work for part in needs(traffic, specimens=SpecimenSettings(enabled=False)).work}


def test_partitions_that_fill_a_worker_are_refused_with_the_remedy() -> None:
    costs = COSTS.model_copy(update={"worker_idle_us": 10_000.0})
    with pytest.raises(ConfigurationError, match="lower partitions"):
        capacity_of(PlannedTraffic(rate=1), Settings(partitions=100), costs)


@for_each(
    "text, said",
    [
        ("", "has no unit costs"),
        ("{}", "measured_on"),
        (SHIPPED.read_text().replace('"each": ', '"each": -', 1), "each"),
        (SHIPPED.read_text().replace('"each"', '"every"', 1), "each"),
    ],
)
def test_a_file_without_unit_costs_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "costs.json"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=said) as error:
        read_unit_costs(file)
    assert "make capacity" in str(error.value)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_unit_costs(tmp_path / "missing.json")


@for_each("documents, kib", [(1, 1.0), (5, 10.0), (0, 1.0), (1, 900.0)])
def test_example_interactions_have_the_stated_texts(documents: int, kib: float) -> None:
    rows = example_interactions(3, documents=documents, kib=kib, pipelines=2, first=10)
    texts = [document.text for row in rows for document in row.documents]
    assert [row.interaction_id for row in rows] == ["i10", "i11", "i12"]
    assert len(set(texts)) == len(texts) == 3 * documents
    for text in texts:
        assert len(text) == pytest.approx(kib * 1024, rel=0.01)
