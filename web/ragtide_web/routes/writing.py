"""`POST /v1/interactions` and `POST /v1/feedback`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ragtide_schemas import Feedback, RagInteraction
from ragtide_schemas.base import WireModel
from ragtide_schemas.limits import ENTRY_MAX_BYTES
from ragtide_schemas.printable import printable

from ..guard.access import Client
from ..guard.admission import Writer
from ..guard.problems import REDIS_ERRORS, RETRY_AFTER_S, HttpProblem, drain
from ..reading.context import Context, Shared
from .bodies import body_of, read_lines
from .publishing import Answers, ItemKind, PostedItems, feedback, interactions, items_in_json, publish

router = APIRouter(tags=["writing"])

LINES: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
FULL_RETRY_S: Final = 1.0

RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    400: {"description": "The body is not JSON."},
    401: {"description": "The token is not known."},
    403: {"description": "The token may not write, or not to these pipelines."},
    408: {"description": "The body came too slowly."},
    413: {"description": "The body, its number of items, or one of them is too large."},
    415: {"description": "The content type or encoding is unknown."},
    422: {"model": PostedItems, "description": "Every item is invalid."},
    429: {"model": PostedItems, "description": "There is no room, or the token is beyond its limit. Send all again."},
    503: {"model": PostedItems, "description": "Redis does not answer. Send all again."},
}


def _body(example: dict[str, Any], *names: str) -> dict[str, Any]:
    models = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    one_or_many = {"oneOf": [*models, {"type": "array", "items": {"anyOf": models}}]}
    return {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": one_or_many, "example": example},
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
        }
    }


INTERACTION: Final = {
    "interaction_id": "order-4711",
    "pipeline": "shop",
    "question": "Which tea is green?",
    "documents": [{"id": "tea-1", "text": "Sencha is a green tea."}],
    "response": "Sencha is green.",
}
FEEDBACK: Final = {"interaction_id": "order-4711", "pipeline": "shop", "gold_scores": {"trace.adherence": 1}}
MODELS: Final[dict[str, type[WireModel]]] = {"RagInteraction": RagInteraction, "Feedback": Feedback}
"""Models of bodies, which the description of the service has beside those of the answers."""
_RUN: Final = (
    "An interaction whose question, documents, response, history and steps are in the messages of an agent's run."
)
_MESSAGES: Final = (
    "The messages of the run, oldest first: those of OpenAI (chat, items of Responses), Anthropic, Gemini, Bedrock, "
    "OpenTelemetry GenAI, LangChain, LlamaIndex, Haystack, Pydantic AI or Vercel's AI SDK. A field beside them wins."
)


def schema_of_run(interaction: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an interaction with `messages`, by that of an interaction."""
    messages = {"title": "Messages", "type": "array", "items": {"type": "object"}, "description": _MESSAGES}
    properties = {"messages": messages, **interaction["properties"]}
    run = {"title": "AgentRun", "description": _RUN, "properties": properties, "required": ["pipeline", "messages"]}
    return {**interaction, **run}


@router.post(
    "/v1/interactions",
    response_model=PostedItems,
    response_model_exclude_none=True,
    responses=RESPONSES,
    openapi_extra=_body(INTERACTION, "RagInteraction", "AgentRun"),
)
async def post_interactions(request: Request, shared: Shared, client: Writer) -> Response:
    """Publish an interaction, a list of interactions, or NDJSON with one on each line.

    It is safe to send a request again: an interaction id is published once within the dedupe window. Interactions
    without an id get one from the header `Idempotency-Key` and their place; without it the id is new each time.
    """
    key = request.headers.get("idempotency-key")
    return await _answered(request, shared, client, interactions(shared.routing, key))


@router.post(
    "/v1/feedback",
    response_model=PostedItems,
    response_model_exclude_none=True,
    responses=RESPONSES,
    openapi_extra=_body(FEEDBACK, "Feedback"),
)
async def post_feedback(request: Request, shared: Shared, client: Writer) -> Response:
    """Publish gold scores of interactions: one, a list, or NDJSON. The first gold score of a metric counts."""
    return await _answered(request, shared, client, feedback(shared.routing))


async def _answered(request: Request, shared: Context, client: Client, kind: ItemKind) -> Response:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    settings = shared.settings.serve
    if content_type in LINES:
        lines = read_lines(request, client, settings)
        return await _published(request, shared, client, kind, lines, ENTRY_MAX_BYTES)
    if content_type != "application/json":
        wanted = "send application/json or application/x-ndjson"
        raise HttpProblem(415, f"the content type {printable(content_type[:60])!r} is unknown: {wanted}", close=True)
    async with body_of(request, shared, client, items_in_json) as body:

        async def items() -> AsyncIterator[bytes]:
            for item in body.items:
                yield item
            if body.problem is not None:
                raise body.problem

        return await _published(request, shared, client, kind, items(), None)


async def _published(
    request: Request,
    shared: Context,
    client: Client,
    kind: ItemKind,
    items: AsyncIterator[bytes],
    max_bytes: int | None,
) -> Response:
    answers = Answers()
    detail, status, headers = None, None, {}
    try:
        await publish(shared.redis, kind, client, items, answers, max_bytes)
    except HttpProblem as problem:
        if not answers.counts:
            raise
        detail, status, headers = problem.detail, problem.status, problem.headers()
        if problem.close:
            await drain(request)
    except REDIS_ERRORS:
        detail, status = "Redis does not answer: send the whole request again later", 503
        headers = {"Retry-After": f"{RETRY_AFTER_S:.0f}"}
    shared.telemetry.items(kind.name, answers.counts)
    shared.telemetry.left_out(answers.left_out)
    if not answers.counts and status is None:
        raise HttpProblem(422, "the body has no items: send an object, a list of objects, or lines of objects")
    if answers.counts["full"] or answers.too_many_problems:
        detail = (
            detail or "the rest of the request was not read: mend or send it again, from the first item or the next"
        )
        await drain(request)
    status = status or answers.status()
    if status == 429:
        headers["Retry-After"] = f"{FULL_RETRY_S:.0f}"
    content = await asyncio.to_thread(lambda: answers.answer(detail).model_dump_json(exclude_none=True))
    return Response(content, status, headers, "application/json")
