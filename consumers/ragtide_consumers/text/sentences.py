"""Splits texts into sentences. The splitter has an id, because the number of sentences affects the scores."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, cast

import sentencex

from ragtide_schemas import RagInteraction

from .keys import document_keys, response_keys
from .languages import language_of

SPLITTER_ID: Final = "sentencex-1+lines"
"""Id of the rules that split sentences: the library's major version, and that a line break always ends a sentence."""

GIVEN: Final = "given"
"""Splitter id of an interaction that has its own sentences."""

_LINES = re.compile(r"[\r\n]+")

_QUOTES: Final = "'`\"“«‘„「《"

_QUOTES_BY_LENGTH: Final = 100_000_000
"""Number of quotes of a line times its characters, above which the line is split window by window.

The library searches for the end of a quote up to the end of the line, so a line of open quotes takes quadratic time.
"""

_WINDOW: Final = 4000
"""Characters of a window, and of the shortest line that may need windows."""


@dataclass(frozen=True, slots=True)
class CutInteraction:
    """An interaction for labelers: question, sentences and their keys, and the language by which they were split."""

    question: str
    documents: Sequence[Sequence[str]]
    """The sentences of each document."""
    response: Sequence[str]
    """The sentences of the response."""
    language: str
    """ISO 639-1 code of the response's language, or `und`."""
    splitter: str
    """Id of the rules that split the sentences; `given` if the interaction has its own sentences."""

    @property
    def document_keys(self) -> tuple[str, ...]:
        """Key of every document sentence, in order: `0a`, `0b`, `1a`."""
        return document_keys(len(sentences) for sentences in self.documents)

    @property
    def response_keys(self) -> tuple[str, ...]:
        """Key of every response sentence, in order: `a`, `b`."""
        return response_keys(len(self.response))


def cut(interaction: RagInteraction) -> CutInteraction:
    """Return an interaction split into sentences; its own sentences stay unchanged."""
    context = (interaction.question, *(document.text for document in interaction.documents[:3]))
    language = language_of(interaction.response, context)
    given = [document.sentences for document in interaction.documents] + [interaction.response_sentences]
    ids = [GIVEN if sentences is not None else SPLITTER_ID for sentences in given]
    return CutInteraction(
        question=interaction.question,
        documents=[
            split_sentences(document.text, language) if document.sentences is None else document.sentences
            for document in interaction.documents
        ],
        response=(
            split_sentences(interaction.response, language)
            if interaction.response_sentences is None
            else interaction.response_sentences
        ),
        language=language,
        splitter="/".join(dict.fromkeys(sorted(ids))),
    )


def split_sentences(text: str, language: str = "en") -> list[str]:
    r"""Return the sentences of a text in order, without surrounding white space and without empty ones.

    Args:
        text: any text.
        language: ISO 639-1 code; it determines the abbreviations that do not end a sentence.

    >>> split_sentences("Dr. Smith came. He saw 3.5 cats!\nThen he left.")
    ['Dr. Smith came.', 'He saw 3.5 cats!', 'Then he left.']
    """
    lines = _LINES.split(text) if "\n" in text or "\r" in text else (text,)
    return [sentence for line in lines if line for piece in _segments(language, line) if (sentence := piece.strip())]


def placed(response: str, sentences: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Return a response and the place of each sentence in it; if a sentence is not in it, the sentences in one text.

    >>> placed("In 1889. It is  tall.", ["In 1889.", "It is  tall."])
    ('In 1889. It is  tall.', [(0, 8), (9, 21)])
    >>> placed("In 1889.", ["In 1888.", "Why?"])
    ('In 1888. Why?', [(0, 8), (9, 13)])
    """
    places = []
    at = 0
    for sentence in sentences:
        start = response.find(sentence, at)
        if start < 0:
            break
        at = start + len(sentence)
        places.append((start, at))
    if len(places) == len(sentences):
        return response, places
    text = " ".join(sentences)
    ends = accumulate(len(sentence) + 1 for sentence in sentences)
    return text, [(end - 1 - len(sentence), end - 1) for end, sentence in zip(ends, sentences, strict=True)]


def _segments(language: str, line: str) -> Iterable[str]:
    """Return the pieces of a line, which together are the line, in time proportional to its length."""
    if len(line) <= _WINDOW or sum(map(line.count, _QUOTES)) * len(line) <= _QUOTES_BY_LENGTH:
        return cast("Iterable[str]", sentencex.segment(language, line))
    return _windows(language, line)


def _windows(language: str, line: str) -> Iterator[str]:
    """Yield the pieces of a line; a piece that ends in the last quarter of a window is split again in the next."""
    start = 0
    while len(line) - start > _WINDOW:
        pieces: list[str] = list(sentencex.segment(language, line[start : start + _WINDOW]))
        ends = list(accumulate(map(len, pieces)))
        # A sentence longer than that is split, so that each character is read a bounded number of times.
        whole = bisect_right(ends, _WINDOW * 3 // 4) or 1
        yield from pieces[:whole]
        start += ends[whole - 1]
    yield from sentencex.segment(language, line[start:])
