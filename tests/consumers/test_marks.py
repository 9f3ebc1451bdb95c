"""Marks of sources are no words, whatever product writes them; content in brackets stays."""

import json
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.judge.asking import entry, judge

from ragtide import LocalLabeler, RagInteraction
from ragtide.testing import Says, ScriptedJudge
from ragtide_consumers.text.marks import readable, without_marks
from ragtide_consumers.text.sentences import cut, locate_sentences, place_sentences

MARKS = (
    "[1]", "[12]", "[1, 2]", "[1-3]", "[1][2]", "[1], [2]", "[[3]]", "[^1]", "[^note]", "^[2]", "[4:0]",
    "[1, 5, +more]", "[3b]", "[ID:0]", "[ID: 0]", "[id 7]", "[Data: Sources (1, 5)]",
    "[Data: Sources (1, 5); Reports (2)]", "[Entities (3)]", "[Data: Reports (2, 7, 34, 46, 64, +more)]",
    "[citation:1]", "[oaicite:0]", ":contentReference[oaicite:0]{index=0}", "[doc1]", "[Doc 1]", "[DOC-3]",
    "[doc_id: 12, chunk: 4]", "[chunk_3]", "[S1]", "[turn0search3]", "[source 1, 2]", "[Source: doc-3]",
    "[source: handbook.pdf, p. 4]", "[pp. 3-5]", "[@smith2020]", "[@smith2020; @lee2019, p. 3]",
    "[see @smith2020]", "[3fa85f64-5717-4562-b3fc-2c963f66afa6]", "[1](https://example.com/a)",
    "[[1]](https://example.com/a)", "[00:12:30]", "【1】", "【4:0†source】", "【4†manual.pdf】", "【来源1】",
    "［1］", "〔2〕", "⟦3⟧", "{{1}}", "{{cite:3}}", "##0$$", "##12$$", "@@1@@", "<ref>1</ref>",
    '<ref name="a"/>', "<cite>2</cite>", '<cite id="3"/>', "<doc id=1>", "<sup>2</sup>", "<sup>[3]</sup>",
    "<citation>doc_3</citation>", "¹", "¹²", "³⁻⁵", "†", "‡", "\\cite{key}", "\\citep[p. 3]{smith2020,lee2019}",
    "\\ref{tab:1}", "\ue200cite\ue202turn0search3\ue201", "\ue200cite\ue202turn0search3\ue202turn1view0\ue201",
    "[источник 2]", "[Quelle: 3]", "[Seite 4]", "[来源 1]", "[出典3]", "[مصدر 2]", "[מקור 3]", "[स्रोत 1]",
    "[출처 1]", "〖1〗", "[§ 3]", "[id=3]", "[Source A]", "\\[1\\]", "<co>1</co>", "$^1$", "$^{[1]}$",
    "[1]、[2]", "[1 and 2]", "[1 und 2]", "^1^", "^[1]^", "⁽¹⁾", "⟨1⟩", "〈2〉", "[cite_start]", "{cite:1}",
    "[3.1]", "[3.1.2]", "[2.1, 3.4]", "[§3.1]", "⟪1⟫", "[1]–[3]", "[\\[1\\]](https://example.com/a)",
)  # fmt: skip
APART = (
    "(Source: doc-3)", "(doc 3)", "(Documents 2, 4)", "(p. 4)", "(ID: 7)", "(см. стр. 4)", "（来源1）",
    "(Data: Sources (1, 5))", "{ref:1}", "(sources 1 and 2)", "(cf. [1])", "<|cite:1|>", "<doc_1>", "<1>",
    "(turn0search1)", "citeturn0search1", "cite turn0search1turn0news2", "turn0search1turn0news2",
)  # fmt: skip
"""Marks that must stand apart; in round brackets, which are content without a word for a source."""

BETWEEN = ("①", "②③", "❶", "⑴", "(#1)", "(#1, #2)", "(1, 2)", "(1–3)", "(3.1)", "turn0search1", "{1}", "{1, 2}")
"""Marks that must stand after the stop of a sentence, because they are words within it."""

CONTENT = (
    "[the pump must be off]", "[sic]", "[...]", "[…]", "[edit]", "[see the manual]", "[Smith]", "[A]", "[ ]",
    "[x]", "[the pump (3)]", "[1989]", "(1889)", "(in 1889)", "[2019-2021]", "[2024-01-05]", "[5 km]", "[30%]",
    "[3.14]", "[5 to 10]", "[2 of 5]", "[note: 5 people came]", "[GPT-4]", "[CO2]", "[COVID-19]",
    "[Windows 10]", "[H2O]", "(12 years)", "(about 5)", "(2)", "(Apollo 11)", "(Height: 330)", "(May 5)",
    "(item 5)", "(Figure 2)", "(B12)", "f(1)", "f(p1)", "array[0]", "x[1]", "a[0][1] = 5", "rows[12] = x",
    "names[3].first", "f([1, 2])", "= [1, 2]", '{"a": 1}', '{"sizes": [1, 2]}', "[[1, 2], [3, 4]]", "{x: 1}",
    "a{1,2}", "x^{2}", "\\frac{1}{2}", "$x_{1}$", "$$1$$", "`[1]`", "```\n[1]\n```", "`<ref>1</ref>`", "x²",
    "10³", "m²", "km²", "H₂O", "10<sup>3</sup>", "x<sup>2</sup>", "C++ <vector>", "std::vector<int32>",
    "<b>5</b>", "<year>1889</year>", "<result>5</result>", "<h2>", "m$^2$", "10$^3$", "\\[x\\]", "<your name>",
    "【重要】", "「1」", "$5 and $6", "@user", "user@example.com", "**1**", "## 1. The pump", "#1", "100 %",
    "[опора 3]", "[第3]", "2^3^", "⟨x, y⟩", "〈title〉", "[yes and no]", "[1 or 2]", "[a] man", "f(x)", "[Paris]",
    "{name}", "{source}", "{1, 2, 3}", "{0}", "[1, 2, 3] =", "= [1, 2, 3]", "[1] + [2] = [3]", "[5, 6] ∪ [7, 8]",
    "Chapter [2]", "see Figure [3]", "Kapitel [3]", "в главе [2]", "Track [A1]", "the [2]", "no. [2]", "Step [2]:",
    "the vector [1, 2, 3]", "in [0, 1]", "version [3.1]", "is [3.14]", "is [10.0.0.1]", "button ②", "图①", "(#1)",
    "turn0search1", "utf8mb4", "is [42]", "equals [1, 2]",
)  # fmt: skip

SENTENCES = {
    "en": ("The pump must be serviced every 6 months.", "The filter is cleaned with warm water."),
    "ru": ("Насос обслуживают каждые 6 месяцев.", "Фильтр чистят тёплой водой."),
    "de": ("Die Pumpe wird alle 6 Monate gewartet.", "Der Filter wird mit warmem Wasser gereinigt."),
    "el": ("Η αντλία συντηρείται κάθε 6 μήνες.", "Το φίλτρο καθαρίζεται με ζεστό νερό."),
    "hi": ("पंप की सेवा हर 6 महीने में होती है।", "फ़िल्टर गर्म पानी से साफ़ होता है।"),
    "ar": ("تتم صيانة المضخة كل 6 أشهر.", "ينظف المرشح بالماء الدافئ."),
    "zh": ("水泵每6个月保养一次。", "滤网用温水清洗。"),
}


def compared(text: str) -> list[str]:
    return [" ".join(found.plain.split()) for found in locate_sentences(text, answer=True)]


def marked(sentences: Sequence[str], marks: Sequence[str], form: str) -> str:
    """Return sentences with marks before or after their stops, or on a line of their own."""
    pieces = []
    for sentence, mark in zip(sentences, marks, strict=True):
        body, stop = sentence[:-1], sentence[-1]
        pieces.append(form.format(body=body, stop=stop, mark=mark))
    return "".join(pieces).strip()


FORMS = (
    "{body} {mark}{stop} ", "{body}{stop} {mark} ", "{body}{stop}{mark} ", "{body}{stop}\n{mark}\n",
    "{body} {mark} {mark}{stop} ", "{body}{stop} {mark} {mark}\n",
)  # fmt: skip
AFTER = [form for form in FORMS if "{stop} {mark}" in form or "{stop}{mark}" in form or "{stop}\n{mark}" in form]


@pytest.mark.pure
@given(
    st.sampled_from([*SENTENCES.values()]),
    st.lists(st.sampled_from([*MARKS, *APART]), min_size=2, max_size=2),
    st.sampled_from(FORMS),
)
def test_marks_change_no_sentence(sentences: Sequence[str], marks: Sequence[str], form: str) -> None:
    text = marked(sentences, marks, form)
    assert compared(text) == list(sentences)
    shown, places = place_sentences(text, [text[found.start : found.end] for found in locate_sentences(text)])
    assert (shown, len(places)) == (text, 2)


@pytest.mark.pure
@pytest.mark.parametrize("mark", BETWEEN)
@pytest.mark.parametrize("form", AFTER)
def test_a_number_after_a_sentence_is_a_mark(mark: str, form: str) -> None:
    for sentences in SENTENCES.values():
        assert compared(marked(sentences, (mark, mark), form)) == list(sentences)


@pytest.mark.pure
@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_may_touch_its_word(mark: str) -> None:
    for sentences in (SENTENCES["en"], SENTENCES["ru"]):
        assert compared(marked(sentences, (mark, mark), "{body}{mark}{stop} ")) == list(sentences)


@pytest.mark.pure
@pytest.mark.parametrize("content", CONTENT)
def test_content_in_brackets_stays(content: str) -> None:
    text = f"It says {content} here."
    assert without_marks(text, files=True) == text


@pytest.mark.pure
def test_a_number_between_sentences_is_a_mark_and_one_within_a_sentence_is_content() -> None:
    first, second = SENTENCES["en"]
    assert compared(f"{first} (1) {second} (2)") == [first, second]
    assert readable("Open the valve (3).") == "Open the valve (3)."


@pytest.mark.pure
@pytest.mark.parametrize("text", ["{}[a] {}[i]", "<co: 1>{}</co: 1> <co>{}</co: 2>", "[cite_start]{} [cite: 1] {}"])
def test_a_note_and_the_tags_around_cited_words_are_marks(text: str) -> None:
    assert compared(text.format(*SENTENCES["en"])) == [*SENTENCES["en"]]


@pytest.mark.pure
@given(st.text(st.sampled_from("a1 .,:;[](){}<>#$@^/\\'\"†²塔\ue200\n"), max_size=60))
def test_a_place_stays_a_place_and_no_word_of_letters_is_lost(text: str) -> None:
    found = without_marks(text, files=True)
    assert len(found) == len(text)
    assert all(after in (before, "\0", " ") for before, after in zip(text, found, strict=True))


@pytest.mark.pure
@given(
    st.lists(st.sampled_from(["pump", "the", "off", "is", "насос", "and"]), min_size=1, max_size=5),
    st.sampled_from(["[{}]", "({})", "{{{}}}", "【{}】", "##{}$$", "<ref>{}</ref>"]),
)
def test_words_in_brackets_stay(words: list[str], brackets: str) -> None:
    text = f"Note {brackets.format(' '.join(words))} now, 5 times."
    assert without_marks(text, files=True) == text


def asked(response: str, document: str = "") -> RagInteraction:
    facts = " ".join(SENTENCES["en"])
    return RagInteraction(
        pipeline="p",
        question="How is the pump serviced, and how is the filter cleaned?",
        documents=[document or f"{facts} The warranty ends after 24 months."],
        response=response,
    )


@pytest.mark.pure
@pytest.mark.parametrize("mark", [*MARKS, *APART, *BETWEEN])
def test_a_right_answer_scores_as_without_marks_and_a_wrong_one_below(mark: str) -> None:
    labeler = LocalLabeler()
    plain = labeler.label_now(asked(" ".join(SENTENCES["en"]))).scores["trace.adherence"]
    wrong = ("The pump must be serviced every 9 months.", "The filter is cleaned with cold acid.")
    for form in AFTER if mark in BETWEEN else FORMS:
        right = labeler.label_now(asked(marked(SENTENCES["en"], (mark, mark), form))).scores["trace.adherence"]
        assert right == pytest.approx(plain, abs=0.02)
        assert labeler.label_now(asked(marked(wrong, (mark, mark), form))).scores["trace.adherence"] < right - 0.1
    document = marked(SENTENCES["en"], (mark, mark), FORMS[1]) + " The warranty ends after 24 months."
    assert len(cut(asked("Yes.", document)).documents[0]) == 3


@pytest.mark.pure
@pytest.mark.parametrize("word", ["the next step", "this list", "what it is", "the final version", "each chapter"])
def test_a_noun_that_ends_a_sentence_needs_no_number(word: str) -> None:
    assert readable(f"Open {word}. [2] It is {word}. [1, 2]") == f"Open {word}. It is {word}."


async def test_a_judge_reads_no_marks_and_is_asked_about_no_sentence_of_them() -> None:
    first, second = SENTENCES["en"]
    labels = {
        "relevance_explanation": "",
        "all_relevant_sentence_keys": ["0a", "0b"],
        "sentence_support_information": [entry("a", ["0a"], True), entry("b", ["0b"], True)],
        "overall_supported_explanation": "",
        "overall_supported": True,
        "all_utilized_sentence_keys": ["0a", "0b"],
    }
    interaction = asked(
        f"{first[:-1]} [ID:0]. ##0$$ {second} ##1$$", f"{first[:-1]} [Data: Sources (1, 5)]. {second}[2]"
    )
    with ScriptedJudge(script=[Says(json.dumps(labels))]) as server:
        async with judge(server, language="en") as labeler:
            labeling = await labeler.label(interaction)
    assert labeling.scores["trace.adherence"] == 1.0
    (prompt,) = server.prompts
    assert [*prompt.response.values()] == [first, second]
    assert [*prompt.documents.values()] == [first, second]


@pytest.mark.pure
@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "(",
        "{",
        "<",
        "[1",
        "(a",
        "((a)",
        "<a ",
        "<ref>",
        "\\cite{",
        "##0",
        "\ue200a",
        "x²",
        "`",
        "$a",
        "[1]",
        "[1](",
        "[_",
        "[Data: ",
        "([",
        "[1, ",
        "(1)",
        ". ①",
        "chapter [2] ",
        "abcd1abcd1",
    ],
)
def test_the_time_grows_with_the_length(unit: str) -> None:
    started = time.process_time()
    without_marks(unit * (500_000 // len(unit)), files=True)
    # A guard against quadratic work, which takes minutes for so much: no measurement.
    assert time.process_time() - started < 5
