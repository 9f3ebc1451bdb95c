"""Real spans of frameworks become what the applications themselves saw: the fixtures of tests.instrumentations.capture.

Each construction is right, or refused, or not recorded, as its fixture says: never another text.
"""

from collections import Counter
from itertools import zip_longest
from typing import Any

import pytest
from tools.pages.constructions import CAPTURED, CONSTRUCTIONS, FRAMEWORKS, WRONG, constructions_table, fixtures

from ragtide_producers.traces.explaining import explain_traces
from ragtide_producers.traces.interactions import Mapped, interactions_of
from ragtide_producers.traces.options import MappingOptions
from ragtide_producers.traces.otlp import decode_request, spans_of
from ragtide_producers.traces.span import Span

pytestmark = pytest.mark.pure

FIELDS = ["question", "documents", "response"]
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
    if "documents_in_any_order" in fields:
        texts.sort()
    turns = [turn.question for turn in found.interaction.history or ()]
    is_cut = found.interaction.metadata.get("response_cut") == "true"
    own = {
        "response_is_cut": is_cut,
        "documents": texts,
        "history": turns,
        "ids": [document.id for document in found.interaction.documents],
    }
    return {field: own[field] if field in own else given[field] for field in fields}


def with_seen_response(came: dict[str, Any], seen: dict[str, Any] | None) -> dict[str, Any]:
    """Return an interaction with the response that the user saw of a stream, if its own lacks at most the last word."""
    if seen and "response_is_cut" in seen and came["response"]:
        words, all_words = came["response"].split(), seen["response"].split()
        if words in (all_words, all_words[:-1]):
            return came | {"response": seen["response"]}
    return came


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
        assert seen
        fields = [list(answer) for answer in seen] + [FIELDS] * len(found)
        came = [content(item, fields[place]) for place, item in enumerate(found)]
        assert [with_seen_response(*pair) for pair in zip_longest(came, seen)] == seen
    elif truth["outcome"] == NOT_RECORDED:
        assert [item.interaction or item.detail for item in found] == []
        reasons = [explain_traces(trace, MappingOptions())[0].reason for trace in traces_of(name)]
        assert all(reasons)
    else:
        assert [item.interaction for item in found] == [None] * len(seen)
        assert Counter(f"refused ({item.refusal})" for item in found) == Counter({truth["outcome"]: len(seen)})
