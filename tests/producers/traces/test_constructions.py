"""Real spans of frameworks become what the applications themselves saw: the fixtures of tests.instrumentations.capture.

Each construction is right, or refused, or not recorded, as its fixture says: never another text.
"""

import pytest
from tests.support.constructions import NOT_RECORDED, RIGHT, check_recorded
from tools.pages.constructions import CAPTURED, CONSTRUCTIONS, FRAMEWORKS, fixtures, versions

from ragtide_producers.traces.explaining import explain_traces
from ragtide_producers.traces.interactions import interactions_of
from ragtide_producers.traces.otlp import decode_request, spans_of
from ragtide_producers.traces.span import Span
from ragtide_runtime.settings.ingest import IngestSettings

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
