"""TRACe labels from a judge: a single call, or several calls for the parts of a long context, read and merged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ragtide_schemas import SentenceLabels
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.specimen import SENTENCE_REASON

from ...metrics.trace import SPECIAL_KEYS
from ...text.sentences import CutInteraction
from ...text.splitting import parts
from ..remote.errors import ContextTooLong
from ..remote.usage import Usage
from .client import SMALLEST_BUDGET, JudgeClient
from .costs import PlannedCalls
from .criteria import CriteriaReading, bounded, read_criteria
from .prompts import Language, Prompt, trace_prompt
from .repairing import AnswerReading, ask_until_usable
from .texts import KeyedCalls, KeyedTexts
from .values import key_in, keys_in

INVENTED_SHARE: Final = 0.2
"""Share of keys that name no sentence above which an answer is not trusted."""

Documents = list[tuple[str, str]]
"""Document sentences of one call, as pairs of key and text."""


def read_trace(
    fields: Mapping[str, object], document_keys: Sequence[str], response_keys: Sequence[str], repairs: Usage
) -> AnswerReading[SentenceLabels]:
    """Return the labels in a judge's answer, and its faults.

    Keys are normalized and checked against the real keys. A few keys that name no sentence are dropped and counted;
    many such keys, or a missing part, are faults. Verdicts that contradict each other are faults too, because Friel et
    al. (arXiv:2407.11005, appendix 7.4) annotate such rows again. In the labels, a missing or malformed list is None,
    and a response sentence without a complete verdict has no entry.
    """
    keys = _Keys(document_keys, repairs)
    complaints: list[str] = []
    lists: list[tuple[str, ...] | None] = []
    for name in ("all_relevant_sentence_keys", "all_utilized_sentence_keys"):
        listed = keys.clean(fields.get(name))
        if listed is None:
            complaints.append(f"{name} is missing or not a list of keys that exist")
        lists.append(listed)
    relevant, utilized = lists
    support, fully, faults = _verdicts(fields.get("sentence_support_information"), response_keys, keys, repairs)
    complaints += faults
    missing = [key for key in response_keys if key not in support]
    if missing:
        complaints.append(f"response sentences {', '.join(missing[:20])} have no entry")
    elif isinstance(overall := fields.get("overall_supported"), bool) and overall is not all(fully.values()):
        complaints.append("overall_supported contradicts the entries of the response sentences")
    if len(keys.invented) > INVENTED_SHARE * keys.named:
        complaints.append(f"keys that no document sentence has: {', '.join(keys.invented[:5])}")
    if relevant is None and utilized is None and not support:
        return AnswerReading(None, tuple(complaints))
    labels = SentenceLabels(
        relevant=relevant,
        utilized=utilized,
        support=support,
        fully_supported=fully,
        n_document_sentences=len(document_keys),
        document_keys=tuple(document_keys),
        response_keys=tuple(response_keys),
    )
    return AnswerReading(labels, tuple(complaints))


def _verdicts(
    entries: object, response_keys: Sequence[str], keys: "_Keys", repairs: Usage
) -> tuple[dict[str, tuple[str, ...]], dict[str, bool | None], list[str]]:
    if not isinstance(entries, list):
        return {}, {}, ["sentence_support_information is missing or not a list"]
    support: dict[str, tuple[str, ...]] = {}
    fully: dict[str, bool | None] = {}
    complaints: list[str] = []
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        sentence = key_in(entry.get("response_sentence_key", ""), response_keys)
        if sentence is None:
            repairs.counters["dropped_keys"] += 1
            continue
        supporting = keys.clean(entry.get("supporting_sentence_keys"), SPECIAL_KEYS)
        verdict = entry.get("fully_supported")
        if supporting is None:
            complaints.append(f"supporting_sentence_keys of response sentence {sentence} is not a list of keys")
        elif not isinstance(verdict, bool):
            complaints.append(f"fully_supported of response sentence {sentence} is not true or false")
        elif sentence in support:
            repairs.counters["duplicate_keys"] += 1
            if verdict is not fully[sentence]:
                complaints.append(f"response sentence {sentence} has two entries that differ")
                fully[sentence] = None
        else:
            if verdict and not supporting:
                complaints.append(f"response sentence {sentence} is fully supported without a supporting key")
            support[sentence], fully[sentence] = supporting, verdict
    return support, fully, complaints


class _Keys:
    """Normalizes keys, checks that they exist, and counts dropped keys."""

    def __init__(self, documents: Sequence[str], repairs: Usage) -> None:
        self._known = dict.fromkeys(documents)
        self._repairs = repairs
        self.named = 0
        self.invented: list[str] = []

    def clean(self, value: object, also: frozenset[str] = frozenset()) -> tuple[str, ...] | None:
        """Return the keys in a list; None if it is no list of keys, or if none of its keys exists."""
        listed = keys_in(value, self._known)
        if listed is None:
            return None
        kept: dict[str, None] = {}
        invented = 0
        for key in listed:
            self.named += 1
            if key in self._known or key in also:
                if key in kept:
                    self._repairs.counters["duplicate_keys"] += 1
                kept[key] = None
            elif key not in SPECIAL_KEYS:
                self._repairs.counters["dropped_keys"] += 1
                self.invented.append(key[:20])
                invented += 1
        return None if invented and not kept else tuple(kept)


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """What one or several answers of the judge say about an interaction."""

    labels: SentenceLabels
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reason by metric, or by `sentence:KEY`."""
    criteria: CriteriaReading | None = None
    """Answers to the criteria that were asked in the same call; None if they were not asked."""


@dataclass(frozen=True, slots=True)
class TraceQuestion:
    """What the judge is asked about the sentences of an interaction.

    Args:
        history: earlier turns.
        criteria: to ask in the same call, if a single call takes all documents.
        reference: the reference answer, if a criterion reads it.
        calls: the calls of the run, if a criterion reads them.
    """

    sentences: CutInteraction
    language: Language
    history: KeyedTexts = ()
    criteria: tuple[Criterion, ...] = ()
    reference: str | None = None
    calls: KeyedCalls = ()

    @property
    def keyed(self) -> list[tuple[str, str]]:
        """All document sentences with their keys."""
        sentences = self.sentences
        return list(zip(sentences.document_keys, (s for d in sentences.documents for s in d), strict=True))

    @property
    def alone(self) -> "TraceQuestion":
        """The same without criteria."""
        return replace(self, criteria=(), reference=None, calls=())

    def prompt(self, client: JudgeClient, documents: Sequence[tuple[str, str]]) -> Prompt:
        """Return the prompt about some of the document sentences, as pairs of key and text."""
        sentences = self.sentences
        response = list(zip(sentences.response_keys, sentences.response, strict=True))
        return trace_prompt(
            sentences.question, documents, response, self.language, self.history,
            variant=client.variant, criteria=self.criteria, reference=self.reference, calls=self.calls,
        )  # fmt: skip

    def split(self, client: JudgeClient, most: int | None = None) -> tuple["TraceQuestion", list[Documents], int]:
        """Return the question that is asked, the documents of each call, and the tokens of documents that a call takes.

        Criteria ride along only if one call takes all documents: they never split a context, and none of them is
        answered by a part of it.

        Args:
            most: tokens of documents that one call takes at most; None for the room that there is.

        Raises:
            ContextTooLong: there is no room for documents.
        """
        keyed = self.keyed
        if self.criteria:
            try:
                budget = self._budget(client, most)
            except ContextTooLong:
                return self.alone.split(client, most)
            if len(runs := parts(keyed, budget)) == 1:
                return self, runs, budget
            return self.alone.split(client, most)
        budget = self._budget(client, most)
        return self, parts(keyed, budget), budget

    def _budget(self, client: JudgeClient, most: int | None) -> int:
        room = client.document_tokens(lambda: self.prompt(client, []))
        return room if most is None else min(most, room)


async def judge_trace(client: JudgeClient, question: TraceQuestion, usage: Usage) -> TraceAnswer:
    """Return the judge's labels of every sentence, and its answers to criteria that were asked in the same call.

    There is one call, plus one for every further `context_tokens` of documents. If several parts support a response
    sentence and no part supports it fully, a further call asks about all its supporting sentences together. A fault of
    an answer to a criterion asks for no other labels.

    Raises:
        EndpointUnavailable, OverBudget: the judge could not be called.
        NoLabels, ContextTooLong: the judge gave no labels.
    """
    most: int | None = None
    while True:
        asked, runs, budget = question.split(client, most)
        try:
            answers = [await _judge_part(client, asked, run, usage) for run in runs]
            break
        except ContextTooLong:
            if asked.criteria:  # they never split a context
                question = question.alone
                continue
            # The refusal may have named the window.
            most = budget // 2
            if min(most, question.alone.split(client, most)[2]) < SMALLEST_BUDGET:
                raise
            usage.counters["context_split"] += 1
    if len(answers) == 1:
        return answers[0]
    labels = [answer.labels for answer in answers]
    merged = merge(labels, question.sentences)
    reasons = merged_reasons(answers)
    scattered = _scattered(labels)
    if scattered:
        support = {key for sentence in scattered for key in merged.support[sentence]}
        documents = [pair for pair in question.keyed if pair[0] in support]
        together = await _judge_part(client, question.alone, documents, usage)
        verdicts = {sentence: together.labels.fully_supported.get(sentence) for sentence in scattered}
        merged = merged.model_copy(update={"fully_supported": {**merged.fully_supported, **verdicts}})
        decided = {f"{SENTENCE_REASON}{sentence}" for sentence in scattered}
        reasons |= {key: reason for key, reason in together.reasons.items() if key in decided}
    return TraceAnswer(merged, reasons)


async def uncached_trace_prompts(client: JudgeClient, question: TraceQuestion) -> tuple[list[Prompt], bool]:
    """Return the prompts of `judge_trace` that have no cached answer, and whether they ask for the criteria.

    The prompt about scattered support is not among them.

    Raises:
        ContextTooLong: there is no room for documents.
    """
    asked, runs, _ = question.split(client)
    prompts = [asked.prompt(client, run) for run in runs]
    uncached = [prompt for prompt in prompts if await client.cached_answer(prompt) is None]
    return uncached, bool(asked.criteria)


async def planned_trace(client: JudgeClient, question: TraceQuestion) -> tuple[PlannedCalls, bool]:
    """Return the calls that `judge_trace` would make, and whether they ask for the criteria.

    The call about scattered support is not among them.

    Raises:
        ContextTooLong: there is no room for documents.
    """
    asked, runs, _ = question.split(client)
    calls = PlannedCalls()
    for run in runs:
        calls += await client.planned_calls(asked.prompt(client, run))
    return calls, bool(asked.criteria)


async def _judge_part(
    client: JudgeClient, question: TraceQuestion, documents: Sequence[tuple[str, str]], usage: Usage
) -> TraceAnswer:
    keys = [key for key, _ in documents]
    response_keys = question.sentences.response_keys

    def read(fields: dict[str, object], repairs: Usage) -> AnswerReading[TraceAnswer]:
        reading = read_trace(fields, keys, response_keys, repairs)
        if reading.labels is None:
            return AnswerReading(None, reading.complaints)
        criteria = read_criteria(fields, question.criteria, repairs) if question.criteria else None
        answer = TraceAnswer(reading.labels, _reasons(fields, response_keys), criteria)
        # Criteria come last, so a cut may have taken them alone: they are asked again by themselves.
        return AnswerReading(answer, reading.complaints, whole=criteria is not None and not reading.complaints)

    return await ask_until_usable(client, question.prompt(client, documents), read, usage)


def _reasons(fields: Mapping[str, object], response_keys: Sequence[str]) -> dict[str, str]:
    reasons = {metric: bounded(fields.get(name)) for name, metric in _EXPLANATIONS.items()}
    entries = fields.get("sentence_support_information")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict):
            key = key_in(entry.get("response_sentence_key", ""), response_keys)
            if key is not None:
                reasons.setdefault(f"{SENTENCE_REASON}{key}", bounded(entry.get("explanation")))
    return {key: reason for key, reason in reasons.items() if reason}


_EXPLANATIONS: Final = {
    "relevance_explanation": "trace.context_relevance",
    "overall_supported_explanation": "trace.adherence",
}


def merged_reasons(answers: Sequence[TraceAnswer]) -> dict[str, str]:
    """Return the reasons of the parts of a context: of a sentence that of the part that supports it fully, if any."""
    merged: dict[str, str] = {}
    for answer in answers:
        for key, reason in answer.reasons.items():
            if not key.startswith(SENTENCE_REASON):
                merged[key] = bounded(f"{merged[key]} {reason}") if key in merged else reason
            elif key not in merged or answer.labels.fully_supported.get(key.removeprefix(SENTENCE_REASON)):
                merged[key] = reason
    return merged


def merge(labels: Sequence[SentenceLabels], sentences: CutInteraction) -> SentenceLabels:
    """Return the labels of one interaction from the labels of its parts, each of which saw the whole response.

    A response sentence is fully supported if a part supports it fully. A part may also call a sentence `general` or
    well known; that counts only if no part names a document sentence for it.
    """
    keys = sentences.document_keys
    # A part without a list of keys leaves the whole list unknown.
    relevant, utilized = (
        _named_by_all(keys, [getattr(part, name) for part in labels]) for name in ("relevant", "utilized")
    )
    support: dict[str, tuple[str, ...]] = {}
    fully: dict[str, bool | None] = {}
    for sentence in sentences.response_keys:
        judged = [part for part in labels if sentence in part.support]
        supported = any(part.fully_supported.get(sentence) is True for part in judged)
        if len(judged) < len(labels) and not supported:
            continue  # a part without a verdict on the sentence may have its support
        named = [key for part in judged for key in part.support[sentence]]
        real = [key for key in named if key not in SPECIAL_KEYS]
        support[sentence] = tuple(dict.fromkeys(real or named))
        fully[sentence] = any(
            part.fully_supported.get(sentence) is True and (not real or set(part.support[sentence]) & set(real))
            for part in judged
        )
    return SentenceLabels(
        relevant=relevant,
        utilized=utilized,
        support=support,
        fully_supported=fully,
        n_document_sentences=len(keys),
        document_keys=keys,
        response_keys=sentences.response_keys,
    )


def _named_by_all(keys: Sequence[str], parts_named: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    named: set[str] = set()
    for part in parts_named:
        if part is None:
            return None
        named.update(part)
    return tuple(key for key in keys if key in named)


def _scattered(labels: Sequence[SentenceLabels]) -> list[str]:
    sentences = dict.fromkeys(sentence for part in labels for sentence in part.support)
    return [
        sentence
        for sentence in sentences
        if not any(part.fully_supported.get(sentence) for part in labels)
        and sum(bool(set(part.support.get(sentence, ())) - SPECIAL_KEYS) for part in labels) > 1
    ]
