"""Measures the weighted overlap of sentences, word by word: the input of the features. No model, no I/O.

The weight of a word is its inverse document frequency among the interaction's document sentences, so a word of every
sentence counts little. All sums run over words in order, so equal input gives equal bits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import log

import numpy as np
from numpy.typing import NDArray

Words = Sequence[str]
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_LONG = 256
"""Number of sentences with a word from which the index also stores them as an array."""

_CELLS = 1_000_000
"""Most pairs of a response and a document sentence for a table of all pairs.

If there are more pairs, only pairs that share a word are compared.
"""

_AT_ONCE = 1_000_000
"""About the most matches of a word in memory."""

MOST_MATCHES = 20_000_000
"""Most matches that are compared: for each word of each different response sentence, the document sentences with it."""


class TooManyMatchesError(ValueError):
    """Response and documents share so many words that comparing their sentences would take too long."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Weights that document and response sentences share, summarized for each of them."""

    of_response: Floats
    """By document sentence: largest weight share of one response sentence that stands in it."""
    in_response: Floats
    """By document sentence: largest weight share of it that stands in one response sentence."""
    best: Floats
    """By response sentence: largest weight share of it that stands in one document sentence."""


class Overlap:
    """Overlaps of texts with the document sentences of one interaction, all given as lists of words.

    An index from words to sentences replaces the comparison of all pairs, and equal response sentences are compared
    once. So the time grows with the length of the text, and with the matches of its words, which are bounded.
    """

    def __init__(self, documents: Sequence[Sequence[Words]], wanted: Iterable[str]) -> None:
        """Index the wanted words of the documents: those of question and response."""
        self.sentences = [words for sentences in documents for words in sentences]
        self.lengths = np.array([len(sentences) for sentences in documents], np.intp)
        """Number of sentences of each document."""
        self.document_of = np.repeat(np.arange(len(documents)), self.lengths)
        """Number of each sentence's document."""
        unique = [dict.fromkeys(words) for words in self.sentences]
        counts = Counter(chain.from_iterable(unique))
        by_count = {count: self._weight_of(count) for count in set(counts.values())}
        self._weights = weights = {word: by_count[count] for word, count in counts.items()}
        asked = frozenset(wanted)
        index: dict[str, list[int]] = {word: [] for word in asked if word in weights}
        for number, words in enumerate(unique):
            for word in asked.intersection(words):
                index[word].append(number)
        self._index = index
        self._arrays = {word: np.array(found) for word, found in index.items() if len(found) > _LONG}
        self._unseen = self._weight_of(0)
        self.weight = np.array([sum(map(weights.__getitem__, words)) for words in unique])
        """Weight of each document sentence's different words."""
        self._own = np.where(self.weight > 0, self.weight, 1.0)

    def __contains__(self, word: str) -> bool:
        return word in self._weights

    def _weight_of(self, count: int) -> float:
        """Return BM25's inverse document frequency, above 0, of a word in so many of the document sentences."""
        return log(1 + (len(self.sentences) - count + 0.5) / (count + 0.5))

    def total(self, words: Iterable[str]) -> float:
        """Return the weight of different words, found or not."""
        weights, unseen = self._weights, self._unseen
        return sum(weights.get(word, unseen) for word in words)

    def found(self, words: Iterable[str]) -> float:
        """Return the weight of those of different words that stand in any document sentence."""
        weights = self._weights
        return sum(weights[word] for word in words if word in weights)

    def matched(self, texts: Sequence[Iterable[str]]) -> Floats:
        """Return the weight matched by text and document sentence; each text holds different words."""
        cells: list[int] = []
        values: list[float] = []
        n = len(self.sentences)
        long: list[tuple[int, str]] = []
        for row, words in enumerate(texts):
            start = row * n
            for word in words:
                found = self._index.get(word)
                if found is None:
                    continue
                if len(found) > _LONG:
                    long.append((row, word))
                    continue
                cells += [start + number for number in found]
                values += [self._weights[word]] * len(found)
        # An empty bincount has integers, whatever the weights.
        flat = np.bincount(np.array(cells, np.intp), values, len(texts) * n) if cells else np.zeros(len(texts) * n)
        matched = np.asarray(flat, np.float64).reshape(len(texts), n)
        for row, word in long:
            matched[row, self._arrays[word]] += self._weights[word]
        return matched

    def matches(self, response: Sequence[Iterable[str]]) -> Matches:
        """Return how document sentences and response sentences, given as different words each, cover each other.

        Raises:
            TooManyMatchesError: they share more words than are compared.
        """
        n = len(self.sentences)
        whole = np.array([self.total(words) or 1.0 for words in response])
        if n * len(response) > _CELLS:
            return self._sparse_matches(response, whole)
        if not n or not response:
            return Matches(np.zeros(n), np.zeros(n), np.zeros(len(response)))
        matched = self.matched(response)
        most = matched.max(axis=0)
        matched /= whole[:, None]
        return Matches(matched.max(axis=0), most / self._own, matched.max(axis=1))

    def _sparse_matches(self, response: Sequence[Iterable[str]], whole: Floats) -> Matches:
        """Return `matches` from the pairs that share a word. Sums run in the same order, so the bits are equal."""
        counts = [sum(len(self._index.get(word, ())) for word in words) for words in response]
        if sum(counts) > MOST_MATCHES:
            raise TooManyMatchesError(f"{sum(counts)} matches of words; at most {MOST_MATCHES} are compared")
        n = len(self.sentences)
        of_response, most, best = np.zeros(n), np.zeros(n), np.zeros(len(response))
        start = pending = 0
        for row, count in enumerate(counts):
            pending += count
            if pending < _AT_ONCE and row + 1 < len(counts):
                continue
            rows, columns, matched = self._pairs(response[start : row + 1])
            np.maximum.at(most, columns, matched)
            matched /= whole[start : row + 1][rows]
            np.maximum.at(of_response, columns, matched)
            np.maximum.at(best[start : row + 1], rows, matched)
            start, pending = row + 1, 0
        return Matches(of_response, most / self._own, best)

    def _pairs(self, texts: Sequence[Iterable[str]]) -> tuple[Indices, Indices, Floats]:
        """Return text, document sentence and matched weight of every pair that shares a word, ordered by both."""
        n = len(self.sentences)
        cells: list[Indices] = []
        values: list[float] = []
        lengths: list[int] = []
        for row, words in enumerate(texts):
            found = [(word, index) for word in words if (index := self._index.get(word))]
            # Frequent words last, as in `matched`: the order of the sums decides their last bits.
            for word, index in sorted(found, key=lambda item: len(item[1]) > _LONG):
                cells.append(self._arrays[word] + row * n if len(index) > _LONG else np.add(index, row * n))
                values.append(self._weights[word])
                lengths.append(len(index))
        if not cells:
            return np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0)
        pairs, place = np.unique(np.concatenate(cells), return_inverse=True)
        matched = np.asarray(np.bincount(place, np.repeat(values, lengths)), np.float64)
        return pairs // n, pairs % n, matched

    def share_in(self, words: Iterable[str]) -> Floats:
        """Return the weight share of each document sentence that stands in one text of different words."""
        return np.asarray(self.matched([words])[0] / self._own)

    def by_document(self, counted: Mapping[str, int]) -> Floats:
        """Return for each document the weight share of counted words that stands in any of its sentences."""
        shares = [0.0] * len(self.lengths)
        documents = self.document_of.tolist()
        whole = 0.0
        for word, count in counted.items():
            weight = count * self._weights.get(word, self._unseen)
            whole += weight
            for document in dict.fromkeys(map(documents.__getitem__, self._index.get(word, ()))):
                shares[document] += weight
        return np.array(shares) / (whole or 1.0)

    def known_pairs(self, pairs: set[tuple[str, str]]) -> tuple[set[tuple[str, str]], list[float]]:
        """Return which pairs of neighboring words stand in any document sentence, and each sentence's share of them."""
        found: set[tuple[str, str]] = set()
        shares = []
        for words in self.sentences:
            shared = pairs.intersection(pairwise(words))
            found |= shared
            shares.append(len(shared) / (len(words) - 1) if shared else 0.0)
        return found, shares
