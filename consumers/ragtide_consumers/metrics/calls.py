"""Metrics of the calls of an agent's run, from the sentence labels of the whole run. Pure.

A run is one question, the calls of tools, and one answer. A call whose result is no evidence, such as a booking, has
neither `documents` nor `returned`. A call that looked for documents and found none is neither relevant nor used, which
no label has to say: otherwise a tool that finds nothing any more would remove itself from its own means.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final, Literal, NamedTuple

from pydantic_core import from_json, to_json

from ragtide_schemas import Labels, RagInteraction, SentenceLabels
from ragtide_schemas.limits import STEPS_MAX
from ragtide_schemas.metric_definitions import (
    AGENT_CALLS,
    AGENT_GAVE_UP,
    AGENT_ROUNDS,
    AGENT_SUFFICIENT_AT,
    AGENT_WASTED,
)
from ragtide_schemas.retrieval_steps import RetrievalStep
from ragtide_schemas.step_metrics import TOOL_LATENCY_MAX_S, ToolMetric

from ..text.answers import is_stop_notice
from ..text.reasoning import answer_of
from ..text.sentences import CutInteraction
from .document_masses import DocumentMasses, document_masses, sentence_labels
from .scores import AbsentReason, has_no_answer
from .trace import MARKED, trace_metrics

Score = float | str
"""A value, or the reason why there is none."""


class CallUse(NamedTuple):
    """What a run had of one call. Of probabilities each is that of its surest sentence: at least as high for any."""

    relevant: Score
    """1 if a sentence of its documents is relevant, else 0."""
    used: Score
    """1 if the answer uses a sentence of its documents, else 0."""
    wasted: Score
    """1 if it failed, or looked for documents and was neither relevant nor used; 0 for a call of another purpose."""


class CallScores(NamedTuple):
    """Scores of a run, or the reasons why there are none."""

    tools: Mapping[ToolMetric, Score]
    """In the order of the tools' names, so that the same are left out of every event that has too many."""
    agent: Mapping[str, Score]
    """By qualified metric name."""


def call_uses(interaction: RagInteraction, labels: Sequence[Labels], absent: Mapping[str, str]) -> Sequence[CallUse]:
    """Return what a run had of each of its calls, in their order.

    Args:
        labels: of a labeler, of which the first with sentences counts.
        absent: reasons of the labeler's absent metrics.
    """
    best = document_masses(interaction, labels, max)
    relevant, used = _marks(best, "relevant", absent), _marks(best, "used", absent)
    return [_call_use(call, relevant, used) for call in interaction.calls]


def call_scores(
    interaction: RagInteraction,
    parts: CutInteraction,
    labels: Sequence[Labels],
    absent: Mapping[str, str],
    masses: DocumentMasses | AbsentReason,
) -> CallScores:
    """Return the metrics of a run: of each tool, and of all calls together.

    Args:
        interaction: with calls.
        parts: into which it was cut.
        labels: of a labeler, of which the first with sentences counts.
        absent: reasons of the labeler's absent metrics.
        masses: sums of these labels by document.
    """
    best = document_masses(interaction, labels, max)
    relevant, used = _marks(best, "relevant", absent), _marks(best, "used", absent)
    uses = [_call_use(call, relevant, used) for call in interaction.calls]
    by_tool: dict[str, list[tuple[RetrievalStep, CallUse]]] = {}
    for call, use in zip(interaction.calls, uses, strict=True):
        by_tool.setdefault(call.name, []).append((call, use))
    tools: dict[ToolMetric, Score] = {}
    for name, calls in sorted(by_tool.items()):
        tools |= _tool_scores(name, [call for call, _ in calls], [use for _, use in calls])
        tools[ToolMetric(name, "yield")] = _first_yield(
            [call for call, _ in calls], masses, _marks(masses, "relevant", absent)
        )
    sufficient_at = _sufficient_at(interaction.calls, used, labels, absent)
    return CallScores(tools, _agent_scores(interaction, parts, uses, sufficient_at))


_OF_WHOLE: Final = {"relevant": "trace.context_relevance", "used": "trace.context_utilization"}
"""Metric of the whole interaction that has the reason if marks of a kind are absent."""


def _marks(
    masses: DocumentMasses | AbsentReason, kind: Literal["relevant", "used"], absent: Mapping[str, str]
) -> Sequence[float] | str:
    if (reason := absent.get(_OF_WHOLE[kind])) is not None:
        return reason
    if isinstance(masses, AbsentReason):
        return masses
    values = masses.relevant if kind == "relevant" else masses.used
    return AbsentReason.INCOMPLETE_LABELS if values is None else values


def _call_use(call: RetrievalStep, relevant: Sequence[float] | str, used: Sequence[float] | str) -> CallUse:
    if call.error is not None:
        return CallUse(AbsentReason.NO_EVIDENCE, AbsentReason.NO_EVIDENCE, 1.0)
    if not call.looked_for_documents:
        return CallUse(AbsentReason.NO_EVIDENCE, AbsentReason.NO_EVIDENCE, 0.0)
    if not call.documents:  # of documents that the generator did not get, nobody knows whether they are relevant
        return CallUse(0.0 if call.returned == 0 else AbsentReason.NOT_REACHED, 0.0, 1.0)
    of_both = [
        marks if isinstance(marks, str) else min(max(marks[index] for index in call.documents), 1.0)
        for marks in (relevant, used)
    ]
    reason = next((score for score in of_both if isinstance(score, str)), None)
    best = max((score for score in of_both if not isinstance(score, str)), default=0.0)
    return CallUse(relevant=of_both[0], used=of_both[1], wasted=reason or 1.0 - best)


def _tool_scores(name: str, calls: Sequence[RetrievalStep], uses: Sequence[CallUse]) -> dict[ToolMetric, Score]:
    k = len(calls)
    evidence = [use for call, use in zip(calls, uses, strict=True) if call.looked_for_documents and call.error is None]
    empty = sum(call.returned == 0 for call in calls if call.error is None)
    seconds = [min(call.latency_s, TOOL_LATENCY_MAX_S) for call in calls if call.latency_s is not None]
    return {
        ToolMetric(name, "calls"): float(k),
        ToolMetric(name, "used"): _mean([use.used for use in evidence]),
        ToolMetric(name, "relevant"): _mean([use.relevant for use in evidence]),
        ToolMetric(name, "wasted"): _mean([use.wasted for use in uses]),
        ToolMetric(name, "repeated"): _repeated(calls),
        ToolMetric(name, "failed"): sum(call.error is not None for call in calls) / k,
        ToolMetric(name, "empty"): empty / len(evidence) if evidence else AbsentReason.NO_EVIDENCE,
        ToolMetric(name, "latency_s"): fmean(seconds) if seconds else AbsentReason.LATENCY_UNKNOWN,
    }


def _mean(scores: Sequence[Score]) -> Score:
    numbers = [score for score in scores if not isinstance(score, str)]
    if len(numbers) < len(scores):
        return next(score for score in scores if isinstance(score, str))
    return fmean(numbers) if numbers else AbsentReason.NO_EVIDENCE


def _first_yield(
    calls: Sequence[RetrievalStep], masses: DocumentMasses | AbsentReason, relevant: Sequence[float] | str
) -> Score:
    looking = [call for call in calls if call.error is not None or call.looked_for_documents]
    if not looking:
        return AbsentReason.NO_EVIDENCE
    if any(call.round is None for call in looking):
        return AbsentReason.ROUNDS_UNKNOWN
    first = [_yield(call, masses, relevant) for call in looking if call.round == 1]
    return _mean(first) if first else AbsentReason.NOT_FIRST_ROUND


def _yield(call: RetrievalStep, masses: DocumentMasses | AbsentReason, relevant: Sequence[float] | str) -> Score:
    if call.error is not None or call.returned == 0:
        return 0.0
    if not call.documents:
        return AbsentReason.NOT_REACHED
    if isinstance(relevant, str) or isinstance(masses, AbsentReason):
        return relevant if isinstance(relevant, str) else str(masses)
    n = sum(masses.n[index] for index in call.documents)
    return min(sum(relevant[index] for index in call.documents) / n, 1.0) if n else 0.0


def _repeated(calls: Sequence[RetrievalStep]) -> Score:
    if any(call.query is None and call.arguments is None for call in calls):
        return AbsentReason.ARGUMENTS_UNKNOWN
    return 1.0 - len({_asked(call) for call in calls}) / len(calls)


def _asked(call: RetrievalStep) -> bytes:
    # In one form: the argument `query` is the query, white space and case do not count, and "7" and 7.0 are 7.
    arguments = {"query": call.query} if call.arguments is None else call.arguments
    return to_json(_plain({name: _spelled(value) for name, value in arguments.items()}))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    if isinstance(value, dict):
        return sorted(((_plain(key), _plain(item)) for key, item in value.items() if item is not None), key=to_json)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _spelled(value: Any) -> Any:
    try:
        return from_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _agent_scores(
    interaction: RagInteraction,
    parts: CutInteraction,
    uses: Sequence[CallUse],
    sufficient_at: Score,
) -> dict[str, Score]:
    calls, left_out = interaction.calls, interaction.steps_left_out or 0
    cut = AbsentReason.CALLS_CUT if left_out else None
    rounds = [call.round for call in calls if call.round is not None]
    unknown = cut or (AbsentReason.ROUNDS_UNKNOWN if len(rounds) < len(calls) else None)
    reason = next((use.wasted for use in uses if isinstance(use.wasted, str)), None)
    wasted = sum(use.wasted for use in uses if not isinstance(use.wasted, str))
    gave_up = has_no_answer(interaction) or parts.refuses or is_stop_notice(answer_of(interaction.response))
    return {
        AGENT_CALLS.name: float(min(len(calls) + left_out, STEPS_MAX)),
        AGENT_ROUNDS.name: unknown or float(max(rounds)),
        AGENT_WASTED.name: cut or reason or wasted,
        AGENT_SUFFICIENT_AT.name: unknown or sufficient_at,
        AGENT_GAVE_UP.name: float(gave_up),
    }


def _sufficient_at(
    calls: Sequence[RetrievalStep],
    used: Sequence[float] | str,
    labels: Sequence[Labels],
    absent: Mapping[str, str],
) -> Score:
    if isinstance(used, str):
        return used
    # The round that returned each document first; documents that the agent had before its calls need none.
    first = {index: call.round or 1 for call in reversed(calls) for index in call.documents}
    rounds = [number for index, number in first.items() if used[index] >= MARKED]
    if not rounds:
        return AbsentReason.NO_USED_SENTENCES
    supported = _all_supported(labels)
    if isinstance(supported, str) or "trace.adherence" in absent:
        return absent.get("trace.adherence") or str(supported)
    return float(max(rounds)) if supported else AbsentReason.NEVER_SUFFICIENT


def _all_supported(labels: Sequence[Labels]) -> bool | str:
    first = sentence_labels(labels)
    if first is None:
        return AbsentReason.NOT_LABELED
    if isinstance(first, SentenceLabels):
        metrics = trace_metrics(first)
        return metrics.scores["adherence"] == 1.0 if "adherence" in metrics.scores else metrics.absent["adherence"]
    if not first.supported:
        return AbsentReason.NO_RESPONSE_SENTENCES
    return all(probability >= MARKED for probability in first.supported)
