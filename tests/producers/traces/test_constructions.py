"""Real spans of frameworks become what the applications themselves saw: the fixtures of tests.instrumentations.capture.

Each construction is right, or refused, or not recorded, as its fixture says: never another text.
"""

from collections import Counter
from typing import Any

import pytest
from tools.pages.constructions import CAPTURED, CONSTRUCTIONS, FRAMEWORKS, WRONG, constructions_table, fixtures

from ragtide_producers.traces.explaining import explain_traces
from ragtide_producers.traces.interactions import Mapped, interactions_of
from ragtide_producers.traces.options import MappingOptions
from ragtide_producers.traces.otlp import decode_request, spans_of
from ragtide_producers.traces.span import Span

pytestmark = pytest.mark.pure

NOT_RECORDED = "not recorded"


def traces_of(name: str) -> list[list[Span]]:
    traces: dict[str, list[Span]] = {}
    for span in spans_of(decode_request((CAPTURED / f"{name}.json").read_bytes(), "json")):
        traces.setdefault(span.trace_id, []).append(span)
    return list(traces.values())


def mapped(name: str) -> list[Mapped]:
    options = MappingOptions()
    return [found for trace in traces_of(name) for found in interactions_of(trace, options)]


def content(found: Mapped, fields: list[str]) -> dict[str, Any]:
    """Return an interaction in the form of the truth, with these fields of it."""
    assert found.interaction is not None, found.detail
    given = found.interaction.model_dump(mode="json")
    texts = [document.text for document in found.interaction.documents]
    turns = [turn.question for turn in found.interaction.history or ()]
    own = {"documents": texts, "history": turns, "ids": [document.id for document in found.interaction.documents]}
    return {field: own[field] if field in own else given[field] for field in fields}


def test_every_fixture_is_a_cell_of_the_table() -> None:
    assert fixtures()
    assert {tuple(name.split("/")) for name in fixtures()} <= {(f, c) for f in FRAMEWORKS for c in CONSTRUCTIONS}
    assert fixtures().keys() >= WRONG
    assert all(
        line.count("|") == constructions_table().split("\n")[0].count("|") for line in constructions_table().split("\n")
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.xfail(strict=True, reason="not yet right")] if name in WRONG else [])
        for name in fixtures()
    ],
)
def test_a_construction_is_recorded_as_the_application_saw_it(name: str) -> None:
    truth = fixtures()[name]
    found = sorted(mapped(name), key=lambda item: item.interaction.question if item.interaction else "")
    seen = sorted(truth["seen"], key=lambda answer: answer["question"])
    if truth["outcome"] == "right":
        fields = [list(answer) for answer in seen] + [["question", "documents", "response"]] * len(found)
        assert [content(item, fields[place]) for place, item in enumerate(found)] == seen
    elif truth["outcome"] == NOT_RECORDED:
        assert [item.interaction or item.detail for item in found] == []
        reasons = [explain_traces(trace, MappingOptions())[0].reason for trace in traces_of(name)]
        assert all(reasons)
    else:
        assert [item.interaction for item in found] == [None] * len(seen)
        assert Counter(f"refused ({item.refusal})" for item in found) == Counter({truth["outcome"]: len(seen)})
