"""TRACe labels from a judge: a single call, or several calls for the parts of a long context, read and merged."""

from collections.abc import Mapping, Sequence
from typing import Final

from ragtide_schemas import SentenceLabels

from ...metrics.trace import SPECIAL_KEYS
from ...text.keys import normalize_key
from ...text.sentences import CutInteraction
from ...text.splitting import parts
from ..remote.errors import ContextTooLong
from ..remote.usage import Usage
from .answers import texts
from .client import SMALLEST_BUDGET, JudgeClient
from .costs import PlannedCalls
from .prompts import Language, Prompt, trace_prompt
from .repairing import AnswerReading, ask_until_usable
from .texts import KeyedTexts

INVENTED_SHARE: Final = 0.2
"""Share of keys that name no sentence above which an answer is not trusted."""

KEY_CHARS: Final = 64
"""Most characters of a key; a longer key names no sentence."""


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
        found = keys.clean(fields.get(name))
        if found is None:
            complaints.append(f"{name} is missing or not a list of keys that exist")
        lists.append(found)
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
    """Return the support and the verdict of each response sentence that has both, and the faults of the others."""
    if not isinstance(entries, list):
        return {}, {}, ["sentence_support_information is missing or not a list"]
    support: dict[str, tuple[str, ...]] = {}
    fully: dict[str, bool | None] = {}
    complaints: list[str] = []
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        sentence = normalize_key(str(entry.get("response_sentence_key", ""))[:KEY_CHARS])
        if sentence not in response_keys:
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
        else:
            if verdict and not supporting:
                complaints.append(f"response sentence {sentence} is fully supported without a supporting key")
            support[sentence], fully[sentence] = supporting, verdict
    return support, fully, complaints


class _Keys:
    """Normalizes keys, checks that they exist, and counts dropped keys."""

    def __init__(self, documents: Sequence[str], repairs: Usage) -> None:
        self._known = frozenset(documents)
        self._repairs = repairs
        self.named = 0
        self.invented: list[str] = []

    def clean(self, value: object, also: frozenset[str] = frozenset()) -> tuple[str, ...] | None:
        """Return the keys in a list; None if it is no list of keys, or if none of its keys exists."""
        listed = texts(value)
        if listed is None:
            return None
        found: dict[str, None] = {}
        invented = 0
        for text in listed:
            key = normalize_key(text[:KEY_CHARS])
            self.named += 1
            if key in self._known or key in also:
                if key in found:
                    self._repairs.counters["duplicate_keys"] += 1
                found[key] = None
            elif key not in SPECIAL_KEYS:
                self._repairs.counters["dropped_keys"] += 1
                self.invented.append(text[:20])
                invented += 1
        return None if invented and not found else tuple(found)


async def judge_trace(
    client: JudgeClient, sentences: CutInteraction, language: Language, usage: Usage, history: KeyedTexts = ()
) -> SentenceLabels:
    """Return the judge's labels of every sentence.

    There is one call, plus one for every further `context_tokens` of documents. If several parts support a response
    sentence and no part supports it fully, a further call asks about all its supporting sentences together.

    Raises:
        EndpointUnavailable, OverBudget: the judge could not be called.
        NoLabels, ContextTooLong: the judge gave no labels.
    """
    keyed = list(zip(sentences.document_keys, (s for d in sentences.documents for s in d), strict=True))
    budget = client.document_tokens(lambda: _prompt(client, sentences, [], language, history))
    while True:
        runs = parts(keyed, budget)
        try:
            labels = [await _judge_part(client, sentences, run, language, usage, history=history) for run in runs]
            break
        except ContextTooLong:
            # The refusal may have named the window.
            budget = min(budget // 2, client.document_tokens(lambda: _prompt(client, sentences, [], language, history)))
            if budget < SMALLEST_BUDGET:
                raise
            usage.counters["context_split"] += 1
    if len(labels) == 1:
        return labels[0]
    merged = merge(labels, sentences)
    scattered = _scattered(labels)
    if scattered:
        support = {key for sentence in scattered for key in merged.support[sentence]}
        documents = [pair for pair in keyed if pair[0] in support]
        together = await _judge_part(client, sentences, documents, language, usage, history=history)
        verdicts = {sentence: together.fully_supported.get(sentence) for sentence in scattered}
        merged = merged.model_copy(update={"fully_supported": {**merged.fully_supported, **verdicts}})
    return merged


async def uncached_trace_prompts(
    client: JudgeClient, sentences: CutInteraction, language: Language, history: KeyedTexts = ()
) -> list[Prompt]:
    """Return the prompts of `judge_trace` that have no cached answer, without the one about scattered support.

    Raises:
        ContextTooLong: there is no room for documents.
    """
    keyed = list(zip(sentences.document_keys, (s for d in sentences.documents for s in d), strict=True))
    budget = client.document_tokens(lambda: _prompt(client, sentences, [], language, history))
    prompts = [_prompt(client, sentences, run, language, history) for run in parts(keyed, budget)]
    return [prompt for prompt in prompts if await client.cached_answer(prompt) is None]


async def planned_trace(
    client: JudgeClient, sentences: CutInteraction, language: Language, history: KeyedTexts = ()
) -> PlannedCalls:
    """Return the calls that `judge_trace` would make, without the one about scattered support.

    Raises:
        ContextTooLong: there is no room for documents.
    """
    keyed = list(zip(sentences.document_keys, (s for d in sentences.documents for s in d), strict=True))
    budget = client.document_tokens(lambda: _prompt(client, sentences, [], language, history))
    found = PlannedCalls()
    for run in parts(keyed, budget):
        found += await client.planned_calls(_prompt(client, sentences, run, language, history))
    return found


async def _judge_part(
    client: JudgeClient,
    sentences: CutInteraction,
    documents: Sequence[tuple[str, str]],
    language: Language,
    usage: Usage,
    *,
    history: KeyedTexts,
) -> SentenceLabels:
    keys = [key for key, _ in documents]
    prompt = _prompt(client, sentences, documents, language, history)
    return await ask_until_usable(
        client, prompt, lambda fields, repairs: read_trace(fields, keys, sentences.response_keys, repairs), usage
    )


def _prompt(
    client: JudgeClient,
    sentences: CutInteraction,
    documents: Sequence[tuple[str, str]],
    language: Language,
    history: KeyedTexts,
) -> Prompt:
    response = list(zip(sentences.response_keys, sentences.response, strict=True))
    return trace_prompt(sentences.question, documents, response, language, history, variant=client.settings.prompt)


def merge(labels: Sequence[SentenceLabels], sentences: CutInteraction) -> SentenceLabels:
    """Return the labels of one interaction from the labels of its parts, each of which saw the whole response.

    A response sentence is fully supported if a part supports it fully. A part may also call a sentence `general` or
    well known; that counts only if no part names a document sentence for it.
    """
    keys = sentences.document_keys
    # A part without a list of keys leaves the whole list unknown.
    relevant, utilized = (
        _in_order(keys, [getattr(part, name) for part in labels]) for name in ("relevant", "utilized")
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


def _in_order(keys: Sequence[str], parts_named: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    named: set[str] = set()
    for part in parts_named:
        if part is None:
            return None
        named.update(part)
    return tuple(key for key in keys if key in named)


def _scattered(labels: Sequence[SentenceLabels]) -> list[str]:
    """Return the response sentences that several parts support with documents and none supports fully."""
    sentences = dict.fromkeys(sentence for part in labels for sentence in part.support)
    return [
        sentence
        for sentence in sentences
        if not any(part.fully_supported.get(sentence) for part in labels)
        and sum(bool(set(part.support.get(sentence, ())) - SPECIAL_KEYS) for part in labels) > 1
    ]
