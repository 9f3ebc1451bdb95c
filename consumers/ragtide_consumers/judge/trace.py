"""TRACe labels from a judge: one call for everything; a long context in parts, merged."""

from collections.abc import Mapping, Sequence
from typing import Final

from ragtide_schemas import SentenceLabels

from ..metrics.trace import SPECIAL_KEYS
from ..text.keys import normalize_key
from ..text.sentences import CutInteraction
from .answers import texts
from .client import JudgeClient, Usage
from .errors import ContextTooLong
from .prompts import Language, trace_prompt
from .reading import Reading, ask_until_usable
from .splitting import parts

INVENTED_SHARE: Final = 0.2
"""Share of keys naming no sentence from which an answer is not trusted and asked for again."""

SMALLEST_BUDGET: Final = 200
"""Tokens of documents in one call below which a context is not split further."""


async def judge_trace(
    client: JudgeClient, sentences: CutInteraction, language: Language, usage: Usage
) -> SentenceLabels:
    """Return the judge's labels of every sentence.

    One call, plus one for every further `context_tokens` of documents, plus one more over the supporting sentences if
    a response sentence is supported by several parts and fully by none.

    Raises:
        JudgeError: the judge could not be asked, or gave no labels.
    """
    keyed = list(zip(sentences.document_keys, (s for d in sentences.documents for s in d), strict=True))
    budget = client.settings.context_tokens
    while True:
        runs = parts(keyed, budget)
        try:
            labels = [await _judge_part(client, sentences, run, language, usage) for run in runs]
            break
        except ContextTooLong:
            budget //= 2
            if budget < SMALLEST_BUDGET:
                raise
            usage.counters["context_split"] += 1
    if len(labels) == 1:
        return labels[0]
    merged = merge(labels, sentences)
    scattered = _scattered(labels)
    if scattered:
        support = {key for sentence in scattered for key in merged.support[sentence]}
        together = await _judge_part(client, sentences, [pair for pair in keyed if pair[0] in support], language, usage)
        verdicts = {sentence: together.fully_supported.get(sentence) for sentence in scattered}
        merged = merged.model_copy(update={"fully_supported": {**merged.fully_supported, **verdicts}})
    return merged


async def _judge_part(
    client: JudgeClient,
    sentences: CutInteraction,
    documents: Sequence[tuple[str, str]],
    language: Language,
    usage: Usage,
) -> SentenceLabels:
    keys = [key for key, _ in documents]
    response = list(zip(sentences.response_keys, sentences.response, strict=True))
    prompt = trace_prompt(sentences.question, documents, response, language)
    return await ask_until_usable(
        client, prompt, lambda fields, mended: read_trace(fields, keys, sentences.response_keys, mended), usage
    )


def merge(labels: Sequence[SentenceLabels], sentences: CutInteraction) -> SentenceLabels:
    """Return the labels of one interaction from the labels of its parts, each of which saw the whole response.

    A response sentence is fully supported if one part supports it fully. Without documents a part may call a sentence
    `general` or well known; that counts only if no part names a document for it.
    """
    keys = sentences.document_keys
    support: dict[str, tuple[str, ...]] = {}
    fully: dict[str, bool | None] = {}
    for sentence in sentences.response_keys:
        judged = [part for part in labels if sentence in part.support]
        if not judged:
            continue
        named = [key for part in judged for key in part.support[sentence]]
        real = [key for key in named if key not in SPECIAL_KEYS]
        support[sentence] = tuple(dict.fromkeys(real or named))
        fully[sentence] = any(
            part.fully_supported.get(sentence) is True and (not real or set(part.support[sentence]) & set(real))
            for part in judged
        )
    return SentenceLabels(
        relevant=_in_order(keys, labels, "relevant"),
        utilized=_in_order(keys, labels, "utilized"),
        support=support,
        fully_supported=fully,
        n_document_sentences=len(keys),
        document_keys=keys,
        response_keys=sentences.response_keys,
    )


def _in_order(keys: Sequence[str], labels: Sequence[SentenceLabels], name: str) -> tuple[str, ...]:
    named = {key for part in labels for key in getattr(part, name)}
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


class _Keys:
    """Normalizes keys against those that exist, and counts what it drops."""

    def __init__(self, documents: Sequence[str], mended: Usage) -> None:
        self._known = frozenset(documents)
        self._mended = mended
        self.named = 0
        self.invented: list[str] = []

    def clean(self, value: object, also: frozenset[str] = frozenset()) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for text in texts(value):
            key = normalize_key(text)
            self.named += 1
            if key in self._known or key in also:
                if key in found:
                    self._mended.counters["duplicate_keys"] += 1
                found[key] = None
            elif key not in SPECIAL_KEYS:
                self._mended.counters["dropped_keys"] += 1
                self.invented.append(text[:20])
        return tuple(found)


def read_trace(
    fields: Mapping[str, object], document_keys: Sequence[str], response_keys: Sequence[str], mended: Usage
) -> Reading[SentenceLabels]:
    """Return the labels in a judge's answer, and what is wrong with it.

    Keys are normalized and checked against the real ones. A few that name nothing are dropped and counted; many, or a
    missing part, are complaints, after which the judge is asked again. Verdicts that contradict each other are
    complaints too: Friel et al. (arXiv:2407.11005, appendix 7.4) annotate such rows again.
    """
    complaints = [
        f"{name} is missing or not a list"
        for name in ("all_relevant_sentence_keys", "all_utilized_sentence_keys", "sentence_support_information")
        if not isinstance(fields.get(name), list)
    ]
    keys = _Keys(document_keys, mended)
    relevant = keys.clean(fields.get("all_relevant_sentence_keys", []))
    utilized = keys.clean(fields.get("all_utilized_sentence_keys", []))
    support: dict[str, tuple[str, ...]] = {}
    fully: dict[str, bool | None] = {}
    for entry in _entries(fields.get("sentence_support_information")):
        sentence = normalize_key(str(entry.get("response_sentence_key", "")))
        if sentence not in response_keys:
            mended.counters["dropped_keys"] += 1
            continue
        supporting = keys.clean(entry.get("supporting_sentence_keys", []), SPECIAL_KEYS)
        verdict = entry.get("fully_supported")
        verdict = verdict if isinstance(verdict, bool) else None
        if sentence in support:
            mended.counters["duplicate_keys"] += 1
            if verdict is not fully[sentence]:
                complaints.append(f"response sentence {sentence} has two entries that differ")
            continue
        if verdict is None:
            complaints.append(f"fully_supported of response sentence {sentence} is not true or false")
        elif verdict and not supporting:
            complaints.append(f"response sentence {sentence} is fully supported without a supporting key")
        support[sentence], fully[sentence] = supporting, verdict
    missing = [key for key in response_keys if key not in support]
    if missing:
        complaints.append(f"response sentences {', '.join(missing[:20])} have no entry")
    elif isinstance(overall := fields.get("overall_supported"), bool) and overall is not all(fully.values()):
        complaints.append("overall_supported contradicts the entries of the response sentences")
    if len(keys.invented) > INVENTED_SHARE * keys.named:
        complaints.append(f"keys that no document sentence has: {', '.join(keys.invented[:5])}")
    labels = SentenceLabels(
        relevant=relevant,
        utilized=utilized,
        support=support,
        fully_supported=fully,
        n_document_sentences=len(document_keys),
        document_keys=tuple(document_keys),
        response_keys=tuple(response_keys),
    )
    return Reading(labels, tuple(complaints))


def _entries(value: object) -> list[dict[str, object]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
