"""Checks of the words of criteria: each check finds its problem, and leaves a criterion alone that has none."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide_roles.criteria.checks import criterion_findings
from ragtide_roles.criteria.files import read_criteria
from ragtide_runtime.errors import ConfigurationError
from ragtide_schemas.criterion import Criterion, built_in_criteria


def asked(question: str, **fields: Any) -> Criterion:
    scale = {} if "values" in fields else {"scale": "yes_no"}
    return Criterion.model_validate({"name": "asked", "question": question, **scale, **fields})


FOUND = {
    "and": ("double question", asked("Is the answer polite and correct?")),
    "und": ("double question", asked("Ist die Antwort höflich und richtig?")),
    "и": ("double question", asked("Ответ вежливый и правильный?")),
    "et": ("double question", asked("La réponse est-elle claire et correcte ?")),
    "two marks": ("double question", asked("Is it short? Is it polite?")),
    "no ends": ("scale", asked("How good is the tone?", scale="1-5")),
    "documents": ("needs", asked("Does the response cite the documents?", needs=("response",))),
    "Quelle": ("needs", asked("Nennt die Antwort eine Quelle?", needs=("response",))),
    "reference": ("needs", asked("Does the response match the reference answer?")),
    "question": ("needs", asked("Does the response repeat the question?", needs=("response",))),
    "earlier": ("needs", asked("Does it repeat an earlier answer?", needs=("response",))),
    "fault": ("direction", asked("Does the response invent a price?")),
    "values": ("direction", asked("Is it good?", values={"good": 0.0, "bad": 1.0})),
    "built in": ("overlap", asked("Does the response answer the question?")),
}
CLEAN = {
    "of the issue": asked("Does the response ask a clarifying question when the user's question is ambiguous?"),
    "asks": asked("Does the response ask a question?", needs=("response",)),
    "one idea": asked("Does the response answer yes or no?"),
    "ends": asked("How good is the tone? 1: rude, 5: kind", scale="1-5"),
    "lower": asked("Does the response invent a price?", direction="lower"),
    "negated": asked("Is the response free of errors?"),
    "needs": asked("Does the response cite the documents?", needs=("response", "documents")),
    "values": asked("Is it good?", values={"good": 1.0, "bad": 0.0}),
    "japanese": asked("回答は丁寧ですか？"),
    "explained": asked("Is the answer short? Count the words and the lists."),
}


@for_each("name", list(FOUND))
def test_a_problem_is_found(name: str) -> None:
    kind, criterion = FOUND[name]
    assert [finding.kind for finding in criterion_findings([criterion])] == [kind]


@for_each("name", list(CLEAN))
def test_a_clean_criterion_has_no_finding(name: str) -> None:
    assert criterion_findings([CLEAN[name]]) == []


def test_the_built_in_criteria_have_no_finding() -> None:
    assert criterion_findings(built_in_criteria()) == []


def test_nearly_the_same_question_is_an_overlap_also_with_what_is_asked_already() -> None:
    first = asked("Does the response name the price?", name="first")
    second = asked("Does the response name a price?", name="second")
    (finding,) = criterion_findings([first, second])
    assert (finding.criterion, finding.kind, finding.level) == ("second", "overlap", "hint")
    assert "first" in finding.message
    assert [finding.kind for finding in criterion_findings([second], [first])] == ["overlap"]
    assert criterion_findings([second], [second]) == []


def test_the_same_name_twice_is_an_error() -> None:
    found = criterion_findings([asked("Is it short?"), asked("Does it name a shop in Berlin?")])
    assert [(finding.level, finding.kind) for finding in found] == [("error", "invalid")]


@given(st.text(min_size=1, max_size=200))
def test_no_question_breaks_a_check(question: str) -> None:
    try:
        criterion = asked(question)
    except ValueError:
        return
    for finding in criterion_findings([criterion]):
        assert finding.message


def test_a_file_has_criteria_and_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "criteria.toml"
    file.write_text(
        '[[judge.criteria]]\nname = "short"\nquestion = "Is it short?"\nscale = "yes_no"\n'
        '[[judge.criteria]]\nname = "tone"\nquestion = "How is the tone?"\n'
        '[[judge.criteria]]\nname = "answer.refused"\n',
        encoding="utf-8",
    )
    found = read_criteria(file)
    assert [criterion.name for criterion in found.criteria] == ["short", "answer.refused"]
    ((name, level, message),) = [(each.criterion, each.level, each.message) for each in found.findings]
    assert (name, level) == ("tone", "error")
    assert "scale" in message


@for_each("text", ["", "[judge]\ncriteria = 3\n", "[[judge.criteria]\n"])
def test_a_file_without_criteria_is_a_mistake_with_a_remedy(tmp_path: Path, text: str) -> None:
    file = tmp_path / "criteria.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"add one with name|it is not TOML"):
        read_criteria(file)
    with pytest.raises(ConfigurationError, match="is no file"):
        read_criteria(tmp_path / "none.toml")
