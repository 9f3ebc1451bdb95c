"""The version of the application that answered, from what traces send, as the segment `version`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.support.cases import for_each
from tests.support.traces import Branch, branch, spans

from ragtide_producers.traces.interactions import interactions_of
from ragtide_producers.traces.span import Span
from ragtide_producers.traces.versions import CHARS_MAX
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_schemas.limits import SEGMENTS_MAX

SHA = "9d59409acf479dfa0df1aa568182e43e43df8bbe"


def answered(**attributes: Any) -> Branch:
    """Return the span of a question with a retrieval and a model call below it."""
    kind = "openinference.span.kind"
    search = {kind: "RETRIEVER", "retrieval.documents.0.document.content": "Green tea."}
    return branch(
        "ask",
        {kind: "CHAIN", "input.value": "Which tea?", "output.value": "Green.", **attributes},
        branch("search", search),
        branch("llm", {kind: "LLM", "output.value": "Green."}),
    )


def segments(trace: list[Span], **options: Any) -> dict[str, str]:
    (mapping,) = interactions_of(trace, IngestSettings(**options))
    assert mapping.interaction is not None, mapping.detail
    return mapping.interaction.segments


def of_service(trace: list[Span], resource: Mapping[str, Any]) -> list[Span]:
    return [replace(span, resource={**span.resource, **resource}) for span in trace]


def sent(resource: dict[str, Any], attributes: dict[str, Any] | None = None, **options: Any) -> str | None:
    """Return the version of a trace with these attributes of its resource and of the span of its question."""
    return segments(of_service(spans(answered(**(attributes or {}))), resource), **options).get("version")


@for_each(
    "resource, attributes, version",
    [
        ({"service.version": "2026.11.1", "vcs.ref.head.revision": SHA}, {}, "2026.11.1"),
        ({"service.version": "unknown", "vcs.ref.head.revision": SHA}, {}, SHA),
        ({"vcs.repository.ref.revision": SHA}, {}, SHA),
        ({"git.commit.sha": SHA}, {"langfuse.release": "r7"}, SHA),
        ({}, {"langfuse.release": "r7"}, "r7"),
        ({}, {"langsmith.metadata.revision_id": "v4.16.0-27-g1badd367-dirty"}, "v4.16.0-27-g1badd367-dirty"),
        ({"service.version": 7}, {}, "7"),
        ({"deployment.environment.name": "production"}, {}, None),
        # A span may say which revision it works on, such as that of a coding assistant.
        ({}, {"vcs.ref.head.revision": SHA, "service.version": "1"}, None),
    ],
)
def test_the_version_is_that_which_the_service_of_the_question_sends(
    resource: dict[str, Any], attributes: dict[str, Any], version: str | None
) -> None:
    assert sent(resource, attributes) == version


@for_each(
    "value",
    [
        "",
        "  ",
        "unknown_service:python",
        "UNKNOWN",
        "0.0.0",
        "latest",
        "HEAD",
        "0f8fad5b-d9cb-469f-a165-70867728950e",
        "0f8fad5bd9cb469fa16570867728950e",
        "https://deploy:secret@host/v1",
        "password: secret",
        "<script>alert(1)</script>",
        "x" * (CHARS_MAX + 1),
        True,
        1.5,
        ["1", "2"],
    ],
)
def test_what_is_no_version_is_not_taken(value: object) -> None:
    assert sent({"service.version": value}) is None


def test_a_version_that_is_given_or_mapped_wins() -> None:
    resource = {"service.version": "1", "canary": "b"}
    assert sent(resource, {"ragtide.segments.version": "a"}) == "a"
    assert sent(resource, segments={"version": "canary"}) == "b"
    assert sent({"service.version": "1"}, segments={"version": "canary"}) is None


def test_a_named_attribute_is_taken_as_it_is_and_off_takes_none() -> None:
    resource = {"service.version": "1", "deployment.environment.name": "blue green"}
    assert sent(resource, version_from="deployment.environment.name") == "blue green"
    assert sent(resource, version_from="no.such.name") is None
    assert sent(resource, version_from="off") is None


def test_neither_the_gateway_above_nor_the_search_below_lends_its_version() -> None:
    others = {"POST /ask": "gateway", "search": "index"}
    trace = [
        replace(span, resource={"service.name": others[span.name], "service.version": "1"})
        if span.name in others
        else span
        for span in spans(branch("POST /ask", {}, answered()))
    ]
    assert "version" not in segments(trace)


def test_a_version_takes_the_place_of_no_other_segment() -> None:
    own = {f"ragtide.segments.s{number}": "x" for number in range(SEGMENTS_MAX)}
    trace = of_service(spans(answered(**own)), {"service.version": "1"})
    assert segments(trace) == {f"s{number}": "x" for number in range(SEGMENTS_MAX)}


def test_nothing_but_the_segment_is_other_with_a_version() -> None:
    trace = spans(answered())
    (before,) = interactions_of(trace, IngestSettings())
    (after,) = interactions_of(of_service(trace, {"service.version": "1"}), IngestSettings())
    assert before.interaction
    assert after.interaction
    assert before.interaction_id == after.interaction_id
    assert after.interaction.segments == {"version": "1"}
    assert after.interaction.model_copy(update={"segments": {}}) == before.interaction
