"""Which tool moved: injected faults in the tools of a simulated agent.

    python benchmarks/moved_tools.py [--faults 200] [--pairs 90] [--quiet 6]

The agent answers the questions of examples/bm25_rag. It has four tools: a handbook that counts words, a store of
letters that compares runs of letters, a table of orders, each over a part of the passages, and the web, which has all
of them and is noisy. A router picks the tool of the right part for 85% of the questions, and asks a second one at
once for 20%. A result with few words of the question leads to another tool in the next round, at most three rounds.
The answer is the sentences that fit best. Half of the streams are scored by the local labeler, the others by labels as
a judge gives them: sentences of the right documents are relevant, and 1 in 20 labels is wrong. After 2,000 runs a tool
fails in one of six ways, for a drawn share of its runs. Rules that know the normal means fire, and the search of the
aggregator looks at the numbers of the tools.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from itertools import combinations, compress
from multiprocessing import get_context
from typing import Any, Final, NamedTuple

import numpy as np
from moved_steps import (
    BEFORE,
    RUN_LENGTH,
    START,
    Failures,
    Fault,
    Named,
    best,
    judged,
    pipeline,
    search_of,
    similar,
    words,
)
from numpy.typing import NDArray

from ragtide_aggregator.alerts.cause_search import RUN_COUNTS, StepKey
from ragtide_aggregator.alerts.rule_state import matches
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.events.queue import EventQueue
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.drift.detector import DriftDetector
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.local.labeler import LocalLabeler
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_consumers.metrics.trace import all_absent
from ragtide_runtime.settings.alerting import DEFAULT_RULES
from ragtide_schemas import MetricEvent, RagInteraction, to_milliseconds

TOOLS: Final = ("handbook", "letters", "orders", "web")
RETURNED: Final = {"handbook": 4, "letters": 4, "orders": 3, "web": 5}
ROUNDS: Final = 3
ROUTED: Final = 0.85
"""Share of the runs that begin with the tool of the question's topic."""

PARALLEL: Final = 0.2
"""Share of the runs that ask a second tool at once."""

ENOUGH: Final = 0.4
"""Share of a question's words that a passage has, with which the agent asks no further tool."""

FAULTS: Final = ("nothing", "old pages", "another tenant", "timeout", "another language", "ten times as much")
AFTER: Final = 8_000
"""Runs since the first failure; the search of an alert ends 3,200 runs after the alarm."""

DRAWS: Final = 2
"""Runs of each question."""

TOGETHER: Final = 400
"""Runs that all rules read before the next ones: after the first alarm nothing is read."""

LATER: Final = (100, 400, 1_000)
"""Runs after which the second of two tools fails."""

CHANGES: Final = ("none", "harder questions", "harder for one tool", "other topics", "another router")
"""Changes that are no fault of a tool. With other topics, and with a router that prefers the web, tools get other
questions."""

ANOTHER_ROUTER: Final = (("router", "web"),)
"""In the form of failures: a router that begins 60% of the runs with the web."""

_Floats = NDArray[np.float64]
_NAMES: Final = re.compile(r"\b[A-Z][a-z]+\b|\b\d+\b")
_LETTERS: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ywxqvzkhujbgtnrmclsdepfoai")


class Rule(NamedTuple):
    """A rule that knows the normal mean of a metric."""

    metric: str
    rises: bool
    upper: float
    """End of the range."""
    min_effect: float


def rules(*, local: bool) -> tuple[Rule, ...]:
    """Return the rules: on the quality of the answers, and the default rules on runs and tools."""
    quality = ("trace.context_relevance", "trace.adherence", "trace.completeness")
    of_quality = [Rule(metric, False, 1.0, 0.005 if local else 0.02) for metric in quality]
    of_runs = [Rule("agent.wasted", True, 64.0, 0.5), Rule("agent.rounds", True, 64.0, 0.5)]
    of_tools = [
        Rule(f"tool.{tool}.{quantity}", rises, 1.0, effect)
        for tool in TOOLS
        for quantity, rises, effect in (("failed", True, 0.02), ("empty", True, 0.02), ("used", False, 0.05))
    ]
    return (*of_quality, *of_runs, Rule("agent.gave_up", True, 1.0, 0.02), *of_tools)


class Passage(NamedTuple):
    """A passage as a tool returns it."""

    sentences: tuple[str, ...]
    right: bool
    """Whether it has the answer."""


@dataclass(frozen=True, slots=True)
class World:
    """What each tool has."""

    indexed: Mapping[str, NDArray[np.bool_]]
    """By tool, whether a passage is in its index."""
    old: NDArray[np.bool_]
    """Passages that an index has which was not built again."""
    topics: tuple[str, ...]
    """The tool of each question's topic."""
    asked: tuple[frozenset[str], ...]
    """Words of each question by which the agent judges results."""
    words: tuple[frozenset[str], ...]
    """Words of each passage."""
    noise: _Floats
    """What the web adds to its scores."""
    names: tuple[str, ...]
    """Names and numbers of another tenant."""


@cache
def world() -> World:
    """Return what each tool has of the passages of the example."""
    shop = pipeline()
    rng = np.random.default_rng(17)
    owner: dict[int, tuple[float, float]] = {}
    place, age = [], []
    for of in shop.owners:
        owner.setdefault(of, (rng.random(), rng.random()))
        place.append(owner[of][0])
        age.append(owner[of][1])
    share = np.array(place)
    indexed = {
        "handbook": share < 0.4,
        "letters": (share >= 0.4) & (share < 0.7),
        "orders": share >= 0.7,
        "web": np.ones(share.size, dtype=bool),
    }
    topics = tuple(max(TOOLS[:3], key=lambda tool: (int((right & indexed[tool]).sum()), tool)) for right in shop.right)
    rarity = Counter(word for passage in shop.passages for word in set(words(passage)))
    asked = tuple(
        frozenset(word for word in words(question) if rarity[word] < len(shop.passages) / 20)
        for question in shop.questions
    )
    names = tuple(sorted({name for passage in shop.passages for name in _NAMES.findall(passage)}))
    scores = shop.scores["bm25"]
    noise = rng.normal(0, 0.3 * np.sort(scores, axis=1)[:, -5:].mean(), scores.shape)
    return World(
        indexed,
        np.array(age) < 0.5,
        topics,
        asked,
        tuple(frozenset(words(text)) for text in shop.passages),
        noise,
        names,
    )


def _returned(tool: str, question: int, fault: str | None, *, reads: bool) -> list[Passage]:
    """Return what a tool brings for a question; with a fault that is not a timeout."""
    shop, here = pipeline(), world()
    if fault == "nothing":
        return []
    scores = shop.scores["letters" if tool == "letters" else "bm25"][question]
    if tool == "web":
        scores = scores + here.noise[question]
    indexed = here.indexed[tool] & here.old if fault == "old pages" else here.indexed[tool]
    count = RETURNED[tool] * (10 if fault == "ten times as much" else 1)
    places = best(np.where(indexed, scores, -np.inf), count)
    passages = [Passage(shop.sentences[place], bool(shop.right[question, place])) for place in places]
    if fault == "another tenant":
        return [Passage(tuple(map(_of_tenant, sentences)), False) for sentences, _ in passages]
    if fault == "another language":
        return [
            Passage(tuple(text.lower().translate(_LETTERS) for text in sentences), right and reads)
            for sentences, right in passages
        ]
    return passages


@cache
def _of_tenant(text: str) -> str:
    names = world().names
    return _NAMES.sub(lambda match: names[hash_of(match.group()) % len(names)], text)


def hash_of(text: str) -> int:
    """Return a number that is the same in every process."""
    return int.from_bytes(text.encode(), "big") % 1_000_003


def _first_tools(question: int, rng: np.random.Generator, router: str | None) -> list[str]:
    topic = world().topics[question]
    draw, other, second, parallel = rng.random(), int(rng.integers(3)), int(rng.integers(3)), rng.random()
    others = [tool for tool in TOOLS if tool != topic]
    first = topic if draw < ROUTED else others[other]
    if router == "web" and rng.random() < 0.6:
        first = "web"
    rest = [tool for tool in TOOLS if tool != first]
    return [first, rest[second]] if parallel < PARALLEL else [first]


def answered(
    question: int, failing: Failures, rng: np.random.Generator, *, reads: bool
) -> tuple[RagInteraction, list[bool]]:
    """Return the run of a question, and whether each of its documents has the answer.

    Args:
        question: number of the question.
        failing: tools and their faults.
        rng: draws what the router does.
        reads: whether a passage in another language counts as an answer.
    """
    modes = dict(failing)
    here, asking = world(), pipeline().questions[question]
    documents: dict[tuple[str, ...], bool] = {}
    steps: list[dict[str, Any]] = []
    asked: list[str] = []
    tools = _first_tools(question, rng, modes.get("router"))
    for number in range(1, ROUNDS + 1):
        enough = False
        for tool in tools:
            asked.append(tool)
            seconds = float(rng.lognormal(-1, 0.5))
            call: dict[str, Any] = {"name": tool, "kind": "tool", "round": number, "query": asking}
            if modes.get(tool) == "timeout":
                steps.append({**call, "error": "timeout", "latency_s": 10.0})
                continue
            passages = _returned(tool, question, modes.get(tool), reads=reads)
            for passage in passages:
                documents.setdefault(passage.sentences, passage.right)
            known = list(documents)
            steps.append(
                {
                    **call,
                    "documents": list(dict.fromkeys(known.index(passage.sentences) for passage in passages)),
                    "returned": len(passages),
                    "latency_s": seconds,
                }
            )
            told = [frozenset(words(" ".join(passage.sentences))) for passage in passages]
            wanted = here.asked[question]
            enough = enough or any(len(wanted & has) >= ENOUGH * len(wanted) for has in told)
        rest = [tool for tool in TOOLS if tool not in asked]
        if enough or not rest:
            break
        tools = [rest[int(rng.integers(len(rest)))]]
    sentences = [sentence for cut in documents for sentence in cut]
    said = ["I do not know."]
    if sentences:
        fit = similar([words(sentence) for sentence in sentences], [words(asking)])[0]
        said = [sentences[place] for place in sorted(np.argsort(-fit, kind="stable")[:2].tolist())]
    run = RagInteraction.from_fields(
        {
            "pipeline": "agent",
            "question": asking,
            "documents": [{"text": " ".join(cut), "sentences": cut} for cut in documents],
            "response": " ".join(said),
            "response_sentences": said,
            "steps": steps,
        }
    )
    return run, list(documents.values())


@cache
def scored(failing: Failures, *, local: bool, reads: bool = False) -> tuple[MetricEvent, ...]:
    """Return the events of some runs of every question with some tools failing, in the order of the questions.

    Args:
        failing: tools and their faults.
        local: whether the local labeler scores, and not a judge.
        reads: whether a passage in another language counts as an answer.
    """
    labeler = LocalLabeler()
    by = labeler_id(labeler) if local else LabelerId("judge", "1", "ragbench")
    events = []
    for question in range(len(pipeline().questions)):
        for draw in range(DRAWS):
            rng = np.random.default_rng((13, question, draw))
            run, right = answered(question, failing, rng, reads=reads)
            labeling = labeler.label_now(run) if local else _judged(run, right, rng)
            events.append(metric_event(run, by, labeling, labeled_at=START, latency_s=0.01))
    return tuple(events)


def _judged(run: RagInteraction, right: Sequence[bool], rng: np.random.Generator) -> Labeling:
    if run.documents:
        return judged(run, right, rng)
    return Labeling(*all_absent(AbsentReason.NOTHING_RETRIEVED).by_qualified_name("trace."))


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of runs, a row each; nan where a run has none."""

    steps: _Floats
    """Of the tools, in the order of `keys`."""
    watched: _Floats
    """Metrics with a rule, in the order of `rules`."""


@cache
def keys() -> tuple[StepKey, ...]:
    """Return the numbers of the tools and the generator, in the order of the columns."""
    names = {name: of.version for event in scored((), local=False) for name, of in (event.declared or {}).items()}
    read = [StepKey.of(name, version) for name, version in sorted(names.items())]
    return (
        *(key for key in read if key is not None),
        *RUN_COUNTS.values(),
        StepKey("generator", "generator", "adherence"),
    )


@cache
def numbers(failing: Failures, *, local: bool, reads: bool = False) -> Numbers:
    """Return the numbers of some runs of every question with some tools failing."""
    scores = [event.scores for event in scored(failing, local=local, reads=reads)]
    counts = {key: metric for metric, key in RUN_COUNTS.items()}
    names = [counts.get(key) or key.metric for key in keys()]
    watched = [rule.metric for rule in rules(local=local)]
    return Numbers(*(np.array([[row.get(name, np.nan) for name in of] for row in scores]) for of in (names, watched)))


def _numbers(fault: Fault, failing: Failures) -> Numbers:
    languages = any(mode == "another language" for _, mode in failing)
    return numbers(failing, local=fault.local, reads=fault.reads and languages)


def _weights(change: str, tool: str) -> _Floats:
    """Return the shares of the questions since a change, as a row each run."""
    topics = np.repeat(np.array(world().topics), DRAWS)
    hard = np.exp(-6 * np.nan_to_num(numbers((), local=False).watched[:, 0]))
    if change == "harder for one tool":
        hard = np.where(topics == tool, hard * (topics == tool).sum() / hard[topics == tool].sum(), 1.0)
    weights = np.where(topics == tool, 4.0, 1.0) if change == "other topics" else hard
    return np.asarray(weights / weights.sum())


def _stream_of(fault: Fault, rng: np.random.Generator) -> Numbers:
    """Return the numbers of a stream with one failure or change."""
    normal = _numbers(fault, ())
    n, count = BEFORE + max(fault.starts, default=0) + AFTER, len(normal.watched)
    since = np.arange(n) - BEFORE
    rows = rng.integers(count, size=n)
    hits = [(since >= start) & (rng.random(n) < share) for start, share in zip(fault.starts, fault.shares, strict=True)]
    if fault.change not in ("", "none", "another router"):
        weights = _weights(fault.change, TOOLS[int(rng.integers(3))])
        rows = np.where((since >= 0) & (rng.random(n) < 0.75), rng.choice(count, p=weights, size=n), rows)
    steps, watched = normal.steps[rows], normal.watched[rows]
    for number in range(1, 1 << len(hits)):
        which = [bool(number >> place & 1) for place in range(len(hits))]
        here = np.logical_and.reduce([hit == wanted for hit, wanted in zip(hits, which, strict=True)])
        failed = _numbers(fault, tuple(compress(fault.failing, which)))
        steps[here], watched[here] = failed.steps[rows[here]], failed.watched[rows[here]]
    return Numbers(steps, watched)


def _alarm(stream: Numbers, fault: Fault) -> int | None:
    """Return the number of the run at which the first rule fires; None if none does."""
    of_normal = _numbers(fault, ()).watched
    detectors = {
        column: DriftDetector(
            baseline=float(np.nanmean(of_normal[:, column])),
            direction="rise" if rule.rises else "fall",
            run_length=RUN_LENGTH,
            min_effect=rule.min_effect,
            value_range=(0.0, rule.upper),
        )
        for column, rule in enumerate(rules(local=fault.local))
        if not np.isnan(of_normal[:, column]).all()
    }
    for start in range(BEFORE, len(stream.watched), TOGETHER):
        alarms = []
        for column, detector in detectors.items():
            values = stream.watched[start : start + TOGETHER, column]
            places = np.flatnonzero(~np.isnan(values))
            place = detector.update(values[places])
            alarms += [] if place is None else [start + int(places[place])]
        if alarms:
            return min(alarms)
    return None


def named(fault: Fault, rng: np.random.Generator) -> Named:
    """Return what an alert of a failure says about the tools when it is explained."""
    stream = _stream_of(fault, rng)
    alarm = _alarm(stream, fault)
    if alarm is None:
        return Named(fault, False, "unresolved", frozenset(), frozenset(), frozenset(), None)
    change = max((BEFORE + start for start in fault.starts if BEFORE + start <= alarm), default=BEFORE)
    cause = search_of(stream.steps, keys(), alarm, change).moved_step
    if cause is None:
        return Named(fault, True, "unresolved", frozenset(), frozenset(), frozenset(), None)
    last = alarm + cause.n_since - BEFORE
    failed = [
        name for (name, _), start in zip(fault.failing, fault.starts, strict=True) if start <= last and name in TOOLS
    ]
    moved, excluded = (frozenset(step.step for step in steps) for steps in (cause.moved, cause.unmoved))
    called = frozenset(change.step for change in cause.called or ())
    return Named(
        fault,
        True,
        cause.verdict,
        moved,
        excluded,
        frozenset(failed),
        last if cause.moved else None,
        alarm - BEFORE,
        called,
    )


def drawn(
    tools: Sequence[str], mode: str | None, change: str, local: bool, rng: np.random.Generator, *, later: int = 0
) -> Fault:
    """Return a failure of tools, each for a drawn share of its runs, and in a drawn way unless one is given."""
    failing = tuple((tool, mode or FAULTS[int(rng.integers(len(FAULTS)))]) for tool in tools)
    shares = tuple(float(rng.uniform(0.5, 1.0)) for _ in failing)
    last = int(rng.integers(len(failing))) if later else -1
    starts = tuple(later if place == last else 0 for place in range(len(failing)))
    reads = bool(rng.random() < 0.5)
    if change == "another router":
        failing, shares, starts = ANOTHER_ROUTER, (1.0,), (0,)
    return Fault(failing, shares, starts, local, 0.0, change, reads)


class Scenario(NamedTuple):
    """What happens in a stream."""

    tools: tuple[str, ...] = ()
    """Tools that fail."""
    mode: str | None = None
    """Their fault; None draws one of each."""
    change: str = ""
    """Another change than a fault of a tool, one of `CHANGES`."""
    later: int = 0
    """Runs after which one of two tools fails, which is drawn."""


SINGLE: Final = tuple(Scenario((tool,), mode) for mode in FAULTS for tool in TOOLS)
PAIRS: Final = tuple(Scenario(pair) for pair in combinations(TOOLS, 2))
APART: Final = tuple(Scenario(pair, later=later) for later in LATER for pair in combinations(TOOLS, 2))
OTHER: Final = tuple(Scenario(change=change) for change in CHANGES)


def simulated(scenarios: Sequence[Scenario], count: int, seed: int, *, processes: int = 2) -> list[Named]:
    """Return the answers for scenarios in turn, scored in turn by a judge and by the local labeler.

    Args:
        scenarios: that are drawn in turn.
        count: of streams.
        seed: of the draws.
        processes: that simulate.
    """
    for local in (False, True):
        numbers((), local=local)
    # The children have what was scored.
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        return list(pool.map(partial(_stream, tuple(scenarios), seed), range(count), chunksize=4))


def _stream(scenarios: Sequence[Scenario], seed: int, number: int) -> Named:
    rng = np.random.default_rng((seed, number))
    turn, place = divmod(number, len(scenarios))
    tools, mode, change, later = scenarios[place]
    return named(drawn(tools, mode, change, turn % 2 == 1, rng, later=later), rng)


class Quiet(NamedTuple):
    """What the default rules did in a stream without a change, with the aggregator's own state."""

    alarms: int
    named: int
    """Alerts that named a tool."""
    expected: float
    """Most false alarms on average: one in `RUN_LENGTH` values of each rule."""


def quiet(count: int, seed: int, *, processes: int = 2) -> list[Quiet]:
    """Return what the default rules did in streams without a change, scored in turn by a judge and locally."""
    for local in (False, True):
        numbers((), local=local)
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        return list(pool.map(partial(_quiet, seed), range(count)))


def _quiet(seed: int, number: int) -> Quiet:
    rng = np.random.default_rng((seed, number))
    events = scored((), local=number % 2 == 1)
    state, queue = AggregatorState(StateOptions(rules=DEFAULT_RULES, quantiles=False)), EventQueue()
    for place, row in enumerate(rng.integers(len(events), size=BEFORE + AFTER)):
        at = START + timedelta(seconds=place)
        changes = {"interaction_id": f"run-{place}", "occurred_at": at, "labeled_at": at}
        queue.add(events[row].model_copy(update=changes), to_milliseconds(at))
    state.apply_columns(queue.columns())
    alerts = state.take_changes().alerts
    compared = sum(state.moments.n(row) for row, key in enumerate(state.keys) if _has_rule(key))
    named = [alert for alert in alerts if alert.moved_step is not None and alert.moved_step.moved]
    return Quiet(sum(alert.status == "firing" for alert in alerts), len(named), compared / RUN_LENGTH)


def _has_rule(key: EstimateKey) -> bool:
    return any(matches(rule, key) for rule in DEFAULT_RULES)


def is_right(stream: Named) -> bool:
    """Return whether the alert names a tool that failed, and none that did not."""
    return bool(stream.moved & stream.failed) and not stream.moved - stream.failed


def _wrong(stream: Named) -> frozenset[str]:
    return stream.moved - stream.failed


COLUMNS: Final[Mapping[str, Callable[[Sequence[Named]], object]]] = {
    "streams": len,
    "alarms": lambda streams: sum(stream.alarmed for stream in streams),
    "right tool named": lambda streams: sum(map(is_right, streams)),
    "as the only one possible": lambda streams: sum(
        is_right(stream) and stream.verdict == "moved" for stream in streams
    ),
    "wrong tool named": lambda streams: sum(bool(_wrong(stream)) for stream in streams),
    "failed one excluded": lambda streams: sum(bool(stream.excluded & stream.failed) for stream in streams),
    "one surely alone, of two": lambda streams: sum(
        stream.verdict == "moved" and len(stream.failed) > 1 and stream.moved != stream.failed for stream in streams
    ),
    "other tools called": lambda streams: sum(bool(stream.called) for stream in streams),
    "runs to the alarm": lambda streams: _median(stream.delay for stream in streams if stream.alarmed),
    "runs to the name": lambda streams: _median(stream.later for stream in streams if stream.later is not None),
    "within 1,000 runs": lambda streams: sum(
        is_right(stream) and stream.later is not None and stream.later <= 1_000 for stream in streams
    ),
}


def _median(values: Iterable[int]) -> str:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:,}" if ordered else "-"


def _table(streams: Sequence[Named], kind_of: Callable[[Fault], str]) -> Iterator[str]:
    yield f"| change | labels | {' | '.join(COLUMNS)} |"
    yield "|---" * (2 + len(COLUMNS)) + "|"
    groups: dict[tuple[str, str], list[Named]] = {}
    for stream in streams:
        labels = "local labeler" if stream.fault.local else "judge"
        groups.setdefault((kind_of(stream.fault), labels), []).append(stream)
    for group, members in sorted(groups.items()):
        yield f"| {' | '.join(map(str, [*group, *(cell(members) for cell in COLUMNS.values())]))} |"


def _languages(fault: Fault) -> str:
    mode = fault.failing[0][1]
    if mode != "another language" or fault.local:
        return mode
    return f"{mode}, which the judge {'reads' if fault.reads else 'does not read'}"


HEADER: Final = """# Which tool moved

Written by `make movedtools` (`benchmarks/moved_tools.py`). An agent has four tools, and one or two of them fail.

- **right tool named**: the alert names a tool that failed, and none that did not. Without an alarm none is named.
- **as the only one possible**: it says, too, that every other tool and the generator are as before.
- **one surely alone, of two**: one of two tools that failed is named, and the other is said to be as before.
- **runs**: median number of runs from the first failure to the alarm, and to the name; a failing tool takes part in a
  third to half of the runs, of 8,000. **Within 1,000 runs**: named by then. The first look is 200 runs after the alarm,
  and a tool that is known waits for the others for two looks.
"""


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200, help="streams of each fault")
    parser.add_argument(
        "--pairs", type=int, default=90, help="streams with two faults at once, and twice those of the other changes"
    )
    parser.add_argument("--quiet", type=int, default=6, help="streams without a change")
    options = parser.parse_args()
    print(HEADER)
    single = simulated(SINGLE, options.faults * len(FAULTS), 20261130)
    right, wrong = sum(map(is_right, single)), sum(bool(_wrong(stream)) for stream in single)
    shares = f"right {100 * right / len(single):.1f}%, wrong {100 * wrong / len(single):.1f}%"
    print(f"## One tool fails\n\nOf {len(single)} streams: {shares}.\n")
    print("\n".join(_table(single, _languages)), "\n")
    print("\n".join(_table(single, lambda fault: fault.failing[0][0])), "\n")
    print("## Two tools fail at once\n")
    print("\n".join(_table(simulated(PAIRS, options.pairs, 20261131), lambda fault: fault.kind)), "\n")
    print("## Two tools fail, one after the other\n")
    apart = simulated(APART, options.pairs // 2, 20261132)
    print("\n".join(_table(apart, lambda fault: f"{max(fault.starts):,} runs apart")), "\n")
    print("## No tool fails\n\nHarder questions for one tool are no fault of the tool, and look like one.\n")
    print("\n".join(_table(simulated(OTHER, options.pairs // 2, 20261133), lambda fault: fault.change)), "\n")
    streams = quiet(options.quiet, 20261134)
    alarms, named, expected = (sum(column) for column in zip(*streams, strict=True))
    print(
        f"The default rules in {len(streams)} streams of {BEFORE + AFTER:,} runs without a change, in the aggregator: "
        f"false alarms: {alarms}, where at most {expected:.1f} are promised on average; {named} alerts named a tool."
    )


if __name__ == "__main__":
    main()
