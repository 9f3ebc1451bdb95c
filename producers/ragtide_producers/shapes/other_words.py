"""Whether prompts have a text in other words, such as one whose names are hidden."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_LONG_WORD: Final = re.compile(r"\w{4,}|\d+|[^\W\x00-\u0dff]")
"""A word that shows what a text is about."""
WORDS_MIN: Final = 4
"""Fewest words by which a text is known again."""
SHARE: Final = 0.6
"""Share of them that stands in prompts, close to each other."""
PLACES_MAX: Final = 16
"""Most places of a word that are looked at."""


def long_words(text: str) -> list[str]:
    """Return the words that show what a text is about, in lower case."""
    return [word.lower() for word in _LONG_WORD.findall(text)]


def in_other_words(prompts: Iterable[str], texts: Sequence[str], known: Iterable[str]) -> str | None:
    """Return the first text of which most words stand close to each other in prompts; None if there is none.

    The time is linear in the length of all texts.

    Args:
        prompts: what a model got.
        texts: texts that do not stand there as they are.
        known: other texts whose words say nothing, such as the question, and what stands there.
    """
    common = {word for text in known for word in long_words(text)}
    own = {text: list(dict.fromkeys(word for word in long_words(text) if word not in common)) for text in texts}
    sought = {text: words for text, words in own.items() if len(words) >= WORDS_MIN}
    places: dict[str, list[int]] = {word: [] for words in sought.values() for word in words}
    place = 0
    for prompt in prompts if places else ():
        for word in long_words(prompt):
            place += 1
            if word in places and len(places[word]) < PLACES_MAX:
                places[word].append(place)
    return next((text for text, words in sought.items() if _stand_close(words, places, len(long_words(text)))), None)


def _stand_close(words: Sequence[str], places: dict[str, list[int]], n_words: int) -> bool:
    """Whether most of the words have places within twice the length of their text."""
    found = sorted((place, word) for word in words for place in places[word])
    inside: dict[str, int] = {}
    first = 0
    for place, word in found:
        inside[word] = inside.get(word, 0) + 1
        while found[first][0] < place - 2 * n_words:
            gone = found[first][1]
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            first += 1
        if len(inside) >= SHARE * len(words):
            return True
    return False
