"""The same facts have the same sentences and the same local scores in any form."""

import textwrap
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.local.labeler import LANGUAGES
from ragtide_consumers.text.sentences import cut, locate_sentences, place_sentences, split_sentences

pytestmark = pytest.mark.pure

Facts = Sequence[str]

ENGLISH = (
    "Open the lid of the pump.",
    "Fill the tank with clean water.",
    "Press the green button on the left.",
    "Wait for one minute.",
    "Close the lid with both hands.",
)
TOWER = (
    "The tower was built in 1889 by the company of Gustave Eiffel.",
    "It stands in Paris on the Champ de Mars.",
    "Its height is 330 metres.",
    "The tower is made of wrought iron.",
)
RUSSIAN = (
    "Откройте крышку насоса.",
    "Залейте в бак чистую воду.",
    "Нажмите зелёную кнопку слева.",
    "Подождите одну минуту.",
    "Закройте крышку двумя руками.",
)
BASHNYA = (
    "Башню построила в 1889 году компания Гюстава Эйфеля.",
    "Она стоит в Париже на Марсовом поле.",
    "Высота башни составляет 330 метров.",
    "Башня сделана из железа.",
)
GERMAN = (
    "Öffnen Sie den Deckel der Pumpe, z. B. mit der Hand.",
    "Füllen Sie den Tank mit ca. 5 Litern Wasser.",
    "Drücken Sie den grünen Knopf bzw. den Hebel links.",
    "Warten Sie eine Minute.",
    "Schließen Sie den Deckel mit beiden Händen.",
)


def _bare(facts: Facts) -> list[str]:
    return [fact[:-1] for fact in facts]


def _wrapped(facts: Facts, width: int) -> list[str]:
    return textwrap.wrap(" ".join(facts), width)


def _hyphenated(facts: Facts) -> str:
    text = " ".join(facts)
    place = next(
        at for at in range(30, len(text)) if text[at - 3 : at + 3].isalpha() and text[at - 3 : at + 3].islower()
    )
    return f"{text[:place]}-\n{text[place:]}"


FORMS: dict[str, Callable[[Facts], str]] = {
    "dashes": lambda facts: "\n".join(f"- {fact}" for fact in facts),
    "stars without stops": lambda facts: "\n".join(f"* {fact}" for fact in _bare(facts)),
    "bullets": lambda facts: "\n".join(f"• {fact}" for fact in _bare(facts)),
    "bullets on one line": lambda facts: " ".join(f"• {fact}" for fact in facts),
    "en dashes": lambda facts: "\n".join(f"– {fact}" for fact in facts),
    "bullets on lines of their own": lambda facts: "\n".join(f"•\n{fact}" for fact in _bare(facts)),
    "numbers": lambda facts: "\n".join(f"{number}. {fact}" for number, fact in enumerate(facts, 1)),
    "numbers with brackets": lambda facts: "\n".join(f"{number}) {fact}" for number, fact in enumerate(_bare(facts), 1)),
    "numbers on one line": lambda facts: " ".join(f"{number}. {fact}" for number, fact in enumerate(facts, 1)),
    "steps": lambda facts: "\n".join(f"**Step {number}:** {fact}" for number, fact in enumerate(facts, 1)),
    "letters": lambda facts: "\n".join(f"{letter}) {fact}" for letter, fact in zip("abcdefg", facts, strict=False)),
    "roman": lambda facts: "\n".join(f"({mark}) {fact}" for mark, fact in zip(("i", "ii", "iii", "iv", "v"), facts, strict=False)),
    "circled": lambda facts: "\n".join(f"{mark} {fact}" for mark, fact in zip("①②③④⑤", facts, strict=False)),
    "rows of pipes": lambda facts: "\n".join(f"| {number} | {fact} |" for number, fact in enumerate(_bare(facts), 1)),
    "tabs": lambda facts: "\n".join(f"{number}\t{fact}" for number, fact in enumerate(_bare(facts), 1)),
    "columns": lambda facts: "\n".join(f"{number}    {fact}" for number, fact in enumerate(_bare(facts), 1)),
    "a drawn table": lambda facts: "\n".join(
        ("+---+-----+", *(f"| {number} | {fact} |\n+---+-----+" for number, fact in enumerate(_bare(facts), 1)))
    ),
    "wrapped at 60": lambda facts: "\n".join(_wrapped(facts, 60)),
    "wrapped at 72 with CRLF": lambda facts: "\r\n".join(_wrapped(facts, 72)),
    "wrapped in a narrow column": lambda facts: "\n".join(_wrapped(facts, 26)),
    "a divided word": _hyphenated,
    "lines": lambda facts: "\n".join(facts),
    "paragraphs": lambda facts: "\n\n".join(_bare(facts)),
    "HTML paragraphs": lambda facts: "".join(f"<p>{fact}</p>" for fact in facts),
    "HTML items": lambda facts: "<ul>\n" + "\n".join(f"  <li>{fact}</li>" for fact in _bare(facts)) + "\n</ul>",
    "HTML lines": lambda facts: "<br/>\n".join(facts),
    "HTML table": lambda facts: "<table>"
    + "".join(f"<tr>\n<td>{number}</td>\n<td>{fact}</td>\n</tr>" for number, fact in enumerate(_bare(facts), 1))
    + "</table>",
    "an HTML page": lambda facts: "<!DOCTYPE html><html><head><style>p {color: red}</style></head><body><!-- No. -->"
    f"<div class='a'>{facts[0]} <b>{facts[1]}</b>&nbsp;{' '.join(facts[2:])}</div></body></html>",
    "bold": lambda facts: " ".join(f"**{fact}**" for fact in facts),
    "links": lambda facts: " ".join(f"[{fact}](https://example.com/a_{number})" for number, fact in enumerate(facts)),
    "a quotation": lambda facts: "\n".join(f"> {line}" for line in _wrapped(facts, 50)),
    "a fence": lambda facts: "```\n" + "\n".join(f"- {fact}" for fact in facts) + "\n```",
    "tasks": lambda facts: "\n".join(f"- [x] {fact}" for fact in facts),
    "rules between": lambda facts: "\n\n---\n\n".join(facts),
    "front matter": lambda facts: "---\ntitle: x\ntags: [a, b]\n---\n\n" + " ".join(facts),
    "footnotes": lambda facts: " ".join(f"{fact}[^{number}]" for number, fact in enumerate(facts, 1)),
}  # fmt: skip

TABLE_WITH_HEADER = "| Step | Action |\n|---|---|\n"


@pytest.mark.parametrize("facts", [ENGLISH, TOWER, RUSSIAN, BASHNYA, GERMAN], ids=lambda facts: facts[0][:12])
def test_the_same_facts_have_the_same_number_of_sentences_in_any_form(facts: Facts) -> None:
    counts = {
        name: (len(split_sentences(form(facts))), len(locate_sentences(form(facts), answer=True)))
        for name, form in FORMS.items()
    }
    assert {name: count for name, count in counts.items() if count != (len(facts), len(facts))} == {}
    table = TABLE_WITH_HEADER + FORMS["rows of pipes"](facts)
    # A header row is text of a document; an answer's belongs to the row after it.
    assert (len(split_sentences(table)), len(locate_sentences(table, answer=True))) == (len(facts) + 1, len(facts))


@pytest.mark.parametrize("facts", [TOWER, GERMAN])
def test_a_wrapped_line_goes_on_whatever_the_width(facts: Facts) -> None:
    text = " ".join(facts)
    found = {
        width: len(split_sentences(textwrap.fill(text, width, break_long_words=False))) for width in range(15, 110)
    }
    assert {width: count for width, count in found.items() if count != len(facts)} == {}


def test_lists_without_marks_stay_lists() -> None:
    assert split_sentences("Paris\nLondon\nBerlin") == ["Paris", "London", "Berlin"]
    assert split_sentences("apples\npears") == ["apples", "pears"]
    assert split_sentences(
        "Kim Hong-il\nKim Hong-il was a Korean general. He was born in 1898 and he died in Seoul."
    ) == [
        "Kim Hong-il",
        "Kim Hong-il was a Korean general.",
        "He was born in 1898 and he died in Seoul.",
    ]


def test_numbers_that_are_no_marks_stay() -> None:
    assert split_sentences("42.") == ["42."]
    assert split_sentences("5. Close the lid.") == ["5. Close the lid."]
    assert split_sentences("3. Oktober 1990 war ein Tag.", "de") == ["3. Oktober 1990 war ein Tag."]
    assert split_sentences("-5 degrees is cold. It was 5 * 3 = 15.") == ["-5 degrees is cold.", "It was 5 * 3 = 15."]


def test_a_russian_sentence_may_end_with_and_so_on() -> None:
    for mark in ("и т. д.", "и т.д.", "и т. п.", "и т.п."):
        assert split_sentences(f"Мы купили груши, сливы {mark} Потом мы ушли.") == [
            f"Мы купили груши, сливы {mark}",
            "Потом мы ушли.",
        ]
        assert len(split_sentences(f"Груши, сливы {mark} в этой стране дорогие.")) == 1
    assert len(locate_sentences(f"- Груши {mark}\n- Мы купили сливы {mark} Потом мы ушли.", answer=True)) == 3


def test_the_language_of_the_place_decides_about_abbreviations() -> None:
    answer = (
        "The manual says this. Bitte öffnen Sie den Deckel, d. h. die Klappe, bzw. Herr Müller kommt. "
        "Die ca. 5 Leute bzw. Herr Dr. Müller gehen. Then press the button."
    )
    assert len(locate_sentences(answer, answer=True)) == len(split_sentences(answer)) == 4
    row = RagInteraction(
        pipeline="p",
        question="Wer kommt?",
        documents=["Die Gäste bzw. Herr Müller kommen. Sie bringen ca. 5 Bücher."],
        response="The guests and Mr. Müller will come. They bring some books.",
    )
    assert [len(sentences) for sentences in cut(row).documents] == [2]
    assert len(cut(row).response) == 2


NO_CLAIMS = [
    "Sure! Here is the answer:\n\n{}",
    "Certainly! Please follow these steps:\n\n{}",
    "## Answer\n\n{}",
    "**Answer:** {}",
    "{}\n\nSources: a.pdf, b.pdf",
    "{}\n\nReferences:\n- [1] https://example.com/a.b?c=d\n- Smith, J. (2020). Towers.",
    "{}\n\nLet me know if you need anything else!",
    "{}\n\nI hope this helps. If you have any other questions, feel free to ask.",
    "{}\n\nSee https://example.com/manual#start for more details.",
    "{}\n\n[1]: https://example.com\n[^2]: Smith, Towers",
    "{}\n\n📄 manual.pdf, p. 3",
    "Конечно! Вот ответ:\n\n{}\n\nИсточники:\n1. a.pdf\n2. b.pdf\n\nНадеюсь, это поможет! Если у вас есть вопросы, обращайтесь.",
]


@pytest.mark.parametrize("facts", [TOWER, RUSSIAN])
def test_courtesy_sources_and_links_of_an_answer_are_no_claims(facts: Facts) -> None:
    text = " ".join(facts)
    for form in NO_CLAIMS:
        assert [found.plain for found in locate_sentences(form.format(text), answer=True)] == list(facts), form
    cited = " ".join(f"{fact[:-1]} [{number}].【4†source】" for number, fact in enumerate(facts, 1))
    assert len(locate_sentences(cited, answer=True)) == len(facts)
    assert "source" not in " ".join(found.plain for found in locate_sentences(cited, answer=True))


def test_a_claim_beside_courtesy_or_a_source_is_a_claim() -> None:
    for claim in (
        "Sure, the tower was built in 1889.",
        "Yes.",
        "Paris",
        "**Paris**",
        "The file manual.pdf describes the pump.",
        "Source water must be clean.",
        "I hope the tower opens in 1889.",
        "According to the documents, the lid is open.",
    ):
        assert len(locate_sentences(claim, answer=True)) == 1, claim
    found = locate_sentences("Sources: a.pdf\n\nThe tower was built in 1889 by Eiffel.", answer=True)
    assert [each.plain for each in found] == ["The tower was built in 1889 by Eiffel."]
    # A mark at the begin of a line does not make a source of the claim after it, unless the text above cites it.
    for text in (
        "[1] The tower was built in 1889.\n[2] It stands in Paris.",
        "Built in 1889.\n[1] It stands in Paris.",
    ):
        assert "Paris" in " ".join(each.plain for each in locate_sentences(text, answer=True)), text
    text = "The tower was built in 1889 [1]. It stands in Paris [2].\n\n[1] Smith, Towers\n[2] Lee, Paris and London"
    assert len(locate_sentences(text, answer=True)) == 2
    # A heading may claim something: it belongs to the sentence after it, and nothing of it is lost.
    text = "## Built in Paris\n\nThe tower is tall."
    (sentence,) = locate_sentences(text, answer=True)
    assert text[sentence.start : sentence.end] == "Built in Paris\n\nThe tower is tall."
    assert "Paris" in sentence.plain


AROUND = {
    "en": ("That's a great question!", "I hope this helps! Let me know if you have any other questions."),
    "ru": ("Отличный вопрос!", "Надеюсь, это поможет! Если у вас есть ещё вопросы, обращайтесь."),
    "de": ("Das ist eine gute Frage!", "Ich hoffe, das hilft! Falls Sie noch Fragen haben, helfe ich gerne."),
    "fr": ("Bonne question !", "J’espère que cela vous aide ! N'hésitez pas à demander."),
    "es": ("¡Buena pregunta!", "¡Espero que esto ayude! Si tienes más preguntas, avísame."),
    "it": ("Ottima domanda!", "Spero che questo ti aiuti! Fammi sapere se hai altre domande."),
    "pt": ("Ótima pergunta!", "Espero que isso ajude! Se tiver mais perguntas, me avise."),
    "pl": ("Dobre pytanie!", "Mam nadzieję, że to pomoże! Daj znać."),
    "ro": ("Bună întrebare!", "Sper că acest lucru vă ajută!"),
    "sv": ("Bra fråga!", "Hoppas det hjälper!"),
    "no": ("Godt spørsmål!", "Jeg håper dette hjelper!"),
    "tr": ("İyi soru!", "Umarım bu bilgi yardımcı olur."),
    "id": ("Pertanyaan bagus!", "Semoga membantu!"),
    "vi": ("Câu hỏi hay!", "Hy vọng thông tin này hữu ích."),
    "el": ("Καλή ερώτηση!", "Ελπίζω αυτό να βοηθά!"),
    "he": ("שאלה מצוינת!", "מקווה שזה עוזר!"),
    "ar": ("سؤال رائع!", "آمل أن يكون هذا مفيدًا."),
    "fa": ("سوال خوبی است!", "امیدوارم این پاسخ مفید باشد."),
    "hi": ("अच्छा सवाल है!", "उम्मीद है कि यह जानकारी मददगार होगी।"),
    "zh": ("这是一个很好的问题！", "希望这对您有帮助！如果您还有其他问题，请随时告诉我。"),
    "ja": ("良い質問ですね！", "お役に立てれば幸いです。"),
    "th": ("คำถามที่ดีมากครับ", "หวังว่าข้อมูลนี้จะเป็นประโยชน์"),
}


def test_praise_of_the_question_and_offers_claim_nothing_in_every_language_of_the_labeler() -> None:
    assert AROUND.keys() == LANGUAGES.keys()
    for language, (before, after) in AROUND.items():
        for text in (before, after, f"{before}\n\n{after}"):
            assert locate_sentences(text, language, answer=True) == [], text
        claims = locate_sentences(f"{before}\n\nEiffel built it in 1889.\n\n{after}", answer=True)
        assert [found.plain for found in claims] == ["Eiffel built it in 1889."], language


@given(st.sampled_from([*AROUND.values()]), st.sampled_from([": ", "; "]))
def test_a_claim_after_praise_or_a_hope_is_kept(around: tuple[str, str], mark: str) -> None:
    for courtesy in around:
        text = courtesy.rstrip("!.。！ ") + f"{mark}the tower stands in Paris."
        assert "the tower stands in Paris" in " ".join(found.plain for found in locate_sentences(text, answer=True)), (
            text
        )


def test_an_answer_that_begins_like_courtesy_is_a_claim() -> None:
    for claim in (
        "Great question: the tower was built in 1889.",
        "I hope this helps: the tower stands in Paris.",
        "Good question papers are kept for five years.",
        "Das ist eine gute Frage des Preises.",
        "Ich hoffe, die Maschine hilft den Bauern.",
        "Wenn Sie den Deckel öffnen, stoppt die Pumpe.",
        "Si vous avez froid, fermez la fenêtre.",
        "Si necesita más de 5 piezas, llame.",
        "这是一个很好的问题，答案是巴黎。",
        "希望号火星探测器于七月发射。",
    ):
        assert len(locate_sentences(claim, answer=True)) == 1, claim


def test_an_answer_of_courtesy_alone_claims_nothing() -> None:
    for text in ("Hello! How can I help you today?", "https://example.com/a", "...", "👍", "a.pdf, p. 3"):
        assert locate_sentences(text, answer=True) == [], text


@given(st.text(max_size=300))
def test_no_letter_or_digit_of_plain_text_is_lost_and_sentences_stand_in_the_text(text: str) -> None:
    found = locate_sentences(text)
    places = [(each.start, each.end) for each in found]
    assert places == sorted(places)
    assert all(any(map(str.isalnum, text[start:end])) for start, end in places)
    assert place_sentences(text, [text[start:end] for start, end in places])[0] == text
    if not set(text) & set("<&[]()*_`~#>|【0123456789.") and not any(char in text for char in "\x00\x1c\x1d\x1e\x1f"):
        letters = "".join(char for char in text if char.isalpha() and char.isascii())
        assert (
            "".join(char for start, end in places for char in text[start:end] if char.isalpha() and char.isascii())
            == letters
        )


MARKUP = st.lists(
    st.sampled_from(
        ["<p>", "</p>", "<td>", "<tr>", "<br>", "<li>", "<", ">", "&nbsp;", "|", "|---|---|", "\n", "\r\n", "- ", "1. ", "a) ", "**",
         "_", "`", "```\n", "[", "](", ")", "[1]", "https://x.y/z", "Sources:", "# ", "===", "---\n", "word", "Dr.", "in 1889.", "  ",
         "\t", "•", "\x00", "【4†s】", "слово", "。", "塔", "<!--", "<script>", "Sure!", "I hope this helps", ": "]
    ),
    max_size=60,
).map("".join)  # fmt: skip


@given(MARKUP)
def test_no_markup_breaks_the_splitter(text: str) -> None:
    for answer in (False, True):
        found = locate_sentences(text, answer=answer)
        places = [(each.start, each.end) for each in found]
        assert places == sorted(places)
        assert all(0 <= start < end <= len(text) for start, end in places)
        assert all(before[1] <= after[0] for before, after in pairwise(places))


@pytest.mark.parametrize(
    "unit",
    ["<", "<p ", "[", "](", "*", "_ a", "`", "- a\n", "1. ", "| a ", "a\n", "\n", "<!--", "<script>", "&amp", "(Smith ", "[1", "【", "  a",
     "> ", "#", "a.b ", "bzw. Da ", "слово. ", "\t", "=\n", "Sources:\n", "https://", "•", "a-\nb", "not ", "“a b. C "],
)  # fmt: skip
def test_a_megabyte_of_any_mark_is_split_in_time_that_grows_with_its_length(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.process_time()
        locate_sentences(text)
        locate_sentences(text, answer=True)
        return time.process_time() - started

    seconds(1000)
    # A guard against quadratic work, which takes more than a minute for so much: no measurement.
    assert seconds(60_000) < 6


QUESTIONS = {
    "en": ("How do I start the pump?", ENGLISH, ENGLISH[:3], "Penguins enjoy the cold sea. They hunt small fish at night. Their nests are on rocks."),
    "en tower": ("When was the tower built?", TOWER, TOWER[:2], "Rome was founded by Romulus. It lies on seven hills near the river."),
    "ru": ("Как запустить насос?", RUSSIAN, RUSSIAN[:3], "Пингвины любят холодное море. Они ловят мелкую рыбу ночью. Гнёзда лежат на скалах."),
    "ru tower": ("Когда построили башню?", BASHNYA, BASHNYA[:2], "Рим основал царь Ромул. Город лежит на семи холмах у реки."),
}  # fmt: skip
SCORES = ("trace.adherence", "trace.supported_fraction", "trace.context_relevance", "trace.context_utilization")


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_local_labeler_scores_one_answer_alike_in_any_form(name: str) -> None:
    question, facts, right, wrong = QUESTIONS[name]
    labeler = LocalLabeler()

    def scores(response: str, document: str) -> dict[str, float]:
        row = RagInteraction(pipeline="p", question=question, documents=[document], response=response)
        return dict(labeler.label_now(row).scores)

    document = " ".join(facts)
    plain, bad = scores(" ".join(right), document), scores(wrong, document)
    answers = {form: make(right) for form, make in FORMS.items()} | {
        form: form.format(" ".join(right)) for form in NO_CLAIMS
    }
    answers["table with header"] = TABLE_WITH_HEADER + FORMS["rows of pipes"](right)
    far: dict[tuple[str, ...], tuple[float, float]] = {}
    for form, response in answers.items():
        found = scores(response, document)
        far |= {
            (form, metric): (found[metric], plain[metric])
            for metric in SCORES
            if abs(found[metric] - plain[metric]) > 0.1
        }
        assert found["trace.adherence"] > bad["trace.adherence"] + 0.1, form
        assert found["trace.context_utilization"] > bad["trace.context_utilization"], form
    for form, make in FORMS.items():
        found = scores(" ".join(right), make(facts))
        far |= {
            ("document", form, metric): (found[metric], plain[metric])
            for metric in SCORES
            if abs(found[metric] - plain[metric]) > 0.1
        }
    assert far == {}
