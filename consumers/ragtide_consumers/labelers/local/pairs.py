"""Finds pairs of neighboring words of the response that a document sentence has, too. Pure."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .overlap import ComparedWords


def shared_pairs(words: ComparedWords) -> Sequence[int]:
    """Return, by response sentence, the number of its pairs of neighboring words that any document sentence has."""
    different = len(words.numbers)
    before, after = words.documents[:-1], words.documents[1:]
    found = (np.minimum(before, after) >= 0) & (words.sentence_of[:-1] == words.sentence_of[1:])
    known = frozenset((before * different + after)[found].tolist())
    shared = [0] * words.m
    if known:
        pairs = pairwise(zip(words.response.tolist(), words.response_of.tolist(), strict=True))
        for (first, sentence), (second, same) in pairs:
            if first * different + second in known and sentence == same:
                shared[sentence] += 1
    return shared
