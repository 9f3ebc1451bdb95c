"""Computes the features of the document and response sentences of an interaction: shares, counts, lengths. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

import numpy as np

from .overlap import Floats, Matches, Overlap
from .words import content_words

DOCUMENT_FEATURES: Final = (
    "constant",
    "question",  # weight share of the question's words that stands in the sentence
    "in_response",  # weight share of the sentence that stands in one response sentence, at most
    "of_response",  # weight share of one response sentence that stands in the sentence, at most
    "words",  # log(1 + number of words)
    "document_question",  # weight share of the question's words that stands in the sentence's document
    "document_response",  # weight share of the response's words that stands in the sentence's document
    "document_rank",  # the same, divided by that of the document with most
    "document_sentences",  # log(1 + number of sentences of the document)
    "copied",  # mean over all document sentences of the weight share that stands anywhere in the response
    "anywhere",  # weight share of the sentence that stands anywhere in the response
    "in_response_rank",  # `in_response` divided by that of the sentence with most
    "of_response_rank",  # `of_response` divided by that of the sentence with most
    "question_rank",  # `question` divided by that of the sentence with most
    "neighbor",  # `of_response` of the sentence before or after it in its document, at most
    "place",  # 0 for the first sentence of its document, almost 1 for the last
    "documents",  # log(1 + number of documents)
    "sentences",  # log(1 + number of document sentences)
    "shared_pairs",  # share of its pairs of neighboring words that the response has, too
)
"""Features of a document sentence."""

RESPONSE_FEATURES: Final = (
    "constant",
    "best",  # weight share of the sentence's words that stands in one document sentence, at most
    "pairs",  # share of its pairs of neighboring words that stand in any; of a single word, whether it does
    "words",  # log(1 + number of words)
    "response_best",  # mean of `best` over the words of the whole response
    "new_names",  # log(1 + number of capitalized words, not the first, that neither documents nor question have)
    "anywhere",  # weight share of the sentence's words that stands anywhere in the documents
    "new_numbers",  # log(1 + number of words with a digit that neither documents nor question have)
    "asked",  # weight share of the sentence's words that stands in the question
    "place",  # 0 for the first sentence, almost 1 for the last
    "sentences",  # log(1 + number of response sentences)
    "refusal",  # 1 if the sentence says that something is not known or not in the documents, else 0
    "closed",  # 1 if the sentence ends as sentences do, else 0
    "documents",  # log(1 + number of documents)
    "document_sentences",  # log(1 + number of document sentences)
)
"""Features of a response sentence."""

_NAME = re.compile(r"(?<=[\w,] )(?:[A-Z]|[А-ЯЁ])[\w’'-]+")


_REFUSAL = re.compile(
    r"\b(?:not|n['’]t|no|cannot|unable|unclear|unknown|without)\b.{0,60}"
    r"\b(?:document|context|passage|text|article|information|mention|specif|provid|state|enough|sufficient|answer|know)"
    r"|\b(?:нет|не|нельзя|невозможно)\b.{0,60}(?:документ|контекст|текст|информац|сведени|указан|сказан|упомин|извест)",
    re.IGNORECASE,
)
_READ: Final = 1_000
"""Characters of a sentence that are searched for a refusal."""

_ENDS: Final = frozenset(".!?…")


@dataclass(frozen=True, slots=True)
class InteractionFeatures:
    """Features of every document sentence and every response sentence, in order: one row per feature."""

    documents: Floats
    response: Floats


def extract(question: str, documents: Sequence[Sequence[str]], response: Sequence[str]) -> InteractionFeatures:
    """Return the features of an interaction that is already split into sentences.

    Args:
        question: the question.
        documents: the sentences of each document.
        response: the sentences of the response.
    """
    asked = dict.fromkeys(content_words(question), 1)
    answer = [content_words(sentence) for sentence in response]
    unique = [dict.fromkeys(words) for words in answer]
    words_of = [[content_words(sentence) for sentence in sentences] for sentences in documents]
    overlap = Overlap(words_of, chain(asked, *unique))
    # Equal sentences are compared once.
    distinct = {tuple(words): words for words in unique}
    matches = overlap.matches(list(distinct.values()))
    place = {words: number for number, words in enumerate(distinct)}
    best = matches.best[[place[tuple(words)] for words in unique]]
    pairs = [list(pairwise(words)) for words in answer]
    known, shared = overlap.known_pairs(set(chain.from_iterable(pairs)))
    copied_pairs = [
        sum(map(known.__contains__, of_sentence)) / len(of_sentence)
        if of_sentence
        else float(bool(words) and words[0] in overlap)
        for words, of_sentence in zip(answer, pairs, strict=True)
    ]
    n_words = np.array([len(words) for words in answer], np.float64)
    return InteractionFeatures(
        _of_documents(overlap, matches, asked, Counter(chain.from_iterable(unique)), shared),
        _of_response(overlap, asked, response, unique, (n_words, best, copied_pairs)),
    )


def _of_response(
    overlap: Overlap,
    asked: Mapping[str, int],
    response: Sequence[str],
    unique: Sequence[Mapping[str, object]],
    known: tuple[Floats, Floats, Sequence[float]],
) -> Floats:
    """Return the features of the response sentences; known are number of words, `best` and `pairs`."""
    n_words, best, pairs = known
    n = len(response)
    totals = [overlap.total(words) or 1.0 for words in unique]
    # Few sentences have a word that stands nowhere.
    new = [
        [word for word in words if word not in overlap and word not in asked] if share < 1.0 else []
        for words, share in zip(unique, best.tolist(), strict=True)
    ]
    names = [_new_names(text, overlap, asked) if words else 0 for text, words in zip(response, new, strict=True)]
    found = np.empty((len(RESPONSE_FEATURES), n))
    found[0] = 1.0
    found[1] = best
    found[2] = pairs
    found[3] = np.log1p(n_words)
    found[4] = float((n_words * best).sum() / (n_words.sum() or 1.0))
    found[5] = np.log1p(names)
    found[6] = [overlap.found(words) / total for words, total in zip(unique, totals, strict=True)]
    found[7] = np.log1p([sum(word[0].isdigit() for word in words) for words in new])
    found[8] = [
        overlap.total([word for word in words if word in asked]) / total
        for words, total in zip(unique, totals, strict=True)
    ]
    found[9] = np.arange(n) / (n or 1)
    found[10] = np.log1p(n)
    found[11] = [float(_REFUSAL.search(text[:_READ]) is not None) for text in response]
    found[12] = [float(text.rstrip("\"'”’)]* ")[-1:] in _ENDS) for text in response]
    found[13] = np.log1p(len(overlap.lengths))
    found[14] = np.log1p(len(overlap.sentences))
    return found


def _of_documents(
    overlap: Overlap, matches: Matches, asked: Mapping[str, int], counted: Mapping[str, int], shared: Sequence[float]
) -> Floats:
    """Return the features of the document sentences; counted are the response sentences with each of its words."""
    n = len(overlap.sentences)
    found = np.empty((len(DOCUMENT_FEATURES), n))
    if not n:
        return found
    document_of = overlap.document_of
    document_response = overlap.by_document(counted)
    in_question = overlap.matched([asked])[0] / (overlap.total(asked) or 1.0)
    found[0] = 1.0
    found[1] = in_question
    found[2] = matches.in_response
    found[3] = matches.of_response
    found[4] = np.log1p([len(words) for words in overlap.sentences])
    found[5] = overlap.by_document(asked)[document_of]
    found[6] = document_response[document_of]
    found[7] = found[6] / (document_response.max() or 1.0)
    found[8] = np.log1p(overlap.lengths)[document_of]
    found[10] = overlap.share_in(counted)
    found[9] = found[10].mean()
    for rank, of in ((11, 2), (12, 3), (13, 1)):
        found[rank] = found[of] / (found[of].max() or 1.0)
    # The sentences before and after count if they are of the same document.
    same = document_of[1:] == document_of[:-1]
    found[14] = 0.0
    found[14, 1:] = found[3, :-1] * same
    found[14, :-1] = np.maximum(found[14, :-1], found[3, 1:] * same)
    starts = np.cumsum(overlap.lengths) - overlap.lengths
    found[15] = (np.arange(n) - starts[document_of]) / overlap.lengths[document_of]
    found[16] = np.log1p(len(overlap.lengths))
    found[17] = np.log1p(n)
    found[18] = shared
    return found


def _new_names(text: str, overlap: Overlap, asked: Mapping[str, int]) -> int:
    return sum(
        any(word not in overlap and word not in asked for word in content_words(name)) for name in _NAME.findall(text)
    )
