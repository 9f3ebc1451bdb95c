"""Files of other tools: their columns become the fields of an interaction, and other columns its metadata."""

import csv
import json
import shlex
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide.cli.running.files import columns_of
from ragtide_producers import FileOptions, read_items, read_rows
from ragtide_producers.files.columns import COLUMNS, interaction_fields
from ragtide_producers.files.interactions import name_of
from ragtide_producers.files.places import reached, without
from ragtide_schemas import InvalidEntryError, RagInteraction
from ragtide_schemas.times import utc_now

QUESTION, ANSWER, RIGHT = "When was it built?", "In 1889.", "It was built in 1889."
TEXTS = ["The tower was built in 1889.", "It is made of iron."]

ROWS: dict[str, dict[str, Any]] = {
    "Ragas until 0.1": {"question": QUESTION, "answer": ANSWER, "contexts": TEXTS, "ground_truth": RIGHT},
    "Ragas before that": {"question": QUESTION, "answer": ANSWER, "contexts": TEXTS, "ground_truths": [RIGHT]},
    "Ragas since 0.2": {
        "user_input": QUESTION,
        "response": ANSWER,
        "retrieved_contexts": TEXTS,
        "reference": RIGHT,
    },
    "DeepEval": {
        "input": QUESTION,
        "actual_output": ANSWER,
        "expected_output": RIGHT,
        "retrieval_context": TEXTS,
        "context": ["the ideal context"],
    },
    "DeepEval, as JavaScript writes it": {
        "input": QUESTION,
        "actualOutput": ANSWER,
        "expectedOutput": RIGHT,
        "retrievalContext": TEXTS,
    },
    "TruLens records": {
        "record_id": "r-1",
        "input": QUESTION,
        "output": ANSWER,
        "contexts": json.dumps(TEXTS),
        "expected": RIGHT,
    },
    "LangSmith runs": {
        "id": "8a1f",
        "inputs": {"question": QUESTION},
        "outputs": {"answer": ANSWER, "documents": [{"page_content": text, "metadata": {}} for text in TEXTS]},
        "reference_outputs": {"answer": RIGHT},
    },
    "LangSmith runs as CSV": {
        "inputs": json.dumps({"question": QUESTION}),
        "outputs": repr({"answer": ANSWER, "context": TEXTS}),
        "reference_outputs": json.dumps({"answer": RIGHT}),
    },
    "Phoenix spans": {
        "context.span_id": "ab12",
        "attributes.input.value": QUESTION,
        "attributes.output.value": ANSWER,
        "attributes.retrieval.documents": [{"document.content": text} for text in TEXTS],
        "reference": RIGHT,
    },
    "rows like ExpertQA": {
        "question": QUESTION,
        "response": ANSWER,
        "contexts": TEXTS,
        "reference": RIGHT,
        "field": "a",
    },
    "rows like ClapNQ": {
        "question": QUESTION,
        "answer": ANSWER,
        "passages": TEXTS,
        "reference": RIGHT,
        "title": "Tower",
    },
    "a chat": {
        "user_input": [{"role": "user", "content": "Hello"}, {"role": "user", "content": QUESTION}],
        "response": ANSWER,
        "retrieved_contexts": TEXTS,
        "reference": RIGHT,
    },
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_rows_of_another_tool_are_interactions(row: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    (found,) = read_rows(file, FileOptions(pipeline="shop"))
    assert found.interaction is not None, found.problem
    assert (found.interaction.question, found.interaction.response) == (QUESTION, ANSWER)
    assert [document.text for document in found.interaction.documents] == TEXTS
    assert found.interaction.reference_answer == RIGHT
    assert set(found.columns) >= {"documents"}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_rows_of_another_tool_are_questions_of_an_experiment(row: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row) + "\n")
    (item,) = read_items(file)
    assert item.question == QUESTION


def test_spans_of_phoenix_as_csv_are_read(tmp_path: Path) -> None:
    cells = {**ROWS["Phoenix spans"], "attributes.retrieval.documents": json.dumps([{"document.content": TEXTS[0]}])}
    with (tmp_path / "spans.csv").open("w", newline="") as file:
        csv.writer(file).writerows([cells.keys(), cells.values()])
    (found,) = read_rows(tmp_path / "spans.csv", FileOptions(pipeline="shop"))
    assert found.interaction is not None, found.problem
    assert (found.interaction.interaction_id, found.interaction.documents[0].text) == ("ab12", TEXTS[0])


def test_a_file_of_test_cases_is_a_list_of_rows(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text(json.dumps({"testCases": [ROWS["DeepEval"], ROWS["DeepEval"]]}))
    found = list(read_rows(tmp_path / "cases.json", FileOptions(pipeline="shop")))
    assert [row.interaction is not None for row in found] == [True, True]


def test_the_unnamed_pipeline_is_for_rows_without_any_other(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(
        "".join(json.dumps(row) + "\n" for row in (ROWS["DeepEval"], {**ROWS["DeepEval"], "pipeline": "own"}))
    )
    for options, names in (
        (FileOptions(unnamed=name_of(file)), ["answers", "own"]),
        (FileOptions("shop", unnamed="answers"), ["shop", "own"]),
    ):
        assert [row.interaction.pipeline for row in read_rows(file, options) if row.interaction] == names
    assert "pipeline is missing" in str([row.problem for row in read_rows(file, FileOptions())])


def test_other_columns_are_metadata_and_own_names_win() -> None:
    row = {
        "question": QUESTION, "query": "another", "documents": TEXTS, "contexts": ["another"], "response": ANSWER,
        "answer": "another", "title": "Tower", "metadata": {"title": "own"},
    }  # fmt: skip
    fields, taken = interaction_fields(row, {})
    assert (fields["question"], fields["documents"], fields["response"]) == (QUESTION, TEXTS, ANSWER)
    assert taken == {}
    others = {"query": "another", "contexts": ["another"], "answer": "another", "title": "own"}
    assert fields["metadata"] == others


def test_stated_columns_win() -> None:
    row = {"frage": QUESTION, "question": "another", "treffer": TEXTS, "answer": ANSWER, "kunde": "k-1"}
    mapping = {"question": "frage", "documents": "treffer", "session_id": "kunde"}
    fields, taken = interaction_fields(row, mapping)
    assert (fields["question"], fields["session_id"]) == (QUESTION, "k-1")
    assert [document["text"] for document in fields["documents"]] == TEXTS
    assert taken == {**mapping, "response": "answer"}


ASKED: dict[str, dict[str, Any]] = {
    "a gold answer and a prediction": {"answer": RIGHT, "prediction": ANSWER},
    "a gold answer and one of a model": {"answer": RIGHT, "llm_response": ANSWER},
    "in other spellings": {"Answer": RIGHT, "Model Answer": ANSWER},
    "in camel case": {"answer": RIGHT, "generatedAnswer": ANSWER},
    "in an object": {"answer": RIGHT, "model": {"answer": ANSWER, "name": "m"}},
    "with a dot": {"answer": RIGHT, "llm.response": ANSWER},
    "one of pandas twice": {"answer": RIGHT, "answer.1": ANSWER},
    "no prediction": {"answer": RIGHT, "prediction": None},
    "an empty output": {"output": "", "answer": RIGHT},
    "a null under the own name": {"response": None, "answer": RIGHT},
    "of a model of the API": {"answer": RIGHT, "output": {"choices": [{"message": {"content": ANSWER}}]}},
    "also beside a reference": {"answer": RIGHT, "completion": ANSWER, "ground_truth": RIGHT},
    "ideal documents": {"answer": ANSWER, "context": ["ideal"], "retrieved_contexts": TEXTS},
    "no documents beside ideal ones": {"answer": ANSWER, "context": ["ideal"], "retrieval_context": []},
    "a document each": {"answer": ANSWER, "context": ["ideal"], "chunk_1": TEXTS[0], "chunk_2": TEXTS[1]},
    "two questions": {"answer": ANSWER, "contexts": TEXTS, "query": "a", "user_input": "b"},
    "two references": {"answer": ANSWER, "contexts": TEXTS, "reference": "a", "expected_output": "b"},
}


@for_each("case", ASKED)
def test_two_columns_that_differ_are_refused_with_the_map_that_decides(case: str) -> None:
    row = {"contexts": TEXTS, **ASKED[case]}
    if "context" in row:
        del row["contexts"]
    row = row if "query" in row else {"question": QUESTION, **row}
    with pytest.raises(InvalidEntryError, match="which differ: say which with --map") as refused:
        interaction_fields(row, {})
    ways = columns_of([way for way in shlex.split(refused.value.detail) if "=" in way][-1:])
    fields, taken = interaction_fields(row, ways)
    assert (
        taken.items()
        >= {field: name if isinstance(name, str) else ", ".join(name) for field, name in ways.items()}.items()
    )
    assert fields["question"] in {QUESTION, "b"}


@for_each(
    "columns, field, expected",
    [
        ({"answer": ANSWER, "prediction": f" {ANSWER} "}, "response", ANSWER),
        ({"answer": ANSWER, "outputs": {"answer": ANSWER}}, "response", ANSWER),
        ({"answer": ANSWER, "ground_truth": RIGHT}, "reference_answer", RIGHT),
        ({"answer": ANSWER, "ground_truth": None, "reference": RIGHT}, "reference_answer", RIGHT),
        ({"answer": ANSWER, "context_10": "c", "Context 2": "b", "context_1": "a"}, "documents", ["a", "b", "c"]),
        ({"answer": ANSWER, "contexts.0": "a", "contexts.1": None}, "documents", ["a"]),
    ],
)
def test_columns_that_agree_or_mean_different_fields_are_read(
    columns: dict[str, Any], field: str, expected: Any
) -> None:
    documents = {} if field == "documents" else {"contexts": TEXTS}
    fields, _ = interaction_fields({"question": QUESTION, **documents, **columns}, {})
    found = [document["text"] for document in fields["documents"]] if field == "documents" else fields[field]
    assert found == expected


@for_each("kept", [{"answer": RIGHT, "prediction": RIGHT}, {"answer": RIGHT}])
def test_a_row_does_not_decide_what_the_columns_of_a_file_mean(kept: dict[str, Any], tmp_path: Path) -> None:
    """Else the only rows that are scored are those of which the model gave the right answer."""
    rows = [kept, kept, {"answer": RIGHT, "prediction": ANSWER}, kept]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"question": QUESTION, "contexts": TEXTS, **row}) + "\n" for row in rows))
    found = list(read_rows(file, FileOptions(pipeline="shop")))
    assert ["differ" in (row.problem or "") for row in found] == [True] * 4
    stated = list(read_rows(file, FileOptions(pipeline="shop", columns={"response": "answer"})))
    assert [row.interaction and row.interaction.response for row in stated] == [RIGHT] * 4


NESTED = {
    "request": {"question": QUESTION, "lang": "de", "user.name": "ann"},
    "reply": json.dumps({"messages": [{"content": "Hm."}, {"content": ANSWER}]}),
    "hits": [{"body": TEXTS[0]}, {"body": TEXTS[1]}],
    "human": "0.5",
    "ms": "1500",
    "at": 1_714_564_800_000,
    "tier": 3,
}
PLACES = {
    "question": "request.question", "response": "reply.messages.-1.content", "documents": "hits.body",
    "segments.lang": "request.lang", "segments.tier": "tier", "gold_scores.trace.adherence": "human",
    "usage.latency_ms": "ms", "metadata.name": "request.user.name", "occurred_at": "at", "session_id": "tier",
}  # fmt: skip


def test_a_map_reaches_every_field_and_every_place(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(NESTED) + "\n")
    given = columns_of([",".join(f"{field}={place}" for field, place in PLACES.items())])
    (row,) = read_rows(file, FileOptions(pipeline="shop", columns=given))
    found = row.interaction
    assert found is not None, row.problem
    assert (found.question, found.response, found.session_id) == (QUESTION, ANSWER, "3")
    assert [document.text for document in found.documents] == TEXTS
    assert (found.segments, found.gold_scores) == ({"lang": "de", "tier": "3"}, {"trace.adherence": 0.5})
    assert found.usage is not None
    assert (found.usage.latency_s, found.metadata) == (1.5, {"name": "ann"})
    assert found.occurred_at == datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert row.columns == {**PLACES, "occurred_at": "at in milliseconds"}


def test_a_map_chooses_the_separator_of_csv(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('Frage;Treffer A;Treffer B;Reply\n"Why, then?";one;;"Yes, so"\n')
    given = columns_of(["question=Frage,documents=Treffer A,Treffer B", "response=Reply"])
    (row,) = read_rows(file, FileOptions(pipeline="shop", columns=given))
    assert row.interaction is not None, row.problem
    assert (row.interaction.question, row.interaction.response) == ("Why, then?", "Yes, so")
    assert [document.text for document in row.interaction.documents] == ["one"]


@for_each("field", ["segments.lang", "response"])
def test_a_row_without_a_named_column_has_no_value_if_another_row_has_one(field: str, tmp_path: Path) -> None:
    rows = [
        {"question": QUESTION, "contexts": TEXTS, "answer": ANSWER, "here": "x"},
        {"question": QUESTION, "contexts": TEXTS, "answer": ANSWER},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [row.interaction for row in read_rows(file, FileOptions(pipeline="shop", columns={field: "here"}))]
    assert [one and (one.segments.get("lang") or one.response) for one in found] == [
        "x",
        ANSWER if "." in field else "",
    ]
    (first, *_) = read_rows(file, FileOptions(pipeline="shop", columns={field: "hero"}))
    assert "did you mean 'here'?" in (first.problem or "")


@for_each(
    "text, expected",
    [
        ('{"answer": "In 1889.", "sources": [1]}', ANSWER),
        ("Prediction(\n    reasoning='Perhaps in 1890.',\n    answer='In 1889.'\n)", ANSWER),
        ('[{"type": "text", "text": "In "}, {"type": "text", "text": "1889."}]', ANSWER),
        ('{"year": 1889}', '{"year": 1889}'),  # an application may answer with JSON
        ("[1] says so.", "[1] says so."),
        ("{", "{"),
        ('{"answer": "It was built in 1889, and later it was', None),
        ("<generator object App.stream_answer at 0x7f7a9a8b3890>", None),
        ("[object Object]", None),
        ("data:image/png;base64,iVBORw0KGgo=", None),
    ],
)
def test_a_text_under_the_own_name_stands_unless_it_spells_an_object(text: str, expected: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"question": QUESTION, "documents": TEXTS, "response": text}))
    (row,) = read_rows(file, FileOptions(pipeline="shop"))
    assert (row.interaction and row.interaction.response) == expected, row.problem


def test_what_is_left_out_of_the_texts_of_a_row_is_counted(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    answer = [{"type": "thinking", "thinking": "Perhaps in 1890."}, {"type": "text", "text": ANSWER}]
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"question": QUESTION, "contexts": [*TEXTS, image], "answer": answer}))
    (row,) = read_rows(file, FileOptions(pipeline="shop"))
    assert row.interaction is not None, row.problem
    assert (row.interaction.response, len(row.interaction.documents)) == (ANSWER, 2)
    assert row.left_out == {"image": 1, "reasoning": 1}


@for_each("text", ["x" * 32_767, "é" * 32_767, "\U0001f600" * 16_383 + "x", "x\r\n" * 16_383 + "x", "é" * 32_767 + "x"])
def test_a_text_that_a_table_cut_is_refused_by_its_column(text: str) -> None:
    for column in ("answer", "response", "Model Answer"):
        row = {"question": QUESTION, "contexts": TEXTS, column: text}
        with pytest.raises(InvalidEntryError, match=rf"^response, from the column {column}, has exactly"):
            interaction_fields(row, {})
        interaction_fields({**row, column: f"{text} "}, {})


@for_each(
    "value, words",
    [
        (45413.5, "may be a date as Excel counts it"),
        ("45413.5", "may be a date as Excel counts it"),
        (20240501, "may be a date"),
        ("1999-12-31T00:00:00Z", "before 2000"),
        ((utc_now() + timedelta(days=3)).isoformat(), "more than a day from now"),
        ("2024-05-01", "occurred_at"),
        ("12:30", "occurred_at"),
    ],
)
def test_a_time_that_is_none_of_an_answer_is_refused_in_files(value: Any, words: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"question": QUESTION, "contexts": TEXTS, "answer": ANSWER, "occurred_at": value}))
    (row,) = read_rows(file, FileOptions(pipeline="shop"))
    assert row.interaction is None
    assert words in (row.problem or "")


@for_each(
    "row, mapping, words",
    [
        ({"question": "q", "response": "r"}, {}, "documents is missing: add it, or name its column with --map"),
        ({"a": "q"}, {"question": "b"}, "question is mapped to the column 'b', which the row lacks; it has: a"),
        ({"question": "q", "contexts": 3, "answer": "r"}, {}, "from the column contexts, is '3'"),
        ({"question": "q", "contexts": '["a", {"b', "answer": "r"}, {}, "documents, from the column contexts, is"),
        (
            {"question": "q", "documents": [], "response": "r", "segmets": {}},
            {},
            "segmets is not a field of this schema; did you mean segments?",
        ),
    ],
)
def test_a_row_that_cannot_be_read_says_which_column(row: Any, mapping: Any, words: str) -> None:
    with pytest.raises(InvalidEntryError) as refused:
        interaction_fields(row, mapping)
    assert words in refused.value.detail


def test_an_empty_cell_is_nothing_found_and_no_answer() -> None:
    fields, _ = interaction_fields({"question": "q", "contexts": None, "answer": None}, {})
    assert (fields["documents"], fields["response"]) == ([], "")


NAMES = sorted(
    {"question", "documents", "response", "metadata", "title", *(n for names in COLUMNS.values() for n in names)}
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(['["a"]', "{'a': 1}", "[x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "content", "role"]), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8))
def test_any_row_is_an_interaction_or_refused_with_a_sentence(row: dict[str, Any]) -> None:
    with suppress(InvalidEntryError):
        fields, _ = interaction_fields(row, {})
        RagInteraction.from_fields({"pipeline": "shop", **fields})


TURNS = [{"question": "Is it tall?", "response": "Yes."}, {"question": "Is it old?", "response": ""}]
HISTORIES: dict[str, tuple[dict[str, Any], Any]] = {
    "turns": ({"history": TURNS}, TURNS),
    "turns as JSON, as in CSV": ({"history": json.dumps(TURNS)}, TURNS),
    "pairs": ({"chat_history": [["Is it tall?", "Yes."], ["Is it old?", None]]}, TURNS),
    "other names": ({"chatHistory": [{"query": "Is it tall?", "answer": "Yes."}, {"query": "Is it old?"}]}, TURNS),
    "messages": (
        {
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "assistant", "content": "Hello!"},
                {"role": "user", "content": "Is it tall?"},
                {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
                {"role": "tool", "content": "300 m"},
                {"role": "assistant", "content": "Yes."},
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": ANSWER},
            ]
        },
        TURNS[:1],
    ),
    "a question of two messages": (
        {"history": [{"role": "user", "content": "Hm."}, {"role": "user", "content": "Is it tall?"}]},
        [{"question": "Hm.\nIs it tall?", "response": ""}],
    ),
    "messages of another conversation": ({"messages": [{"role": "user", "content": "Is it tall?"}]}, None),
    "a history of the present question": ({"history": [{"role": "user", "content": QUESTION}]}, None),
    "an empty one": ({"history": []}, None),
    "a text that is no history": ({"chat_history": "none"}, None),
    "a broken text": ({"chat_history": '[{"role": "user"'}, None),
    "a column that is like it": ({"story": "Once upon a time."}, None),
    "too many turns": ({"history": [TURNS[0]] * 30}, [TURNS[0]] * 20),
}


@for_each("case", HISTORIES)
def test_the_history_of_a_row_is_its_turns_before_the_question(case: str) -> None:
    columns, expected = HISTORIES[case]
    fields, taken = interaction_fields(
        {"pipeline": "p", "question": QUESTION, "documents": TEXTS, "response": ANSWER, **columns}, {}
    )
    assert fields.get("history") == expected
    read = RagInteraction(**fields)
    assert [turn.model_dump() for turn in read.history or ()] == (expected or [])
    name = next(iter(columns))
    assert taken == ({"history": name} if expected and name != "history" else {})
    assert (name in fields.get("metadata", {})) == (expected is None and name != "history")


def test_a_stated_history_must_be_readable() -> None:
    row = {"question": QUESTION, "documents": TEXTS, "response": ANSWER, "past": "none", "history": "none"}
    for mapping, column in (({}, "history"), ({"history": "past"}, "past")):
        with pytest.raises(InvalidEntryError, match=f"the column {column} has no history that can be read: 'none'"):
            interaction_fields(row, mapping)
    fields, _ = interaction_fields({**row, "past": [["Why?", "So."]]}, {"history": "past"})
    assert fields["history"] == [{"question": "Why?", "response": "So."}]


NESTED_VALUES = st.recursive(
    st.integers(0, 9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "a.b", "0"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(NESTED_VALUES, st.lists(st.sampled_from(["a", "b", "0", "1", "-1"]), min_size=1, max_size=5).map(".".join))
def test_a_place_is_reached_by_its_keys_or_by_none(value: Any, place: str) -> None:
    found = reached(value, place)
    as_text = reached(json.dumps(value), place) if isinstance(value, dict | list) else None
    assert as_text == found
    if found is None:
        return
    keys, here = found
    assert ".".join(keys) == place
    at = value
    for number, key in enumerate(keys):
        if isinstance(at, list) and not key.removeprefix("-").isdecimal():
            rest = [reached(item, ".".join(keys[number:])) if isinstance(item, dict) else None for item in at]
            assert here == [item and item[1] for item in rest]
            return
        at = at[int(key) if isinstance(at, list) else key]
    assert at == here


@given(
    st.dictionaries(st.sampled_from(["a", "b.c", "d"]), NESTED_VALUES, max_size=3),
    st.sampled_from(["a", "b.c", "a.b", "d.0"]),
)
def test_a_row_without_a_place_keeps_everything_else(row: dict[str, Any], place: str) -> None:
    found = reached(row, place)
    if found is not None:
        left = without(row, found[0])
        assert reached(left, place) is None or "." in place
        assert {name: value for name, value in left.items() if name != found[0][0]} == {
            name: value for name, value in row.items() if name != found[0][0]
        }
