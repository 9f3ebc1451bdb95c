"""Real spans of frameworks become what the applications themselves saw: the fixtures of tests.instrumentations.capture.

Each construction is right, or refused, or not recorded, as its fixture says: never another text.
"""

from dataclasses import replace

import pytest
from tests.support.constructions import NOT_RECORDED, RIGHT, check_recorded
from tools.pages.constructions import CAPTURED, CONSTRUCTIONS, FRAMEWORKS, fixtures, versions

from ragtide_producers.traces.explaining import explain_traces
from ragtide_producers.traces.grouping import groups_of
from ragtide_producers.traces.interactions import interactions_of
from ragtide_producers.traces.otlp import decode_request, spans_of
from ragtide_producers.traces.span import Span
from ragtide_producers.traces.tree import Tree
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_schemas import RagInteraction

pytestmark = pytest.mark.pure


def traces_of(name: str) -> list[list[Span]]:
    traces: dict[str, list[Span]] = {}
    for span in spans_of(decode_request((CAPTURED / f"{name}.json").read_bytes(), "json")):
        traces.setdefault(span.trace_id, []).append(span)
    return list(traces.values())


def test_every_fixture_is_a_cell_of_the_table() -> None:
    assert fixtures()
    assert {tuple(name.split("/")) for name in fixtures()} <= {(f, c) for f in FRAMEWORKS for c in CONSTRUCTIONS}
    assert all(versions(name.partition("/")[0]) for name in fixtures())


@pytest.mark.parametrize("name", fixtures())
def test_a_construction_is_recorded_as_the_application_saw_it(name: str) -> None:
    truth, options = fixtures()[name], IngestSettings()
    mapped = [found for trace in traces_of(name) for found in interactions_of(trace, options)]
    refused = [f"refused ({item.refusal})" for item in mapped if item.interaction is None]
    assert refused == ([] if truth["outcome"] in (RIGHT, NOT_RECORDED) else [truth["outcome"]] * len(truth["seen"])), [
        item.detail for item in mapped
    ]
    check_recorded([item.interaction for item in mapped if item.interaction], truth)
    if truth["outcome"] == NOT_RECORDED:
        assert all(explain_traces(trace, options)[0].reason for trace in traces_of(name))


def raced(trace: list[Span]) -> list[Span]:
    """Return a trace in which the first two searches of an agent began when the other did, with all inside them."""
    tree = Tree(trace)
    moved: dict[str, int] = {}
    for group in groups_of(tree):
        first, second = (group.tools or group.retrievals)[:2]
        above = set(first.upwards())
        shared = next(node for node in second.upwards() if node in above)
        steps = [next(child for child in shared.children if search in child) for search in (first, second)]
        by_ns = steps[1].span.start_ns - steps[0].span.start_ns
        for step, shift_ns in zip(steps, (by_ns, -by_ns), strict=True):
            moved |= {node.span.span_id: shift_ns for node in tree.nodes if node in step}
    return [
        replace(
            span,
            start_ns=span.start_ns + moved.get(span.span_id, 0),
            end_ns=span.end_ns + moved.get(span.span_id, 0),
        )
        for span in trace
    ]


@pytest.mark.parametrize("name", [name for name in fixtures() if name.endswith("/agent_two_tools")])
def test_tools_that_one_reply_asked_for_are_recorded_alike_whichever_began_first(name: str) -> None:
    def recorded(traces: list[list[Span]]) -> list[RagInteraction]:
        mapped = (found.interaction for trace in traces for found in interactions_of(trace, IngestSettings()))
        return [found.model_copy(update={"usage": None}) for found in mapped if found]  # which has times

    traces = traces_of(name)
    others = [raced(trace) for trace in traces]
    assert others != traces
    assert recorded(others) == recorded(traces)
    check_recorded(recorded(others), fixtures()[name])
