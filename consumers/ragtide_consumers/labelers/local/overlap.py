"""Measures the weighted overlap of sentences, word by word: the input of the features. No model, no I/O.

The weight of a word is its inverse document frequency among the interaction's document sentences, so a word of every
sentence counts little. Weights are whole numbers, and their sums stay far below 2**53. So all sums are exact, and equal
input gives equal bits on every machine, whatever the order of the additions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import accumulate
from math import fsum, log1p
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .words import (
    LONGEST_WORD,
    Indices,
    Vocabulary,
    stem_of,
    tokens,
    vocabulary,
    without_ends,
    words_of_parts,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_UNIT = 2.0**16
"""Weights are rounded to multiples of 1 / _UNIT and counted in these."""

_FEW = 1000
"""Most sentences whose weights of words are kept."""

_RARITIES = 4096
"""Most words of questions whose rarity is kept."""

_CELLS = 1_000_000
"""Most cells of a table of sentences and words. If there are more, only pairs that share a word are compared."""

_AT_ONCE = 1_000_000
"""About the most matches of a word in memory."""

MOST_MATCHES = 20_000_000
"""Most matches that are compared: for each word of each response sentence, the document sentences with it."""


class TooManyMatchesError(ValueError):
    """Response and documents share so many words that comparing their sentences would take too long."""


@dataclass(frozen=True, slots=True)
class ComparedWords:
    """The content words of an interaction; the different words of question and response have places."""

    question: Indices
    """Place of each word of the question."""
    response: Indices
    """Place of each word of the response."""
    response_of: Indices
    """By word of the response: number of its sentence."""
    documents: Indices
    """Place of each word of the documents, -1 for a word that neither question nor response has."""
    sentence_of: Indices
    """By word of the documents: number of its sentence."""
    lengths: Sequence[int]
    """By document: number of its sentences."""
    numbers: Indices
    """By place: the word's number in the vocabulary."""
    vocabulary: Vocabulary
    """The vocabulary that has these numbers."""
    n: int
    """Number of document sentences."""
    m: int
    """Number of response sentences."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Weights of words that sentences share. A weight is BM25's inverse document frequency, which is above 0."""

    question: Floats
    """By document sentence: weight share of the question's words that stands in it."""
    answer: Floats
    """By document sentence: weight share of the response's words without those of the question that stands in it."""
    of_response: Floats
    """By document sentence: largest weight share of one response sentence that stands in it."""
    in_response: Floats
    """By document sentence: largest weight share of it that stands in one response sentence."""
    best: Floats
    """By response sentence: largest weight share of it that stands in one document sentence."""
    best_in: Indices
    """By response sentence: the first document sentence with that share."""
    asked: Floats
    """By response sentence: weight share of it that stands in the question."""
    n_new: Floats
    """By response sentence: number of its different words that neither documents nor question have."""
    new: Flags
    """By place of a word: whether neither documents nor question have it."""


def words_of(
    question: str, documents: Sequence[Sequence[str]], response: Sequence[str], language: str = "en"
) -> ComparedWords:
    """Return the content words of an interaction in a language, given by its ISO 639-1 code."""
    known = vocabulary(language)
    (asked, texts), of_documents = words_of_parts([question, *response], documents, known)
    lengths = [*map(len, documents)]
    starts = accumulate(lengths, initial=0)
    first = int(texts.searchsorted(1))
    numbers = _different(asked)
    return ComparedWords(
        question=numbers.searchsorted(asked[:first]),
        response=numbers.searchsorted(asked[first:]),
        response_of=texts[first:] - 1,
        documents=_places(numbers, _joined([words.numbers for words in of_documents])),
        sentence_of=_joined([words.texts + start for words, start in zip(of_documents, starts, strict=False)]),
        lengths=lengths,
        numbers=numbers,
        vocabulary=known,
        n=sum(lengths),
        m=len(response),
    )


def _joined(parts: Sequence[Indices]) -> Indices:
    return np.concatenate(parts) if parts else np.zeros(0, np.intp)


def _places(known: Indices, numbers: Indices) -> Indices:
    if not len(known):
        return np.full(len(numbers), -1, np.intp)
    places = known.searchsorted(numbers)
    places[known.take(places, mode="clip") != numbers] = -1
    return places


@dataclass(frozen=True, slots=True)
class QuestionWeights:
    """Weights of the question's words, by the rarity in the language. They are whole, so all sums are exact."""

    whole: float
    """Of all words; 0 if the question has no content words."""
    sentences: Floats
    """By document sentence: of the words that stand in it."""
    documents: Floats
    """By document: of the words that stand in it."""


def question_weights(question: str, words: ComparedWords) -> QuestionWeights:
    """Return the weights of the question's words in sentences and documents.

    Args:
        question: the question.
        words: the words of its interaction.
    """
    weights = dict(zip(words.question.tolist(), rarities(question, words), strict=True))
    asked = np.zeros(len(words.numbers) + 1, np.bool_)  # the last place is that of all other words
    asked[words.question] = True
    places = asked.take(words.documents).nonzero()[0]
    asked_words = {*zip(words.sentence_of[places].tolist(), words.documents[places].tolist(), strict=True)}
    document_of = [place for place, length in enumerate(words.lengths) for _ in range(length)]
    sentences, documents = [0.0] * words.n, [0.0] * len(words.lengths)
    for sentence, place in asked_words:
        sentences[sentence] += weights[place]
    for document, place in {(document_of[sentence], place) for sentence, place in asked_words}:
        documents[document] += weights[place]
    return QuestionWeights(fsum(weights.values()), np.array(sentences), np.array(documents))


def rarities(question: str, words: ComparedWords) -> list[float]:
    """Return the rarity of each content word of the question, as whole multiples of 1 / 65,536, counted in these."""
    language = words.vocabulary.language
    asked = [word[: LONGEST_WORD + 1] for word in tokens(without_ends(question), language)]
    return [*filter(None, [_rarity(word, language) for word in asked])]


@lru_cache(_RARITIES)
def _rarity(word: str, language: str) -> float:
    stem = word if len(word) > LONGEST_WORD else stem_of(word, language)
    return float(round(rarity_of(stem, language) * _UNIT)) if stem else 0.0


def overlap_of(words: ComparedWords) -> Overlap:
    """Return the weights that question, response and document sentences share.

    Raises:
        TooManyMatchesError: response and documents share more words than are compared.
    """
    n, m, wanted = words.n, words.m, len(words.numbers)
    if not n or max(n, m) * max(wanted, m) > _CELLS:
        return _sparse(words)
    # The last line of the table is that of all other words.
    table = np.zeros((wanted + 1, n))
    table[words.documents, words.sentence_of] = 1.0
    used = table[:wanted]
    counts = np.add.reduce(used, axis=1)
    weights = _weights(n).take(counts.astype(np.intp))
    # One line for each response sentence, the question and the answer.
    lines = np.zeros((m + 2, wanted))
    lines[words.response_of, words.response] = 1.0
    asked = lines[m]
    asked[words.question] = 1.0
    asked_words = asked.copy()
    new = (counts + asked) == 0
    texts = lines[:m]
    lines[m + 1] = np.logical_or.reduce(texts) > asked
    n_new = texts @ new
    lines *= weights
    whole = np.maximum(np.add.reduce(lines, axis=1), 1.0)
    matched = lines @ used
    own = _own(words, weights @ used)
    of_response = in_response = np.zeros(n)
    best, best_in = np.zeros(m), np.zeros(m, np.intp)
    if m:
        pairs = matched[:m]
        in_response = np.maximum.reduce(pairs) / own
        pairs /= whole[:m, None]
        of_response = np.maximum.reduce(pairs)
        best_in = pairs.argmax(axis=1)
        best = np.maximum.reduce(pairs, axis=1)
    return Overlap(
        question=matched[m] / whole[m],
        answer=matched[m + 1] / whole[m + 1],
        of_response=of_response,
        in_response=in_response,
        best=best,
        best_in=best_in,
        asked=texts @ asked_words / whole[:m],
        n_new=n_new,
        new=new,
    )


def _weights(n: int) -> Floats:
    return _kept_weights(n) if n <= _FEW else _all_weights(n)


@lru_cache(256)
def _kept_weights(n: int) -> Floats:
    return _all_weights(n)


def _all_weights(n: int) -> Floats:
    return np.array(
        [float(round(log1p((n - count + 0.5) / (count + 0.5)) * _UNIT)) for count in range(max(n, 1) + 1)], np.float64
    )


def _own(words: ComparedWords, matched: Floats) -> Floats:
    others = np.bincount(words.sentence_of[words.documents < 0], minlength=words.n)
    return np.asarray(np.maximum(matched + others * _weights(words.n)[1], 1.0))


def _sparse(words: ComparedWords) -> Overlap:
    # Sums are exact, so all bits agree.
    n, m, wanted = words.n, words.m, len(words.numbers)
    known = words.documents >= 0
    sentence, word = _split(_different(words.sentence_of[known] * wanted + words.documents[known]), wanted)
    counts = np.bincount(word, minlength=wanted)
    weights = _weights(n).take(counts)
    row, response_words = _split(_different(words.response_of * wanted + words.response), wanted)
    asked, answered = np.zeros(wanted), np.zeros(wanted)
    asked[words.question] = 1.0
    answered[words.response] = 1.0
    new = (counts + asked) == 0
    question, answer = weights * asked, weights * (answered > asked)
    whole = np.maximum(_sums(row, weights[response_words], m), 1.0)
    of_response, most, best, best_in = _largest_shares(
        n, m, (sentence, word), (row, response_words), weights=weights, whole=whole
    )
    return Overlap(
        question=_sums(sentence, question[word], n) / max(float(question.sum()), 1.0),
        answer=_sums(sentence, answer[word], n) / max(float(answer.sum()), 1.0),
        of_response=of_response,
        in_response=most / _own(words, _sums(sentence, weights[word], n)),
        best=best,
        best_in=best_in,
        asked=_sums(row, question[response_words], m) / whole,
        n_new=_sums(row, new[response_words], m),
        new=new,
    )


def _largest_shares(
    n: int,
    m: int,
    documents: tuple[Indices, Indices],
    response: tuple[Indices, Indices],
    *,
    weights: Floats,
    whole: Floats,
) -> tuple[Floats, Floats, Floats, Indices]:
    order = documents[1].argsort(kind="stable")
    sentences = documents[0][order]
    counts = np.bincount(documents[1], minlength=len(weights))
    starts = np.cumsum(counts) - counts
    rows, words = response
    times = counts[words]
    total = int(times.sum())
    if total > MOST_MATCHES:
        raise TooManyMatchesError(f"{total} matches of words; at most {MOST_MATCHES} are compared")
    of_response, most, best, best_in = np.zeros(n), np.zeros(n), np.zeros(m), np.zeros(m, np.intp)
    until = np.cumsum(np.bincount(rows, times, m).astype(np.intp))
    row = 0
    while row < m and n:
        before = int(until[row - 1]) if row else 0
        after = max(int(until.searchsorted(before + _AT_ONCE, "right")), row + 1)
        begin, end = rows.searchsorted((row, after)).tolist()
        repeated, word = times[begin:end], words[begin:end]
        place = np.arange(repeated.sum()) - (np.cumsum(repeated) - repeated).repeat(repeated)
        column = sentences[starts[word].repeat(repeated) + place]
        cells, cell = np.unique(rows[begin:end].repeat(repeated) * n + column, return_inverse=True)
        text, sentence = _split(cells, n)
        matched = _sums(cell, weights[word].repeat(repeated), len(cells))
        np.maximum.at(most, sentence, matched)
        matched /= whole[text]
        np.maximum.at(of_response, sentence, matched)
        np.maximum.at(best, text, matched)
        reached = matched == best[text]
        first_texts, first = np.unique(text[reached], return_index=True)
        best_in[first_texts] = sentence[reached][first]
        row = after
    return of_response, most, best, best_in


def _sums(places: Indices, values: Floats | Flags, n: int) -> Floats:
    return np.asarray(np.bincount(places, values, n), np.float64)


def _different(numbers: Indices) -> Indices:
    ordered = np.sort(numbers)
    first = np.empty(len(ordered), np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def _split(cells: Indices, width: int) -> tuple[Indices, Indices]:
    rows = cells // (width or 1)
    return rows, cells - rows * width


RARITY_FILE: Final = "rarity.json"
"""Name of the file beside this module: the rarity of each frequent stem."""


@cache
def _rarities() -> tuple[Mapping[str, float], float]:
    stored = json.loads(files(__package__).joinpath(RARITY_FILE).read_text(encoding="utf-8"))
    return stored["rarity"], max(stored["rarity"].values())


def rarity_of(stem: str, language: str = "en") -> float:
    """Return the rarity of a stem, above 0: the logarithm of BM25's inverse document frequency.

    Args:
        stem: as `stem_of` returns it.
        language: ISO 639-1 code of its language, as the vocabulary has it.
    """
    known, rarest = _rarities()
    return known.get(stem, rarest) if language == "en" else rarest
