"""Computes the features of the document and response sentences of an interaction: shares, counts, lengths. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, log1p
from typing import Final

import numpy as np

from .facts import denied_words, denies, missing_numbers
from .overlap import ComparedWords, Flags, Floats, Overlap, QuestionWeights, overlap_of, question_weights, words_of
from .words import Indices, tokens

DOCUMENT_FEATURES: Final = (
    "constant",
    "question",  # weight share of the question's words that stands in the sentence
    "of_response",  # weight share of one response sentence that stands in the sentence, at most
    "in_response",  # weight share of the sentence that stands in one response sentence, at most
    "answer",  # weight share of the response's words without those of the question that stands in the sentence
    "question_rank",  # `question` divided by that of the sentence with most
    "of_response_rank",  # `of_response` divided by that of the sentence with most
    "in_response_rank",  # `in_response` divided by that of the sentence with most
    "answer_rank",  # `answer` divided by that of the sentence with most
    "answers",  # mean of `answer` over all document sentences
    "best_of",  # share of the response sentences that it covers better than any document sentence before it does
    "place",  # 0 for the first sentence of its document, almost 1 for the last
    "words",  # log(1 + number of words)
    "number",  # log(1 + number of sentences before it in its document)
    "document_sentences",  # log(1 + number of sentences of the document)
    "documents",  # log(1 + number of documents)
    "sentences",  # log(1 + number of document sentences)
    "response_words",  # log(1 + number of words of the response)
    "response_sentences",  # log(1 + number of sentences of the response)
    "match",  # share of the question's words, weighted by their rarity in the language, that stands in the sentence
    "document_match",  # the same of its document
)
"""Features of a document sentence."""

TOPIC_FEATURES: Final = (
    "constant",
    "match",  # `document_match`
    "match_squared",  # its square
    "best_match",  # largest `match` of its sentences
    "mean_match",  # mean `match` of its sentences
    "largest_match",  # largest `document_match` of all documents
    "all_match",  # mean `document_match` of all documents
    "sentences",  # log(1 + number of its sentences)
)
"""Features of a document, which never see the response. Documents without a sentence have none."""

RESPONSE_FEATURES: Final = (
    "constant",
    "best",  # weight share of the sentence's words that stands in one document sentence, at most
    "pairs",  # share of its pairs of neighboring words that stand in any; of a single word, whether it does
    "asked",  # weight share of the sentence's words that stands in the question
    "place",  # 0 for the first sentence, almost 1 for the last
    "jump",  # distance, in document sentences, from the one that covers the sentence before it best; at most 1
    "response_best",  # mean of `best` over the words of the whole response
    "new_names",  # log(1 + number of capitalized words, not the first, that neither documents nor question have)
    "new_words",  # log(1 + number of different words that neither documents nor question have)
    "words",  # log(1 + number of words)
    "sentences",  # log(1 + number of response sentences)
    "away",  # share of its different words that neither the question nor the sentences around the best one have
    "new_numbers",  # log(1 + number of different numbers that neither documents nor question have)
    "denied",  # share of its negated words that the best sentence affirms, times `best`
)
"""Features of a response sentence."""

MOST_COUNTED: Final = 65_535
"""Larger counts count as this."""

_LOGARITHMS: Final = np.array([log1p(count) for count in range(MOST_COUNTED + 1)])
"""log(1 + count), by count: the same bits on every machine, which numpy does not promise for its own."""

_NAME = re.compile(r"(?<=[\w,] )(?:[A-Z]|[А-ЯЁ])[\w’'-]+")


@dataclass(frozen=True, slots=True)
class InteractionFeatures:
    """Features of every document sentence, every response sentence and every document: one row per feature."""

    documents: Floats
    response: Floats
    topics: Floats | None
    """Of the documents with a sentence; None if the question has no content words."""
    lengths: Indices
    """Numbers of sentences of these documents."""
    match: float | None
    """Mean over all documents of the share of the question's words, weighted by their rarity in the language, that
    stands in the document; None if the question has no content words, or there is no document."""


def extract(
    question: str,
    documents: Sequence[Sequence[str]],
    response: Sequence[str],
    language: str = "en",
    *,
    earlier: str = "",
) -> InteractionFeatures:
    """Return the features of an interaction that is already split into sentences.

    Args:
        question: the question.
        documents: the sentences of each document.
        response: the sentences of the response.
        language: ISO 639-1 code of the language of all of them.
        earlier: the question before it in a conversation, empty without one. A question such as "And how high is it?"
            takes its topic from there, so the documents are compared with both, and the better match counts.

    Raises:
        TooManyMatchesError: response and documents share more words than are compared.
    """
    words = words_of(question, documents, response, language)
    overlap = overlap_of(words)
    asked = question_weights(question, words)
    if earlier:
        both = f"{earlier} {question}"
        asked = max(asked, question_weights(both, words_of(both, documents, response, language)), key=_match)
    return InteractionFeatures(
        _document_features(words, overlap, asked),
        _response_features(words, overlap, question, documents, response),
        _topic_features(words, asked) if asked.whole else None,
        np.array([length for length in words.lengths if length], np.intp),
        _match(asked) if asked.whole and documents else None,
    )


def _match(asked: QuestionWeights) -> float:
    return float(np.add.reduce(asked.documents)) / ((asked.whole or 1.0) * (len(asked.documents) or 1))


def _document_features(words: ComparedWords, overlap: Overlap, question: QuestionWeights) -> Floats:
    n, m, lengths = words.n, words.m, words.lengths
    rows = np.empty((len(DOCUMENT_FEATURES), n))
    if not n:
        return rows
    rows[0] = 1.0
    shares = rows[1:5]
    shares[0] = overlap.question
    shares[1] = overlap.of_response
    shares[2] = overlap.in_response
    shares[3] = overlap.answer
    most = np.maximum.reduce(shares, axis=1)
    most[most == 0] = 1.0
    np.divide(shares, most[:, None], out=rows[5:9])
    rows[9] = float(np.add.reduce(overlap.answer)) / n
    rows[10] = np.bincount(overlap.best_in[overlap.best > 0], minlength=n) / (m or 1)
    counts = np.empty((7, n), np.intp)
    counts[0] = np.bincount(words.sentence_of, minlength=n)
    counts[1] = [number for length in lengths for number in range(length)]
    counts[2] = [length for length in lengths for _ in range(length)]
    counts[3], counts[4], counts[5], counts[6] = len(lengths), n, len(words.response), m
    np.divide(counts[1], counts[2], out=rows[11])
    _LOGARITHMS.take(counts, mode="clip", out=rows[12:19])
    whole = question.whole or 1.0
    np.divide(question.sentences, whole, out=rows[19])
    np.divide(question.documents.repeat(lengths), whole, out=rows[20])
    return rows


def _topic_features(words: ComparedWords, question: QuestionWeights) -> Floats:
    places = [place for place, length in enumerate(words.lengths) if length]
    rows = np.empty((len(TOPIC_FEATURES), len(places)))
    if not places:
        return rows
    lengths = np.array([words.lengths[place] for place in places], np.intp)
    starts = np.add.accumulate(lengths) - lengths
    weights, whole = question.documents[places], question.whole
    rows[0] = 1.0
    np.divide(weights, whole, out=rows[1])
    np.multiply(rows[1], rows[1], out=rows[2])
    np.divide(np.maximum.reduceat(question.sentences, starts), whole, out=rows[3])
    np.divide(np.add.reduceat(question.sentences, starts), whole * lengths, out=rows[4])
    rows[5] = float(np.maximum.reduce(weights)) / whole
    rows[6] = float(np.add.reduce(weights)) / (whole * len(weights))
    rows[7] = _LOGARITHMS.take(lengths, mode="clip")
    return rows


def _response_features(
    words: ComparedWords, overlap: Overlap, question: str, documents: Sequence[Sequence[str]], response: Sequence[str]
) -> Floats:
    # A response has few, so this is faster than numpy.
    n = words.m
    if not n:
        return np.empty((len(RESPONSE_FEATURES), 0))
    best, best_in, n_new = overlap.best.tolist(), overlap.best_in.tolist(), overlap.n_new.tolist()
    n_words = np.bincount(words.response_of, minlength=n).tolist()
    # A sentence of a single word has no pair: its word counts.
    pairs = [
        shared / (count - 1) if count > 1 else float(share == 1)
        for shared, count, share in zip(shared_pairs(words), n_words, best, strict=True)
    ]
    all_best = fsum([count * share for count, share in zip(n_words, best, strict=True)]) / (len(words.response) or 1)
    return np.array(
        [
            [1.0] * n,
            best,
            pairs,
            overlap.asked.tolist(),
            [row / n for row in range(n)],
            [0.0, *[abs(after - before) / (words.n or 1) for before, after in pairwise(best_in)]],
            [all_best] * n,
            [*map(log1p, _new_names(words, overlap.new, n_new, response))],
            [*map(log1p, n_new)],
            [*map(log1p, n_words)],
            [log1p(n)] * n,
            _shares_away(words, best_in),
            [*map(log1p, missing_numbers(response, question, documents))],
            [
                share * most
                for share, most in zip(_denied_shares(words, best_in, documents, response), best, strict=True)
            ],
        ]
    )


def _around(words: ComparedWords, sentence: int) -> tuple[int, int]:
    start = 0
    for length in words.lengths:
        if sentence < start + length:
            return max(sentence - 1, start), min(sentence + 2, start + length)
        start += length
    return 0, 0


def _shares_away(words: ComparedWords, best_in: Sequence[int]) -> Sequence[float]:
    asked = frozenset(words.question.tolist())
    ends = words.response_of.searchsorted(np.arange(words.m + 1)).tolist()
    beside = words.sentence_of.searchsorted([_around(words, sentence) for sentence in best_in]).tolist()
    shares = []
    for row, (first, last) in enumerate(beside):
        own = {*words.response[ends[row] : ends[row + 1]].tolist()} if words.n else set()
        missing = own - asked
        missing.difference_update(words.documents[first:last].tolist())
        shares.append(len(missing) / (len(own) or 1))
    return shares


def _denied_shares(
    words: ComparedWords, best_in: Sequence[int], documents: Sequence[Sequence[str]], response: Sequence[str]
) -> Sequence[float]:
    shares = [0.0] * len(response)
    if not denies(" ".join(response)):
        return shares
    sentences = None
    for row, text in enumerate(response):
        affirmed, denied = denied_words(text, words.vocabulary)
        if denied and words.n:
            sentences = sentences or [sentence for document in documents for sentence in document]
            first, last = _around(words, best_in[row])
            stated, _ = denied_words(sentences[best_in[row]], words.vocabulary, always=True)
            _, near = denied_words(" ".join(sentences[first:last]), words.vocabulary)
            shares[row] = len((denied - affirmed) & (stated - near)) / len(denied)
    return shares


def _new_names(words: ComparedWords, new: Flags, n_new: Sequence[float], response: Sequence[str]) -> Sequence[int]:
    names = [0] * len(response)
    # Few sentences have a word that stands nowhere.
    if any(n_new):
        unknown = frozenset(words.numbers[new].tolist())
        number_of = words.vocabulary.__getitem__
        for row, (count, text) in enumerate(zip(n_new, response, strict=True)):
            if count:
                names[row] = sum([not unknown.isdisjoint(map(number_of, tokens(name))) for name in _NAME.findall(text)])
    return names


def shared_pairs(words: ComparedWords) -> Sequence[int]:
    """Return, by response sentence, the number of its pairs of neighboring words that any document sentence has."""
    different = len(words.numbers)
    before, after = words.documents[:-1], words.documents[1:]
    is_known = (np.minimum(before, after) >= 0) & (words.sentence_of[:-1] == words.sentence_of[1:])
    known = frozenset((before * different + after)[is_known].tolist())
    shared = [0] * words.m
    if known:
        pairs = pairwise(zip(words.response.tolist(), words.response_of.tolist(), strict=True))
        for (first, sentence), (second, same) in pairs:
            if first * different + second in known and sentence == same:
                shared[sentence] += 1
    return shared
