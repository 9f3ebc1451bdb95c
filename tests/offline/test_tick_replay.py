"""A recording has the ticks that ended sessions, so each kind of replay ends the same sessions, to the bit."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.aggregator.test_replay import unseen
from tests.aggregator.test_ticks import answer, tick
from tests.support.recorded import record

from ragtide import AlertRule
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_offline.replay import recorded_entries
from ragtide_offline.replay.counting import count_selected
from ragtide_offline.replay.metrics_replay import MetricsReplay
from ragtide_offline.replay.rule_test import RuleTest
from ragtide_offline.replay.selection import SCOPE_FIELDS, Selection
from ragtide_offline.replay.tables import count_interactions
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.keys import CheckpointField, workspace_prefix
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Feedback, MetricEvent, to_milliseconds

ADHERENCE = "trace.adherence"
RULES = (
    AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.8, run_length=200),
    AlertRule(name="lang", kind="drift", metric=ADHERENCE, baseline=0.8, segment="lang", run_length=100),
)
STATE = StateOptions(rules=RULES, clusters=ClusterSettings(size=20, quiet_s=10))
CLUSTER_FIELDS = (CheckpointField.CLUSTERS, CheckpointField.CLUSTER_SCOPE, CheckpointField.OPEN_CLUSTER)
EVERYTHING = Selection()


def traffic() -> list[MetricEvent]:
    """Return bursts of sessions that get worse, each followed by silence and a tick; the last ones stay open."""
    rng = np.random.default_rng(3)
    found, at_s = list[MetricEvent](), 0.0
    for burst in range(12):
        pipeline = ("shop", "docs")[burst % 2]
        for number in range(60):
            at_s += float(rng.exponential(0.05))
            mean = 0.9 if number < 15 else 0.3
            found.append(
                answer(
                    len(found), f"{burst}-{number % 15}", at_s, occurred_s=at_s - 7200 * (burst % 2),
                    scores={ADHERENCE: float(rng.random() < mean)}, pipeline=pipeline,
                    segments={"lang": "de" if number % 3 else "en"}, interaction_id=f"i-{burst}-{number}",
                )
            )  # fmt: skip
        at_s += 11.5
        if burst < 10:
            found.append(tick(at_s, pipeline))
    return found


def recorded(tmp_path: Path, *, feedback: bool = True) -> tuple[Recording, list[RecordedEntry]]:
    """Return a recording of the traffic, and its metric events; some feedback comes between the answers."""
    entries = []
    for number, one in enumerate(traffic()):
        entries.append((EntryKind.METRICS, RecordedEntry(0, f"{to_milliseconds(one.labeled_at)}-{number}", one)))
        if feedback and number % 40 == 39:
            graded = traffic()[number - 5]
            given = Feedback(
                pipeline=graded.pipeline, interaction_id=graded.interaction_id, gold_scores={ADHERENCE: 1.0},
                given_at=one.labeled_at,
            )  # fmt: skip
            entry = RecordedEntry(0, f"{to_milliseconds(one.labeled_at) + 1}-{number}", given)
            entries.append((EntryKind.FEEDBACK, entry))
    found = record(entries, tmp_path / "recording")
    return found, [entry for kind, entry in entries if kind is EntryKind.METRICS]


def of_clusters(fields: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in fields.items() if name.startswith(CLUSTER_FIELDS)}


def live(entries: list[RecordedEntry]) -> tuple[dict[str, bytes], list[Any]]:
    """Return the fields and alerts of a state that takes the entries one by one, as an aggregator does."""
    state = AggregatorState(STATE)
    for entry in entries:
        assert isinstance(entry.model, MetricEvent)
        state.apply(entry.model, entry.order[0])
    changes = state.take_changes()
    return of_clusters(dict(changes.rows)), list(changes.alerts)


async def replayed(redis: Any, recording: Recording, selection: Selection = EVERYTHING) -> tuple[dict[str, Any], Any]:
    layout = Layout(workspace_prefix("ragtide", "again"))
    counted = count_selected(recording, EntryKind.METRICS, selection, SCOPE_FIELDS)
    options: dict[str, Any] = {"options": STATE, "split": False, "lease_s": 60.0, "feedback_window_s": 3600.0}
    replay = MetricsReplay(redis, layout, recording, selection=selection, counted=counted, **options)
    await replay.run(asyncio.Event(), unseen)
    (streams,) = layout.all()
    fields = {name.decode(): data for name, data in (await redis.hgetall(streams.checkpoint)).items()}
    state = (await load_checkpoint(redis, streams, STATE)).state
    return {"fields": of_clusters(fields), "counts": replay.counts()}, state


@pytest.mark.redis
@pytest.mark.parametrize("in_tables", [True, False])
async def test_a_replay_closes_the_clusters_of_the_live_aggregator(
    async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_tables: bool
) -> None:
    if not in_tables:
        monkeypatch.setattr(recorded_entries, "find_spec", lambda _: None)
    recording, entries = recorded(tmp_path, feedback=False)
    fields, _ = live(entries)
    found, _ = await replayed(async_redis, recording)
    assert found["fields"] == fields
    # Ticks are entries and no interactions.
    answers = sum(not entry.model.is_tick for entry in entries)  # type: ignore[attr-defined]
    assert answers == 720
    assert found["counts"]["n"] == found["counts"]["population_size"] == answers
    assert found["counts"]["complete"]


@pytest.mark.redis
async def test_tables_and_single_entries_agree_with_feedback_in_between(
    async_redis: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, _ = recorded(tmp_path)
    tables, state = await replayed(async_redis, recording)
    await async_redis.flushall()
    monkeypatch.setattr(recorded_entries, "find_spec", lambda _: None)
    single, again = await replayed(async_redis, recording)
    assert tables == single
    assert tables["counts"]["feedback"] == 18
    assert state.waiting == again.waiting


@pytest.mark.parametrize("in_tables", [True, False])
async def test_rules_on_a_recording_raise_the_alerts_of_the_live_aggregator(tmp_path: Path, in_tables: bool) -> None:
    recording, entries = recorded(tmp_path, feedback=False)
    _, alerts = live(entries)
    settings = Settings(
        segments=True, lease_s=60, clusters=ClusterSettings(by="auto", size=20, quiet_s=10), windows=()
    )  # fmt: skip
    testing = RuleTest(settings, recording, EVERYTHING, RULES)
    testing._source.in_tables = in_tables
    found = await testing.run(asyncio.Event(), unseen)
    latest = {alert.alert_id: alert for alert in alerts}
    assert {alert.alert_id for alert in found.alerts} == set(latest)
    assert {alert.alert_id: alert.fired_at for alert in found.alerts} == {
        name: alert.fired_at for name, alert in latest.items()
    }
    # Some of them fired at a tick, and not at an answer.
    times = {entry.model.occurred_at for entry in entries if entry.model.is_tick}  # type: ignore[attr-defined]
    assert any(alert.fired_at in times for alert in found.alerts)


@pytest.mark.redis
async def test_a_replay_of_some_segments_and_pipelines_has_their_ticks(async_redis: Any, tmp_path: Path) -> None:
    recording, entries = recorded(tmp_path, feedback=False)
    selection = Selection(pipelines=frozenset({"docs"}), segments=(("lang", "de"),))
    kept = [
        entry
        for entry in entries
        if entry.model.pipeline == "docs"  # type: ignore[attr-defined]
        and (entry.model.is_tick or entry.model.segments["lang"] == "de")  # type: ignore[attr-defined]
    ]
    fields, _ = live(kept)
    found, state = await replayed(async_redis, recording, selection)
    assert found["fields"] == fields
    assert found["counts"]["n"] == sum(not entry.model.is_tick for entry in kept)  # type: ignore[attr-defined]
    assert state.waiting == {("docs", None): 40}


def test_ticks_are_counted_as_no_interactions(tmp_path: Path) -> None:
    recording, _ = recorded(tmp_path)
    tables = list(recording.tables(EntryKind.METRICS))
    assert sum(table.num_rows for table in tables) == 730
    assert sum(map(count_interactions, tables)) == 720
    counted = count_selected(recording, EntryKind.METRICS, replace(EVERYTHING), ("pipeline",))
    assert counted.total == 720
    assert {scope.fields for scope in counted.scopes} == {("shop",), ("docs",)}
