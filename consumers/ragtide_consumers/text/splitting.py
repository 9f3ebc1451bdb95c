"""Estimates the tokens of texts, and splits documents that are too long for one question to a model. No I/O."""

import re
from collections.abc import Sequence
from math import ceil
from typing import Final

from .sentences import split_sentences

_WIDE: Final = re.compile("[\u2e80-\U0010ffff]+")


def estimated_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text, rather too high than too low, because no tokenizer fits all models.

    A token has four characters of Latin text, two of Cyrillic, and one of most other scripts.

    >>> estimated_tokens("four"), estimated_tokens("четыре"), estimated_tokens("塔建")
    (2, 4, 3)
    """
    ascii_chars = len(text.encode("ascii", "ignore"))
    wide = sum(map(len, _WIDE.findall(text))) if ascii_chars < len(text) else 0
    return ceil(ascii_chars / 4 + (len(text) - ascii_chars - wide) / 2 + wide) + 1


KEY_TOKENS = 5
"""Tokens of a key and its quotes."""


def pieces(documents: Sequence[tuple[str, str]], budget: int) -> list[tuple[str, str]]:
    """Return documents; a document over the budget is split between sentences into pieces with keys such as `D0.1`.

    A single sentence over the budget stays whole.

    >>> pieces([("D0", "Built in 1889. Made of iron."), ("D1", "Short.")], 10)
    [('D0.1', 'Built in 1889.'), ('D0.2', 'Made of iron.'), ('D1', 'Short.')]
    """
    kept: list[tuple[str, str]] = []
    for key, text in documents:
        if len(text) + 1 + KEY_TOKENS <= budget or estimated_tokens(text) + KEY_TOKENS <= budget:
            kept.append((key, text))
            continue
        runs = parts([(key, sentence) for sentence in split_sentences(text)], budget)
        texts = [" ".join(sentence for _, sentence in run) for run in runs]
        kept += [(f"{key}.{number}", piece) for number, piece in enumerate(texts, start=1)]
    return kept


def parts(texts: Sequence[tuple[str, str]], budget: int) -> list[list[tuple[str, str]]]:
    """Return texts, as pairs of key and text, in runs that fit the budget; at least one run.

    A single text over the budget has a run of its own.

    >>> parts([("0a", "Built in 1889."), ("0b", "Made of iron."), ("1a", "In Paris.")], 20)
    [[('0a', 'Built in 1889.'), ('0b', 'Made of iron.')], [('1a', 'In Paris.')]]
    """
    # A text has at most a token per character, so most contexts need no estimate.
    if sum(len(text) + 1 + KEY_TOKENS for _, text in texts) <= budget:
        return [list(texts)]
    runs: list[list[tuple[str, str]]] = [[]]
    used = 0
    for key, text in texts:
        tokens = estimated_tokens(text) + KEY_TOKENS
        if runs[-1] and used + tokens > budget:
            runs.append([])
            used = 0
        runs[-1].append((key, text))
        used += tokens
    return runs
