"""Whether prompts have a text in other words, such as one whose names are hidden."""

import re
from collections.abc import Iterable, Sequence
from itertools import compress, count
from typing import Final

from .given_texts import SPACED

LONG: Final = 4
"""Fewest characters of a long word."""
_LONG_WORD: Final = re.compile(rf"\w{{{LONG},}}|\d+|[^\W\x00-\u0dff]")
"""A word that shows what a text is about."""
WORDS_MIN: Final = 4
"""Fewest words by which a text is known again."""
SHARE: Final = 0.6
"""Share of them that stands in prompts, close to each other."""
PLACES_MAX: Final = 16
"""Most places of a word that are looked at."""


def long_words(text: str) -> list[str]:
    """Return the words that show what a text is about, in lower case."""
    if not text.isascii():
        return [word.lower() for word in _LONG_WORD.findall(text)]
    words = [word for word in text.lower().translate(SPACED).split() if len(word) >= LONG or not word.isalpha()]
    if all(word.isdecimal() for word in words if len(word) < LONG):
        return words
    return [part for word in words for part in ([word] if len(word) >= LONG else _LONG_WORD.findall(word))]


def rephrased_text(prompts: Iterable[str], texts: Sequence[str], known: Iterable[str]) -> str | None:
    """Return the first text of which most words stand close to each other in prompts; None if there is none.

    The time is linear in the length of all texts.

    Args:
        prompts: what a model got.
        texts: texts that do not stand there as they are.
        known: other texts whose words say nothing, such as the question, and what stands there.
    """
    if not texts:
        return None
    common = {word for text in known for word in long_words(text)}
    read = {text: long_words(text) for text in texts}
    own = {text: [word for word in dict.fromkeys(words) if word not in common] for text, words in read.items()}
    sought = {text: words for text, words in own.items() if len(words) >= WORDS_MIN}
    places: dict[str, list[int]] = {word: [] for words in sought.values() for word in words}
    words = [word for prompt in prompts for word in long_words(prompt)] if places else []
    for place in compress(count(), map(places.__contains__, words)):
        if len(places[words[place]]) < PLACES_MAX:
            places[words[place]].append(place)
    return next((text for text, words in sought.items() if _stand_close(words, places, len(read[text]))), None)


def _stand_close(words: Sequence[str], places: dict[str, list[int]], n_words: int) -> bool:
    hits = sorted((place, word) for word in words for place in places[word])
    inside: dict[str, int] = {}
    first = 0
    for place, word in hits:
        inside[word] = inside.get(word, 0) + 1
        while hits[first][0] < place - 2 * n_words:
            gone = hits[first][1]
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            first += 1
        if len(inside) >= SHARE * len(words):
            return True
    return False
