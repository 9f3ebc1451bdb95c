"""How much of one sentence stands in others: the features of the local labeler. No model, no I/O.

Words weigh by their inverse document frequency among the interaction's own document sentences, so that what every
sentence says counts little. All sums run over words in order, so equal input gives equal bits.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

Words = Sequence[str]


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

    Linear in the number of words and their matches: an index from words to sentences replaces comparing all pairs.
    """

    def __init__(self, documents: Sequence[Words]) -> None:
        self._documents = documents
        self._index: dict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(documents):
            for word in dict.fromkeys(words):
                self._index[word].append(number)
        self._pairs = {pair for words in documents for pair in pairwise(words)}

    def weight(self, word: str) -> float:
        """Return BM25's inverse document frequency of a word among the document sentences, above 0."""
        with_word = len(self._index.get(word, ()))
        return log(1 + (len(self._documents) - with_word + 0.5) / (with_word + 0.5))

    def _shares(self, words: Words) -> tuple[dict[int, float], float, float]:
        """Return the matched weight by document sentence, the weight matched anywhere, and the whole weight."""
        matched: dict[int, float] = defaultdict(float)
        anywhere = whole = 0.0
        for word in dict.fromkeys(words):
            weight = self.weight(word)
            whole += weight
            sentences = self._index.get(word, ())
            if sentences:
                anywhere += weight
            for number in sentences:
                matched[number] += weight
        return matched, anywhere, whole

    def response_sentence(self, words: Words) -> ResponseSentence:
        """Return how one response sentence is covered."""
        matched, anywhere, whole = self._shares(words)
        pairs = list(pairwise(words))
        known = sum(pair in self._pairs for pair in pairs)
        return ResponseSentence(
            best=max(matched.values(), default=0.0) / whole if whole else 0.0,
            anywhere=anywhere / whole if whole else 0.0,
            pairs=known / len(pairs) if pairs else (1.0 if whole and anywhere == whole else 0.0),
            n_words=len(words),
        )

    def document_sentences(self, question: Words, response: Sequence[Words]) -> list[DocumentSentence]:
        """Return how each document sentence relates to the question and to the sentences of the response."""
        asked, _, asked_whole = self._shares(question)
        in_response: dict[int, float] = defaultdict(float)
        of_response: dict[int, float] = defaultdict(float)
        for words in response:
            matched, _, whole = self._shares(words)
            for number, weight in matched.items():
                in_response[number] = max(in_response[number], weight)
                of_response[number] = max(of_response[number], weight / whole)
        return [
            DocumentSentence(
                question=asked.get(number, 0.0) / asked_whole if asked_whole else 0.0,
                in_response=in_response[number] / own if (own := self._own(words)) else 0.0,
                of_response=of_response[number],
                n_words=len(words),
            )
            for number, words in enumerate(self._documents)
        ]

    def _own(self, words: Words) -> float:
        return sum(self.weight(word) for word in dict.fromkeys(words))
