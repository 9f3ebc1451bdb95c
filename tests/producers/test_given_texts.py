"""Which texts stand in a prompt, and which part of each: exactly those that were given, in the order of the prompt."""

import html
import json
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragtide_producers.shapes.given_texts import given_texts
from ragtide_producers.shapes.other_words import in_other_words

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
    assert in_other_words([prompt], [WHOLE], [known]) == (WHOLE if is_there else None)
