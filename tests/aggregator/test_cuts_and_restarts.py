"""The law of the state: cuts into batches and restarts change no bit, whatever the options and the traffic."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import example as hypothesis_example
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.state_cuts import (
    ADHERENCE,
    BALANCE,
    NORMAL,
    RELEVANCE,
    WAYS,
    WORDS,
    WORSE,
    Outcome,
    Read,
    Step,
    Stretch,
    Traffic,
    in_one_piece,
    in_pieces,
    steps_of,
    turned,
)

from ragtide import Alert, AlertRule
from ragtide_aggregator.alerts import evaluator
from ragtide_aggregator.alerts.watched_release import ReleaseOptions
from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.state import state as state_module
from ragtide_aggregator.state.options import HistoryOptions, KeyCaps, LevelOptions
from ragtide_aggregator.state.state import StateOptions
from ragtide_aggregator.statistics.means.sampling_weights import SamplingWeights
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.row_table import RowColumn, RowTable
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_runtime.settings.alerting import BLOCKS, BudgetSettings, ClusterSettings
from ragtide_schemas import MetricEvent

pytestmark = pytest.mark.simulation

HOUR, DAY = 3600, 86_400
MINUTE_MS = 60_000
DAYS_MS = 10 * DAY * 1000


def rule(name: str, kind: str = "drift", metric: str = ADHERENCE, **fields: Any) -> AlertRule:
    return AlertRule(**{"name": name, "kind": kind, "metric": metric, **fields})


PLAIN = (
    rule("floor", "threshold", target=0.7, run_length=20, resolve_run_length=20),
    rule("learned", learn_n=20, run_length=20),
    rule("earlier", baseline="earlier", run_length=20, resolve_run_length=20),
    rule("earlier-both", metric=RELEVANCE, baseline="earlier", direction="both", run_length=20, resolve_run_length=20),
    rule("given", baseline=0.85, run_length=20),
    rule("both", metric=RELEVANCE, baseline=0.7, direction="both", run_length=20),
    rule("lang", baseline=0.8, segment="lang", run_length=10),
    rule("window", baseline_window="1m", learn_n=20, run_length=20),
    rule("window-shape", "distribution", baseline_window="1m", learn_n=20, run_length=20),
    rule("window-error", "rmse", baseline_window="1m", learn_n=20, run_length=20),
    rule("shape", "distribution", baseline=0.9, baseline_spread=0.2, run_length=20),
    rule("learned-shape", "distribution", metric=BALANCE, learn_n=60, run_length=20),
    rule("error", "rmse", target=0.2, run_length=10),
    rule("learned-error", "rmse", metric=RELEVANCE, learn_n=60, run_length=20),
)
FIRST = (
    rule("floor", "threshold", target=0.8, run_length=50, resolve_run_length=20, learn_n=20),
    rule("given", baseline=0.85, run_length=50, learn_n=60),
    rule("earlier", baseline="earlier", run_length=50, resolve_run_length=20),
    rule("learned", learn_n=60, run_length=50),
    rule("both", metric=RELEVANCE, baseline=0.7, direction="both", run_length=50, learn_n=40),
    rule("lang", baseline=0.8, segment="lang", run_length=50, learn_n=30),
    rule("window", baseline_window="1m", learn_n=20, run_length=20),
    rule("window-shape", "distribution", baseline_window="1m", learn_n=20, run_length=20),
    rule("shape", "distribution", baseline=0.9, baseline_spread=0.2, run_length=50, learn_n=30),
    rule("error", "rmse", target=0.2, run_length=50, learn_n=30),
    rule("seasonal", baseline="seasonal"),
    rule("adjusted", adjust="lang", run_length=50, learn_n=30),
)
"""They learn from few first answers."""
LEVELLED = tuple(one.model_copy(update={"run_length": None}) for one in PLAIN)
ADJUSTED = (
    rule("learned", adjust="lang", run_length=50, learn_n=30),
    rule("both", adjust="lang", direction="both", min_effect=0.0, learn_n=40),
    rule("given", adjust="lang", baselines={"en": 0.85, "de": 0.4}, run_length=100, hysteresis=0.02),
    rule("user", adjust="user", run_length=50, learn_n=25),
)
SEASONAL = (
    rule("day", baseline="seasonal"),
    rule("both", baseline="seasonal", direction="both", min_effect=0.0),
    rule("week", baseline="seasonal", season="week", run_length=50),
    rule("lang", baseline="seasonal", segment="lang", run_length=50),
    rule("errors", "rmse", baseline="seasonal", run_length=50),
    rule("one", baseline=0.6),
)
KAPPA: dict[str, Any] = {"kind": "agreement", "statistic": "kappa"}
AGREEMENT = (
    rule("kappa", **KAPPA, target=0.4, run_length=10, resolve_run_length=10),
    rule("learned-kappa", **KAPPA, learn_n=60, run_length=20, min_effect=0.0, resolve_run_length=10),
    rule("lang-kappa", **KAPPA, target=0.4, run_length=10, segment="lang"),
    rule("rmse", "agreement", statistic="rmse", target=0.3, run_length=None),
)
COVARIATE: dict[str, Any] = {"metric": None, "learn_n": 50, "run_length": 20, "resolve_run_length": 10}
COVARIATES = (
    rule("length", "distribution", covariate="length", **COVARIATE),
    rule("lang", "distribution", covariate="segment:lang", min_effect=0.0, hysteresis=0.05, **COVARIATE),
    rule("length-by-channel", "distribution", covariate="length", segment="channel", **COVARIATE),
    rule("never", "distribution", covariate="nothing", **COVARIATE),
    rule("floor", "threshold", target=0.7, run_length=20, resolve_run_length=20),
)
CAUSED = (
    rule("floor", baseline=0.85, run_length=20, resolve_run_length=10**6),
    rule("both", baseline=0.8, direction="both", run_length=100),
    rule("learned", learn_n=50, run_length=50),
)
"""Their alerts fire long enough to be explained."""
OF_AGENTS = (*CAUSED, rule("tools", metric="tool.*.failed", baseline="earlier", run_length=50))

WINDOWS = Panes((window("1m"), window("4m/1m")), 30_000)
SESSIONS = ClusterSettings(size=4, quiet_s=30, open_cap=4)
CLOSED_BY_TICKS = ClusterSettings(size=20, quiet_s=30)
LONG_SESSIONS = ClusterSettings(size=4)
BY_CHANNEL = ClusterSettings(by="segment:channel", size=3, quiet_s=5)
BLOCKS_OF_5 = ClusterSettings(by=BLOCKS, block=5)
HISTORY = HistoryOptions(
    5 * MINUTE_MS, 60 * MINUTE_MS, 1000, 2, DAY * 1000, 100, frozenset({"lang"}), recent_ms=5_000, recent_kept=1_000
)
BUDGET = BudgetSettings(false_alarms=40.0, period="10m")
RATE = BudgetSettings(false_discovery_rate=0.9, period="10m")
LEVELS = LevelOptions(40.0, 2 * HOUR * 1000, learn=20)

MIX_A = {"en": (0.8, 0.9), "de": (0.2, 0.5)}
MIX_B = {"en": (0.3, 0.9), "de": (0.5, 0.5), "fr": (0.2, 0.8)}
WORSE_B = {"en": (0.4, 0.4), "de": (0.4, 0.0), "fr": (0.2, 0.3)}
MIXES = (Stretch(150, MIX_A), Stretch(150, MIX_B), Stretch(150, WORSE_B), Stretch(150, MIX_B))
BAD_DAYS = {(5, 21), (6, 9)}
BURSTS = tuple(
    Stretch(36, WORSE if (day, hour) in BAD_DAYS else NORMAL, day * DAY + hour * HOUR)
    for day in range(8)
    for hour in (9, 21)
)
LONG = (Stretch(120), Stretch(120, WORSE), Stretch(80))
RELEASES = ReleaseOptions(alpha=0.2, until_ms=3 * HOUR * 1000)
RELEASED = Traffic(
    (Stretch(200), Stretch(300), Stretch(200, WORSE), Stretch(300), Stretch(400), Stretch(100)),
    versions=((0.9,), (0.5, 0.4), (0.0, 0.9), (0.3, 0.1, 0.5), (0.1, 0, 0, 0.8), (0.1,) * 8),
    second=4, disorder_s=60, pipelines=1, absent=0.1, runs=0.05, users=1,
)  # fmt: skip
"""Versions that come, go, return and serve beside each other."""
EVERYTHING = Traffic(
    absent=0.1, declared=0.3, gold=0.3, later=0.2, judged=0.2, sampled=0.3, sessions=0.8, disorder_s=60, runs=0.1,
    calls=0.2,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Options of a state with traffic, and what must come of it, lest the law says nothing about the options."""

    options: StateOptions
    traffic: Traffic
    fields: tuple[CheckpointField, ...] = ()
    """Kinds of fields that the checkpoint must hold."""
    fires: tuple[str, ...] = ()
    """Rules that must fire."""
    seed: int = 1


CASES: Mapping[str, Case] = {
    "plain": Case(
        StateOptions(rules=PLAIN, panes=WINDOWS),
        Traffic((Stretch(160), Stretch(100, WORSE), Stretch(60)), gold=0.9, pipelines=1, disorder_s=60),
        (CheckpointField.RULE_STATE, CheckpointField.PANE, CheckpointField.PROCESSED, CheckpointField.QUANTILES),
        tuple(one.name for one in PLAIN if not one.name.startswith("window-")),
    ),
    "nothing asked for": Case(StateOptions(segments=False, quantiles=False), EVERYTHING),
    "refused": Case(StateOptions(rules=PLAIN), replace(EVERYTHING, wrong=0.2)),
    "shared budget": Case(
        StateOptions(rules=LEVELLED, panes=WINDOWS, budget=BUDGET), Traffic(gold=0.3, second=5),
        (CheckpointField.ALERT_CLOCK,), ("floor", "given"),
    ),
    "false discovery": Case(
        StateOptions(rules=LEVELLED, budget=RATE, clusters=SESSIONS),
        Traffic(LONG, pipelines=3, sessions=0.3, second=4),
        (CheckpointField.ALERT_CLOCK,), ("floor",),
    ),
    "sessions": Case(
        StateOptions(rules=PLAIN, panes=WINDOWS, budget=BUDGET, clusters=SESSIONS),
        Traffic(sessions=0.8, judged=0.2, sampled=0.1, disorder_s=20, gold=0.3),
        (
            CheckpointField.CLUSTERS, CheckpointField.CLUSTER_SCOPE, CheckpointField.OPEN_CLUSTER,
            CheckpointField.DEPENDENCE,
        ), ("floor",),
    ),
    "ticks": Case(
        StateOptions(rules=PLAIN, panes=WINDOWS, budget=BUDGET, clusters=CLOSED_BY_TICKS, history=HISTORY,
                     levels=LEVELS),
        Traffic(
            (Stretch(160), Stretch(120, WORSE), Stretch(60)), second=0.2, ticks=0.1, sessions=0.9, open_sessions=8,
            judged=0.2, sampled=0.1, gold=0.3, later=0.2, disorder_s=60, runs=0.1,
        ), (CheckpointField.CLUSTERS, CheckpointField.CLUSTER_SCOPE, CheckpointField.OPEN_CLUSTER), ("floor",),
    ),
    "ticks, without sessions": Case(
        StateOptions(rules=PLAIN, panes=WINDOWS, clusters=ClusterSettings(quiet_s=30)),
        Traffic(ticks=0.2, gold=0.3, disorder_s=20),
    ),
    "ticks, blocks": Case(
        StateOptions(rules=PLAIN, clusters=BLOCKS_OF_5), Traffic(ticks=0.2, sessions=0.5),
    ),
    "first answers": Case(
        StateOptions(rules=FIRST, panes=WINDOWS, clusters=ClusterSettings()),
        Traffic(
            (Stretch(500), Stretch(150, WORSE), Stretch(300)), sessions=0.9, open_sessions=20, gold=0.9, later=0.1,
            judged=0.1, pipelines=1, disorder_s=20,
        ), (CheckpointField.OPEN_CLUSTER,), ("floor", "given", "both", "shape"),
    ),
    "first answers, shared budget": Case(
        StateOptions(rules=tuple(one.model_copy(update={"run_length": None}) for one in FIRST), budget=BUDGET,
                     clusters=ClusterSettings(quiet_s=60)),
        Traffic((Stretch(300), Stretch(100, WORSE), Stretch(100)), sessions=0.7, open_sessions=20, second=5),
        (CheckpointField.ALERT_CLOCK,), ("floor",),
    ),
    "clusters of a segment": Case(
        StateOptions(rules=PLAIN, panes=WINDOWS, clusters=BY_CHANNEL), EVERYTHING
    ),
    "blocks": Case(
        StateOptions(rules=PLAIN, panes=WINDOWS, clusters=BLOCKS_OF_5), EVERYTHING,
        (CheckpointField.CLUSTERS,),
    ),
    "weights": Case(StateOptions(rules=PLAIN, panes=WINDOWS), Traffic(sampled=0.5)),
    "feedback and judged pairs": Case(
        StateOptions(), Traffic(judged=0.4, gold=0.1, later=0.5), (CheckpointField.PAIR,)
    ),
    "pairs of sessions": Case(
        StateOptions(clusters=SESSIONS), Traffic(judged=0.4, gold=0.1, later=0.5, sessions=0.8),
        (CheckpointField.PAIR, CheckpointField.OPEN_CLUSTER),
    ),
    "adjusted": Case(
        StateOptions(rules=ADJUSTED, budget=BudgetSettings(false_alarms=40.0, period="10d"), clusters=LONG_SESSIONS),
        Traffic(MIXES, second=5, sessions=0.2, pipelines=1), (), ("learned", "given", "user"),
    ),
    "adjusted, false discovery": Case(
        StateOptions(rules=ADJUSTED, budget=BudgetSettings(false_discovery_rate=0.9, period="10d")),
        Traffic(MIXES, pipelines=1), (), ("given",),
    ),
    "seasonal": Case(
        StateOptions(rules=SEASONAL, budget=BudgetSettings(false_alarms=40.0, period="10d"), clusters=LONG_SESSIONS),
        Traffic(BURSTS, second=20, sessions=0.3, gold=0.3, pipelines=1), (CheckpointField.SEASON,), ("day",),
    ),
    "seasonal, false discovery": Case(
        StateOptions(rules=SEASONAL, budget=BudgetSettings(false_discovery_rate=0.9, period="10d")),
        Traffic(BURSTS, second=20, gold=0.3, pipelines=1), (CheckpointField.SEASON,),
    ),
    "kappa": Case(
        StateOptions(rules=AGREEMENT),
        Traffic((Stretch(120), Stretch(100, WORSE), Stretch(100)), gold=0.6, later=0.3, pipelines=1),
        (), ("kappa", "learned-kappa", "lang-kappa", "rmse"),
    ),
    "kappa of sessions": Case(
        StateOptions(rules=AGREEMENT, clusters=SESSIONS), Traffic(gold=0.9, sessions=0.9, open_sessions=2, pipelines=1)
    ),
    "covariates": Case(
        StateOptions(rules=COVARIATES, panes=WINDOWS),
        Traffic((Stretch(300), Stretch(150, WORSE), Stretch(150)), covariates=0.9, judged=0.2, later=0.2, runs=0.1),
        (CheckpointField.RULE_STATE,), ("length", "length-by-channel", "floor"),
    ),
    "covariates, other mix": Case(
        StateOptions(rules=COVARIATES), Traffic(MIXES, covariates=0.5, pipelines=1, disorder_s=60), (), ("lang",),
    ),
    "covariates of sessions": Case(
        StateOptions(rules=COVARIATES, clusters=SESSIONS),
        Traffic(
            (Stretch(400), Stretch(300, WORSE), Stretch(300)), covariates=0.9, sessions=0.6, pipelines=1, judged=0.2
        ), (), ("length",),
    ),
    "covariates of blocks": Case(
        StateOptions(rules=COVARIATES, clusters=BLOCKS_OF_5, caps=KeyCaps(40, 90)),
        Traffic((Stretch(300), Stretch(150, WORSE)), covariates=0.9, pipelines=3, sampled=0.1), (), ("length",),
    ),
    "causes": Case(
        StateOptions(rules=CAUSED, panes=Panes((window("1m"),), 30_000)),
        Traffic((Stretch(400, MIX_A), Stretch(500, WORSE_B)), pipelines=1), (), ("floor", "floor, explained"),
    ),
    "causes of clusters": Case(
        StateOptions(rules=CAUSED, panes=Panes((window("1m"),), 30_000), clusters=BY_CHANNEL),
        Traffic((Stretch(400, MIX_A), Stretch(500, WORSE_B)), pipelines=1), (), ("floor", "both, explained"),
    ),
    "runs of agents": Case(
        StateOptions(rules=OF_AGENTS, panes=Panes((window("1m"),), 30_000)),
        Traffic((Stretch(400, MIX_A), Stretch(1000, WORSE_B)), pipelines=1, calls=0.9),
        (CheckpointField.DECLARED,), ("floor", "learned, explained", "tools, explained"),
    ),
    "reasons and declarations": Case(
        StateOptions(rules=(
            *PLAIN, rule("words", metric=WORDS, baseline=500.0, run_length=20, direction="both"),
            rule("tail", "threshold", target=0.5, quantile=0.2, run_length=20),
        )),
        Traffic(LONG, absent=0.4, declared=0.5, runs=0.3), (CheckpointField.DECLARED,), ("tail",),
    ),
    "history": Case(
        StateOptions(panes=Panes((window("5m"),), 10 * MINUTE_MS), history=HISTORY), replace(EVERYTHING, second=40),
        (CheckpointField.HISTORY, CheckpointField.HISTORY_SERIES),
    ),
    "history of sessions": Case(
        StateOptions(history=HISTORY, clusters=ClusterSettings(by="session_id", size=3, quiet_s=1200, open_cap=10)),
        replace(EVERYTHING, second=40), (CheckpointField.HISTORY, CheckpointField.CLUSTERS),
    ),
    "levels": Case(
        StateOptions(levels=LEVELS),
        Traffic((Stretch(150), Stretch(150, WORSE), Stretch(150)), declared=0.3, pipelines=1),
        (CheckpointField.LEVEL, CheckpointField.LEVEL_BUDGET),
    ),
    "levels of sessions": Case(
        StateOptions(rules=PLAIN, levels=LEVELS, clusters=SESSIONS, budget=BUDGET),
        Traffic((Stretch(200), Stretch(200, WORSE), Stretch(100)), sessions=0.6),
        (CheckpointField.LEVEL, CheckpointField.LEVEL_BUDGET),
    ),
    "releases": Case(
        StateOptions(rules=PLAIN, releases=RELEASES), RELEASED, (CheckpointField.RELEASE,),
        ("release", "release_worse", "floor"),
    ),
    "releases of sessions": Case(
        StateOptions(releases=RELEASES, clusters=SESSIONS),
        replace(RELEASED, sessions=0.6, judged=0.2, later=0.2, ticks=0.02), (CheckpointField.RELEASE,),
        ("release", "release_worse"),
    ),
    "releases of capped versions": Case(
        StateOptions(releases=RELEASES, caps=KeyCaps(450, 100_000)), RELEASED,
        (CheckpointField.RELEASE, CheckpointField.CAPPED), ("release",),
    ),
    "caps": Case(
        StateOptions(rules=PLAIN, caps=KeyCaps(40, 90)), Traffic(users=60, pipelines=4, runs=0.2, judged=0.1, gold=0.2),
        (CheckpointField.CAPPED, CheckpointField.KEYS_SUMMARY),
    ),
    "caps, false discovery": Case(
        StateOptions(rules=LEVELLED, budget=RATE, clusters=SESSIONS, caps=KeyCaps(14, 40)),
        Traffic(users=30, pipelines=3, sessions=0.3, second=4), (CheckpointField.CAPPED,),
    ),
}  # fmt: skip


@functools.cache
def example(name: str) -> tuple[list[Step], Outcome]:
    """Return the steps of a case, and their outcome in one piece."""
    steps = steps_of(CASES[name].traffic, CASES[name].seed)
    return steps, in_one_piece(CASES[name].options, steps)


def cut(name: str, *, near: int = 3, read: Read = turned) -> Outcome:
    """Return the outcome of a case with a few restarts; those in the middle are at `near` neighbouring steps."""
    steps, _ = example(name)
    middle = len(steps) // 2
    return in_pieces(CASES[name].options, steps, [middle // 2, *range(middle, middle + near), -7], read=read)


def raised(outcome: Outcome, status: str) -> list[Alert]:
    alerts = [Alert.decode(data) for of_key in outcome.alerts.values() for data in of_key]
    return [alert for alert in alerts if alert.status == status]


@pytest.mark.parametrize("name", CASES)
def test_each_option_is_at_work_and_survives_cuts_and_restarts_to_the_bit(name: str) -> None:
    case, (_, whole) = CASES[name], example(name)
    assert cut(name, near=4) == whole
    kinds = {kind for kind in CheckpointField if any(field.startswith(kind) for field in whole.fields)}
    assert set(case.fields) <= kinds
    explained = [alert.alert_id for alert in raised(whole, "explained")]
    assert len(explained) == len(set(explained))
    rules = {alert.rule for alert in raised(whole, "firing")}
    assert set(case.fires) <= rules | {f"{alert.rule}, explained" for alert in raised(whole, "explained")}


def test_the_law_holds_for_alerts_of_first_answers() -> None:
    for status in ("firing", "resolved"):
        rules = {
            alert.rule for alert in raised(example("first answers")[1], status) if alert.observed_of == "first_answers"
        }
        assert {"floor", "lang", "learned", "window", "window-shape"} <= rules, status


SHARES = st.sampled_from([0.0, 0.1, 0.5])


@st.composite
def drawn_cases(draw: st.DrawFn) -> Case:
    """Return options that are drawn one by one, with traffic for each of them."""
    options = StateOptions(
        rules=draw(
            st.sampled_from([(), PLAIN, (*LEVELLED, *AGREEMENT), (*ADJUSTED, *AGREEMENT), COVARIATES, OF_AGENTS])
        ),
        panes=draw(st.sampled_from([Panes((), 0), WINDOWS])),
        quantiles=draw(st.booleans()),
        clusters=draw(st.sampled_from([None, SESSIONS, BY_CHANNEL, BLOCKS_OF_5])),
        history=draw(st.sampled_from([None, HISTORY])),
        levels=draw(st.sampled_from([None, LEVELS])),
        releases=draw(st.sampled_from([None, RELEASES])),
        caps=draw(st.sampled_from([None, None, KeyCaps(40, 90), KeyCaps(1, 1), KeyCaps(30, 100_000)])),
    )
    level = draw(st.sampled_from(["", "budget", "false_discovery"]))
    if level == "budget":
        options = replace(options, budget=BUDGET)
    elif level:
        options = replace(options, budget=RATE)
    shares: dict[str, Any] = {
        name: draw(SHARES)
        for name in ("absent", "declared", "gold", "later", "judged", "sampled", "sessions", "covariates", "calls")
    }
    lengths = st.integers(0, 50)
    stretches = (Stretch(draw(st.integers(1, 50))), Stretch(draw(lengths), WORSE), Stretch(draw(lengths)))
    traffic = Traffic(
        stretches,
        second=draw(st.sampled_from([0.05, 1.0, 20.0])),
        disorder_s=draw(st.sampled_from([0.0, 20.0, 600.0])),
        pipelines=draw(st.integers(1, 3)),
        runs=draw(SHARES),
        wrong=draw(st.sampled_from([0.0, 0.05])),
        users=draw(st.sampled_from([2, 60])),
        versions=draw(st.sampled_from([(), ((0.9,), (0.6, 0.3), (0.1, 0.4, 0.4)), ((0.1,) * 9,) * 3])),
        **shares,
    )
    return Case(options, traffic, seed=draw(st.integers(0, 2**32)))


def check(case: Case, cuts: list[int], order: list[str], at_once: int) -> None:
    steps = steps_of(case.traffic, case.seed)
    whole = in_one_piece(case.options, steps, "one by one")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_module, "VALUES_AT_ONCE", at_once)
        patch.setattr(evaluator, "VALUES_AFTER_ALARM", min(at_once, 500))
        found = in_pieces(case.options, steps, cuts, order)
    differing = [name for name in {*found.fields, *whole.fields} if found.fields.get(name) != whole.fields.get(name)]
    assert not differing
    assert found == whole


LAW = given(
    st.one_of(drawn_cases(), st.builds(replace, st.sampled_from([*CASES.values()]), seed=st.integers(0, 2**32))),
    st.lists(st.integers(0, 600), max_size=4),
    st.permutations(WAYS),
    st.sampled_from([7, 300, 60_000]),
)


# The first value of a series may be too late for a pane.
@hypothesis_example(
    Case(
        StateOptions(panes=Panes((), 0), history=HISTORY),
        Traffic((Stretch(19),), second=0.05, disorder_s=20.0, pipelines=1), seed=0,
    ), [2], [*WAYS], 7,
)  # fmt: skip
# First answers are compared before there are enough other values, which are only learned until then.
@hypothesis_example(replace(CASES["first answers"], seed=17635), [59, 0], ["one by one", "columns", "turns"], 7)
@settings(max_examples=5)
@LAW
def test_cuts_into_batches_and_restarts_change_no_bit(
    case: Case, cuts: list[int], order: list[str], at_once: int
) -> None:
    check(case, cuts, order, at_once)


# The baseline of first answers is learned anew in the batch of the alert, after it.
@hypothesis_example(replace(CASES["first answers"], seed=2918), [211], ["one by one", "turns", "columns"], 300)
@pytest.mark.heavy
@settings(max_examples=60)
@LAW
def test_many_more_cuts_into_batches_and_restarts_change_no_bit(
    case: Case, cuts: list[int], order: list[str], at_once: int
) -> None:
    check(case, cuts, order, at_once)


# The planted bugs: with each of them the law must fail.


def law_fails(name: str, read: Read = turned) -> bool:
    """Return whether the law finds a bug with the steps of a case."""
    _, whole = example(name)
    try:
        return cut(name, read=read) != whole
    except (AssertionError, DamagedFieldError, ValueError, RuntimeWarning):
        # Numbers that do not fit together may also end in an error.
        return True


def forgetting(kind: str) -> Read:
    """Return how a restart reads that forgets a kind of field."""
    return lambda fields: {name: data for name, data in fields.items() if not name.startswith(kind)}


def stale(kind: str) -> Read:
    """Return how a restart reads if a commit writes a kind of field only once."""
    first: dict[str, bytes] = {}

    def read(fields: dict[str, bytes]) -> dict[str, bytes]:
        return {name: first.setdefault(name, data) if name.startswith(kind) else data for name, data in fields.items()}

    return read


KINDS = {
    CheckpointField.ESTIMATE: "nothing asked for",
    CheckpointField.QUANTILES: "plain",
    CheckpointField.RULE_STATE: "plain",
    CheckpointField.PANE: "plain",
    CheckpointField.PROCESSED: "plain",
    CheckpointField.ALERT_CLOCK: "shared budget",
    CheckpointField.CLUSTERS: "sessions",
    CheckpointField.CLUSTER_SCOPE: "sessions",
    CheckpointField.OPEN_CLUSTER: "pairs of sessions",
    CheckpointField.DEPENDENCE: "sessions",
    CheckpointField.PAIR: "feedback and judged pairs",
    CheckpointField.SEASON: "seasonal",
    CheckpointField.HISTORY: "history",
    CheckpointField.HISTORY_SERIES: "history",
    CheckpointField.LEVEL: "levels",
    CheckpointField.LEVEL_BUDGET: "levels",
    CheckpointField.RELEASE: "releases",
    CheckpointField.CAPPED: "caps",
    CheckpointField.FIRING_ALERT: "caps",
}
"""Kinds of fields that a state writes, each with a case that has them; events bring declarations with them."""

WRITTEN_ONCE = {CheckpointField.HISTORY_SERIES, CheckpointField.FIRING_ALERT}


def is_tick(step: Step) -> bool:
    return isinstance(step, MetricEvent) and step.is_tick


@pytest.mark.heavy
@pytest.mark.parametrize("name", CASES)
def test_the_law_finds_events_that_a_cut_repeats_loses_or_turns_round(name: str) -> None:
    steps, whole = example(name)
    # A repeated tick closes nothing more.
    middle = next(at for at in range(len(steps) // 2, 0, -1) if not is_tick(steps[at - 1]))
    repeated, lost = [*steps[:middle], *steps[middle - 1 :]], [*steps[: middle - 1], *steps[middle:]]
    for wrong in (repeated, lost, [*steps[:middle], *reversed(steps[middle:])]):
        assert in_one_piece(CASES[name].options, wrong) != whole


@pytest.mark.simulation
@pytest.mark.parametrize("kind", KINDS)
def test_the_law_finds_a_kind_of_field_that_a_restart_forgets_or_that_a_commit_writes_once(kind: str) -> None:
    name = KINDS[CheckpointField(kind)]
    assert law_fails(name, forgetting(kind))
    if CheckpointField(kind) not in WRITTEN_ONCE:
        assert law_fails(name, stale(kind))


OFFLINE = {"CovariateTable", "AssignmentTable", "PlugInBets"}
"""Tables of offline comparisons, which no checkpoint holds. A table with a private name is derived from others."""
COLUMNS = [
    (table, column)
    for table in RowTable.__subclasses__()
    if table.__module__.startswith("ragtide_aggregator") and not table.__name__.startswith("_")
    if table.__name__ not in OFFLINE
    for column in table._columns
    if column.stored
]
TABLES = {
    "ClusterTable": "sessions",
    "ClusteredPairs": "pairs of sessions",
    "DependenceTable": "sessions",
    "DetectorTable": "adjusted",
    "LevelTable": "levels",
    "OpenCells": "seasonal",
    "PairTable": "feedback and judged pairs",
    "SamplingWeights": "weights",
    "SeasonTable": "seasonal",
}
"""A case in which each table is read."""


def forget_column(patch: pytest.MonkeyPatch, table: type[RowTable], column: RowColumn[Any]) -> None:
    """Let a table forget a column of the rows that it reads."""
    load, load_rows = table.load, table.load_rows

    def load_without(self: RowTable, row: int, data: bytes) -> None:
        load(self, row, data)
        place = self._place(row) if isinstance(self, SamplingWeights) else row
        getattr(self, column.name)[column.at(place)] = column.fill

    def load_rows_without(self: RowTable, rows: Any, data: bytes) -> None:
        load_rows(self, rows, data)
        getattr(self, column.name)[column.at(rows)] = column.fill

    patch.setattr(table, "load", load_without)
    patch.setattr(table, "load_rows", load_rows_without)
    if load_each := getattr(table, "load_each", None):

        def load_each_without(self: RowTable, rows: Any, data: Any) -> None:
            load_each(self, rows, data)
            getattr(self, column.name)[column.at(rows)] = column.fill

        patch.setattr(table, "load_each", load_each_without)


@pytest.mark.heavy
@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=lambda one: getattr(one, "name", None) or one.__name__)
def test_the_law_finds_a_column_of_a_table_that_a_restart_forgets(
    table: type[RowTable], column: RowColumn[Any]
) -> None:
    def fails(name: str) -> bool:
        example(name)
        with pytest.MonkeyPatch.context() as patch:
            forget_column(patch, table, column)
            return law_fails(name)

    assert any(fails(name) for name in (TABLES.get(table.__name__, "plain"), *CASES))


ITEM_CASES = ("kappa", "kappa of sessions", "plain", "sessions", "seasonal", "adjusted", "causes", "first answers")
"""The shortest first."""


def items_of(data: bytes) -> dict[str, Any]:
    found = json.loads(data)
    return found if isinstance(found, dict) else {}


def stale_item(item: str) -> Read:
    """Return how a restart reads if an item of the state of a rule is written only once."""
    first: dict[str, Any] = {}

    def read(fields: dict[str, bytes]) -> dict[str, bytes]:
        read_fields = dict(fields)
        for name, data in fields.items():
            if name.startswith(CheckpointField.RULE_STATE) and item in items_of(data):
                items = items_of(data)
                items[item] = first.setdefault(name, items[item])
                read_fields[name] = json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode()
        return read_fields

    return read


@pytest.mark.heavy
def test_the_law_finds_every_item_of_the_state_of_a_rule_that_a_commit_writes_once() -> None:
    cases: dict[str, list[str]] = {}
    for name in ITEM_CASES:
        states = [
            data for field, data in example(name)[1].fields.items() if field.startswith(CheckpointField.RULE_STATE)
        ]
        for item in {item for data in states for item in items_of(data)}:
            cases.setdefault(item, []).append(name)
    assert len(cases) > 10
    unnoticed = [item for item, names in cases.items() if not any(law_fails(name, stale_item(item)) for name in names)]
    assert unnoticed == []
