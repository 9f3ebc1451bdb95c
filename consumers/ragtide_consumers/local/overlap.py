"""How much of one sentence stands in others: the features of the local labeler. No model, no I/O.

Words weigh by their inverse document frequency among the interaction's own document sentences, so that what every
sentence says counts little. All sums run over words in order, so equal input gives equal bits.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

import numpy as np
from numpy.typing import NDArray

Words = Sequence[str]
Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ResponseSentence:
    """How a response sentence is covered by the documents; shares in [0, 1]."""

    best: float
    """Largest weight share of its words that stands in one document sentence."""
    anywhere: float
    """Weight share of its words that stands in any."""
    pairs: float
    """Share of its neighboring word pairs that stand in any."""
    n_words: int


@dataclass(frozen=True, slots=True)
class DocumentSentence:
    """How a document sentence relates to question and response; shares in [0, 1]."""

    question: float
    """Weight share of the question's words that stands in it."""
    in_response: float
    """Weight share of its words that stands in one response sentence, at most."""
    of_response: float
    """Weight share of one response sentence's words that stands in it, at most."""
    n_words: int


class Overlap:
    """Overlaps within one interaction, given as lists of words.

    An index from words to sentences replaces comparing all pairs, and equal response sentences are looked at once, so
    that a document of a million characters costs seconds and not minutes.
    """

    def __init__(self, documents: Sequence[Words]) -> None:
        self._documents = documents
        index: dict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(documents):
            for word in dict.fromkeys(words):
                index[word].append(number)
        self._index = {word: np.array(numbers) for word, numbers in index.items()}
        self._pairs = {pair for words in documents for pair in pairwise(words)}

    def weight(self, word: str) -> float:
        """Return BM25's inverse document frequency of a word among the document sentences, above 0."""
        found = self._index.get(word)
        with_word = 0 if found is None else found.size
        return log(1 + (len(self._documents) - with_word + 0.5) / (with_word + 0.5))

    def _matched(self, words: Words) -> tuple[Shares, float, float]:
        """Return the matched weight by document sentence, the weight matched anywhere, and the whole weight."""
        matched = np.zeros(len(self._documents))
        anywhere = whole = 0.0
        for word in dict.fromkeys(words):
            weight = self.weight(word)
            whole += weight
            sentences = self._index.get(word)
            if sentences is not None:
                anywhere += weight
                matched[sentences] += weight
        return matched, anywhere, whole

    def response_sentences(self, response: Sequence[Words]) -> list[ResponseSentence]:
        """Return how each response sentence is covered."""
        found = {words: self._response_sentence(words) for words in dict.fromkeys(map(tuple, response))}
        return [found[tuple(words)] for words in response]

    def _response_sentence(self, words: Words) -> ResponseSentence:
        matched, anywhere, whole = self._matched(words)
        pairs = list(pairwise(words))
        known = sum(pair in self._pairs for pair in pairs)
        return ResponseSentence(
            best=float(matched.max(initial=0.0)) / whole if whole else 0.0,
            anywhere=anywhere / whole if whole else 0.0,
            pairs=known / len(pairs) if pairs else float(whole > 0 and anywhere == whole),
            n_words=len(words),
        )

    def document_sentences(self, question: Words, response: Sequence[Words]) -> list[DocumentSentence]:
        """Return how each document sentence relates to the question and to the sentences of the response."""
        asked, _, asked_whole = self._matched(question)
        in_response, of_response = np.zeros_like(asked), np.zeros_like(asked)
        for words in dict.fromkeys(map(tuple, response)):
            matched, _, whole = self._matched(words)
            np.maximum(in_response, matched, out=in_response)
            if whole:
                np.maximum(of_response, matched / whole, out=of_response)
        own = np.array([sum(self.weight(word) for word in dict.fromkeys(words)) for words in self._documents])
        in_response /= np.where(own > 0, own, 1.0)
        asked /= asked_whole or 1.0
        return [
            DocumentSentence(question=q, in_response=i, of_response=o, n_words=len(words))
            for words, q, i, o in zip(
                self._documents, asked.tolist(), in_response.tolist(), of_response.tolist(), strict=True
            )
        ]
