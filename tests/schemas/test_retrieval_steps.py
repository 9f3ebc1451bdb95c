"""Retrieval steps of an interaction: what is accepted, refused with a remedy, and left as it was."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide import InvalidEntryError, RagInteraction, RetrievalStep
from ragtide_schemas.retrieval_steps import STEP_NAME_CHARS, STEPS_MAX, step_name

DOCUMENTS = ["At nine.", "It is iron.", "In 1889."]
GOOD: dict[str, Any] = {"pipeline": "shop", "question": "When?", "documents": DOCUMENTS, "response": "At nine."}
BM25 = {"name": "bm25", "kind": "retriever", "documents": [2, 0], "returned": 20, "shared": 6}


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
        ([{**BM25, "name": f"s{number}"} for number in range(STEPS_MAX + 1)], "steps"),
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
