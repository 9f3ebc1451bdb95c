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
from typing import Final

from ragtide_schemas import Labels, MetricDeclaration, RagInteraction
from ragtide_schemas.retrieval_steps import RetrievalStep
from ragtide_schemas.step_metrics import GENERATOR, StepMetric, step_declaration, tool_declaration

from ..text.sentences import CutInteraction, cut
from .calls import call_scores
from .document_masses import DocumentMasses, document_masses
from .scores import AbsentReason

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


def step_scores(interaction: RagInteraction, labels: Sequence[Labels], absent: Mapping[str, str]) -> StepScores:
    """Return the metrics of the steps of an interaction, its calls of tools included; nothing without steps.

    Of probabilities of labels these are ratios of expected counts. A metric is absent where that of the whole
    interaction is, with the same reason.

    Args:
        labels: of a labeler, of which the first with sentences counts.
        absent: reasons of the labeler's absent metrics.
    """
    if not interaction.steps:
        return NO_STEPS
    result = StepScores()
    masses = document_masses(interaction, labels)
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
            _add(result, metric.name, value, step_declaration(metric, step.kind))
    parts, focus = cut(interaction), StepMetric(GENERATOR, "focus")
    _add(result, focus.name, _focus(interaction.question, parts), step_declaration(focus, "generator"))
    if interaction.calls:
        of_run = call_scores(interaction, parts, labels, absent, masses)
        for tool, value in of_run.tools.items():
            _add(result, tool.name, value, tool_declaration(tool))
        for name, value in of_run.agent.items():
            _add(result, name, value)
    return result


def _add(result: StepScores, name: str, value: float | str, declaration: MetricDeclaration | None = None) -> None:
    if isinstance(value, str):
        result.absent[name] = str(value)
    else:
        result.scores[name] = value
    if declaration is not None:
        result.declared[name] = declaration


def _relevance(step: RetrievalStep, masses: DocumentMasses | AbsentReason) -> float | AbsentReason:
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


def _used_recall(step: RetrievalStep, masses: DocumentMasses | AbsentReason) -> float | AbsentReason:
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


def _yield(step: RetrievalStep, masses: DocumentMasses | AbsentReason) -> float | AbsentReason:
    if isinstance(masses, AbsentReason):
        return masses
    if masses.relevant is None:
        return AbsentReason.INCOMPLETE_LABELS
    n = sum(masses.n)
    if not n:
        return AbsentReason.NO_DOCUMENT_SENTENCES
    return min(sum(masses.relevant[index] for index in step.documents) / n, 1.0)


def _ranking(step: RetrievalStep, masses: DocumentMasses | AbsentReason) -> float | AbsentReason:
    if isinstance(masses, AbsentReason):
        return masses
    if masses.relevant is None:
        return AbsentReason.INCOMPLETE_LABELS
    share = _share_rising([-masses.relevant[index] / masses.n[index] for index in step.documents if masses.n[index]])
    return AbsentReason.NO_RELEVANT_SENTENCES if share is None else share


def _focus(question: str, parts: CutInteraction) -> float | AbsentReason:
    # A share, so that it does not depend on how well the documents fit the question.
    question_words = _words(question)
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
