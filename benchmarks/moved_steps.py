"""Which step moved: injected faults in a pipeline of two retrievers, a reranker and a generator.

    python benchmarks/moved_steps.py [--faults 200]

The pipeline answers the questions of examples/bm25_rag over its documents, cut into passages. One retriever counts
words (BM25), the other compares runs of letters; each has 7 of 10 documents in its index, and returns 8 passages. A
reranker that knows the reference answer keeps 4, and the generator says the sentences of these that fit best. Half of
the streams are scored by the local labeler, the others by labels as a judge gives them: sentences of the right
documents are relevant, and 1 in 20 labels is wrong. The events go through the aggregator's state: a rule that knows the
normal mean fires, and the search says which step moved. After 2,000 interactions one component fails in one of several
ways, for a drawn share of the questions. Failures of the generator and harder questions have no step that is right.
"""

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.events.queue import EventQueue
from ragtide_aggregator.state.options import StateOptions
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.tables.windows import Panes, window
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.local.labeler import LocalLabeler
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_consumers.metrics.trace import trace_metrics
from ragtide_consumers.text.keys import document_keys, response_keys
from ragtide_schemas import Alert, AlertRule, MetricEvent, RagInteraction, SentenceLabels, to_milliseconds
from ragtide_schemas.step_metrics import STEP_FAMILY

DATA: Final = Path(__file__).parents[1] / "examples" / "bm25_rag"
START: Final = datetime(2026, 11, 1, tzinfo=UTC)
PASSAGE_SENTENCES: Final = 2
RETURNED: Final = 8
KEPT: Final = 4
BEFORE: Final = 2_000
AFTER: Final = 4_600
"""Interactions after a failure: an alarm, and the looks of the search after it."""

BLOCK: Final = 600
"""Interactions that are applied at once."""

RETRIEVERS: Final = ("bm25", "letters")
RERANKER: Final = "rerank"
WATCHED: Final = ("trace.context_relevance", "trace.adherence", "trace.completeness")
"""Metrics with a rule."""

FAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "bm25": ("random", "shard", "noise"),
    "letters": ("random", "shard", "noise"),
    RERANKER: ("random", "reversed", "first"),
    "generator": ("other sentences", "other passages"),
}
"""Ways in which each component fails."""

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
    lost: NDArray[np.bool_]
    """Passages of the shards that an index may lose."""


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _runs(text: str) -> list[str]:
    joined = " ".join(_words(text))
    return [joined[at : at + 4] for at in range(len(joined) - 3)]


def _similar(texts: Sequence[Sequence[str]], queries: Sequence[Sequence[str]]) -> _Floats:
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
    texts, runs = [_words(text) for text in passages], [_runs(text) for text in passages]
    scores = {
        "bm25": _bm25(texts, [_words(question) for question in questions]),
        "letters": _similar(runs, [_runs(question) for question in questions]),
        RERANKER: _similar(texts, [_words(text) for text in known]),
    }
    rng = np.random.default_rng(7)
    place = rng.random(len(documents))[of]
    names = np.array([document["id"] for document in documents])[of]
    right = np.array([[name in row["gold_documents"] for name in names] for row in rows])
    indexed = {"bm25": place < 0.7, "letters": place >= 0.3}
    return Pipeline(passages, cuts, questions, scores, right, indexed, rng.random(len(documents))[of] < 0.6)


def _best(scores: _Floats, count: int) -> list[int]:
    return [int(place) for place in np.argsort(-scores, kind="stable")[:count]]


def answered(question: int, component: str, mode: str, rng: np.random.Generator) -> RagInteraction:
    """Return the interaction of a question, with one component failing in one way.

    Args:
        question: number of the question.
        component: that fails; empty for none.
        mode: of the failure.
        rng: draws what a failure needs.
    """
    found = pipeline()
    pools: dict[str, list[int]] = {}
    for name in RETRIEVERS:
        scores = found.scores[name][question]
        if name == component and mode == "random":
            scores = rng.random(scores.size)
        elif name == component and mode == "shard":
            scores = np.where(found.lost, -1.0, scores)
        elif name == component:
            scores = scores + rng.normal(0, 2 * np.sort(scores)[-RETURNED:].mean(), scores.size)
        pools[name] = _best(np.where(found.indexed[name], scores, -np.inf), RETURNED)
    merged = list(dict.fromkeys(place for pair in zip(*pools.values(), strict=True) for place in pair))
    scores = found.scores[RERANKER][question]
    if component == RERANKER:
        drawn = {"random": rng.random(scores.size), "reversed": -scores, "first": -np.arange(scores.size, dtype=float)}
        places = merged if mode == "first" else np.arange(scores.size)
        scores = np.full(scores.size, -1e9)
        scores[places] = drawn[mode][: len(places)]
    kept = sorted(merged, key=lambda place: -scores[place])[:KEPT]
    sentences = [sentence for place in kept for sentence in found.sentences[place]]
    if component == "generator" and mode == "other passages":
        sentences = [
            sentence for place in rng.integers(0, len(found.passages), 3) for sentence in found.sentences[place]
        ]
    fit = _similar([_words(sentence) for sentence in sentences], [_words(found.questions[question])])[0]
    chosen = rng.permutation(len(sentences))[:2] if component == "generator" else np.argsort(-fit, kind="stable")[:2]
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


def judged(question: int, interaction: RagInteraction, rng: np.random.Generator) -> Labeling:
    """Return the labels of an interaction as a judge gives them, with some mistakes."""
    found = pipeline()
    cut = [document.sentences or () for document in interaction.documents]
    keys = document_keys(map(len, cut))
    flat = [
        (sentence, found.right[question][found.passages.index(document.text)])
        for document, sentences in zip(interaction.documents, cut, strict=True)
        for sentence in sentences
    ]
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
def scored(component: str, mode: str, *, local: bool, draws: int = 2) -> tuple[tuple[MetricEvent, ...], ...]:
    """Return the events of every question with a failure, some draws of each.

    Args:
        component: that fails; empty for none.
        mode: of the failure.
        local: whether the local labeler scores, and not a judge.
        draws: of each question.
    """
    labeler = LocalLabeler()
    by = labeler_id(labeler) if local else LabelerId("judge", "1", "ragbench")
    rng = np.random.default_rng((11, *f"{component} {mode}".encode()))
    found = []
    for question in range(len(pipeline().questions)):
        given = [answered(question, component, mode, rng) for _ in range(draws)]
        labelings = [labeler.label_now(item) if local else judged(question, item, rng) for item in given]
        events = [
            metric_event(interaction, by, labeling, labeled_at=START, latency_s=0.01)
            for interaction, labeling in zip(given, labelings, strict=True)
        ]
        found.append(tuple(map(_with_watched_metrics, events)))
    return tuple(found)


def _with_watched_metrics(event: MetricEvent) -> MetricEvent:
    """Return an event without metrics that neither a rule nor the search reads, which takes a third of the time."""
    scores = {name: score for name, score in event.scores.items() if name in WATCHED or name.startswith(STEP_FAMILY)}
    return event.model_copy(update={"scores": scores, "absent": {}})


class Fault(NamedTuple):
    """One failure."""

    component: str
    """That fails; `none` and `harder questions` are none."""
    mode: str
    share: float
    """Of the questions that it hits."""
    local: bool
    """Whether the local labeler scores."""


def _batched(events: Iterator[MetricEvent], count: int) -> Iterator[list[MetricEvent]]:
    """Yield lists of events in order; the last may be shorter."""
    while block := list(islice(events, count)):
        yield block


def _events(fault: Fault, rng: np.random.Generator) -> Iterator[MetricEvent]:
    normal = scored("", "", local=fault.local)
    whole = fault.component in ("none", "harder questions")
    failing = normal if whole else scored(fault.component, fault.mode, local=fault.local)
    means = np.array([events[0].scores.get("trace.context_relevance", 0.0) for events in normal])
    harder = np.exp(-6 * means)
    harder /= harder.sum()
    for number in range(BEFORE + AFTER):
        after = number >= BEFORE
        weights = harder if after and fault.component == "harder questions" and rng.random() < fault.share else None
        question = int(rng.integers(means.size)) if weights is None else int(rng.choice(means.size, p=weights))
        given = (failing if after and rng.random() < fault.share else normal)[question]
        event = given[int(rng.integers(len(given)))]
        at = START + timedelta(seconds=number)
        changes = {"interaction_id": f"i{number}", "entry_id": f"{number + 1}-0", "occurred_at": at, "labeled_at": at}
        yield event.model_copy(update=changes)


def _rules(*, local: bool) -> tuple[AlertRule, ...]:
    """Return rules whose normal values are the means without a failure."""
    events = [event for given in scored("", "", local=local) for event in given]
    found = []
    for metric in WATCHED:
        known = [event.scores[metric] for event in events if metric in event.scores]
        if known:
            least = 0.005 if local else 0.02
            found.append(
                AlertRule(name=metric, kind="drift", metric=metric, baseline=float(np.mean(known)), min_effect=least)
            )
    return tuple(found)


def alerts_of(fault: Fault, rng: np.random.Generator) -> list[Alert]:
    """Return the alerts of a stream with one failure up to the first that is explained, as the state raises them."""
    state = AggregatorState(StateOptions(rules=_rules(local=fault.local), panes=Panes((window("5m"),), 1_200_000)))
    alerts: list[Alert] = []
    for block in _batched(_events(fault, rng), BLOCK):
        queue = EventQueue()
        for event in block:
            queue.add(event, to_milliseconds(event.labeled_at))
        state.apply_columns(queue.columns())
        alerts += state.take_changes().alerts
        if any(alert.status == "explained" for alert in alerts):
            break
    return alerts


class Named(NamedTuple):
    """What the alert of a failure says."""

    fault: Fault
    alarmed: bool
    step: str | None
    later: int | None
    """Interactions from the alarm to the answer; None without a name."""


def named(fault: Fault, rng: np.random.Generator) -> Named:
    """Return the step that the first explained alert of a failure names; None without one."""
    alerts = alerts_of(fault, rng)
    found = next((alert.moved_step for alert in alerts if alert.status == "explained"), None)
    step = None if found is None else found.step
    return Named(fault, bool(alerts), step, None if step is None or found is None else found.n_since)


def drawn(component: str, local: bool, rng: np.random.Generator) -> Fault:
    """Return a failure of a component, in a drawn way and for a drawn share of the questions."""
    modes = FAULTS.get(component, ("",))
    return Fault(component, modes[int(rng.integers(len(modes)))], float(rng.uniform(0.5, 1.0)), local)


def simulated(components: Sequence[str], count: int, seed: int, processes: int = 4) -> list[Named]:
    """Return the answers for failures of components in turn, scored in turn by a judge and by the local labeler."""
    for component in components:
        for mode in FAULTS.get(component, ("",)):
            for local in (False, True):
                scored("", "", local=local)
                if component in FAULTS:
                    scored(component, mode, local=local)
    # The children have what was scored.
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        return list(pool.map(partial(_stream, tuple(components), seed), range(count)))


def _stream(components: Sequence[str], seed: int, number: int) -> Named:
    rng = np.random.default_rng((seed, number))
    component, turn = components[number % len(components)], number // len(components)
    return named(drawn(component, turn % 2 == 1, rng), rng)


def _table(found: Sequence[Named], *, by_mode: bool) -> Iterator[str]:
    columns = ("component", "failure", "labels", "streams", "alarms", "right", "not resolved", "wrong", "median delay")
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    groups: dict[tuple[str, str, str], list[Named]] = {}
    for stream in found:
        fault = stream.fault
        labels = "local labeler" if fault.local else "judge"
        groups.setdefault(
            (fault.component, fault.mode if by_mode else "all", labels if by_mode else "both"), []
        ).append(stream)
    for kind, members in sorted(groups.items()):
        own = kind[0] if kind[0] in (*RETRIEVERS, RERANKER) else None
        right = sum(stream.step is not None and stream.step == own for stream in members)
        wrong = sum(stream.step is not None and stream.step != own for stream in members)
        later = sorted(stream.later for stream in members if stream.later is not None)
        cells = [
            *kind, len(members), sum(stream.alarmed for stream in members), right, len(members) - right - wrong, wrong,
            f"{later[len(later) // 2]:,}" if later else "-",
        ]  # fmt: skip
        yield f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200, help="failures of a retriever or of the reranker")
    count = parser.parse_args().faults
    print("# Which step moved\n")
    print("Written by `make movedsteps` (`benchmarks/moved_steps.py`).\n")
    faults = simulated((*RETRIEVERS, RERANKER), count, 20261127)
    others = simulated(("generator", "harder questions"), count // 2, 20261128)
    right = sum(stream.step == stream.fault.component for stream in faults)
    wrong = sum(stream.step not in (None, stream.fault.component) for stream in faults)
    shares = [f"{100 * n / count:.1f}%" for n in (right, wrong)]
    print(
        f"Of {count} failures of a step {shares[0]} got the right name, {shares[1]} a wrong one, and the others none:"
    )
    named_wrongly = sum(stream.step is not None for stream in others)
    print(f"not resolved, or no alarm. Of {count // 2} streams whose steps were as before, {named_wrongly} got a name.")
    print("The delay is that from the alarm to the name.\n")
    print("\n".join(_table([*faults, *others], by_mode=False)), "\n")
    print("\n".join(_table([*faults, *others], by_mode=True)))


if __name__ == "__main__":
    main()
