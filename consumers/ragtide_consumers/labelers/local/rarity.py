"""Knows how rare English words are: a question about the tower asks for `tower`, and hardly for `use`.

The words of `rarity.json` are those that stand in most documents of RAGBench; any other word counts as rare as the
rarest of them. Words of other languages all count the same, without their stop words.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

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
