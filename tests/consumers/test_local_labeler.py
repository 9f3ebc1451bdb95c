import json
import os
import subprocess
import sys
import time
import unicodedata
from cProfile import Profile
from hashlib import blake2b
from pstats import Stats
from statistics import fmean
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.local.labeler import LANGUAGES
from ragtide_consumers.labelers.local.words import WITH_ENDINGS, number_words, stem_of, tokens, vocabulary
from ragtide_consumers.text.sentences import split_sentences
from ragtide_offline.demo import SHIFT, demo_interactions
from ragtide_schemas import METRICS

pytestmark = pytest.mark.processes

LABELER = LocalLabeler()
TEXT = st.text(min_size=1, max_size=200).filter(str.strip)


def interaction(response: str, *documents: str, question: str = "When was the tower built?") -> RagInteraction:
    return RagInteraction(pipeline="p", question=question, documents=documents, response=response)


TOWER = "The tower was built in 1889 by Gustave Eiffel. It stands in Paris and is made of iron."


PUBLISHED = {name for name in METRICS if name.startswith("trace.")} | {"retrieval.match"}


def test_a_copied_answer_is_supported_and_an_invented_one_is_not() -> None:
    copied = LABELER.label_now(interaction("The tower was built in 1889 by Gustave Eiffel.", TOWER)).scores
    invented = LABELER.label_now(interaction("Penguins enjoy swimming near antarctic glaciers.", TOWER)).scores
    for metric in ("trace.adherence", "trace.supported_fraction"):
        assert copied[metric] > 0.9
        assert copied[metric] > invented[metric] + 0.2
    assert copied["trace.context_utilization"] > 3 * invented["trace.context_utilization"]


def test_on_real_questions_swapped_answers_score_clearly_lower() -> None:
    # Three of the answers are refusals, which have no adherence.
    rows = [row for row in demo_interactions() if "trace.adherence" in LABELER.label_now(row).scores]
    for metric, gap in (
        ("trace.adherence", 0.6),
        ("trace.supported_fraction", 0.6),
        ("trace.context_utilization", 0.3),
    ):
        own = fmean(LABELER.label_now(row).scores[metric] for row in rows)
        swapped = fmean(
            LABELER.label_now(row.model_copy(update={"response": rows[(i + SHIFT) % len(rows)].response})).scores[
                metric
            ]
            for i, row in enumerate(rows)
        )
        assert own - swapped > gap


def test_russian_is_scored() -> None:
    document = "Башня была построена в 1889 году. Она стоит в Париже."
    own = LABELER.label_now(interaction("Башню построили в 1889 году.", document)).scores
    other = LABELER.label_now(interaction("Пингвины любят холодную воду.", document)).scores
    assert own["trace.adherence"] > 0.85
    assert other["trace.adherence"] < 0.6


def test_a_language_it_does_not_know_is_said_to_be_unsupported() -> None:
    tower = "Вежа була збудована в 1889 році, і вона стоїть у Парижі."
    labeling = LABELER.label_now(interaction(tower, tower))
    assert labeling.scores == {}
    assert set(labeling.absent.values()) == {"language_not_supported"}
    assert set(labeling.absent) == PUBLISHED


@given(TEXT, TEXT, TEXT)
def test_whatever_the_text_every_metric_is_scored_in_range_or_absent(question: str, document: str, answer: str) -> None:
    labeling = LABELER.label_now(interaction(answer, document, question=question))
    assert set(labeling.scores) | set(labeling.absent) == PUBLISHED
    for name, score in labeling.scores.items():
        assert METRICS[name].lower <= score <= METRICS[name].upper


def test_scores_are_the_same_bits_in_every_process() -> None:
    code = (
        "import json;from ragtide import LocalLabeler;from ragtide_offline.demo import demo_interactions;"
        "print(json.dumps([dict(LocalLabeler().label_now(row).scores) for row in demo_interactions()[:40]]))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    here = [dict(LABELER.label_now(row).scores) for row in demo_interactions()[:40]]
    assert json.loads(printed.pop()) == here


def test_the_largest_interaction_that_is_taken_is_labeled_within_seconds() -> None:
    documents = [f"Some word {number} here and there. " * 3800 for number in range(25)]
    answer = " ".join(f"Some word {number} is here." for number in range(8000))
    started = time.process_time()
    LABELER.label_now(interaction(answer, *documents))
    # A guard against quadratic work (which took minutes), not a measurement.
    assert time.process_time() - started < 30


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith came. He left.", ["Dr. Smith came.", "He left."]),
        ("One line\nAnother line", ["One line", "Another line"]),
        ("A line\ngoes on", ["A line\ngoes on"]),
        ("Цена 3.5 руб. за шт. Это дорого!", ["Цена 3.5 руб. за шт.", "Это дорого!"]),
        ("  ", []),
        ("No end", ["No end"]),
    ],
)
def test_sentences_are_cut_at_their_ends(text: str, sentences: list[str]) -> None:
    language = "ru" if "Ц" in text else "en"
    assert split_sentences(text, language) == sentences


def test_words_are_compared_without_endings_and_stop_words() -> None:
    assert _stems("The towers were BUILT; the tower’s builder") == ["tower", "built", "tower", "builder"]
    assert _stems("Башни и башню, «БАШНЯ»…") == ["башн", "башн", "башн"]
    assert _stems("The café’s “naïve” — Café") == ["café", "naïve", "café"]


def _stems(text: str, language: str = "en") -> list[str]:
    return [stem for word in tokens(text, language) if (stem := stem_of(word, language))]


@pytest.mark.parametrize(
    ("language", "text", "stems"),
    [
        ("de", "Die Gründungen der Städte, die Gründer", ["gründu", "städte", "gründe"]),
        ("fr", "L’eau et l'électricité", ["eau", "électr"]),
        ("tr", "İstanbul'un ISI değeri, ısı", ["istanb", "isi", "değeri", "isi"]),
        ("hi", "क़िला १८८९ में बना था", ["क़िला", "1889", "बना"]),
        ("ar", "الكِتاب والكتاب وكتاب ١٨٨٩", ["كتاب", "كتاب", "كتاب", "1889"]),
        ("he", "הַמִּגְדָּל", ["המגדל"]),
        ("vi", unicodedata.normalize("NFD", "Tháp được xây năm 1889"), ["tháp", "xây", "năm", "1889"]),
        ("zh", "我们在巴黎铁塔1889年", ["们在", "在巴", "巴黎", "黎铁", "铁塔", "1889", "年"]),
        ("ja", "パリの鉄塔を建てた", ["パリ", "鉄塔", "建"]),
        ("th", "หอคอย", ["หอคอ", "อคอย"]),
        ("sv", "1234567890 år", ["1234567890", "år"]),
    ],
)
def test_words_of_a_language_are_compared_by_their_first_letters(language: str, text: str, stems: list[str]) -> None:
    assert _stems(text, language) == stems


@given(st.sampled_from(sorted(LANGUAGES)), st.text(st.sampled_from("aéßİıñ가ăộ़ंأ "), max_size=30))
def test_one_text_in_two_encodings_has_the_same_words(language: str, text: str) -> None:
    assume(language not in WITH_ENDINGS)
    assert tokens(unicodedata.normalize("NFD", text), language) == tokens(unicodedata.normalize("NFC", text), language)


LETTERS = st.text(
    st.characters(blacklist_categories=["Cs"]) | st.sampled_from("aAäß'’ .塔巴パの東คอยวั١अंכ"), max_size=40
)


@given(st.sampled_from(["en", "ru", "de", "ar", "ja", "zh", "th"]), st.lists(LETTERS))
def test_words_have_equal_numbers_if_and_only_if_their_stems_are_equal(language: str, texts: list[str]) -> None:
    found = number_words(texts, vocabulary(language))
    stems = [(row, stem) for row, text in enumerate(texts) for stem in _stems(text.replace("\x01", " "), language)]
    assert found.texts.tolist() == [row for row, _ in stems]
    pairs = set(zip(found.numbers.tolist(), [stem for _, stem in stems], strict=True))
    assert len(pairs) == len({number for number, _ in pairs}) == len({stem for _, stem in pairs})


def test_completeness_is_withheld_because_a_constant_is_better() -> None:
    labeling = LABELER.label_now(interaction("The tower was built in 1889 by Gustave Eiffel.", TOWER))
    assert labeling.absent == {
        "trace.completeness": "not_accurate_enough",
        "trace.average": "part_absent",
        "trace.rmse_aggregation": "part_absent",
    }


def test_a_number_that_stands_nowhere_lowers_the_support() -> None:
    right = LABELER.label_now(interaction("The tower was built in 1889 by Gustave Eiffel.", TOWER)).scores
    wrong = LABELER.label_now(interaction("The tower was built in 1789 by Gustave Eiffel.", TOWER)).scores
    assert wrong["trace.adherence"] < right["trace.adherence"] - 0.02


def test_the_scores_of_a_fixed_corpus_are_these_digits_everywhere() -> None:
    scored = [dict(LABELER.label_now(row).scores) for row in demo_interactions()[:40]]
    digits = json.dumps([{name: f"{score:.9f}" for name, score in sorted(row.items())} for row in scored])
    assert blake2b(digits.encode(), digest_size=8).hexdigest() == "25b8cd95d5acc98f"


def test_match_is_the_mean_share_of_the_questions_words_and_reads_no_response() -> None:
    """Words that no list of frequent words has weigh the same, so the shares are those of a count."""

    def match(
        *documents: str, response: str = "Yes.", question: str = "Do zebras outrun gazelles?", **more: Any
    ) -> Any:
        row = RagInteraction(pipeline="p", question=question, documents=documents, response=response, **more)
        labeling = LABELER.label_now(row)
        return labeling.scores.get("retrieval.match", labeling.absent.get("retrieval.match"))

    assert match("Zebras outrun gazelles.") == 1.0
    assert match("Zebras eat grass.") == pytest.approx(1 / 3)
    assert match("Zebras eat grass. Gazelles too.", "Penguins swim.") == pytest.approx(1 / 3)
    assert match("Zebras eat grass.", response="") == match("Zebras eat grass.", response="Penguins.")
    assert match() == "nothing_retrieved"
    assert match("Zebras eat grass.", question="And why is that?") == "no_question_words"
    turn = {"question": "Do zebras outrun gazelles?", "response": "Yes."}
    assert match("Zebras outrun gazelles.", question="And why is that?", history=[turn]) == 1.0
    assert match("Zebras outrun gazelles in Africa.", question="Кто бежит быстрее?") == "language_not_supported"


def test_relevance_is_absent_if_the_question_is_in_another_language_than_the_documents() -> None:
    labeling = LABELER.label_now(interaction("The tower was built in 1889.", TOWER, question="Когда построили башню?"))
    assert labeling.absent["trace.context_relevance"] == "language_not_supported"
    assert labeling.scores.keys() >= {"trace.adherence", "trace.context_utilization"}


def test_documents_of_another_question_have_a_lower_relevance_although_the_answer_is_theirs() -> None:
    rows = [row for row in demo_interactions() if "trace.context_relevance" in LABELER.label_now(row).scores]
    for metric, share in (("retrieval.match", 0.95), ("trace.context_relevance", 0.9)):
        own = [LABELER.label_now(row).scores[metric] for row in rows]
        broken = [
            LABELER.label_now(row.model_copy(update={"question": rows[(i + SHIFT) % len(rows)].question})).scores.get(
                metric
            )
            for i, row in enumerate(rows)
        ]
        pairs = [value > other for value in own for other in broken if other is not None]
        assert fmean(pairs) > share


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("The tower was built in 1889 by Gustave Eiffel.", "The tower was not built in 1889 by Gustave Eiffel."),
        ("The tower was built in 1889 by Gustave Eiffel.", "The tower wasn't built in 1889 by Gustave Eiffel."),
    ],
)
def test_a_negated_answer_has_a_lower_support(right: str, wrong: str) -> None:
    found = [LABELER.label_now(interaction(response, TOWER)).scores["trace.adherence"] for response in (right, wrong)]
    assert found[1] < found[0] - 0.1
    denied = TOWER.replace("was built", "was not built")
    assert LABELER.label_now(interaction(wrong, denied)).scores["trace.adherence"] > found[1] + 0.05


def test_names_that_stand_nowhere_lower_the_support() -> None:
    right = LABELER.label_now(interaction("The tower was built by Gustave Eiffel.", TOWER)).scores
    wrong = LABELER.label_now(interaction("The tower was built by Hector Guimard.", TOWER)).scores
    assert wrong["trace.adherence"] < right["trace.adherence"] - 0.3


def test_a_response_without_any_word_is_scored() -> None:
    assert LABELER.label_now(interaction("42", TOWER)).scores.keys() >= {"trace.adherence", "trace.context_relevance"}
    labeling = LABELER.label_now(interaction("...", TOWER))
    assert labeling.scores.keys() >= {"trace.context_relevance"}
    assert labeling.absent["trace.adherence"] == "no_response_sentences"


def test_right_answers_in_another_language_than_the_documents_are_not_scored_as_wrong() -> None:
    labeling = LABELER.label_now(interaction("Башня была построена в 1889 году, это всем известно.", TOWER))
    assert set(labeling.absent.values()) == {"language_not_supported"}


def test_work_grows_with_the_text_and_not_with_its_square() -> None:
    def calls(times: int) -> int:
        profile = Profile()
        document = " ".join(f"The tower number {number} was built in {1000 + number}." for number in range(200 * times))
        answer = " ".join(f"Tower {number} was built in {1000 + number}." for number in range(20 * times))
        row = interaction(answer, document)
        profile.runcall(LABELER.label_now, row)
        return int(Stats(profile).total_calls)  # type: ignore[attr-defined]

    for times in (1, 4):
        calls(times)  # whatever is loaded once is loaded now
    assert calls(4) < 6 * calls(1)
