"""The comparison on simulated traffic: its rules are ragtide's, and its figures have the right order."""

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from traffic.closings import closings
from traffic.coverage import ever_missed_by_cluster, ever_missed_by_item
from traffic.kinds import KINDS_QUICK, kinds_of_rules
from traffic.measures import QUICK, Mean, Sizes, delays, steady, thresholds
from traffic.messages import CAUSES, messages
from traffic.report import HEADER, delay_table, kind_table, message_table, peer_table, rule_table
from traffic.rules import (
    alarms_by_cluster,
    alarms_by_item,
    alarms_by_session,
    counted_at,
    drift_rule,
    first_alerts,
)
from traffic.scenarios import Clusters, Scenario, named
from traffic.scores import MEAN, Change
from traffic.stream import Traffic

from ragtide import confidence_sequence
from ragtide_aggregator.statistics.means.clustered_interval import clustered_interval
from ragtide_aggregator.statistics.means.clusters import ClusterTable
from ragtide_runtime.settings.alerting import ClusterSettings

pytestmark = pytest.mark.simulation

Closed = list[tuple[int, int, float]]
SIZES = replace(QUICK, runs=60)


def in_a_loop(traffic: Traffic, run: int, by: str, *, size: int, quiet_ms: int) -> Closed:
    """Return column, size and sum of the clusters of a run as they close."""
    found: Closed = []
    opened: OrderedDict[int, tuple[int, list[float]]] = OrderedDict()
    newest = 0
    columns = zip((traffic.time_s[run] * 1_000).tolist(), traffic.clusters(by)[run].tolist(), strict=True)
    for column, (time_ms, code) in enumerate(columns):
        newest = max(newest, int(time_ms))
        while opened and next(iter(opened.values()))[0] <= newest:
            _, (_, values) = opened.popitem(last=False)
            found.append((column, len(values), sum(values)))
        values = opened.pop(code, (0, []))[1]
        values.append(float(traffic.value[run, column]))
        if len(values) == size:
            found.append((column, size, sum(values)))
        else:
            opened[code] = newest + quiet_ms, values
    return found


@given(
    times=st.lists(st.integers(0, 40), min_size=12, max_size=12),
    codes=st.lists(st.integers(0, 3), min_size=12, max_size=12),
    size=st.integers(1, 4),
    quiet_s=st.integers(1, 12),
)
def test_clusters_close_as_in_a_loop(times: list[int], codes: list[int], size: int, quiet_s: int) -> None:
    late, session = np.array([times, sorted(times)], dtype=float), np.array([codes, codes[::-1]])
    value = np.random.default_rng(1).random((2, 12))
    traffic = Traffic(late, late, value, value, value, session, session, session, session, {})
    found = closings(traffic, "session", size=size, quiet_s=quiet_s)
    for run in range(2):
        mine = found.run == run
        expected = in_a_loop(traffic, run, "session", size=size, quiet_ms=1_000 * quiet_s)
        assert found.column[mine].tolist() == [one[0] for one in expected]
        assert found.size[mine].tolist() == [one[1] for one in expected]
        assert found.total[mine].tolist() == pytest.approx([one[2] for one in expected])


@pytest.mark.parametrize("name", ["chat with loops, swing and late scores", "customers with batches of 20"])
def test_clusters_of_habits_close_as_in_a_loop(name: str) -> None:
    traffic = named(name).draw(np.random.default_rng(2), 2, 1_500)
    by = named(name).cluster
    found = closings(traffic, by, size=10, quiet_s=120)
    for run in range(2):
        expected = in_a_loop(traffic, run, by, size=10, quiet_ms=120_000)
        mine = found.run == run
        assert list(zip(found.column[mine].tolist(), found.size[mine].tolist(), strict=True)) == [
            one[:2] for one in expected
        ]


@pytest.mark.parametrize("statement", [{}, {"min_effect": 0.03}])
def test_the_detector_alone_alarms_where_the_aggregators_state_fires(statement: dict[str, float]) -> None:
    traffic = named("chat").draw(np.random.default_rng(3), 12, 2_000, Change(1_500, system=0.6))
    limit = MEAN - statement.get("min_effect", 0.0)
    alone = alarms_by_item(traffic.value, limit=limit, run_length=10_000)
    (first,) = first_alerts(traffic, [drift_rule(baseline=MEAN, **statement)]).values()
    counted = counted_at(first)
    assert np.where(counted < 0, -1, counted - 1).tolist() == alone.tolist()
    assert np.sum(alone >= 0) > 6


@pytest.mark.parametrize(
    ("name", "field", "by"),
    [
        ("sessions of 5, icc 0.2, 20 at once", "session_id", "auto"),
        ("chat with loops, swing and late scores", "session_id", "session_id"),
        ("batches of 50, icc 0.1", "cluster", "auto"),
        ("sessions of 3, icc 0.1", None, "blocks"),
    ],
)
def test_clusters_alarm_where_the_aggregators_state_fires(
    name: str, field: str | None, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A rule learns the limit of first answers, which the detectors here are given.
    monkeypatch.setattr(ClusterSettings, "has_first_answers", False)
    kind = "blocks" if field is None else named(name).cluster
    traffic = named(name).draw(np.random.default_rng(3), 6, 1_600, Change(800, system=0.5))
    for size, quiet_s in ((10, 120), (4, 1_800)):
        options = {"clusters": ClusterSettings(by=by, size=size, block=size, quiet_s=quiet_s)}
        names = {} if field is None else {field: named(name).cluster}
        (first,) = first_alerts(traffic, [drift_rule(baseline=MEAN)], options, names).values()
        counted = counted_at(first)
        alone = alarms_by_cluster(traffic, kind, size=size, quiet_s=quiet_s, limit=MEAN, run_length=10_000)
        closed = closings(traffic, kind, size=size, quiet_s=quiet_s)
        for run in range(6):
            mine = closed.run == run
            # One interaction may close several clusters.
            there = np.cumsum(closed.size[mine])[closed.column[mine] == alone[run]]
            assert counted[run] in there if alone[run] >= 0 else counted[run] == -1
        assert np.sum(alone >= 0) == 6


def test_first_answers_alarm_where_the_aggregators_state_fires() -> None:
    name = "sessions of 5 that stay open, icc 0.2, 20 at once"
    traffic = named(name).draw(np.random.default_rng(3), 6, 1_600, Change(800, system=0.4))
    # No session is closed, and the target is far below what was learned, so it is the limit of first answers.
    target = 0.6
    rule = drift_rule(kind="threshold", target=target, learn_n=20)
    options = {"clusters": ClusterSettings(size=100, quiet_s=10000)}
    (first,) = first_alerts(traffic, [rule], options, {"session_id": "session"}).values()
    # The detector has no evidence before it has learned: these answers are as if they had cost nothing.
    alone = alarms_by_session(traffic, "session", size=100, quiet_s=10**4, limit=target, run_length=10_000)
    fired = [-1 if alert is None or alert.n is None else alert.n - 1 for alert in first]
    assert np.all(np.array(fired) >= 0)
    assert np.mean(np.abs(np.array(fired) - alone)) < 30


def test_clusters_of_one_answer_alarm_as_answers_do() -> None:
    traffic = named("independent").draw(np.random.default_rng(4), 12, 2_000, Change(1_000, system=0.6))
    clustered = alarms_by_cluster(traffic, "session", size=1, quiet_s=120, limit=MEAN, run_length=10_000)
    assert clustered.tolist() == alarms_by_item(traffic.value, limit=MEAN, run_length=10_000).tolist()


def test_coverage_looks_at_the_intervals_that_ragtide_shows() -> None:
    scenario = named("sessions of 5, icc 0.5, 20 at once")
    traffic = scenario.draw(np.random.default_rng(5), 12, 400)
    # Sessions in their middle at the beginning, or at the end, are no whole clusters: a look at whole ones.
    truth = np.cumsum(traffic.mean, axis=1) / np.arange(1, 401)
    missed = []
    for run in range(12):
        ends = confidence_sequence("running", traffic.value[run].tolist(), confidence=0.95)[29:]
        missed.append(np.any((truth[run, 29:] < ends[:, 0]) | (truth[run, 29:] > ends[:, 1])))
    assert ever_missed_by_item(traffic) == np.mean(missed)
    assert ever_missed_by_cluster(traffic, "session", size=5, quiet_s=120) <= np.mean(missed)


@pytest.mark.parametrize(("size", "quiet_s"), [(5, 120), (3, 30)])
def test_coverage_over_clusters_is_that_of_a_look_after_each(size: int, quiet_s: int) -> None:
    scenario = named("sessions of 5, icc 0.5, 20 at once")
    drawn = scenario.draw(np.random.default_rng(8), 12, 300)
    # A truth beside the right one by as much as the interval is wide, so that some runs miss it and some do not.
    traffic = replace(drawn, mean=drawn.mean - np.linspace(0, 0.3, 12)[:, None])
    closed = closings(traffic, "session", size=size, quiet_s=quiet_s)
    missed = []
    for run in range(12):
        mine = closed.run == run
        table, row = ClusterTable(), np.zeros(1, dtype=np.intp)
        table.add_row()
        truth = np.cumsum(closed.expected[mine])
        found = False
        for n, total, expected in zip(closed.size[mine], closed.total[mine], truth, strict=True):
            table.update(row, np.array([n]), np.array([total]))
            sums = table.read(row)
            lower, upper = clustered_interval(sums, confidence=0.95)
            inside = lower[0] <= expected / sums.n[0] <= upper[0]
            found |= bool(sums.n[0] >= 30 and not inside)
        missed.append(found)
    assert 0 < np.mean(missed) < 1
    assert ever_missed_by_cluster(traffic, "session", size=size, quiet_s=quiet_s) == np.mean(missed)


def test_an_interval_over_clusters_misses_where_the_truth_is_elsewhere() -> None:
    traffic = named("independent").draw(np.random.default_rng(6), 5, 400)
    wrong = replace(traffic, mean=traffic.mean - 0.5)
    assert ever_missed_by_cluster(wrong, "session", size=1, quiet_s=120) == 1
    assert ever_missed_by_item(wrong) == 1


@pytest.mark.parametrize("name", ["independent", "batches of 50, icc 0.1"])
def test_figures_have_the_right_order(name: str) -> None:
    scenario = named(name)
    found = steady(scenario, SIZES)
    tuned = thresholds(found, SIZES.run_length)
    late = delays(scenario, SIZES, tuned)
    by_answer, *clustered = found.rules.values()
    for length, missed in clustered:
        assert length.value + 2 * length.error > 1_000 or len(clustered) > 1
        assert missed <= 0.05
    if name == "independent":
        assert by_answer[0].value + 2 * by_answer[0].error > 1_000
    else:
        # The larger clusters are whole, and answers by themselves alarm far too often.
        assert 2 * by_answer[0].value < clustered[-1][0].value
        assert clustered[-1][0].value + 2 * clustered[-1][0].error > 1_000
        assert by_answer[1] > 0.2
    for peer, threshold in tuned.items():
        assert found.records[peer].run_length(threshold) >= 1_000
    for small, large in late.values():
        assert large.value < small.value
    for text in (
        rule_table([scenario], {name: found}),
        peer_table("Peers", [scenario], {name: found}, tuned, SIZES),
        delay_table(scenario, found, late, tuned, SIZES),
        HEADER,
    ):
        assert "nan" not in text
        assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) <= 1


def test_every_kind_of_rule_is_quiet_and_finds_a_large_fall() -> None:
    found = kinds_of_rules(named("sessions of 5, icc 0.2"), replace(KINDS_QUICK, runs=6))
    for name, (length, delay) in found.items():
        assert length.value > 800
        # A baseline learned from few sessions is lenient, and the first blocks are long.
        assert delay.value < (600 if "learned" in name or "blocks" in name else 300)
    shown = kind_table({"sessions": found}, KINDS_QUICK)
    assert all(f"|{name}|" in shown for name in found)


@pytest.mark.parametrize("number", [1, 3])
def test_large_changes_are_named_by_their_cause(number: int) -> None:
    sizes = replace(Sizes(), runs=30, before=4_000)
    found = messages(CAUSES[number], sizes, 1)
    at_once, *_, late = found.told.values()
    assert found.delay.value < 2_000
    assert at_once.right <= late.right
    assert late.right >= 0.7
    assert max(one.wrong for one in found.told.values()) <= 0.1
    assert found.cause.name in message_table([found])


def test_a_mean_of_nothing_is_none() -> None:
    assert str(Mean.of([])) == "none"
    assert str(Mean.of([999.6, 1_000.4])) == "1,000±0"


@pytest.mark.heavy
def test_the_command_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path(__file__).parents[2] / "benchmarks" / "real_traffic.py"
    monkeypatch.setattr("sys.argv", [str(program), "--quick", "--runs", "6"])
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(program.read_text(encoding="utf-8"), str(program), "exec"), space)
    shown = capsys.readouterr().out
    assert "|sessions of 5, icc 0.2, 20 at once|" in shown
    assert "## Chat\n" in shown
    assert "## Kinds of rules" in shown
    assert "## Mix or system" in shown


def test_settings_name_what_is_compared() -> None:
    scenario: Scenario = named("chat")
    assert [str(setting) for setting in scenario.settings] == [
        "clusters, size 10, quiet 120 s",
        "clusters, size 10, quiet 600 s",
    ]
    assert Clusters() == scenario.settings[0]
