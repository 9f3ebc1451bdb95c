"""Steps of an interaction: what is accepted, refused with a remedy, and left as it was."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide import InvalidEntryError, RagInteraction, RetrievalStep
from ragtide_schemas.limits import STEPS_MAX
from ragtide_schemas.retrieval_steps import (
    ARGUMENTS_MAX_BYTES,
    OF_CALLS,
    QUERY_MAX_CHARS,
    STEP_NAME_CHARS,
    STEP_NAMES_MAX,
    step_name,
)
from ragtide_schemas.specimen import Specimen, SpecimenLabeling

DOCUMENTS = ["At nine.", "It is iron.", "In 1889."]
GOOD: dict[str, Any] = {"pipeline": "shop", "question": "When?", "documents": DOCUMENTS, "response": "At nine."}
BM25 = {"name": "bm25", "kind": "retriever", "documents": [2, 0], "returned": 20, "shared": 6}
SEARCH: dict[str, Any] = {"name": "search", "kind": "tool"}


def test_steps_travel_with_an_interaction_and_an_interaction_without_them_is_as_before() -> None:
    found = RagInteraction.from_fields(
        {**GOOD, "steps": [BM25, {"name": "rerank", "kind": "reranker", "documents": []}]}
    )
    assert found.steps is not None
    assert found.steps[0] == RetrievalStep(name="bm25", kind="retriever", documents=(2, 0), returned=20, shared=6)
    assert RagInteraction.decode(found.encode()) == found
    ways: tuple[object, ...] = (None, [], "left out")
    for nothing in ways:
        plain = RagInteraction.from_fields({**GOOD, **({} if nothing == "left out" else {"steps": nothing})})
        assert plain.steps is None
        assert b"steps" not in plain.encode()


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([{**BM25, "name": "BM25 Retriever"}], r"steps.0.name .*'BM25 Retriever'.*such as bm25_retriever"),
        ([{**BM25, "name": "x" * (STEP_NAME_CHARS + 1)}], "at most 64"),
        ([{**BM25, "kind": "generator"}], "steps.0.kind"),
        ([{**BM25, "documents": [3]}], "bm25 has the document 3, and there are 3"),
        ([{**BM25, "documents": [-1]}], "steps.0.documents.0"),
        ([{**BM25, "documents": [1, 1]}], "repeats an index"),
        ([{**BM25, "returned": 1}], "returned of the step bm25 is 1"),
        ([{**BM25, "shared": 21}], "shared of the step bm25 is 21"),
        ([BM25, BM25], "two steps are named bm25"),
        ([SEARCH for _ in range(STEPS_MAX + 1)], "steps"),
        (
            [{**SEARCH, "name": f"s{number}"} for number in range(STEP_NAMES_MAX + 1)],
            "steps has 17 names, and at most 16",
        ),
        ([{"name": "bm25", "kind": "retriever"}], "documents of the retriever bm25 is missing"),
        ([{**BM25, "round": 1}], "round of the retriever bm25 belongs to a call"),
        ([{**BM25, "latency_s": 1}], "latency_s of the retriever bm25 belongs to a call"),
        ([{**SEARCH, "name": "bm25"}, BM25], "bm25 is a tool and a retriever"),
        ([{**SEARCH, "round": 2}, {**SEARCH, "round": 1}], "search has the round 1 after the round 2"),
        ([{**SEARCH, "query": "q", "arguments": {"a": 1}}], "search has query and arguments"),
        ([{**SEARCH, "error": "timeout", "returned": 3}], "search has the error timeout and returned documents"),
        ([{**SEARCH, "documents": [3]}], "search has the document 3, and there are 3"),
        ("bm25", "steps"),
    ],
)
def test_a_wrong_step_is_refused_with_field_value_and_remedy(steps: Any, says: str) -> None:
    with pytest.raises(InvalidEntryError, match=says):
        RagInteraction.from_fields({**GOOD, "steps": steps})


@given(st.text(max_size=400))
def test_any_name_of_a_span_becomes_the_name_of_a_step_or_none(text: str) -> None:
    found = step_name(text)
    if found is not None:
        assert RetrievalStep(name=found, kind="retriever", documents=()).name == found
        assert step_name(found) == found


def test_calls_travel_with_an_interaction_and_one_tool_may_be_called_several_times() -> None:
    calls = [
        {**SEARCH, "round": 1, "query": "opening", "documents": [0], "returned": 8, "latency_s": 0.25},
        {"name": "book", "kind": "tool", "round": 1, "arguments": {"day": "Monday", "people": 2}},
        BM25,
        {**SEARCH, "round": 2, "query": "opening hours", "error": "timeout"},
    ]
    given = RagInteraction.from_fields({**GOOD, "steps": calls, "steps_left_out": 9})
    assert not given.left_out
    assert [call.name for call in given.calls] == ["search", "book", "search"]
    assert [call.looked_for_documents for call in given.calls] == [True, False, False]
    assert RagInteraction.decode(given.encode()) == given
    assert given.steps_left_out == 9


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("query", "x" * (QUERY_MAX_CHARS + 1), None),
        ("arguments", {"a": "short", "b": "x" * ARGUMENTS_MAX_BYTES}, None),
        ("arguments", {"a": 1, "b": object()}, None),
        ("round", 65, None),
        ("latency_s", float("nan"), None),
        ("latency_s", -1, None),
    ],
)
def test_a_side_value_of_a_call_that_cannot_be_read_costs_only_itself_and_is_counted(
    field: str, value: Any, kept: Any
) -> None:
    given = RagInteraction(**GOOD, steps=[{**SEARCH, field: value}])
    assert getattr(given.calls[0], field) == kept
    assert given.left_out == {f"steps.{field}": 1}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("TimeoutError", "timeout_error"),
        ("openai.RateLimitError", "openai_rate_limit_error"),
        (TimeoutError("of ann@example.com"), "timeout_error"),
        ("No user ann@example.com", "error"),
        (429, "error"),
        (True, "error"),
        (False, None),
        ("", None),
    ],
)
def test_a_failed_call_stays_failed_and_no_message_becomes_the_kind_of_its_error(value: Any, kind: str | None) -> None:
    assert RagInteraction(**GOOD, steps=[{**SEARCH, "error": value}]).calls[0].error == kind


def test_calls_that_were_left_out_need_calls() -> None:
    for steps in (None, [BM25]):
        with pytest.raises(InvalidEntryError, match="steps_left_out is 9, and steps has no call"):
            RagInteraction.from_fields({**GOOD, "steps": steps, "steps_left_out": 9})
    assert RagInteraction.from_fields({**GOOD, "steps_left_out": 0}).steps_left_out is None


def test_steps_without_calls_are_written_as_by_releases_without_calls() -> None:
    steps = [{"name": "dense", "kind": "retriever", "documents": [0], "returned": 2}]
    given = RagInteraction.from_fields({**GOOD, "steps": steps})
    assert b'"steps":[{"name":"dense","kind":"retriever","documents":[0],"returned":2}]' in given.encode()
    labeling = SpecimenLabeling(labeler="local", labeler_version="1", profile="ragbench", scores={})
    kept = Specimen(interaction=given, labelings=(labeling,), labeled_at=datetime(2026, 11, 30, tzinfo=UTC))
    stored = kept.encode().decode()
    expected = '"steps":[{"name":"dense","kind":"retriever","documents":[0],"returned":2,"shared":null}],"run":null'
    assert expected in stored
    assert not [name for name in (*OF_CALLS[:-1], "steps_left_out") if f'"{name}"' in stored]
    run = given.model_copy(update={"steps": (RetrievalStep(**SEARCH, query="q"),), "steps_left_out": 3})
    again = Specimen.decode(kept.model_copy(update={"interaction": run}).encode())
    assert again.interaction == run
