"""The AsyncAPI document: of the models, and served without a token as the OpenAPI document is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.cases import for_each
from tests.support.http_service import http_service
from tests.web.page.test_page import page
from tools.pages.streams import asyncapi_text

from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import RagInteraction
from ragtide_web.routes.asyncapi import asyncapi_document

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


TOKENS = [{"name": "app", "token": "secret-0123456789a"}]


async def test_the_service_answers_the_document_and_its_page_without_a_token(redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        status, text = await service.get("/asyncapi.json")
        assert (status, text) == (200, asyncapi_document())
        for headers in ({}, {"Authorization": "Bearer wrong-0123456789a"}, {"Cookie": "ragtide_session=old"}):
            status, shown = await page(service, "/asyncapi", **headers)
            assert status == 200
            assert "<nav" not in shown, "the other screens need a login"
        document = asyncapi_document()
        for name, channel in document["channels"].items():
            assert f'<th scope="row">{name}<' in shown
            assert channel["address"].rpartition(":")[2] in shown
        for name, message in document["components"]["messages"].items():
            assert f'<h2 id="{name}">' in shown
            schema = resolve(document, message["payload"]["$ref"])
            assert [field for field in schema["properties"] if f"<code>{field}</code>" not in shown] == []


async def test_the_page_is_linked_beside_the_document_of_the_http_api(redis_url: str) -> None:
    async with http_service(redis_url, serve={"root_path": "/ragtide"}) as service:
        for path in ("/", "/system"):
            _, text = await page(service, path)
            assert 'href="/ragtide/asyncapi"' in text
            assert 'href="/ragtide/openapi.json"' in text
        _, text = await page(service, "/asyncapi")
        assert "<nav" in text
        assert 'href="/ragtide/asyncapi.json"' in text
