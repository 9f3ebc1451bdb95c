"""The page of the HTTP API, from the OpenAPI document of `ragtide serve`; and that document."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragtide_web.app import openapi_document
from ragtide_web.routes.schema_words import default_in_words, type_in_words

from .schema_tables import cell, fields_table

_INTRODUCTION = """\
Every path of `ragtide serve`: parameters, bodies and answers. [openapi.json](openapi.json) is the same as a document,
which the service answers at `/openapi.json`. [HTTP](http.md) has examples, limits and tokens.

With tokens (`serve.tokens`) send `Authorization: Bearer TOKEN`, or the token as the password of Basic authentication.
`HEAD` is answered as `GET`, without a body. An error has the body `{"detail": "..."}`."""

_TITLES: Final = {"writing": "Publish", "reading": "Read", "operation": "Operate"}
"""Title of the paths of each tag."""

_PAGES: Final = {"RagInteraction", "RetrievedDocument", "RetrievalStep", "EarlierTurn", "AnswerUsage", "Feedback"}
"""Objects that interaction.md describes."""


def openapi_text() -> str:
    """Return the OpenAPI document."""
    return json.dumps(openapi_document(), indent=1, ensure_ascii=False) + "\n"


def http_api_page() -> str:
    """Return the page of every path, and of every object that is sent or answered."""
    document = openapi_document()
    definitions = document["components"]["schemas"]
    parts = ["# HTTP API", _INTRODUCTION]
    for tag, title in _TITLES.items():
        parts.append(f"## {title}")
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if tag in operation["tags"]:
                    parts += [f"### {method.upper()} {path}", *_operation(operation, definitions)]
    parts.append("## Objects")
    for name, schema in sorted(definitions.items()):
        parts.append(f"### {name}")
        if name in _PAGES:
            parts.append("[Every field](interaction.md).")
            continue
        meaning = str(schema.get("description", "")).partition("\n\n")[0]
        parts += [*([" ".join(meaning.split())] if meaning else []), fields_table(schema, definitions)]
    return "\n\n".join([*parts, "Next: [Streams](streams.md)"]) + "\n"


def _operation(operation: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    yield operation["description"]
    parameters = operation.get("parameters", ())
    if parameters:
        rows = ["| parameter | type | meaning |", "|---|---|---|"]
        for parameter in parameters:
            schema = parameter["schema"]
            needed = ", **required**" if parameter["required"] else default_in_words(schema)
            kind = type_in_words(schema, definitions) + needed
            rows.append(f"| `{parameter['name']}` | {cell(kind)} | {cell(parameter.get('description', ''))} |")
        yield "\n".join(rows)
    body = operation.get("requestBody", {}).get("content", {})
    if body:
        yield f"Body: {'; '.join(_content(body, definitions))}."
        examples = [content["example"] for content in body.values() if "example" in content]
        yield from (f"```json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n```" for example in examples)
    rows = ["| status | answer | body |", "|---|---|---|"]
    for status, response in operation["responses"].items():
        meaning = "It worked." if response["description"] == "Successful Response" else response["description"]
        shown = "; ".join(_content(response.get("content", {}), definitions))
        rows.append(f"| {status} | {cell(meaning)} | {cell(shown)} |")
    yield "\n".join(rows)


def _content(content: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    for kind, described in content.items():
        schema = described.get("schema", {})
        choices = [type_in_words(choice, definitions) for choice in schema.get("oneOf", [schema] if schema else ())]
        shown = " or ".join(choices)
        yield f"`{kind}`" if shown in ("", "any JSON") else f"`{kind}`, {shown}"
