"""Drawn events and later gold scores, and what a state makes of them: in one piece, or cut with restarts in between."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from tests.support.event_columns import columns_of
from tests.support.metric_events import START, event

from ragtide import InvalidEntryError
from ragtide_aggregator.events.values import gold_parts
from ragtide_aggregator.state.state import AggregatorState, Changes, StateOptions
from ragtide_schemas import JudgedScores, MetricDeclaration, MetricEvent
from ragtide_schemas.step_metrics import ToolMetric, tool_declaration

ADHERENCE, RELEVANCE, BALANCE = "trace.adherence", "trace.context_relevance", "trace.rmse_aggregation"
WORDS = "mine.words"

Mix = Mapping[str, tuple[float, float]]
"""By value of the segment `lang` its share and its mean; `none` is an event without the segment."""

NORMAL: Final[Mix] = {"en": (0.5, 0.92), "de": (0.3, 0.85), "none": (0.2, 0.9)}
WORSE: Final[Mix] = {"en": (0.5, 0.3), "de": (0.3, 0.2), "none": (0.2, 0.2)}


class Stretch(NamedTuple):
    """Events of one mix; they begin at a time, or where the stretch before ends."""

    n: int
    mix: Mix = NORMAL
    begins_s: float | None = None
    version: str | None = None
    """Version of the labeler; drawn for each event if it is not given."""


WRONG_BALANCE: Final = 0.75
"""A balance above its range, for which an event is refused."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What drawn events are like; the numbers are shares of the events unless they say otherwise."""

    stretches: tuple[Stretch, ...] = (Stretch(50), Stretch(50, WORSE), Stretch(60))
    second: float = 1.0
    """Seconds between events, on average."""
    disorder_s: float = 0.0
    pipelines: int = 2
    runs: float = 0.0
    absent: float = 0.0
    declared: float = 0.0
    """Events with a metric that is not ragtide's own."""
    wrong: float = 0.0
    """Scores out of range."""
    judged: float = 0.0
    gold: float = 0.0
    """Events with gold scores."""
    later: float = 0.0
    """Events that get gold scores later."""
    sampled: float = 0.0
    sessions: float = 0.0
    open_sessions: int = 5
    """Sessions at the same time."""
    users: int = 4
    """Values of the segment `user`."""
    ticks: float = 0.0
    """Events after which the traffic pauses, with a tick at the end of the pause."""
    covariates: float = 0.0
    """Events with a covariate `length`, which is larger where answers are worse."""
    versions: tuple[tuple[float, ...], ...] = ()
    """For each stretch the shares of the versions of the application, `v0` first; the others say none. The answers of
    `v1` are not supported."""
    calls: float = 0.0
    """Events of runs of agents, in which the tool `search` works worse where answers are worse."""


Read = Callable[[dict[str, bytes]], dict[str, bytes]]
"""Returns the fields that a restart reads, given those that were written."""


class Later(NamedTuple):
    """Gold scores that come later than their event."""

    event: MetricEvent
    gold: Mapping[str, float]
    probability: float


Step = MetricEvent | Later


def steps_of(traffic: Traffic, seed: int) -> list[Step]:
    """Return drawn events and later gold scores, in their order."""
    rng = np.random.default_rng(seed)
    steps: list[Step] = []
    events: list[MetricEvent] = []
    time_s = 0.0
    for place, stretch in enumerate(traffic.stretches):
        time_s = time_s if stretch.begins_s is None else stretch.begins_s
        shares = np.array([share for share, _ in stretch.mix.values()])
        for lang in rng.choice(list(stretch.mix), stretch.n, p=shares / shares.sum()).tolist():
            time_s += traffic.second * float(rng.choice([0.0, 1.0, 5.0, 40.0], p=[0.3, 0.5, 0.18, 0.02]))
            drawn = _event(traffic, rng, len(events), time_s=time_s, lang=lang, mean=stretch.mix[lang][1])
            if stretch.version is not None:
                drawn = drawn.model_copy(update={"labeler_version": stretch.version})
            if traffic.versions:
                number = int(np.searchsorted(np.cumsum(traffic.versions[place]), rng.random(), side="right"))
                if number < len(traffic.versions[place]):
                    changes: dict[str, Any] = {"segments": {**drawn.segments, "version": f"v{number}"}}
                    if number == 1 and ADHERENCE in drawn.scores:
                        changes["scores"] = {**drawn.scores, ADHERENCE: 0.0}
                    drawn = drawn.model_copy(update=changes)
            events.append(drawn)
            steps.append(drawn)
            if rng.random() < traffic.later:
                graded = events[-1 - int(rng.integers(0, min(len(events), 30)))]
                gold = {ADHERENCE: float(rng.random() < 0.7), RELEVANCE: float(rng.random())}
                probability = float(rng.choice([1.0, 0.5, 0.25]))
                # Feedback joins only events that were taken.
                if graded.scores.get(BALANCE) != WRONG_BALANCE:
                    steps.append(Later(graded, gold, probability))
            if traffic.ticks and rng.random() < traffic.ticks:
                time_s += float(rng.choice([10.0, 35.0, 700.0]))
                at = START + timedelta(seconds=time_s)
                steps.append(MetricEvent.tick(drawn.pipeline, drawn.run, occurred_at=at, scored_until=at))
    return steps


def _event(
    traffic: Traffic, rng: np.random.Generator, number: int, *, time_s: float, lang: str, mean: float
) -> MetricEvent:
    good = float(rng.random() < mean)
    scores = {
        ADHERENCE: good,
        RELEVANCE: float(np.round((good + rng.beta(3, 3)) / 2, int(rng.integers(1, 17)))),
        BALANCE: float(rng.random() / (5 if good else 2)),
    }
    scores = {name: score for name, score in scores.items() if rng.random() >= traffic.absent}
    absent = {name: str(rng.choice(["no_claims", "judge_unusable"])) for name in {ADHERENCE, BALANCE} - set(scores)}
    gold = {}
    if rng.random() < traffic.gold:
        # The judge and people agree less where answers are worse.
        same = rng.random() < 0.1 + 0.9 * mean
        error = float(rng.normal(0, 0.05 if same else 0.5))
        gold = {
            ADHERENCE: good if same else 1 - good,
            RELEVANCE: float(np.clip(scores.get(RELEVANCE, 0.5) + error, 0, 1)),
        }
    segments = {"user": f"u{rng.integers(traffic.users)}", "channel": f"c{number % 3}"}
    if rng.random() < 0.2:
        del segments["user"]
    if lang != "none":
        segments["lang"] = lang
    occurred = START + timedelta(seconds=time_s - rng.random() * traffic.disorder_s * (rng.random() < 0.2))
    changes: dict[str, Any] = {
        "pipeline": f"p-{int(rng.integers(traffic.pipelines))}",
        "segments": segments,
        "absent": absent,
        "occurred_at": occurred,
        "labeled_at": START + timedelta(seconds=time_s + 1),
        "latency_s": float(rng.lognormal()),
        "cost_usd": float(rng.random() / 100),
        "prompts": ("p",) if rng.random() < 0.2 else (),
        "labeler_version": str(rng.choice(["1", "2"], p=[0.95, 0.05])),
    }
    if rng.random() < traffic.runs:
        changes |= {"run": f"r{rng.integers(3)}", "population_size": int(rng.integers(500, 503))}
    if rng.random() < traffic.declared:
        scores[WORDS] = float(rng.integers(0, 900))
        changes["declared"] = {
            WORDS: MetricDeclaration(lower=0, upper=float(rng.choice([900, 1000])), meaning="Words.")
        }
    if rng.random() < traffic.wrong:
        scores[BALANCE] = WRONG_BALANCE
    if rng.random() < traffic.sampled:
        changes["sampling_probability"] = float(rng.choice([0.1, 0.25, 1e-6]))
    if rng.random() < traffic.sessions:
        changes["session_id"] = f"s-{number // 40}-{rng.integers(traffic.open_sessions)}"
    if rng.random() < traffic.judged:
        changes["judged"] = JudgedScores(
            labeler="judge", labeler_version="1", profile="ragbench",
            scores={RELEVANCE: float(rng.random()), ADHERENCE: float(rng.random() < mean)},
            inclusion_probability=float(rng.choice([0.25, 0.5])), uniform=bool(rng.random() < 0.7),
        )  # fmt: skip
    if traffic.calls and rng.random() < traffic.calls:
        scores |= _calls(rng, number, mean)
        tools = {name: tool for name in scores if (tool := ToolMetric.read(name)) is not None}
        changes["declared"] = changes.get("declared", {}) | {n: tool_declaration(tool) for n, tool in tools.items()}
    if traffic.covariates and rng.random() < traffic.covariates:
        changes["covariates"] = {"length": float(int(rng.lognormal(5 - 2 * mean, 0.5))), "other": 1.0}
    return event(number, scores, gold_scores=gold, **changes)


def _calls(rng: np.random.Generator, number: int, mean: float) -> dict[str, float]:
    scores = {"agent.calls": float(rng.integers(1, 5)), "agent.wasted": float(rng.random() * 2 * (1 - mean))}
    for tool, share in (("search", mean), ("orders", 0.9), (f"made_up_{number % 90}", 0.5)):
        numbers: dict[str, Any] = {
            "calls": rng.integers(1, 4),
            "failed": rng.random() > share,
            "yield": share * rng.random(),
        }
        if rng.random() < 0.2:
            del numbers["yield"]
        scores |= {f"tool.{tool}.{quantity}": float(value) for quantity, value in numbers.items()}
    return scores


Way = str
"""How a piece is applied: `one by one`, in `columns`, or in `turns` of both."""
WAYS: Final[tuple[Way, ...]] = ("one by one", "columns", "turns")

Refusals = list[tuple[str, str]]
"""Id of the interaction, and why."""


@dataclass(slots=True)
class Outcome:
    """What commits have written: the fields of the checkpoint, alerts and closed panes; and what was refused."""

    fields: dict[str, bytes] = field(default_factory=dict)
    alerts: dict[tuple[str | None, ...], list[bytes]] = field(default_factory=dict)
    """By rule and key, because alerts of one interaction have no order."""
    series: dict[str, list[bytes]] = field(default_factory=dict)
    refused: Refusals = field(default_factory=list)
    capped: int = 0

    def commit(self, changes: Changes) -> None:
        """Write the changes of a state, as a commit does."""
        for name in changes.gone:
            self.fields.pop(name, None)
        self.fields |= changes.rows
        for alert in changes.alerts:
            key = (alert.rule, alert.pipeline, alert.run, alert.segment, alert.labeler, alert.labeler_version)
            self.alerts.setdefault(key, []).append(alert.encode())
        self.capped += changes.capped
        for closed in changes.closed:
            kept = self.series.setdefault(closed.series, [])
            kept += closed.records
            del kept[: -closed.kept]


def apply(state: AggregatorState, steps: Sequence[Step], way: Way) -> Refusals:
    """Apply steps to a state, and return the refused events."""
    if way == "turns":
        halves = steps[: len(steps) // 2], steps[len(steps) // 2 :]
        return [*apply(state, halves[0], "one by one"), *apply(state, halves[1], "columns")]
    refused: Refusals = []
    if way == "columns":
        events = [step for step in steps if isinstance(step, MetricEvent)]
        gold, before = [], 0
        for step in steps:
            if isinstance(step, Later):
                gold += [(before, part) for part in gold_parts(step.event, step.gold, step.probability)]
            else:
                before += 1
        columns = replace(columns_of(events), gold=gold)
        return [(events[column.place].interaction_id, str(column.error)) for column in state.apply_columns(columns)]
    for step in steps:
        if isinstance(step, Later):
            state.apply_gold(step.event, step.gold, step.probability)
            continue
        try:
            state.apply(step)
        except InvalidEntryError as error:
            refused.append((step.interaction_id, str(error)))
    return refused


def in_one_piece(options: StateOptions, steps: Sequence[Step], way: Way = "columns") -> Outcome:
    """Return the outcome of all steps, committed once."""
    outcome, state = Outcome(), AggregatorState(options)
    outcome.refused = apply(state, steps, way)
    outcome.commit(state.take_changes())
    return outcome


def turned(fields: dict[str, bytes]) -> dict[str, bytes]:
    """Return the fields in another order, so that keys get other rows."""
    return dict(reversed(fields.items()))


def in_pieces(
    options: StateOptions,
    steps: Sequence[Step],
    cuts: Sequence[int],
    ways: Sequence[Way] = WAYS,
    read: Read = turned,
) -> Outcome:
    """Return the outcome with a commit and a restart at each cut; `read` returns the fields that a restart reads."""
    outcome, state = Outcome(), AggregatorState(options)
    edges = sorted({0, *(cut % (len(steps) + 1) for cut in cuts), len(steps)})
    for number, (start, end) in enumerate(pairwise(edges)):
        outcome.refused += apply(state, steps[start:end], ways[number % len(ways)])
        outcome.commit(state.take_changes())
        state = AggregatorState.from_fields(options, read(outcome.fields))
        after = state.take_changes()
        assert after.rows.items() <= outcome.fields.items(), "a restart alone changes no field"
        assert not [*after.gone, *after.alerts, *after.closed], "a restart alone is no event"
    return outcome
