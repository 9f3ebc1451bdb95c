"""Which texts stand in a prompt, and which part of each: exactly those that were given, in the order of the prompt."""

import html
import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide_producers.shapes.given_texts import given_texts
from ragtide_producers.shapes.other_words import rephrased_text

pytestmark = pytest.mark.pure

QUESTION = "What do the documents say about it?"
WORDS = (
    "tower",
    "river",
    "lake",
    "moon",
    "lock",
    "code",
    "Über",
    "naïve",
    "7",
    "tyre",
    "harbour",
    "ship",
    "green",
    "old",
)
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=4, max_size=12).map(" ".join)


@st.composite
def documents(draw: st.DrawFn) -> list[str]:
    """Distinct documents in which each sentence has its number, some with paragraphs, quotes, and marks."""
    count = draw(st.integers(1, 7))
    joined = draw(st.sampled_from([" ", "\n", "\n\n", "  \t"]))
    return [
        joined.join(
            f'{number}th text, part {part}: "{draw(SENTENCES)}" & it\'s <{number}{part}>.'
            for part in range(draw(st.integers(1, 3)))
        )
        for number in range(count)
    ]


Template = Callable[[list[str]], str]
TEMPLATES: dict[str, Template] = {
    "paragraphs": "\n\n".join,
    "lines": lambda texts: "\n".join(" ".join(text.split()) for text in texts),
    "one line": lambda texts: " ".join(" ".join(text.split()) for text in texts),
    "numbered": lambda texts: "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1)),
    "with metadata": lambda texts: "\n\n".join(
        f"file_path: a/{at}.md\npage: {at}\n\n{t}" for at, t in enumerate(texts)
    ),
    "JSON": lambda texts: json.dumps([{"id": str(number), "text": text} for number, text in enumerate(texts)]),
    "JSON in JSON": lambda texts: json.dumps({"content": json.dumps(texts, ensure_ascii=False)}),
    "XML": lambda texts: "".join(f"<doc id='{at}'>{html.escape(text)}</doc>" for at, text in enumerate(texts)),
    "bare tags": lambda texts: "".join(f"<document>{text}</document>" for text in texts),
    "repr": lambda texts: repr([("Document", text) for text in texts]),
    "table": lambda texts: "\n".join(f"| {at} | {text} |" for at, text in enumerate(texts)),
}
HEADS = (
    "",
    "Answer by these documents:\n",
    "You are helpful. Use the context only, and say when it has no answer.\n\n",
)
TAILS = ("", f"\n\nQuestion: {QUESTION}\nAnswer:", f"\n---\n{QUESTION}")


@st.composite
def orders(draw: st.DrawFn, *, some: bool) -> tuple[list[str], list[int], Template]:
    """Documents, the numbers of those that are given, in any order, and a template."""
    texts = draw(documents())
    order = draw(st.permutations(range(len(texts))))
    return (
        texts,
        order[: draw(st.integers(0, len(order)))] if some else order,
        draw(st.sampled_from([*TEMPLATES.values()])),
    )


@settings(max_examples=60)
@given(orders(some=True), st.sampled_from(HEADS), st.sampled_from(TAILS))
def test_the_given_texts_are_exactly_those_of_the_prompt_in_its_order(
    drawn: tuple[list[str], list[int], Template], head: str, tail: str
) -> None:
    texts, order, template = drawn
    found = given_texts([head + template([texts[number] for number in order]) + tail], texts, [QUESTION])
    assert list(found.items()) == [(number, texts[number]) for number in order]


@settings(max_examples=60)
@given(orders(some=False), st.integers(35, 120))
def test_texts_that_were_cut_are_the_parts_that_the_prompt_has(
    drawn: tuple[list[str], list[int], Template], size: int
) -> None:
    texts, order, template = drawn
    assume(template is not TEMPLATES["one line"])  # where one text ends and another begins is not known there
    cut = [texts[number][:size] for number in order]
    found = given_texts([template(cut), f"\n{QUESTION}"], texts, [QUESTION])
    assert list(found) == order
    for number, part in zip(order, cut, strict=True):
        assert words_of(found[number]) in (words_of(part), words_of(part)[:-1])  # the last word may be cut, too


def words_of(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in text).split()


MASKED = "The [PLACE] is [N] metres high, with its antennas, says the handbook."
WHOLE = "The Eiffel Tower is 330 metres high, with its antennas, says the handbook."


@pytest.mark.parametrize(
    ("prompt", "known", "is_there"),
    [
        pytest.param(f"Answer by:\n{MASKED}\nHow high is it?", "", True, id="hidden names"),
        pytest.param("Answer by:\nThe tower stands in Paris.\nHow high is it?", "", False, id="another document"),
        pytest.param(f"Answer by:\n{MASKED}", WHOLE, False, id="words of what stands there"),
        pytest.param(
            "\n".join([" meanwhile something" * 9 + f" {word}" for word in WHOLE.split()]),
            "",
            False,
            id="words far apart",
        ),
        pytest.param("", "", False, id="nothing"),
    ],
)
def test_a_text_in_other_words_is_known_by_its_words_close_together(prompt: str, known: str, is_there: bool) -> None:
    assert rephrased_text([prompt], [WHOLE], [known]) == (WHOLE if is_there else None)


SHORT = ["Paris", "Rome", "a", "b", "7", "42", "C++", "C", "C#", "New York", "red fox", "the red fox", "1889.", "Yes"]
SPACELESS = ["巴黎", "罗马", "巴黎铁塔", "尼罗河长约六千公里。", "猫", "กรุงเทพ", "เชียงใหม่", "กรุงเทพมหานคร"]


@given(
    st.sampled_from([SHORT, SPACELESS]).flatmap(st.permutations),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
    st.sampled_from([name for name in TEMPLATES if name != "with metadata"]),
    st.sampled_from(["", "Answer by these documents:\n"]),
)
@settings(max_examples=60)
def test_short_texts_stand_alone_and_a_piece_of_a_longer_one_is_none(
    pool: list[str], number: int, rng: Random, name: str, head: str
) -> None:
    texts = pool[:number]
    order = rng.sample(range(number), rng.randint(0, number))
    prompt = head + TEMPLATES[name]([texts[place] for place in order]) + f"\n\nQuestion: {QUESTION}"
    if name not in ("numbered", "JSON", "XML", "table") or not {"7", "a", "b"} & set(texts):  # which these have, too
        assert list(given_texts([prompt], texts, [QUESTION])) == order


def words(rng: Random, number: int) -> str:
    return " ".join(f"{rng.choice(WORDS)}{rng.randint(0, 99)}" for _ in range(number))


@for_each("seed", range(40))
def test_neighbours_that_overlap_and_versions_do_not_stand_for_each_other(seed: int) -> None:
    rng = Random(seed)
    whole = words(rng, 400).split()
    neighbours = [" ".join(whole[start : start + 80]) for start in range(0, 320, 55)]
    versions = [" ".join([*whole[:10], f"version{number}", *whole[10:60]]) for number in range(5)]
    for texts in (neighbours, versions):
        order = rng.sample(range(len(texts)), rng.randint(0, len(texts)))
        for size in (10_000, rng.randint(300, 450)):
            prompt = "\n\n".join(texts[place][:size] for place in order)
            assert list(given_texts([prompt], texts)) == order


def test_a_header_that_all_texts_have_shows_none_of_them() -> None:
    header = "Handbook of the city, third edition, for members of the staff only."
    texts = [f"{header} {text}" for text in ("The tower is old.", "The bridge is new and wide.")]
    assert given_texts([f"{header}\nBe brief. {QUESTION}"], texts) == {}
    assert given_texts([f"{header}\n{texts[1]}"], texts) == {1: texts[1]}


def test_the_question_shows_no_text_that_has_it() -> None:
    texts = ["How do I unlock a bicycle in the city at night? Scan the code.", "Helmets are lent for 2 euros."]
    asked = "How do I unlock a bicycle in the city at night?"
    assert given_texts([f"{texts[1]}\n{asked}"], texts, [asked]) == {1: texts[1]}
    assert given_texts([f"{texts[0]}\n{asked}"], texts, [asked]) == {0: texts[0]}


@for_each(
    "prompt, found",
    [
        ("It opens at once. The code is valid for a day.", "It opens at once. The code is valid for a day."),
        (
            "The lock opens within five seconds of the scan of ... a day.",
            "The lock opens within five seconds of the scan of",
        ),
        (
            "The [WHAT] opens within five seconds of the scan of the code.",
            "opens within five seconds of the scan of the code.",
        ),
    ],
)
def test_a_text_that_was_compressed_is_what_the_prompt_has(prompt: str, found: str) -> None:
    text = (
        "It opens at once. The lock opens within five seconds of the scan of the code. Wait for it. "
        "The code is valid for a day."
    )
    assert given_texts([prompt], [text, "Helmets are lent."])[0].startswith(found)


def test_a_text_that_was_split_over_two_prompts_is_whole() -> None:
    texts = [f"{start} Nothing more is known of it here." * 6 for start in ("Of the tower.", "Of the bridge.")]
    half = [text[: len(text) // 2].rsplit(" ", 1)[0] for text in texts]
    prompts = [half[0], texts[0][len(half[0]) :] + "\n" + half[1], texts[1][len(half[1]) :]]
    assert given_texts(prompts, texts) == dict(enumerate(texts))


def test_prompts_that_repeat_each_other_give_a_text_once() -> None:
    long, piece = "The tower was built in 1889 by an engineer of bridges.", "built in 1889 by an engineer"
    assert given_texts([long, f"{long}\n{QUESTION}", long], [piece, long]) == {1: long}


def test_two_equal_texts_need_two_places() -> None:
    text = "Helmets are lent for 2 euros."
    assert list(given_texts([text], [text, text])) == [0]
    assert list(given_texts([f"{text}\n{text}"], [text, text])) == [0, 1]
