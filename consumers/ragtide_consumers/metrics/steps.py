"""Metrics of the steps of a pipeline, from the sentence labels of the whole interaction. Pure.

Only sentences of documents that the generator got have labels. So the relevance of a retriever is that of its documents
which reached the generator, and what a later step dropped has no relevance. Two numbers say something of all that a
retriever returned: how much of it another retriever returned, too (`agreement`), and which of the used sentences it had
(`used_recall`).

Some numbers stay as they are while the steps before a step get worse, so that they say whether the step itself moved:

- `order` of a retriever: a reranker that scores each document by itself orders the documents of one retriever as
  before, whatever the others return.
- `yield` of a retriever: such a reranker drops no document of it because another retriever got worse.
- `ranking` of the reranker: it still puts the more relevant documents first, if there are fewer of them.
- `focus` of the generator: the answer is about the question, compared with the sentences that the generator got.
"""

import math
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ragtide_schemas import Labels, MetricDeclaration, RagInteraction, SentenceLabels, SentenceProbabilities
from ragtide_schemas.retrieval_steps import RetrievalStep
from ragtide_schemas.step_metrics import GENERATOR, ComponentKind, StepMetric, step_declaration

from ..text.keys import normalize_keys
from ..text.sentences import cut, sentence_counts
from .scores import AbsentReason

_DOCUMENT: Final = re.compile(r"(\d{1,9})[a-z]+")

_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Characters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana and Han."""

_WORD: Final = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


@dataclass(frozen=True, slots=True)
class StepScores:
    """Scores of steps by qualified metric name, and the reason for each without a score."""

    scores: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    declared: dict[str, MetricDeclaration] = field(default_factory=dict)


NO_STEPS: Final = StepScores()
"""The scores of an interaction without steps."""


class _DocumentMasses(NamedTuple):
    """Sentences of each document, by its index: those that are relevant or used as counts, or as expected counts."""

    n: Sequence[int]
    relevant: Sequence[float] | None
    """None if the labeler gave no labels of relevance."""
    used: Sequence[float] | None
    """None if it gave no labels of use."""


def step_scores(interaction: RagInteraction, labels: Sequence[Labels], absent: Mapping[str, str]) -> StepScores:
    """Return the metrics of the steps of an interaction; nothing without steps.

    Of probabilities of labels these are ratios of expected counts. A metric is absent where that of the whole
    interaction is, with the same reason.

    Args:
        labels: of a labeler, of which the first with sentences counts.
        absent: reasons of the labeler's absent metrics.
    """
    if not interaction.steps:
        return NO_STEPS
    result = StepScores()
    masses = _masses(interaction, labels)
    reasons = {
        "relevance": absent.get("trace.context_relevance"),
        "used_recall": absent.get("trace.context_utilization"),
    }
    retrievers = [step for step in interaction.steps if step.kind == "retriever"]
    rerankers = [step for step in interaction.steps if step.kind == "reranker"]
    # Of several rerankers none has the order of all documents to itself.
    reranker = rerankers[0] if len(rerankers) == 1 else None
    for step in interaction.steps:
        if step.kind == "tool":
            continue
        values: dict[StepMetric, float | str] = {
            StepMetric(step.name, "relevance"): reasons["relevance"] or _relevance(step, masses),
            StepMetric(step.name, "used_recall"): reasons["used_recall"] or _used_recall(step, masses),
        }
        if len(retrievers) > 1:
            values[StepMetric(step.name, "agreement")] = _agreement(step, retrievers)
        if reranker is not None and step.kind == "retriever":
            values[StepMetric(step.name, "order")] = _order(step, reranker)
            values[StepMetric(step.name, "yield")] = reasons["relevance"] or _yield(step, masses)
        if step is reranker:
            values[StepMetric(step.name, "ranking")] = reasons["relevance"] or _ranking(step, masses)
        for metric, value in values.items():
            _add(result, metric, step.kind, value)
    _add(result, StepMetric(GENERATOR, "focus"), "generator", _focus(interaction))
    return result


def _add(result: StepScores, metric: StepMetric, kind: ComponentKind, value: float | str) -> None:
    if isinstance(value, str):
        result.absent[metric.name] = str(value)
    else:
        result.scores[metric.name] = value
    result.declared[metric.name] = step_declaration(metric, kind)


def _relevance(step: RetrievalStep, masses: _DocumentMasses | AbsentReason) -> float | AbsentReason:
    if isinstance(masses, AbsentReason):
        return masses
    if masses.relevant is None:
        return AbsentReason.INCOMPLETE_LABELS
    if not step.documents:
        return _reason_without_documents(step)
    n = sum(masses.n[index] for index in step.documents)
    if not n:
        return AbsentReason.NO_DOCUMENT_SENTENCES
    return min(sum(masses.relevant[index] for index in step.documents) / n, 1.0)


def _used_recall(step: RetrievalStep, masses: _DocumentMasses | AbsentReason) -> float | AbsentReason:
    if isinstance(masses, AbsentReason):
        return masses
    if masses.used is None:
        return AbsentReason.INCOMPLETE_LABELS
    used = sum(masses.used)
    if used <= 0:
        return AbsentReason.NO_USED_SENTENCES
    return min(sum(masses.used[index] for index in step.documents) / used, 1.0)


def _agreement(step: RetrievalStep, retrievers: Sequence[RetrievalStep]) -> float | AbsentReason:
    if step.kind == "retriever":
        if step.returned == 0:
            return AbsentReason.NOTHING_RETRIEVED
        if step.returned is not None and step.shared is not None:
            return step.shared / step.returned
        if any(retriever.returned != len(retriever.documents) for retriever in retrievers):
            return AbsentReason.POOL_UNKNOWN
    if not step.documents:
        return _reason_without_documents(step)
    others: list[Collection[int]] = [set(retriever.documents) for retriever in retrievers]
    several = [index for index in step.documents if sum(index in documents for documents in others) > 1]
    return len(several) / len(step.documents)


def _order(step: RetrievalStep, reranker: RetrievalStep) -> float | AbsentReason:
    place = {index: number for number, index in enumerate(reranker.documents)}
    share = _share_rising([place[index] for index in step.documents if index in place])
    return AbsentReason.NOT_REACHED if share is None else share


def _yield(step: RetrievalStep, masses: _DocumentMasses | AbsentReason) -> float | AbsentReason:
    if isinstance(masses, AbsentReason):
        return masses
    if masses.relevant is None:
        return AbsentReason.INCOMPLETE_LABELS
    n = sum(masses.n)
    if not n:
        return AbsentReason.NO_DOCUMENT_SENTENCES
    return min(sum(masses.relevant[index] for index in step.documents) / n, 1.0)


def _ranking(step: RetrievalStep, masses: _DocumentMasses | AbsentReason) -> float | AbsentReason:
    if isinstance(masses, AbsentReason):
        return masses
    if masses.relevant is None:
        return AbsentReason.INCOMPLETE_LABELS
    share = _share_rising([-masses.relevant[index] / masses.n[index] for index in step.documents if masses.n[index]])
    return AbsentReason.NO_RELEVANT_SENTENCES if share is None else share


def _focus(interaction: RagInteraction) -> float | AbsentReason:
    # A share, so that it does not depend on how well the documents fit the question.
    parts = cut(interaction)
    question_words = _words(interaction.question)
    documents = sorted(_overlap(question_words, sentence) for sentences in parts.documents for sentence in sentences)
    if not documents:
        return AbsentReason.NO_DOCUMENT_SENTENCES
    if not parts.response:
        return AbsentReason.NO_RESPONSE_SENTENCES
    answer = [_overlap(question_words, sentence) for sentence in parts.response]
    if not (documents[-1] or any(answer)):
        return AbsentReason.NO_QUESTION_WORDS
    ranks = [bisect_left(documents, value) + bisect_right(documents, value) for value in answer]
    return sum(ranks) / (2 * len(documents) * len(ranks))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _overlap(question_words: frozenset[str], text: str) -> float:
    """Return the number of common words over the root of the number of words, so that long sentences win nothing."""
    words = _words(text)
    return float(len(question_words & words) / math.sqrt(len(words))) if words else 0.0


def _share_rising(values: Sequence[float]) -> float | None:
    seen: list[float] = []
    rising = falling = 0
    for value in values:
        rising += bisect_left(seen, value)
        falling += len(seen) - bisect_right(seen, value)
        insort(seen, value)
    return rising / (rising + falling) if rising + falling else None


def _reason_without_documents(step: RetrievalStep) -> AbsentReason:
    return AbsentReason.NOTHING_RETRIEVED if step.returned == 0 else AbsentReason.NOT_REACHED


def _masses(interaction: RagInteraction, labels: Sequence[Labels]) -> _DocumentMasses | AbsentReason:
    first = next((item for item in labels if isinstance(item, SentenceLabels | SentenceProbabilities)), None)
    if first is None:
        return AbsentReason.NOT_LABELED
    if isinstance(first, SentenceLabels):
        return _masses_by_keys(interaction, first)
    counts = sentence_counts(interaction)
    if sum(counts) != len(first.relevant):
        return AbsentReason.INCOMPLETE_LABELS
    return _DocumentMasses(counts, _sums_by_document(counts, first.relevant), _sums_by_document(counts, first.utilized))


def _masses_by_keys(interaction: RagInteraction, labels: SentenceLabels) -> _DocumentMasses | AbsentReason:
    n_documents = len(interaction.documents)
    if labels.document_keys is None:
        counts, known = sentence_counts(interaction), None
    else:
        known = frozenset(normalize_keys(labels.document_keys))
        counts = [round(count) for count in _counts_by_document(known, n_documents)]
    if sum(counts) != labels.n_document_sentences:
        return AbsentReason.INCOMPLETE_LABELS

    def named(keys: Sequence[str] | None) -> Sequence[float] | None:
        if keys is None:
            return None
        return _counts_by_document([key for key in normalize_keys(keys) if known is None or key in known], n_documents)

    return _DocumentMasses(counts, named(labels.relevant), named(labels.utilized))


def _counts_by_document(keys: Collection[str], n_documents: int) -> list[float]:
    counts = [0.0] * n_documents
    for key in keys:
        match = _DOCUMENT.fullmatch(key)
        if match is not None and int(match[1]) < n_documents:
            counts[int(match[1])] += 1
    return counts


def _sums_by_document(counts: Sequence[int], values: Sequence[float]) -> list[float]:
    sums, start = [], 0
    for count in counts:
        sums.append(sum(values[start : start + count]))
        start += count
    return sums
