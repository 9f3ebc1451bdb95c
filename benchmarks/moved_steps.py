"""Which steps moved: injected faults in a pipeline of two retrievers, a reranker and a generator.

    python benchmarks/moved_steps.py [--faults 200] [--pairs 100]

The pipeline answers the questions of examples/bm25_rag over its documents, cut into passages. One retriever counts
words (BM25), the other compares runs of letters; each has 7 of 10 documents in its index, and returns 8 passages. A
reranker that knows the reference answer keeps 4, and the generator says the sentences of these that fit best. Half of
the streams are scored by the local labeler, the others by labels as a judge gives them: sentences of the right
documents are relevant, and 1 in 20 labels is wrong. A rule that knows the normal mean fires, and the search of the
aggregator looks at the numbers of the steps. After 2,000 interactions one component fails in one of several ways, for a
drawn share of the questions; or two components fail, at once or 100, 400 or 1,000 answers apart, each for a share of
its own. With harder questions no step is right.
"""

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from itertools import combinations, compress, product
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.alerts.cause_search import (
    CauseSearch,
    MomentsNow,
    StepKey,
    step_moments,
    steps_before,
)
from ragtide_aggregator.statistics.causes.mix_shift import INDEPENDENT
from ragtide_aggregator.statistics.drift.detector import DriftDetector
from ragtide_aggregator.statistics.means.segment_moments import SegmentMoments
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.local.labeler import LocalLabeler
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_consumers.metrics.trace import trace_metrics
from ragtide_consumers.text.keys import document_keys, response_keys
from ragtide_schemas import MetricEvent, RagInteraction, SentenceLabels
from ragtide_schemas.step_metrics import GENERATOR

DATA: Final = Path(__file__).parents[1] / "examples" / "bm25_rag"
START: Final = datetime(2026, 11, 1, tzinfo=UTC)
PASSAGE_SENTENCES: Final = 2
RETURNED: Final = 8
KEPT: Final = 4
BEFORE: Final = 2_000
AFTER: Final = 4_600
"""Interactions after a failure: an alarm, and the looks of the search after it."""

PANE: Final = 200
"""Interactions before a failure that do not count as before, because panes are whole."""

RUN_LENGTH: Final = 10_000

RETRIEVERS: Final = ("bm25", "letters")
RERANKER: Final = "rerank"
WATCHED: Final = ("trace.context_relevance", "trace.adherence", "trace.completeness")
"""Metrics with a rule."""

FAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "bm25": ("random", "shard", "noise"),
    "letters": ("random", "shard", "noise"),
    RERANKER: ("random", "reversed", "first"),
    GENERATOR: ("other sentences", "other passages"),
}
"""Ways in which each component fails."""

PAIRS: Final = tuple(combinations(FAULTS, 2))
"""Two components that fail in one stream."""

LATER: Final = (100, 400, 1_000)
"""Answers after which the second of two components fails."""

Failures = tuple[tuple[str, str], ...]
"""Components that fail at once, each with the mode of its failure, in the order of `FAULTS`."""

_WORD: Final = re.compile(r"\w+")
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passages, questions, and what each component thinks of each passage, without a failure."""

    passages: tuple[str, ...]
    sentences: tuple[tuple[str, ...], ...]
    """Of each passage."""
    questions: tuple[str, ...]
    scores: Mapping[str, _Floats]
    """By component, a row a question and a column a passage."""
    right: NDArray[np.bool_]
    """Whether a passage is of a document that has the answer, in the same form."""
    indexed: Mapping[str, NDArray[np.bool_]]
    """By retriever, whether a passage is in its index."""
    owners: tuple[int, ...]
    """The document of each passage."""
    lost: NDArray[np.bool_]
    """Passages of the shards that an index may lose."""


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return _WORD.findall(text.lower())


def _runs(text: str) -> list[str]:
    joined = " ".join(words(text))
    return [joined[at : at + 4] for at in range(len(joined) - 3)]


def similar(texts: Sequence[Sequence[str]], queries: Sequence[Sequence[str]]) -> _Floats:
    """Return the cosines of weighted counts, a row a query."""
    seen = Counter(term for text in texts for term in set(text))
    place = {term: number for number, term in enumerate(seen)}
    rarity = np.array([math.log(1 + len(texts) / n) for n in seen.values()])

    def matrix(rows: Sequence[Sequence[str]]) -> _Floats:
        found = np.zeros((len(rows), len(place)))
        for row, terms in enumerate(rows):
            for term, n in Counter(terms).items():
                if term in place:
                    found[row, place[term]] = 1 + math.log(n)
        found *= rarity
        return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9))

    return np.asarray(matrix(queries) @ matrix(texts).T)


def _bm25(texts: Sequence[Sequence[str]], queries: Sequence[Sequence[str]]) -> _Floats:
    seen = Counter(term for text in texts for term in set(text))
    mean = sum(map(len, texts)) / len(texts)
    found = np.zeros((len(queries), len(texts)))
    counts = [Counter(text) for text in texts]
    for row, query in enumerate(queries):
        for term in set(query) & seen.keys():
            weight = math.log(1 + (len(texts) - seen[term] + 0.5) / (seen[term] + 0.5))
            for column, count in enumerate(counts):
                if n := count[term]:
                    found[row, column] += weight * n * 2.5 / (n + 1.5 * (0.25 + 0.75 * len(texts[column]) / mean))
    return found


@cache
def pipeline() -> Pipeline:
    """Return the pipeline over the documents of the example."""
    documents = [json.loads(line) for line in (DATA / "documents.jsonl").read_text("utf-8").splitlines()]
    rows = [json.loads(line) for line in (DATA / "questions.jsonl").read_text("utf-8").splitlines()]
    owners: dict[tuple[str, ...], int] = {}
    for number, document in enumerate(documents):
        for at in range(0, len(document["sentences"]), PASSAGE_SENTENCES):
            owners.setdefault(tuple(document["sentences"][at : at + PASSAGE_SENTENCES]), number)
    cuts, of = tuple(owners), np.array(list(owners.values()))
    passages = tuple(" ".join(cut) for cut in cuts)
    questions = tuple(row["question"] for row in rows)
    # A model that reranks or answers knows more than the words of a question; here it knows the reference answer.
    known = [f"{row['question']} {row['question']} {row.get('reference_answer') or ''}" for row in rows]
    texts, runs = [words(text) for text in passages], [_runs(text) for text in passages]
    scores = {
        "bm25": _bm25(texts, [words(question) for question in questions]),
        "letters": similar(runs, [_runs(question) for question in questions]),
        RERANKER: similar(texts, [words(text) for text in known]),
    }
    rng = np.random.default_rng(7)
    place = rng.random(len(documents))[of]
    names = np.array([document["id"] for document in documents])[of]
    right = np.array([[name in row["gold_documents"] for name in names] for row in rows])
    indexed = {"bm25": place < 0.7, "letters": place >= 0.3}
    return Pipeline(
        passages, cuts, questions, scores, right, indexed, tuple(of.tolist()), rng.random(len(documents))[of] < 0.6
    )


def best(scores: _Floats, count: int) -> list[int]:
    """Return the places of the highest scores, the highest first."""
    return [int(place) for place in np.argsort(-scores, kind="stable")[:count]]


def answered(question: int, failing: Failures, rng: np.random.Generator) -> RagInteraction:
    """Return the interaction of a question, with some components failing.

    Args:
        question: number of the question.
        failing: components and the modes of their failures.
        rng: draws what a failure needs.
    """
    modes = dict(failing)
    found = pipeline()
    pools: dict[str, list[int]] = {}
    for name in RETRIEVERS:
        scores = found.scores[name][question]
        if modes.get(name) == "random":
            scores = rng.random(scores.size)
        elif modes.get(name) == "shard":
            scores = np.where(found.lost, -1.0, scores)
        elif name in modes:
            scores = scores + rng.normal(0, 2 * np.sort(scores)[-RETURNED:].mean(), scores.size)
        pools[name] = best(np.where(found.indexed[name], scores, -np.inf), RETURNED)
    merged = list(dict.fromkeys(place for pair in zip(*pools.values(), strict=True) for place in pair))
    scores = found.scores[RERANKER][question]
    if RERANKER in modes:
        mode = modes[RERANKER]
        drawn = {"random": rng.random(scores.size), "reversed": -scores, "first": -np.arange(scores.size, dtype=float)}
        places = merged if mode == "first" else np.arange(scores.size)
        scores = np.full(scores.size, -1e9)
        scores[places] = drawn[mode][: len(places)]
    kept = sorted(merged, key=lambda place: -scores[place])[:KEPT]
    sentences = [sentence for place in kept for sentence in found.sentences[place]]
    if modes.get(GENERATOR) == "other passages":
        sentences = [
            sentence for place in rng.integers(0, len(found.passages), 3) for sentence in found.sentences[place]
        ]
    fit = similar([words(sentence) for sentence in sentences], [words(found.questions[question])])[0]
    chosen = rng.permutation(len(sentences))[:2] if GENERATOR in modes else np.argsort(-fit, kind="stable")[:2]
    said = [sentences[place] for place in sorted(chosen.tolist())]
    steps = [
        {
            "name": name,
            "kind": "retriever",
            "documents": [kept.index(place) for place in pool if place in kept],
            "returned": len(pool),
            "shared": len(set(pool) & {place for other in RETRIEVERS if other != name for place in pools[other]}),
        }
        for name, pool in pools.items()
    ]
    steps.append({"name": RERANKER, "kind": "reranker", "documents": list(range(len(kept))), "returned": len(kept)})
    return RagInteraction.from_fields(
        {
            "pipeline": "shop",
            "question": found.questions[question],
            "documents": [{"text": found.passages[at], "sentences": found.sentences[at]} for at in kept],
            "response": " ".join(said),
            "response_sentences": said,
            "steps": steps,
        }
    )


def judged(interaction: RagInteraction, right: Sequence[bool], rng: np.random.Generator) -> Labeling:
    """Return the labels of an interaction as a judge gives them, with some mistakes.

    Args:
        interaction: whose answer has sentences of its documents.
        right: whether each of its documents has the answer.
        rng: draws the mistakes.
    """
    cut = [document.sentences or () for document in interaction.documents]
    keys = document_keys(map(len, cut))
    flat = [(sentence, has) for sentences, has in zip(cut, right, strict=True) for sentence in sentences]
    said = set(interaction.response_sentences or ())
    support = {
        key: tuple(keys[place] for place, (sentence, _) in enumerate(flat) if sentence == text)
        for key, text in zip(response_keys(len(said)), interaction.response_sentences or (), strict=False)
    }
    wrong = rng.random((2, len(keys))) < 0.05
    labels = SentenceLabels(
        relevant=[key for key, (_, right), slip in zip(keys, flat, wrong[0], strict=True) if right != slip],
        utilized=[key for key, (text, _), slip in zip(keys, flat, wrong[1], strict=True) if (text in said) != slip],
        support=support,
        n_document_sentences=len(keys),
        document_keys=keys,
    )
    return Labeling(*trace_metrics(labels).by_qualified_name("trace."), labels=(labels,))


@cache
def scored(failing: Failures, *, local: bool, draws: int = 2) -> tuple[MetricEvent, ...]:
    """Return the events of every question with some components failing, some draws of each.

    Args:
        failing: components and the modes of their failures.
        local: whether the local labeler scores, and not a judge.
        draws: of each question.
    """
    labeler = LocalLabeler()
    by = labeler_id(labeler) if local else LabelerId("judge", "1", "ragbench")
    rng = np.random.default_rng((11, *repr(failing).encode()))
    found = []
    for question in range(len(pipeline().questions)):
        given = [answered(question, failing, rng) for _ in range(draws)]
        right = dict(zip(pipeline().passages, pipeline().right[question].tolist(), strict=True))
        labelings = [
            labeler.label_now(item)
            if local
            else judged(item, [right[document.text] for document in item.documents], rng)
            for item in given
        ]
        events = [
            metric_event(interaction, by, labeling, labeled_at=START, latency_s=0.01)
            for interaction, labeling in zip(given, labelings, strict=True)
        ]
        found += events
    return tuple(found)


class Fault(NamedTuple):
    """A failure of some components."""

    failing: Failures
    """Components that fail; empty where none does."""
    shares: tuple[float, ...]
    """Of the questions that each failure hits."""
    starts: tuple[int, ...]
    """Number of the answer, since the first failure, from which each hits."""
    local: bool
    """Whether the local labeler scores."""
    harder: float = 0.0
    """Share of harder questions from the first failure on."""
    change: str = ""
    """Another change than a failure."""
    reads: bool = False
    """Whether the judge reads another language than that of the questions."""

    @property
    def kind(self) -> str:
        """Return the components, in the order of their failures."""
        if not self.failing:
            return "harder questions"
        order = sorted(range(len(self.failing)), key=lambda place: self.starts[place])
        names = [self.failing[place][0] for place in order]
        later = max(self.starts)
        return names[0] if len(names) == 1 else f"{names[0]}, then {names[1]}" if later else " + ".join(names)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of interactions, a row each; nan where an interaction has none."""

    steps: _Floats
    """Of the steps, in the order of `keys`."""
    watched: _Floats
    """Metrics with a rule, in the order of `WATCHED`."""


@cache
def keys() -> tuple[StepKey, ...]:
    """Return the numbers of the steps, in the order of the columns."""
    declared = scored((), local=False)[0].declared or {}
    found = [StepKey.of(name, declaration.version) for name, declaration in sorted(declared.items())]
    return (*(key for key in found if key is not None), StepKey("generator", "generator", "adherence"))


@cache
def numbers(failing: Failures, *, local: bool) -> Numbers:
    """Return the numbers of every question with some components failing."""
    scores = [event.scores for event in scored(failing, local=local)]
    names = [key.metric for key in keys()]
    return Numbers(*(np.array([[row.get(name, np.nan) for name in of] for row in scores]) for of in (names, WATCHED)))


def _stream_of(fault: Fault, rng: np.random.Generator) -> Numbers:
    """Return the numbers of a stream with one failure."""
    normal = numbers((), local=fault.local)
    n, count = BEFORE + max(fault.starts, default=0) + AFTER, len(normal.watched)
    since = np.arange(n) - BEFORE
    hits = [(since >= start) & (rng.random(n) < share) for start, share in zip(fault.starts, fault.shares, strict=True)]
    weights = np.exp(-6 * normal.watched[:, 0])
    harder = (since >= 0) & (rng.random(n) < fault.harder)
    drawn_rows = rng.integers(count, size=n)
    rows = np.where(harder, rng.choice(count, p=weights / weights.sum(), size=n), drawn_rows)
    steps, watched = normal.steps[rows], normal.watched[rows]
    for number in range(1, 1 << len(hits)):
        which = [bool(number >> place & 1) for place in range(len(hits))]
        here = np.logical_and.reduce([hit == wanted for hit, wanted in zip(hits, which, strict=True)])
        failed = numbers(tuple(compress(fault.failing, which)), local=fault.local)
        steps[here], watched[here] = failed.steps[rows[here]], failed.watched[rows[here]]
    return Numbers(steps, watched)


def _alarm(stream: Numbers, fault: Fault) -> int | None:
    """Return the number of the answer at which a rule that knows the normal mean fires; None if none does."""
    normal = numbers((), local=fault.local).watched
    found = []
    for values, known in zip(stream.watched.T, normal.T, strict=True):
        if np.isnan(known).all():
            continue
        detector = DriftDetector(
            baseline=float(np.nanmean(known)), run_length=RUN_LENGTH, min_effect=0.005 if fault.local else 0.02
        )
        places = BEFORE + np.flatnonzero(~np.isnan(values[BEFORE:]))
        place = detector.update(values[places])
        found += [] if place is None else [int(places[place])]
    return min(found, default=None)


def moments(values: _Floats) -> SegmentMoments:
    """Return the moments of each column."""
    n = np.count_nonzero(~np.isnan(values), axis=0).astype(float)
    mean = np.nansum(values, axis=0) / np.maximum(n, 1)
    return SegmentMoments(n, mean, np.nansum((values - mean) ** 2, axis=0))


def search_of(values: _Floats, of: Sequence[StepKey], alarm: int, change: int) -> CauseSearch:
    """Return the search for the steps after an alarm, at its end.

    Args:
        values: numbers of steps in a stream with a failure, a row an answer and a column a number.
        of: the numbers, in the order of the columns.
        alarm: number of the answer at which a rule fired.
        change: number of the answer with which the change began.
    """
    reference, at_alarm = moments(values[: change - PANE]), moments(values[: alarm + 1])
    steps = steps_before(step_moments(of, reference), step_moments(of, at_alarm))
    search = CauseSearch((_count(change - PANE), _count(alarm + 1)), steps=steps)
    explained = False
    while not explained and search.next_n is not None and search.next_n <= len(values):
        n = search.next_n
        now = step_moments(of, moments(values[:n]))
        explained = search.look(MomentsNow(_count(n), {}, INDEPENDENT, (0.0, 1.0), now))
    return search


def _count(n: int) -> SegmentMoments:
    return SegmentMoments(np.array([float(n)]), np.array([0.5]), np.zeros(1))


class Named(NamedTuple):
    """What the alert of a failure says."""

    fault: Fault
    alarmed: bool
    verdict: str
    """Of the explained alert: `moved`, `partly` or `unresolved`, the last without one, too."""
    moved: frozenset[str]
    """Components that it names."""
    excluded: frozenset[str]
    """Components that it says did not move."""
    failed: frozenset[str]
    """Components that had failed by then."""
    later: int | None
    """Interactions from the alarm to the answer; None without a name."""
    delay: int = 0
    """Interactions from the first failure to the alarm."""
    called: frozenset[str] = frozenset()
    """Tools that are called in another share of the runs."""

    @property
    def is_wrong(self) -> bool:
        """Whether the alert names a component that had not failed, or excludes one that had."""
        return bool(self.moved - self.failed or self.excluded & self.failed)

    @property
    def is_wrong_single(self) -> bool:
        """Whether it names one component as the whole cause, and that is not so."""
        return self.verdict == "moved" and len(self.moved) == 1 and self.moved != self.failed

    @property
    def outcome(self) -> str:
        """Return how right the alert is, as a column of the report."""
        if self.is_wrong:
            return "wrong"
        return {"moved": "named", "partly": "named in part"}.get(self.verdict, "not resolved")


OUTCOMES: Final = ("named", "named in part", "not resolved", "wrong")


def named(fault: Fault, rng: np.random.Generator) -> Named:
    """Return what an alert of a failure says about the components when it is explained."""
    stream = _stream_of(fault, rng)
    alarm = _alarm(stream, fault)
    if alarm is None:
        return Named(fault, False, "unresolved", frozenset(), frozenset(), frozenset(), None)
    change = max((BEFORE + start for start in fault.starts if BEFORE + start <= alarm), default=BEFORE)
    found = search_of(stream.steps, keys(), alarm, change).moved_step
    if found is None:
        return Named(fault, True, "unresolved", frozenset(), frozenset(), frozenset(), None)
    last = alarm + found.n_since - BEFORE
    failed = [name for (name, _), start in zip(fault.failing, fault.starts, strict=True) if start <= last]
    moved, excluded = (frozenset(step.step for step in steps) for steps in (found.moved, found.unmoved))
    return Named(fault, True, found.verdict, moved, excluded, frozenset(failed), found.n_since if found.moved else None)


def drawn(components: Sequence[str], local: bool, rng: np.random.Generator, *, later: int = 0) -> Fault:
    """Return a failure of components, each in a drawn way and for a drawn share of the questions.

    Args:
        components: that fail, in the order of `FAULTS`; none for harder questions.
        local: whether the local labeler scores.
        rng: draws.
        later: answers after which one of two components fails, which is drawn.
    """
    failing = tuple((name, FAULTS[name][int(rng.integers(len(FAULTS[name])))]) for name in components)
    shares = tuple(float(rng.uniform(0.5, 1.0)) for _ in failing)
    last = int(rng.integers(len(failing))) if later else -1
    starts = tuple(later if place == last else 0 for place in range(len(failing)))
    return Fault(failing, shares, starts, local, 0.0 if failing else float(rng.uniform(0.5, 1.0)))


def simulated(
    kinds: Sequence[Sequence[str]], count: int, seed: int, *, later: Sequence[int] = (0,), processes: int = 2
) -> list[Named]:
    """Return the answers for failures in turn, scored in turn by a judge and by the local labeler.

    Args:
        kinds: components that fail together, in the order of `FAULTS`.
        count: of streams.
        seed: of the draws.
        later: answers after which the second component fails, in turn.
        processes: that simulate.
    """
    for local in (False, True):
        for components in kinds:
            for size in range(len(components) + 1):
                for hit in combinations(components, size):
                    for failing in product(*([(name, mode) for mode in FAULTS[name]] for name in hit)):
                        numbers(failing, local=local)
    # The children have what was scored.
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        return list(pool.map(partial(_stream, tuple(map(tuple, kinds)), tuple(later), seed), range(count), chunksize=8))


def _stream(kinds: Sequence[Sequence[str]], later: Sequence[int], seed: int, number: int) -> Named:
    rng = np.random.default_rng((seed, number))
    turn, kind = divmod(number, len(kinds))
    return named(drawn(kinds[kind], turn % 2 == 1, rng, later=later[turn // 2 % len(later)]), rng)


def _table(found: Sequence[Named], *, by_mode: bool) -> Iterator[str]:
    columns = ("components", "failures", "labels", "streams", "alarms", *OUTCOMES, "wrong single", "median delay")
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    groups: dict[tuple[str, str, str], list[Named]] = {}
    for stream in found:
        fault = stream.fault
        modes = ", ".join(mode for _, mode in fault.failing)
        labels = "local labeler" if fault.local else "judge"
        groups.setdefault((fault.kind, modes if by_mode else "all", labels if by_mode else "both"), []).append(stream)
    for kind, members in sorted(groups.items()):
        counts = Counter(stream.outcome for stream in members)
        later = sorted(stream.later for stream in members if stream.later is not None)
        cells = [
            *kind, len(members), sum(stream.alarmed for stream in members), *(counts[name] for name in OUTCOMES),
            sum(stream.is_wrong_single for stream in members), f"{later[len(later) // 2]:,}" if later else "-",
        ]  # fmt: skip
        yield f"| {' | '.join(map(str, cells))} |"


def _shares(found: Sequence[Named]) -> str:
    counts = Counter(stream.outcome for stream in found)
    wrong = sum(stream.is_wrong_single for stream in found)
    parts = [f"{name} {100 * counts[name] / len(found):.1f}%" for name in OUTCOMES]
    return f"{', '.join(parts)}; a wrong single cause {100 * wrong / len(found):.1f}%"


HEADER = """# Which steps moved

Written by `make movedsteps` (`benchmarks/moved_steps.py`).

- **named**: the alert names exactly the components that failed, and says that no other moved by itself.
- **named in part**: it names some that failed, and says of the others that they may have moved.
- **not resolved**: no component is named, or there was no alarm.
- **wrong**: it names a component that did not fail, or excludes one that did. A **wrong single** cause is one component
  that is named as the whole cause, and is not.

The delay is that from the alarm to the answer, in interactions.
"""


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200, help="failures of a retriever or of the reranker")
    parser.add_argument(
        "--pairs", type=int, default=100, help="streams of each pair of components; half as many one after the other"
    )
    options = parser.parse_args()
    print(HEADER)
    for title, kinds, count, later in (
        (
            "One retriever or the reranker fails",
            [(*(name,),) for name in (*RETRIEVERS, RERANKER)],
            options.faults,
            (0,),
        ),
        ("The generator fails, or questions are harder", [(GENERATOR,), ()], options.faults // 2, (0,)),
        ("Two fail at once", PAIRS, options.pairs * len(PAIRS), (0,)),
        ("Two fail, 100, 400 or 1,000 answers apart", PAIRS, options.pairs // 2 * len(PAIRS), LATER),
    ):
        found = simulated(kinds, count, 20261127 + len(title), later=later)
        print(f"## {title}\n\nOf {count} streams: {_shares(found)}.\n")
        print("\n".join(_table(found, by_mode=False)), "\n")
        if not any(later) and len(kinds) < len(PAIRS):
            print("\n".join(_table(found, by_mode=True)), "\n")


if __name__ == "__main__":
    main()
