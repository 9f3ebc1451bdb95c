"""Cells of other tools are read as what they were made from, or refused with column, row and remedy."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtide_producers import FileOptions, UnreadableFileError, count_rows, read_items, read_rows
from ragtide_producers.files.feedback import read_feedback

QUESTION, ANSWER = "When is it open?", "From 9 to 5."
HOURS, MONDAY = "Opening hours are 9 to 5", "It's closed on Monday"
TEXTS = [HOURS, MONDAY]


def read(path: Path, content: str | bytes) -> list[Any]:
    """Documents and response of each row, or its problem."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found: list[Any] = []
    for row in read_rows(path, FileOptions(unnamed="x")):
        one = row.interaction
        found.append(row.problem if one is None else ([text.text for text in one.documents], one.response))
    return found


def line(**changes: Any) -> str:
    return json.dumps({"question": QUESTION, "contexts": TEXTS, "answer": ANSWER, **changes})


@pytest.mark.parametrize(
    "value",
    [
        str(np.array(TEXTS, dtype=object)),
        repr(np.array(TEXTS)),
        repr(list(np.array(TEXTS))),
        repr({"text": np.array(TEXTS, dtype=object), "score": np.array([0.5, 0.25])}),
        repr([{"node": {"text": text, "id_": "n"}, "score": 0.5} for text in TEXTS]),
        json.dumps([json.dumps(TEXTS)]),
        json.dumps(TEXTS).replace('"', '""'),
        {"title": ["A", "B"], "sentences": [["Opening hours", " are 9 to 5"], [MONDAY]]},
        {"title": ["A", "B"], "content": [["Opening hours", "are 9 to 5"], [MONDAY]]},
        [["A", ["Opening hours", " are 9 to 5"]], ["B", [MONDAY]]],
        {"passage_text": TEXTS, "is_selected": [1, 0], "url": ["a", "b"]},
        {"ids": [["1", "2"]], "documents": [TEXTS], "distances": [[0.1, 0.2]], "metadatas": [[{}, {}]]},
        [{"document": "guide.pdf", "body": text} for text in TEXTS],
        [{"paragraph_text": text, "idx": 1, "is_supporting": True} for text in TEXTS],
        [{"contents": text, "summary": "short"} for text in TEXTS],
        [HOURS, None, "", "nan", {"text": MONDAY}],
        [{"page_content": HOURS}, {"page_content": None, "id": "x"}, {"page_content": MONDAY}],
        [HOURS, MONDAY, "<NA>"],
    ],
    ids=str,
)
def test_documents_are_read_as_what_they_were_made_from(value: Any, tmp_path: Path) -> None:
    for column in ("contexts", "documents"):
        row = {"question": QUESTION, column: value, "answer": ANSWER}
        assert read(tmp_path / "a.jsonl", json.dumps(row)) == [(TEXTS, ANSWER)], column


@pytest.mark.parametrize("value", ["nan", "None", "null", '"null"', "<NA>", "No results found.", ["null"], [None], []])
def test_a_missing_value_is_nothing_retrieved_and_never_a_document(value: Any, tmp_path: Path) -> None:
    assert read(tmp_path / "a.jsonl", line(contexts=value)) == [([], ANSWER)]


@pytest.mark.parametrize(
    "value",
    [
        "['a' 'b' ... 'y' 'z']",
        "['Opening hours ' \n 'are 9 to 5']",
        "['Opening hours' 'are 9 to 5', 'closed']",
        "['Opening hours''are 9 to 5']",
        "[Opening hours are 9 to 5, It is closed on Monday]",
        "['Opening hours are 9 to 5', 'It is closed...",
        "[“Opening hours”, “closed”]",
        "0    Opening hours\n1    closed\nName: contexts, dtype: object",
        "[[1]",
        [["a", "b"], ["c", "d"]],
        [1, 2],
        {"ids": ["a", "b"]},
        [{"id": "a", "score": 0.5}],
        {"text": TEXTS, "score": [0.5]},
        {"sentences": TEXTS},
    ],
    ids=str,
)
def test_what_could_be_read_in_two_ways_is_refused_with_its_column(value: Any, tmp_path: Path) -> None:
    for column in ("contexts", "documents"):
        (problem,) = read(tmp_path / "a.jsonl", json.dumps({"question": QUESTION, column: value, "answer": ANSWER}))
        assert isinstance(problem, str), problem
        assert column in problem


@pytest.mark.parametrize(
    "text", ["[1] The tower stands.", "(see page 4) It is open.", "{x} is a set.", "None of them."]
)
def test_a_text_that_only_looks_like_a_value_stays_a_text(text: str, tmp_path: Path) -> None:
    assert read(tmp_path / "a.jsonl", line(contexts=text)) == [([text], ANSWER)]
    assert read(tmp_path / "b.jsonl", line(contexts=[text])) == [([text], ANSWER)]
    assert read(tmp_path / "c.jsonl", line(answer=text)) == [(TEXTS, text)]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1889, "1889"), (1889.0, "1889"), (0.5, "0.5"), (True, "true"), (["1889"], "1889"), ([1889, None], "1889")],
)
def test_a_number_or_one_answer_in_a_list_is_the_answer(value: Any, text: str, tmp_path: Path) -> None:
    for name in ("answer", "response"):
        row = {"question": QUESTION, "contexts": TEXTS, name: value, "reference": value}
        assert read(tmp_path / "a.jsonl", json.dumps(row)) == [(TEXTS, text)]
    (item,) = read_items(tmp_path / "a.jsonl")
    assert item.reference_answer == text


def test_several_answers_are_refused_and_a_word_for_a_missing_value_is_not_guessed(tmp_path: Path) -> None:
    (problem,) = read(tmp_path / "a.jsonl", line(answer=["yes", "no"]))
    assert "answer" in problem
    assert read(tmp_path / "a.jsonl", line(answer="None")) == [(TEXTS, "None")]
    rows = 'question,contexts,answer,reference\nq,d,None,r\nq,d,"""None""",nan\nq,d,,\n'
    refused, meant, none = read(tmp_path / "a.csv", rows)
    assert "answer, is 'None'" in refused
    assert (meant, none) == ((["d"], "None"), (["d"], ""))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separators_marks_and_spellings_of_a_header_are_read(separator: str, encoding: str, tmp_path: Path) -> None:
    head = separator.join((" User Input", "Retrieved Contexts ", "RESPONSE", "notes"))
    text = f"{head}\r\n{separator.join((QUESTION, HOURS, ANSWER, 'x'))}\r\n"
    for name in ("a.csv", "a.tsv"):
        assert read(tmp_path / name, text.encode(encoding)) == [([HOURS], ANSWER)]
        assert read(tmp_path / f"{name}.gz", gzip.compress(text.encode(encoding))) == [([HOURS], ANSWER)]
    if separator != "\t":
        assert read(tmp_path / "a.csv", f"sep={separator}\n{text}".encode(encoding)) == [([HOURS], ANSWER)]


def test_two_columns_of_one_name_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="answer"):
        read(tmp_path / "a.csv", "question,contexts,answer,answer\nq,d,a,b\n")
    (problem,) = read(tmp_path / "a.csv", "question,contexts,answer,Answer\nq,d,a,b\n")
    assert "answer and Answer" in problem
    (problem,) = read(tmp_path / "a.jsonl", '{"question": "q", "contexts": ["d"], "answer": "a", "answer": "b"}')
    assert "answer is given twice" in problem
    (problem,) = read(tmp_path / "a.csv", "question,retrieval_context,context,answer\nq,,the ideal,a\n")
    assert "retrieval_context" in problem


def test_a_table_of_pandas_is_read_in_every_orient_that_has_names(tmp_path: Path) -> None:
    row = {"question": QUESTION, "contexts": TEXTS, "answer": ANSWER}
    tables: list[Any] = [
        [row, row],
        {"0": row, "1": row},
        {name: {"0": value, "1": value} for name, value in row.items()},
        {name: [value, value] for name, value in row.items()},
        {"columns": list(row), "index": [0, 1], "data": [list(row.values())] * 2},
        {"schema": {"fields": []}, "data": [row, row]},
    ]
    for table in tables:
        for name in ("a.json", "a.jsonl") if isinstance(table, list) else ("a.json",):
            assert read(tmp_path / name, json.dumps(table)) == [(TEXTS, ANSWER)] * 2, table
            assert count_rows(tmp_path / name, FileOptions()) == 2
    assert read(tmp_path / "a.json", f"{line()}\n{line()}\n") == [(TEXTS, ANSWER)] * 2
    assert read(tmp_path / "a.jsonl", json.dumps(row, indent=2)) == [(TEXTS, ANSWER)]
    with pytest.raises(UnreadableFileError, match="not as long"):
        read(tmp_path / "a.json", json.dumps({"question": ["q", "q"], "answer": ["a"]}))


def test_nan_in_json_costs_no_row_beside_the_answer_and_refuses_it_as_the_question(tmp_path: Path) -> None:
    side = '{"question": "q", "contexts": ["d"], "answer": "a", "scores": {"f1": NaN}}'
    own = '{"question": NaN, "contexts": ["d"], "answer": "a"}'
    for name, content in (("a.jsonl", f"{side}\n{own}"), ("a.json", f"[{side}, {own}]")):
        (tmp_path / name).write_text(content)
        first, second = read_rows(tmp_path / name, FileOptions(unnamed="x"))
        assert first.interaction is not None
        assert "question" in (second.problem or "")


def test_rows_of_another_tool_are_no_rows_of_ragchecker_or_ragbench(tmp_path: Path) -> None:
    for extra in ({"query_id": 7}, {"gt_answer": "r"}, {"generation_model_name": "m"}):
        row = {"query": QUESTION, "contexts": TEXTS, "answer": ANSWER, **extra}
        assert read(tmp_path / "a.jsonl", json.dumps(row)) == [(TEXTS, ANSWER)]


def test_feedback_with_a_mark_or_in_utf_16_is_read(tmp_path: Path) -> None:
    text = '{"pipeline": "p", "interaction_id": "i", "gold_scores": {"trace.adherence": 1}}\n'
    for encoding in ("utf-8-sig", "utf-16"):
        (tmp_path / "f.jsonl").write_bytes(text.encode(encoding))
        (found,) = read_feedback(tmp_path / "f.jsonl")
        assert found.feedback is not None
