from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.cases import for_each
from tools.pages.asyncapi import asyncapi_document, asyncapi_text

from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import RagInteraction

PUBLISHED = Path(__file__).parents[2] / "docs" / "asyncapi.yaml"


def references(value: Any) -> Iterator[str]:
    """Yield every `$ref` of a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def resolve(document: Any, reference: str) -> Any:
    for part in reference.removeprefix("#/").split("/"):
        document = document[part]
    return document


def test_the_published_document_is_that_of_the_models() -> None:
    published = PUBLISHED.read_text(encoding="utf-8")
    assert published == asyncapi_text(), "the models changed: run make schemas, and look at the difference"


def test_every_reference_leads_somewhere_and_operations_name_channels() -> None:
    document = asyncapi_document()
    for reference in references(document):
        assert resolve(document, reference) is not None
    for operation in document["operations"].values():
        assert operation["action"] in {"send", "receive"}
        assert resolve(document, operation["channel"]["$ref"])["messages"]


@for_each(
    "name",
    [
        "interactions",
        "metrics",
        "feedback",
        "estimates",
        "alerts",
        "dead_letters",
        "experiment",
        "executions",
        "dropped",
    ],
)
def test_the_address_of_a_channel_is_its_key(name: str) -> None:
    document = asyncapi_document()
    address = document["channels"][name.replace("_", "-")]["address"]
    assert address.replace("{prefix}", "app").replace("{partition}", "3") == getattr(Streams("app", 3), name)
    assert len(document["channels"]) == 9


def test_a_message_is_described_by_its_model_and_its_trace_context() -> None:
    document = asyncapi_document()
    message = document["components"]["messages"]["RagInteraction"]
    schema = resolve(document, message["payload"]["$ref"])
    assert set(schema["properties"]) == set(RagInteraction.model_fields)
    assert "traceparent" in message["headers"]["properties"]
