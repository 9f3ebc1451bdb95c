"""Cutting text into sentences. The number of sentences defines relevance and utilization, so the splitter has an id."""

import re
from typing import Final

import sentencex

SPLITTER_ID: Final = "sentencex-1+lines"
"""Which rules cut the sentences: the library's major version, and that a line break always ends a sentence."""

_LINES = re.compile(r"[\r\n]+")


def split_sentences(text: str, language: str = "en") -> list[str]:
    r"""Return the sentences of a text in order, without surrounding white space and without empty ones.

    Args:
        text: any text.
        language: ISO 639-1 code; it decides which abbreviations do not end a sentence.

    >>> split_sentences("Dr. Smith came. He saw 3.5 cats!\nThen he left.")
    ['Dr. Smith came.', 'He saw 3.5 cats!', 'Then he left.']
    """
    pieces = (piece for line in _LINES.split(text) if line for piece in sentencex.segment(language, line))
    return [sentence for piece in pieces if (sentence := piece.strip())]
