"""The corruptions of texts and interactions: each changes what it says, and nothing else."""

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragtide_offline.benchmark.formats import read_labeled
from ragtide_offline.corruptions.interactions import CORRUPTIONS, spoil, without_own_sentences
from ragtide_offline.corruptions.negation import negate
from ragtide_offline.corruptions.texts import change_numbers, changed_unit_or_date, names_of, swap_entity
from ragtide_schemas import METRICS, RagInteraction

DATA = Path(__file__).parents[1] / "data" / "ragbench" / "ragbench_sample.jsonl"


@pytest.fixture(scope="module")
def rows() -> list[RagInteraction]:
    return [row.interaction for row, _ in read_labeled(DATA) if row.interaction is not None]


@given(
    st.lists(st.integers(0, 10**7) | st.integers(990, 2110), min_size=1, max_size=6),
    st.sampled_from(["{}", "{:,}", "{}.5", "{} %"]),
    st.integers(),
)
@example([1000], "{}", 0)
def test_every_number_changes_and_nothing_else(values: list[int], form: str, seed: int) -> None:
    text = "".join(f" people saw {form.format(value)};" for value in values)
    changed = change_numbers(text, Random(seed))
    assert changed is not None
    number = re.compile(r"\d[\d.,]*")
    assert number.sub("", changed) == number.sub("", text)
    pairs = list(zip(number.findall(text), number.findall(changed), strict=True))
    assert all(old != new and len(old) == len(new) for old, new in pairs)
    assert len({*pairs}) == len({old for old, _ in pairs}), "equal numbers stay equal"
    assert changed == change_numbers(text, Random(seed))


def test_numbers_that_state_no_fact_stay() -> None:
    text = "1. COVID-19 and H1N1 are viruses [1].\n2. v1.2 is a version (source 3)."
    assert change_numbers(text, Random(1)) is None


@given(
    st.sampled_from(["5 km", "5km", "€5", "in May 1990", "on Monday", "ten years", "12 марта", "7 лет", "2024-05-01"]),
    st.integers(),
)
def test_a_unit_or_date_becomes_another_one(fact: str, seed: int) -> None:
    changed = changed_unit_or_date(f"It was {fact}, they say.", Random(seed))
    assert changed is not None
    assert changed.startswith("It was ")
    assert changed.endswith(", they say.")
    assert fact not in changed


def test_words_that_are_no_dates_stay() -> None:
    assert changed_unit_or_date("They march on, and an august m of them may go.", Random(1)) is None


@given(
    st.sampled_from(["The tower", "She", "A city of 3 million", "Le Corbusier"]),
    st.sampled_from(["is", "are", "was", "were", "can", "will", "has been", "has", "must"]),
    st.sampled_from(["tall", "a thing of the past", "known for wine"]),
)
def test_a_sentence_that_is_negated_twice_is_itself(subject: str, verb: str, rest: str) -> None:
    text = f"{subject} {verb} {rest}, as the people said at that time."
    once = negate(text)
    assert once is not None
    assert once != text
    assert negate(once) == text


def test_negations_of_other_verbs_and_languages() -> None:
    for text, opposite in [
        ("It doesn't have a door.", "It has a door."),
        ("There is no evidence for this.", "There is evidence for this."),
        ("Paris won’t pay for the tower.", "Paris will pay for the tower."),
        ("The band released an album in 2004.", "The band never released an album in 2004."),
        ("Париж является столицей Франции.", "Париж не является столицей Франции."),
        ("Париж не является столицей Франции.", "Париж является столицей Франции."),
        ("Париж — столица Франции.", "Париж — не столица Франции."),
        ("Здесь можно купить билет на поезд.", "Здесь нельзя купить билет на поезд."),
        ("Der Turm ist sehr hoch und steht in der Stadt.", "Der Turm ist nicht sehr hoch und steht in der Stadt."),
    ]:
        assert negate(text) == opposite
    assert negate("Marvel Comics") is None


def test_a_name_is_replaced_everywhere_by_a_name_that_is_not_in_the_text() -> None:
    documents = ["The tower was built by Gustave Eiffel in Paris.", "People such as Jules Verne lived in Nantes."]
    names = names_of(documents)
    assert names == ["Gustave Eiffel", "Paris", "Jules Verne", "Nantes"]
    text = "Gustave Eiffel built it, and Gustave Eiffel lived there."
    for seed in range(20):
        changed = swap_entity(text, names, Random(seed))
        assert changed == "Jules Verne built it, and Jules Verne lived there."
    assert swap_entity("It was built by hand.", names, Random(1)) is None
    assert swap_entity("It stands in Paris.", ["Paris"], Random(1)) is None


OF_THE_ANSWER = {
    "wrong answer", "foreign sentence", "changed numbers", "changed unit or date", "swapped entity", "negation",
    "general knowledge", "refusal", "another language", "padding",
}  # fmt: skip
OF_THE_DOCUMENTS = {
    "wrong documents", "half wrong documents", "cut documents", "reversed documents", "right document last",
    "near duplicate",
}  # fmt: skip


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_changes_what_it_says(rows: list[RagInteraction], name: str) -> None:
    found = [(row, spoil(CORRUPTIONS[name], row, rows)) for row in rows]
    applied = [(without_own_sentences(row), other) for row, other in found if other is not None]
    assert len(applied) > (10 if name in {"changed numbers", "changed unit or date"} else len(rows) / 2)
    for clean, other in applied:
        # The spoilt row must pass through every edge like any interaction.
        assert RagInteraction.model_validate_json(other.encode()) == other
        assert clean.question == other.question
        assert (clean.response == other.response) == (name in OF_THE_DOCUMENTS)
        assert (clean.documents == other.documents) == (name in OF_THE_ANSWER)
        assert not other.gold_scores
        assert other.response_sentences is None
    for clean, other in applied:
        if name in {"broken retriever", "wrong documents"}:
            texts = {document.text for document in other.documents}
            assert texts.isdisjoint(document.text for document in clean.documents)
        if name in {"reversed documents", "right document last"}:
            assert sorted(map(repr, clean.documents)) == sorted(map(repr, other.documents))


def test_every_expected_metric_exists_and_harmless_corruptions_expect_no_harm() -> None:
    later = {"retrieval.match"}
    for corruption in CORRUPTIONS.values():
        assert corruption.expected.keys() <= METRICS.keys() | later
        assert corruption.harmless == ("worse" not in corruption.expected.values())


def test_without_another_question_only_corruptions_of_the_row_itself_are_left(rows: list[RagInteraction]) -> None:
    alone = [name for name, corruption in CORRUPTIONS.items() if spoil(corruption, rows[0], rows[:1]) is not None]
    assert {"negation", "refusal", "padding", "cut documents"} <= {*alone}
    assert {"wrong documents", "broken retriever", "wrong answer", "foreign sentence"}.isdisjoint(alone)


DIGEST = """
import sys
from hashlib import blake2b
from pathlib import Path
from ragtide_offline.benchmark.formats import read_labeled
from ragtide_offline.corruptions.interactions import CORRUPTIONS, spoil
rows = [row.interaction for row, _ in read_labeled(Path(sys.argv[1]))]
digest = blake2b()
for corruption in CORRUPTIONS.values():
    for row in rows:
        other = spoil(corruption, row, rows, seed=int(sys.argv[2]))
        digest.update(repr(other and (other.response, other.documents)).encode())
print(digest.hexdigest())
"""


@pytest.mark.processes
def test_the_same_seed_spoils_in_the_same_way_in_every_process() -> None:
    def digest(hash_seed: str, seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", DIGEST, str(DATA), seed],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout

    assert digest("1", "0") == digest("2", "0") != digest("1", "1")
