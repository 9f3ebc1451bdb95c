import random

import pytest
from tests.consumers.redaction.test_patterns import SIZE

from ragtide_consumers.text import sentences
from ragtide_consumers.text.sentences import split_sentences

PIECES = [
    "Dr. Smith came.",
    "He said “hello there. How are you?” and left.",
    "It's 3.5 m (he measured. Really.) long!",
    "«Да. Нет», сказал он.",
    "See 'a' and [1].",
]


@pytest.mark.parametrize("seed", range(5))
def test_a_long_line_with_many_quotes_is_cut_as_a_short_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    line = " ".join(random.Random(seed).choices(PIECES, k=400))
    expected = split_sentences(line)
    monkeypatch.setattr(sentences, "_QUOTES_BY_LENGTH", 0)
    assert split_sentences(line) == expected


@pytest.mark.parametrize("unit", ["“", "' a", "“a b. C d. ", "x"])
def test_windows_lose_nothing(unit: str) -> None:
    text = unit * (SIZE // 10 // len(unit))
    found = split_sentences(text)
    assert [each for each in "".join(found) if each.isalnum()] == [each for each in text if each.isalnum()]
