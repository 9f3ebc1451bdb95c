"""One run of an agent as the messages of each protocol: one list of cases for every door.

The run has an earlier turn, two calls at once of which one times out, a second search, a booking and an answer. The
values are of our own; they follow the wire formats and the clients' classes.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from ragtide_schemas import RagInteraction
from ragtide_schemas.retrieval_steps import RetrievalStep

Items = list[dict[str, Any]]


class Asked(NamedTuple):
    """A call with its result."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    result: str | None
    """A text, which may be that of JSON; None if it never came."""
    failed: bool = False


Rounds = Sequence[Sequence[Asked]]

EARLIER: Final = ("Is the shop open?", "Yes, until eight.")
QUESTION: Final = "Can I return the lamp of order 7?"
ORDER: Final = "Order 7: lamp, delivered 28 April."
POLICY: Final = "Lamps can be returned for 14 days."
HOURS: Final = "The counter for returns is on the first floor."
ANSWER: Final = "Yes, until 12 May. I booked it."
POLICIES: Final = json.dumps([{"id": "ret", "text": POLICY, "score": 0.9}, {"id": "hrs", "text": HOURS, "score": 0.4}])
FAILURE: Final = "Error: the search timed out"
ROUNDS: Final[Rounds] = (
    (
        Asked("c1", "orders", {"order": 7}, ORDER),
        Asked("c2", "search_policies", {"query": "return lamp"}, FAILURE, failed=True),
    ),
    (Asked("c3", "search_policies", {"query": "returning lamps"}, POLICIES),),
    (Asked("c4", "book_return", {"order": 7}, "ok"),),
)
EXPECTED: Final[dict[str, Any]] = {
    "question": QUESTION,
    "documents": [ORDER, POLICY, HOURS],
    "response": ANSWER,
    "history": [{"question": EARLIER[0], "response": EARLIER[1]}],
    "steps": [
        {"name": "orders", "kind": "tool", "round": 1, "arguments": {"order": 7}, "documents": [0], "returned": 1},
        {"name": "search_policies", "kind": "tool", "round": 1, "query": "return lamp", "error": "timeout"},
        {
            "name": "search_policies", "kind": "tool", "round": 2, "query": "returning lamps", "documents": [1, 2],
            "returned": 2,
        },
        {"name": "book_return", "kind": "tool", "round": 3, "arguments": {"order": 7}},
    ],
}  # fmt: skip


def fields_seen_in(interaction: RagInteraction) -> dict[str, Any]:
    """What came out at a door, in the form of `EXPECTED`."""
    fields = json.loads(interaction.encode())
    steps = [{name: value for name, value in step.items() if value != []} for step in fields.get("steps", ())]
    seen = {"documents": [document.text for document in interaction.documents], "steps": steps}
    return {name: seen.get(name, fields.get(name)) for name in EXPECTED}


def answered(calls: Sequence[Asked]) -> list[Asked]:
    """The calls with results, in the order in which these came: that of the ids."""
    return sorted((call for call in calls if call.result is not None), key=lambda call: call.call_id)


def as_run(interaction: RagInteraction) -> RagInteraction:
    """The interaction as a run of an agent: its documents are from two calls of one tool, and another tool failed."""
    n = len(interaction.documents)
    first, second = tuple(range(n // 2)), tuple(range(n // 2, n))
    calls: list[dict[str, Any]] = [
        {"name": "handbook", "round": 1, "query": interaction.question[:500], "documents": first, "returned": n},
        {"name": "orders", "round": 1, "arguments": {"n": n}, "error": "timeout", "latency_s": 0.1 * (n + 1)},
        {"name": "handbook", "round": 2, "query": "lamp", "documents": second, "returned": n},
        {"name": "book", "round": 3, "arguments": {"n": n}},
    ]
    steps = tuple(RetrievalStep(kind="tool", **call) for call in calls)
    return interaction.model_copy(update={"steps": steps})


def openai_chat(rounds: Rounds = ROUNDS) -> Items:
    """OpenAI, Chat Completions; LiteLLM, vLLM, Mistral, Groq and Ollama have the same."""
    items: Items = [
        {"role": "system", "content": "You help customers."},
        {"role": "user", "content": EARLIER[0]},
        {"role": "assistant", "content": EARLIER[1]},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]
    for number, calls in enumerate(rounds):
        functions = [
            {"id": call.call_id, "type": "function",
             "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for call in calls
        ]  # fmt: skip
        items.append({"role": "assistant", "content": None if number else "Let me look.", "tool_calls": functions})
        items += [{"role": "tool", "tool_call_id": call.call_id, "content": call.result} for call in answered(calls)]
    return [*items, {"role": "assistant", "content": ANSWER, "refusal": None, "annotations": []}]


def openai_responses(rounds: Rounds = ROUNDS) -> Items:
    """OpenAI, items of Responses; `result.to_input_list()` of OpenAI Agents."""
    text = {"type": "output_text", "annotations": []}
    items: Items = [
        {"role": "user", "content": EARLIER[0]},
        {"type": "message", "role": "assistant", "id": "m0", "content": [{**text, "text": EARLIER[1]}]},
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
    ]
    for number, calls in enumerate(rounds):
        items.append({"type": "reasoning", "id": f"r{number}", "summary": [{"type": "summary_text", "text": "Hm."}]})
        items += [
            {"type": "function_call", "id": f"fc_{call.call_id}", "call_id": call.call_id, "name": call.name,
             "arguments": json.dumps(call.arguments), "status": "completed"}
            for call in calls
        ]  # fmt: skip
        items += [
            {"type": "function_call_output", "call_id": call.call_id, "output": call.result} for call in answered(calls)
        ]
    return [*items, {"type": "message", "role": "assistant", "id": "m1", "content": [{**text, "text": ANSWER}]}]


def anthropic(rounds: Rounds = ROUNDS) -> Items:
    """Anthropic, Messages."""
    items: Items = [
        {"role": "user", "content": EARLIER[0]},
        {"role": "assistant", "content": [{"type": "text", "text": EARLIER[1]}]},
        {"role": "user", "content": QUESTION},
    ]
    for calls in rounds:
        asked = [{"type": "tool_use", "id": c.call_id, "name": c.name, "input": c.arguments} for c in calls]
        items.append({"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, *asked]})
        results = [
            {"type": "tool_result", "tool_use_id": call.call_id, "is_error": call.failed,
             "content": [{"type": "text", "text": call.result}]}
            for call in answered(calls)
        ]  # fmt: skip
        items.append({"role": "user", "content": results})
    return [*items, {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}]


def gemini(rounds: Rounds = ROUNDS) -> Items:
    """Gemini, `contents`: without ids of calls, results as objects."""
    items: Items = [
        {"role": "user", "parts": [{"text": EARLIER[0]}]},
        {"role": "model", "parts": [{"text": EARLIER[1]}]},
        {"role": "user", "parts": [{"text": QUESTION}]},
    ]
    for calls in rounds:
        items.append(
            {"role": "model", "parts": [{"functionCall": {"name": c.name, "args": c.arguments}} for c in calls]}
        )
        responses = [
            {"functionResponse": {"name": c.name, "response": {"error" if c.failed else "result": c.result}}}
            for c in answered(calls)
        ]
        items.append({"role": "user", "parts": responses})
    return [*items, {"role": "model", "parts": [{"text": ANSWER}]}]


def bedrock() -> Items:
    """Amazon Bedrock, Converse; Strands has the same."""
    items: Items = [
        {"role": "user", "content": [{"text": EARLIER[0]}]},
        {"role": "assistant", "content": [{"text": EARLIER[1]}]},
        {"role": "user", "content": [{"text": QUESTION}]},
    ]
    for calls in ROUNDS:
        asked = [{"toolUse": {"toolUseId": c.call_id, "name": c.name, "input": c.arguments}} for c in calls]
        results = [
            {"toolResult": {"toolUseId": c.call_id, "status": "error" if c.failed else "success",
                            "content": [{"text": c.result}]}}
            for c in calls
        ]  # fmt: skip
        items += [{"role": "assistant", "content": asked}, {"role": "user", "content": results}]
    return [*items, {"role": "assistant", "content": [{"text": ANSWER}]}]


def genai() -> Items:
    """OpenTelemetry GenAI, `gen_ai.input.messages` and `gen_ai.output.messages`."""
    items: Items = [
        {"role": "user", "parts": [{"type": "text", "content": EARLIER[0]}]},
        {"role": "assistant", "parts": [{"type": "text", "content": EARLIER[1]}]},
        {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
    ]
    for calls in ROUNDS:
        asked = [{"type": "tool_call", "id": c.call_id, "name": c.name, "arguments": c.arguments} for c in calls]
        results = [{"type": "tool_call_response", "id": c.call_id, "response": c.result} for c in calls]
        items += [{"role": "assistant", "parts": asked}, {"role": "tool", "parts": results}]
    return [*items, {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}]


def pydantic_ai() -> Items:
    """Pydantic AI, `result.all_messages()`."""
    items: Items = [
        {"kind": "request", "parts": [
            {"part_kind": "system-prompt", "content": "You help customers."},
            {"part_kind": "user-prompt", "content": EARLIER[0]},
        ]},
        {"kind": "response", "parts": [{"part_kind": "text", "content": EARLIER[1]}]},
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": QUESTION}]},
    ]  # fmt: skip
    for calls in ROUNDS:
        asked = [
            {"part_kind": "tool-call", "tool_name": c.name, "args": json.dumps(c.arguments), "tool_call_id": c.call_id}
            for c in calls
        ]
        results = [
            {"part_kind": "retry-prompt" if c.failed else "tool-return", "tool_name": c.name, "content": c.result,
             "tool_call_id": c.call_id}
            for c in calls
        ]  # fmt: skip
        items += [{"kind": "response", "parts": asked}, {"kind": "request", "parts": results}]
    return [*items, {"kind": "response", "parts": [{"part_kind": "text", "content": ANSWER}]}]


def _langchain() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "human", {"content": EARLIER[0]}
    yield "ai", {"content": EARLIER[1], "tool_calls": []}
    yield "human", {"content": QUESTION}
    for calls in ROUNDS:
        asked = [{"name": c.name, "args": c.arguments, "id": c.call_id, "type": "tool_call"} for c in calls]
        functions = [{"id": c.call_id, "function": {"name": c.name, "arguments": "{}"}} for c in calls]
        yield "ai", {"content": "", "additional_kwargs": {"tool_calls": functions}, "tool_calls": asked}
        for call in calls:
            fields = {"name": call.name, "tool_call_id": call.call_id, "status": "error" if call.failed else "success"}
            documents = json.loads(call.result) if call.result and call.result[:1] == "[" else []
            objects = [
                {"page_content": one["text"], "metadata": {"score": one["score"]}, "id": one["id"]} for one in documents
            ]
            yield "tool", {"content": call.result, "artifact": objects or None, **fields}
    yield "ai", {"content": ANSWER, "tool_calls": [], "response_metadata": {"finish_reason": "stop"}}


def langchain() -> Items:
    """LangChain and LangGraph, `message.model_dump()`."""
    return [{"type": kind, **fields} for kind, fields in _langchain()]


def langchain_dicts() -> Items:
    """LangChain, `messages_to_dict`."""
    return [{"type": kind, "data": {"type": kind, **fields}} for kind, fields in _langchain()]


def langchain_dumps() -> Items:
    """LangChain, `dumpd`."""
    classes = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    path = ["langchain", "schema", "messages"]
    return [
        {"lc": 1, "type": "constructor", "id": [*path, classes[kind]], "kwargs": {"type": kind, **fields}}
        for kind, fields in _langchain()
    ]


def vercel() -> Items:
    """Vercel's AI SDK, `response.messages` (version 5)."""
    items: Items = [
        {"role": "user", "content": EARLIER[0]},
        {"role": "assistant", "content": [{"type": "text", "text": EARLIER[1]}]},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]
    for calls in ROUNDS:
        asked = [
            {"type": "tool-call", "toolCallId": c.call_id, "toolName": c.name, "input": c.arguments} for c in calls
        ]
        results = [
            {"type": "tool-result", "toolCallId": c.call_id, "toolName": c.name,
             "output": {"type": "error-text" if c.failed else "text", "value": c.result}}
            for c in calls
        ]  # fmt: skip
        items += [{"role": "assistant", "content": asked}, {"role": "tool", "content": results}]
    return [*items, {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}]


def vercel_ui() -> Items:
    """Vercel's AI SDK, messages of `useChat` (version 5): the whole run is one message."""
    parts: Items = []
    for calls in ROUNDS:
        parts += [{"type": "step-start"}, {"type": "text", "text": "Let me look.", "state": "done"}]
        parts += [
            {"type": f"tool-{c.name}", "toolCallId": c.call_id, "input": c.arguments,
             **({"state": "output-error", "errorText": c.result} if c.failed else
                {"state": "output-available", "output": c.result})}
            for c in calls
        ]  # fmt: skip
    parts += [{"type": "step-start"}, {"type": "text", "text": ANSWER, "state": "done"}]
    return [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": EARLIER[0]}]},
        {"id": "2", "role": "assistant", "parts": [{"type": "text", "text": EARLIER[1]}]},
        {"id": "3", "role": "user", "parts": [{"type": "text", "text": QUESTION}]},
        {"id": "4", "role": "assistant", "parts": parts},
    ]


def haystack() -> Items:
    """Haystack, `message.to_dict()`."""
    items: Items = [
        {"role": "user", "meta": {}, "name": None, "content": [{"text": EARLIER[0]}]},
        {"role": "assistant", "meta": {}, "name": None, "content": [{"text": EARLIER[1]}]},
        {"role": "user", "meta": {}, "name": None, "content": [{"text": QUESTION}]},
    ]
    for calls in ROUNDS:
        asked = [{"tool_call": {"id": c.call_id, "tool_name": c.name, "arguments": c.arguments}} for c in calls]
        items.append({"role": "assistant", "meta": {}, "name": None, "content": asked})
        items += [
            {"role": "tool", "meta": {}, "name": None, "content": [
                {"tool_call_result": {"result": call.result, "error": call.failed, "origin": made["tool_call"]}},
            ]}
            for call, made in zip(calls, asked, strict=True)
        ]  # fmt: skip
    return [*items, {"role": "assistant", "meta": {}, "name": None, "content": [{"text": ANSWER}]}]


def llamaindex() -> Items:
    """LlamaIndex, `message.model_dump()` of a memory."""
    items: Items = [
        {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": EARLIER[0]}]},
        {"role": "assistant", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": EARLIER[1]}]},
        {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": QUESTION}]},
    ]
    for calls in ROUNDS:
        asked = [
            {"block_type": "tool_call", "tool_call_id": c.call_id, "tool_name": c.name, "tool_kwargs": c.arguments}
            for c in calls
        ]
        items.append({"role": "assistant", "additional_kwargs": {}, "blocks": asked})
        items += [
            {"role": "tool", "additional_kwargs": {"tool_call_id": c.call_id},
             "blocks": [{"block_type": "text", "text": c.result}]}
            for c in calls
        ]  # fmt: skip
    return [
        *items,
        {"role": "assistant", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": ANSWER}]},
    ]


TRANSCRIPTS: Final[tuple[Callable[[], Items], ...]] = (
    openai_chat, openai_responses, anthropic, gemini, bedrock, genai, pydantic_ai, langchain, langchain_dicts,
    langchain_dumps, vercel, vercel_ui, haystack, llamaindex,
)  # fmt: skip
