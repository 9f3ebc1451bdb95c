"""TRACe labels from a judge: a single call, or several calls for the parts of a long context, merged."""

from collections.abc import Sequence

from ragtide_schemas import SentenceLabels

from ...metrics.trace import SPECIAL_KEYS
from ...text.sentences import CutInteraction
from ...text.splitting import parts
from ..remote.errors import ContextTooLong
from ..remote.usage import Usage
from .client import SMALLEST_BUDGET, JudgeClient
from .earlier_turns import KeyedTexts
from .planned import PlannedCalls
from .prompts import Language, Prompt, trace_prompt
from .repairing import ask_until_usable
from .trace_answer import read_trace


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
    budget = client.document_tokens(_prompt(client, sentences, [], language, history))
    while True:
        runs = parts(keyed, budget)
        try:
            labels = [await _judge_part(client, sentences, run, language, usage, history=history) for run in runs]
            break
        except ContextTooLong:
            # The refusal may have named the window.
            budget = min(budget // 2, client.document_tokens(_prompt(client, sentences, [], language, history)))
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


async def wanted_of_trace(
    client: JudgeClient, sentences: CutInteraction, language: Language, history: KeyedTexts = ()
) -> list[Prompt]:
    """Return the prompts of `judge_trace` that have no cached answer, without the one about scattered support.

    Raises:
        ContextTooLong: there is no room for documents.
    """
    keyed = list(zip(sentences.document_keys, (s for d in sentences.documents for s in d), strict=True))
    budget = client.document_tokens(_prompt(client, sentences, [], language, history))
    prompts = [_prompt(client, sentences, run, language, history) for run in parts(keyed, budget)]
    return [one for one in prompts if await client.cached(one) is None]


async def planned_trace(
    client: JudgeClient, sentences: CutInteraction, language: Language, history: KeyedTexts = ()
) -> PlannedCalls:
    """Return the calls that `judge_trace` would make, without the one about scattered support.

    Raises:
        ContextTooLong: there is no room for documents.
    """
    keyed = list(zip(sentences.document_keys, (s for d in sentences.documents for s in d), strict=True))
    budget = client.document_tokens(_prompt(client, sentences, [], language, history))
    found = PlannedCalls()
    for run in parts(keyed, budget):
        found += await client.planned(_prompt(client, sentences, run, language, history))
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
