"""Computes the features of the document and response sentences of an interaction: shares, counts, lengths. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final

import numpy as np

from .overlap import Floats, Overlap
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
)
"""Features of a document sentence."""

RESPONSE_FEATURES: Final = (
    "constant",
    "best",  # weight share of the sentence's words that stands in one document sentence, at most
    "pairs",  # share of its pairs of neighboring words that stand in any; of a single word, whether it does
    "words",  # log(1 + number of words)
    "response_best",  # mean of `best` over the words of the whole response
    "new_names",  # log(1 + number of capitalized words, not the first, that neither documents nor question have)
)
"""Features of a response sentence."""

_NAME = re.compile(r"(?<=[\w,] )(?:[A-Z]|[А-ЯЁ])[\w’'-]+")


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

    n_words = np.array([len(words) for words in answer], np.float64)
    pairs = [list(pairwise(words)) for words in answer]
    known = overlap.known_pairs(set(chain.from_iterable(pairs)))
    names = [
        _new_names(text, overlap, asked) if any(word not in overlap and word not in asked for word in words) else 0
        for text, words in zip(response, unique, strict=True)
    ]
    covered = float((n_words * best).sum() / (n_words.sum() or 1.0))
    of_response = np.empty((len(RESPONSE_FEATURES), len(response)))
    of_response[0] = 1.0
    of_response[1] = best
    of_response[2] = [
        sum(map(known.__contains__, of_sentence)) / len(of_sentence)
        if of_sentence
        else float(bool(words) and words[0] in overlap)
        for words, of_sentence in zip(answer, pairs, strict=True)
    ]
    of_response[3] = np.log1p(n_words)
    of_response[4] = covered
    of_response[5] = np.log1p(names)

    n = len(overlap.sentences)
    of_documents = np.empty((len(DOCUMENT_FEATURES), n))
    if n:
        counted = Counter(word for words in unique for word in words)
        document_response = overlap.by_document(counted)
        in_question = overlap.matched([asked])[0] / (overlap.total(asked) or 1.0)
        of_documents[0] = 1.0
        of_documents[1] = in_question
        of_documents[2] = matches.in_response
        of_documents[3] = matches.of_response
        of_documents[4] = np.log1p([len(words) for words in overlap.sentences])
        of_documents[5] = overlap.by_document(asked)[overlap.document_of]
        of_documents[6] = document_response[overlap.document_of]
        of_documents[7] = of_documents[6] / (document_response.max() or 1.0)
        of_documents[8] = np.log1p(overlap.lengths)[overlap.document_of]
        of_documents[9] = overlap.share_in(counted).mean()
    return InteractionFeatures(of_documents, of_response)


def _new_names(text: str, overlap: Overlap, asked: Mapping[str, int]) -> int:
    return sum(
        any(word not in overlap and word not in asked for word in content_words(name)) for name in _NAME.findall(text)
    )
