import random
import time

import pytest
import sentencex
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
WIDE_PIECES = [
    "これはペンです。",
    "彼は「行く。そして帰る。」と言った。",
    "塔は高い！",
    "なぜ？",
    "他说：“好。走吧。”然后走了。",
    "塔。",
]


@pytest.mark.parametrize("seed", range(5))
def test_a_long_line_with_many_quotes_is_cut_as_a_short_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    line = " ".join(random.Random(seed).choices(PIECES, k=400))
    expected = split_sentences(line)
    monkeypatch.setattr(sentences, "_QUOTES_BY_LENGTH", 0)
    assert split_sentences(line) == expected


@pytest.mark.parametrize("language", ["ja", "zh"])
def test_a_long_line_of_short_sentences_without_blanks_is_cut_as_the_library_cuts_it(language: str) -> None:
    line = "".join(random.Random(language).choices(WIDE_PIECES, k=900))
    assert split_sentences(line, language) == [piece.strip() for piece in sentencex.segment(language, line)]


@pytest.mark.parametrize("unit", ["塔。", "塔!", "<!--$a", "a‽-", "\r"])
def test_a_line_of_stops_takes_time_in_proportion_to_its_length(unit: str) -> None:
    started = time.process_time()
    split_sentences(unit * (100_000 // len(unit)))
    # A guard against quadratic work, which takes five seconds and more for so much: no measurement.
    assert time.process_time() - started < 3


@pytest.mark.parametrize("unit", ["“", "' a", "“a b. C d. ", "x"])
def test_windows_lose_nothing(unit: str) -> None:
    text = unit * (SIZE // 10 // len(unit))
    found = split_sentences(text)
    assert [each for each in "".join(found) if each.isalnum()] == [each for each in text if each.isalnum()]
