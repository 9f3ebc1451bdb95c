"""What clients and frameworks hand over for a question, an answer or documents: one list of cases for every door.

Each form stands with the place where it was seen. A test of a door takes the forms that can arrive there. The values
are of our own; they follow the clients' classes and wire formats.
"""

import base64
import json
from typing import Any, Final, Literal, NamedTuple

QUESTION: Final = "How often is the pump serviced?"
ANSWER: Final = "The pump is serviced every 6 months."
THOUGHT: Final = "Perhaps every 9 months."
FILTER: Final = "The filter is cleaned with warm water."
FIRST, SECOND = "The pump is serviced ", "every 6 months."
CHUNKS: Final = ("The pump is", " ser", "viced ", "every 6 ", "months.")
PNG: Final = f"iVBORw0KGgoAAAANSUhEUgAA{'iVBORw0KGgoAAAANSUhEUgAA' * 4}"

REFUSED: Final = "<refused>"
"""The value must be refused by name: it cannot be read without guessing."""
NOTHING: Final = "<nothing>"
"""The value holds no text, as null or a call of a tool: no text may come out; a refusal is right, too."""

Door = Literal["files", "sdk", "http", "traces"]
JSON: Final[tuple[Door, ...]] = ("files", "sdk", "http", "traces")
PYTHON: Final[tuple[Door, ...]] = ("sdk",)
"""Objects that only a program can hand over."""


class Form(NamedTuple):
    """One form of a value."""

    name: str
    seen_in: str
    """Repository and file in which the form is made, or the public page that shows it."""
    value: Any
    expected: str | tuple[str, ...] = ANSWER
    """The text; texts of documents; or `REFUSED` or `NOTHING`."""
    meaning: Literal["question", "answer", "reference", "documents"] = "answer"
    doors: tuple[Door, ...] = JSON
    """Doors at which the form can arrive."""
    left_out: tuple[str, ...] = ()
    """Names of what is left out on purpose, such as `image`."""


def text(value: str = ANSWER, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def message(content: Any = ANSWER, role: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def completion(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    choices = [{"index": place, "message": one, "finish_reason": "stop"} for place, one in enumerate(messages)]
    return {"id": "c", "object": "chat.completion", "choices": choices, "usage": {"total_tokens": 9}, **more}


def chunk(content: str | None, index: int = 0, **more: Any) -> dict[str, Any]:
    delta = {"content": content, **more}
    return {"object": "chat.completion.chunk", "choices": [{"index": index, "delta": delta, "finish_reason": None}]}


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "sequence_number": 1, **more}


OUTPUT_TEXT: Final = {"type": "output_text", "text": ANSWER, "annotations": []}
OUTPUT_ITEM: Final = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [OUTPUT_TEXT],
}
REASONING_ITEM: Final = {"id": "r", "type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]}
RESPONSE: Final = {"id": "resp_1", "object": "response", "status": "completed", "output": [REASONING_ITEM, OUTPUT_ITEM]}
CALL: Final = {"id": "t", "type": "function", "function": {"name": "search", "arguments": "{}"}}
THINKING: Final = {"type": "thinking", "thinking": THOUGHT, "signature": "abc"}
CHAT: Final = [message(QUESTION, "user"), message()]
EVENTS: Final = [
    event("response.created", response={"id": "resp_1", "object": "response", "output": []}),
    event("response.output_item.added", item={"type": "reasoning", "summary": []}),
    event("response.reasoning_summary_text.delta", delta=THOUGHT),
    event("response.reasoning_summary_text.done", text=THOUGHT),
    event("response.output_item.added", item={"type": "message", "role": "assistant", "content": []}),
    event("response.content_part.added", part={"type": "output_text", "text": ""}),
    *(event("response.output_text.delta", delta=piece) for piece in CHUNKS),
]
DONE: Final = [
    event("response.output_text.done", text=ANSWER),
    event("response.content_part.done", part=OUTPUT_TEXT),
    event("response.output_item.done", item=OUTPUT_ITEM),
    event("response.completed", response=RESPONSE),
]
ANTHROPIC: Final = [
    {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": THOUGHT}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "x"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    *({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": piece}} for piece in CHUNKS),
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
HELPER: Final = [
    one
    for place, piece in enumerate(CHUNKS)
    for one in (
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}},
        {"type": "text", "text": piece, "snapshot": "".join(CHUNKS[: place + 1])},
    )
]


def gemini(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, "index": 0}], "modelVersion": "g"}


BEDROCK: Final = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"reasoningContent": {"text": THOUGHT}}, "contentBlockIndex": 0}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    *({"contentBlockDelta": {"delta": {"text": piece}, "contentBlockIndex": 1}} for piece in CHUNKS),
    {"contentBlockStop": {"contentBlockIndex": 1}},
    {"messageStop": {"stopReason": "end_turn"}},
    {"metadata": {"usage": {"outputTokens": 9}}},
]


def payload(value: Any) -> dict[str, Any]:
    return {"chunk": {"bytes": base64.b64encode(json.dumps(value).encode()).decode()}}


def lc(name: str, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": kwargs}


def sse(*values: Any) -> str:
    return "".join(f"data: {json.dumps(value)}\n\n" for value in values) + "data: [DONE]\n\n"


def so_far(*, delta: bool = True) -> list[dict[str, Any]]:
    texts = ["".join(CHUNKS[: place + 1]) for place in range(len(CHUNKS))]
    return [{"text": whole, **({"delta": piece} if delta else {})} for whole, piece in zip(texts, CHUNKS, strict=True)]


OPENAI: Final = "openai/openai-python src/openai/types/"
SDK_ANTHROPIC: Final = "anthropics/anthropic-sdk-python src/anthropic/"
GENAI: Final = "googleapis/python-genai google/genai/types.py"
CONVERSE: Final = "boto/botocore botocore/data/bedrock-runtime/2023-09-30/service-2.json"
LANGCHAIN: Final = "langchain-ai/langchain libs/core/langchain_core/"
LLAMA: Final = "run-llama/llama_index llama-index-core/llama_index/core/"
HAYSTACK: Final = "deepset-ai/haystack haystack/dataclasses/"
DSPY: Final = "stanfordnlp/dspy dspy/primitives/prediction.py"
OLLAMA: Final = "ollama/ollama-python ollama/_types.py"
VERCEL: Final = "vercel/ai packages/ai/src/"
MCP: Final = "mcp 2.3 mcp_types/_types.py"
SEMCONV: Final = "open-telemetry/semantic-conventions docs/gen-ai/gen-ai-output-messages.json"
WIDE: Final = f"Prediction(\n    reasoning='{THOUGHT} It is \"unsure\".',\n    answer='{ANSWER}'\n)"

TEXTS: Final = (
    Form("text", "every door", ANSWER),
    Form("text with space", "every door", f"  {ANSWER}\n"),
    Form("text with tags", "every door", "<b>Yes</b>", "<b>Yes</b>"),
    Form("text that is code", "every door", "f(x=1)", "f(x=1)"),
    Form("text about an object", "every door", "Use <generator object> in Python", "Use <generator object> in Python"),
    Form("text with JSON inside", "every door", 'Send {"a": 1}, then wait.', 'Send {"a": 1}, then wait.'),
    Form("text that begins with a list", "every door", "[1] It is open.", "[1] It is open."),
    Form("text with roles", "every door", "role: assistant\ncontent: none", "role: assistant\ncontent: none"),
    Form("answer in JSON of its own", "every door", '{"price": 5, "unit": "EUR"}', '{"price": 5, "unit": "EUR"}'),
    Form("list of numbers as a text", "every door", "[1, 2, 3]", "[1, 2, 3]"),
    Form("JSON with a known field", "dify, flowise and many prompts for JSON", json.dumps({"answer": ANSWER})),
    Form("JSON in JSON", "mlflow/mlflow mlflow/entities/span.py", json.dumps(json.dumps({"answer": ANSWER}))),
    Form("JSON with reasoning", "stanfordnlp/dspy dspy/adapters/json_adapter.py",
         json.dumps({"reasoning": THOUGHT, "answer": ANSWER})),
    Form("JSON with reasoning and a field of its own", "stanfordnlp/dspy dspy/adapters/json_adapter.py",
         json.dumps({"reasoning": THOUGHT, "verdict": ANSWER}), left_out=("reasoning",)),
    Form("JSON with reasoning and two fields of its own", "stanfordnlp/dspy dspy/adapters/json_adapter.py",
         json.dumps({"reasoning": THOUGHT, "verdict": ANSWER, "topic": "pump"}), REFUSED),
    Form("JSON with an empty answer", "every door", '{"answer": null}', NOTHING),
    Form("error of a service", f"{SDK_ANTHROPIC}types/shared/error_response.py",
         {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, NOTHING),
    Form("cut JSON", "mlflow/mlflow mlflow/entities/span.py", '{"answer": "The pump is', REFUSED),
    Form("number", "csv, json", 1889.0, "1889"),
    Form("null", "json", None, NOTHING),
    Form("blank", "csv", " \n", NOTHING),
    Form("NaN", "pandas-dev/pandas pandas/io/json/_json.py", float("nan"), NOTHING, doors=("sdk",)),
    Form("bytes", "boto/botocore botocore/response.py", ANSWER.encode(), doors=PYTHON),
    Form("data URL of a text", "RFC 2397", f"data:text/plain;base64,{base64.b64encode(ANSWER.encode()).decode()}"),
)  # fmt: skip

OPENAI_FORMS: Final = (
    Form("chat completion", f"{OPENAI}chat/chat_completion.py", completion(message())),
    Form("chat completion with reasoning", "deepseek-ai/DeepSeek-R1 README.md",
         completion(message(reasoning_content=THOUGHT)), left_out=("reasoning",)),
    Form("two choices", f"{OPENAI}chat/chat_completion.py", completion(message(), message("Every 9 months."))),
    Form("choices out of order", f"{OPENAI}chat/chat_completion.py",
         {"choices": [{"index": 1, "message": message("Every 9 months.")}, {"index": 0, "message": message()}]}),
    Form("choice alone", f"{OPENAI}chat/chat_completion.py", {"index": 0, "message": message(), "finish_reason": "stop"}),
    Form("message", f"{OPENAI}chat/chat_completion_message.py", message(refusal=None, tool_calls=None)),
    Form("refusal", f"{OPENAI}chat/chat_completion_content_part_refusal_param.py",
         message([{"type": "refusal", "refusal": ANSWER}])),
    Form("message that only calls tools", f"{OPENAI}chat/chat_completion_message.py",
         message(None, tool_calls=[CALL]), NOTHING),
    Form("spoken message", f"{OPENAI}chat/chat_completion_audio.py",
         message(None, audio={"id": "a", "data": PNG, "transcript": ANSWER, "expires_at": 1})),
    Form("completion", f"{OPENAI}completion.py",
         {"object": "text_completion", "choices": [{"index": 0, "text": ANSWER, "finish_reason": "stop"}]}),
    Form("chat chunks", f"{OPENAI}chat/chat_completion_chunk.py",
         [chunk("", role="assistant"), *map(chunk, CHUNKS), chunk(None), {"object": "chat.completion.chunk", "choices": []}]),
    Form("chat chunks with reasoning", "deepseek-ai/DeepSeek-R1 README.md",
         [chunk(None, reasoning_content=THOUGHT), *map(chunk, CHUNKS)]),
    Form("chat chunks of two choices", f"{OPENAI}chat/chat_completion_chunk.py",
         [one for piece in CHUNKS for one in (chunk(piece), chunk("no ", 1))]),
    Form("chat chunks as lines of JSON", f"{OPENAI}chat/chat_completion_chunk.py",
         "\n".join(json.dumps(chunk(piece)) for piece in CHUNKS)),
    Form("chat chunks as texts", f"{OPENAI}chat/chat_completion_chunk.py", [json.dumps(chunk(piece)) for piece in CHUNKS]),
    Form("server-sent events", "openai/openai-python src/openai/_streaming.py", sse(*map(chunk, CHUNKS))),
    Form("events with data", "mistralai/client-python src/mistralai/client/models/completionevent.py",
         [{"data": chunk(piece)} for piece in CHUNKS]),
    Form("events of the helper", "openai/openai-python src/openai/lib/streaming/chat/_events.py",
         [one for place, piece in enumerate(CHUNKS) for one in (
             {"type": "chunk", "chunk": chunk(piece), "snapshot": completion(message("".join(CHUNKS[: place + 1])))},
             {"type": "content.delta", "delta": piece, "snapshot": "".join(CHUNKS[: place + 1])})]),
    Form("chunks of completions", f"{OPENAI}completion.py",
         [{"object": "text_completion", "choices": [{"index": 0, "text": piece}]} for piece in CHUNKS]),
    Form("response", f"{OPENAI}responses/response.py", RESPONSE, left_out=("reasoning",)),
    Form("response in JSON", f"{OPENAI}responses/response.py", json.dumps(RESPONSE)),
    Form("response that only calls tools", f"{OPENAI}responses/response.py",
         {"object": "response", "output": [{"type": "function_call", "name": "search", "arguments": "{}"}]}, NOTHING),
    Form("response with commentary", f"{OPENAI}responses/response_output_message.py", {
        "object": "response",
        "output": [{**OUTPUT_ITEM, "phase": "commentary", "content": [text("I look it up.")]},
                   {**OUTPUT_ITEM, "phase": "final_answer"}]}),
    Form("last event", f"{OPENAI}responses/response_completed_event.py", DONE[-1]),
    Form("event with the whole text", f"{OPENAI}responses/response_text_done_event.py", DONE[0]),
    Form("all events", f"{OPENAI}responses/response_stream_event.py", [*EVENTS, *DONE]),
    Form("events without an end", f"{OPENAI}responses/response_stream_event.py", EVENTS),
    Form("events of ends", f"{OPENAI}responses/response_stream_event.py", DONE[:3]),
    Form("events as server-sent events", f"{OPENAI}responses/response_stream_event.py",
         "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in [*EVENTS, *DONE])),
    Form("items of the output", f"{OPENAI}responses/response_output_item.py", [REASONING_ITEM, OUTPUT_ITEM]),
    Form("part of the output", f"{OPENAI}responses/response_output_text.py", OUTPUT_TEXT),
    Form("message of Assistants", f"{OPENAI}beta/threads/message.py",
         message([{"type": "text", "text": {"value": ANSWER, "annotations": []}}], object="thread.message")),
    Form("stream of Assistants", f"{OPENAI}beta/assistant_stream_event.py",
         [{"event": "thread.run.created", "data": {"id": "r", "object": "thread.run"}},
          *({"event": "thread.message.delta", "data": {"object": "thread.message.delta", "delta": {
              "content": [{"index": 0, "type": "text", "text": {"value": piece}}]}}} for piece in CHUNKS)]),
    Form("spoken response", f"{OPENAI}realtime/response_audio_transcript_delta_event.py",
         [event("response.output_audio.delta", delta=PNG),
          *(event("response.output_audio_transcript.delta", delta=piece) for piece in CHUNKS)]),
    Form("printed completion", f"{OPENAI}chat/chat_completion.py",
         f"ChatCompletion(id='c', choices=[Choice(finish_reason='stop', index=0, logprobs=None, message="
         f"ChatCompletionMessage(content='{ANSWER}', refusal=None, role='assistant', tool_calls=None))], created=1)"),
    Form("printed chunks", f"{OPENAI}chat/chat_completion_chunk.py",
         "[" + ", ".join(f"ChatCompletionChunk(id='c', choices=[Choice(delta=ChoiceDelta(content={piece!r}, role=None), "
                         "index=0)], object='chat.completion.chunk')" for piece in CHUNKS) + "]"),
)  # fmt: skip

ANTHROPIC_FORMS: Final = (
    Form("anthropic message", f"{SDK_ANTHROPIC}types/message.py",
         {"type": "message", **message([THINKING, text(citations=None)]), "stop_reason": "end_turn"},
         left_out=("reasoning",)),
    Form("redacted thinking", f"{SDK_ANTHROPIC}types/redacted_thinking_block.py",
         message([{"type": "redacted_thinking", "data": "abc"}, text()])),
    Form("blocks with citations", f"{SDK_ANTHROPIC}types/text_block.py",
         message([text(FIRST), text(SECOND, citations=[{"type": "char_location", "cited_text": THOUGHT}])])),
    Form("search of the server", f"{SDK_ANTHROPIC}types/server_tool_use_block.py", message([
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "pump"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "title": "x"}]},
        text(FIRST), text(SECOND)])),
    Form("message that asks for a tool", f"{SDK_ANTHROPIC}types/tool_use_block.py",
         message([text("I look it up."), {"type": "tool_use", "id": "t", "name": "search", "input": {}}]), NOTHING),
    Form("raw events", f"{SDK_ANTHROPIC}types/raw_message_stream_event.py", ANTHROPIC),
    Form("events of the helper of anthropic", f"{SDK_ANTHROPIC}lib/streaming/_types.py", HELPER),
    Form("text events", f"{SDK_ANTHROPIC}lib/streaming/_types.py", HELPER[1::2]),
    Form("end of a block", f"{SDK_ANTHROPIC}lib/streaming/_types.py",
         {"type": "content_block_stop", "index": 0, "content_block": text()}),
    Form("end of a message", f"{SDK_ANTHROPIC}lib/streaming/_types.py",
         [*HELPER, {"type": "message_stop", "message": {"type": "message", **message([text()])}}]),
    Form("printed message", f"{SDK_ANTHROPIC}types/message.py",
         f"Message(id='m', content=[ThinkingBlock(signature='x', thinking='{THOUGHT}', type='thinking'), "
         f"TextBlock(citations=None, text='{ANSWER}', type='text')], role='assistant', type='message')"),
)  # fmt: skip

GEMINI_FORMS: Final = (
    Form("gemini reply", GENAI, gemini({"text": ANSWER})),
    Form("gemini thoughts", GENAI, gemini({"text": THOUGHT, "thought": True}, {"text": FIRST}, {"text": SECOND})),
    Form("gemini stream", GENAI, [gemini({"text": THOUGHT, "thought": True}), *(gemini({"text": one}) for one in CHUNKS)]),
    Form("gemini with a signature", GENAI, gemini({"text": ANSWER, "thoughtSignature": "abc"})),
    Form("gemini with an image", GENAI, gemini({"text": ANSWER}, {"inlineData": {"mimeType": "image/png", "data": PNG}}),
         left_out=("image",)),
    Form("gemini with code", GENAI, gemini({"executableCode": {"language": "PYTHON", "code": "print(6)"}},
         {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "6"}}, {"text": ANSWER})),
    Form("content of gemini", GENAI, {"parts": [{"text": FIRST}, {"text": SECOND}], "role": "model"}),
    Form("gemini calls a tool", GENAI, gemini({"functionCall": {"name": "search", "args": {}}}), NOTHING),
    Form("printed reply of gemini", "googleapis/python-genai google/genai/_common.py",
         f'GenerateContentResponse(\n  candidates=[\n    Candidate(\n      content=Content(\n        parts=[\n          '
         f'Part(\n            text="""{ANSWER}"""\n          ),\n        ],\n        role=\'model\'\n      ),\n    ),\n  ],\n)'),
)  # fmt: skip

BEDROCK_FORMS: Final = (
    Form("converse", CONVERSE, {"output": {"message": message([
        {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": "x"}}}, {"text": ANSWER}])},
        "stopReason": "end_turn", "usage": {"outputTokens": 9}}, left_out=("reasoning",)),
    Form("converse with citations", CONVERSE,
         message([{"citationsContent": {"content": [{"text": ANSWER}], "citations": [{"title": "Manual"}]}}])),
    Form("converse stream", CONVERSE, BEDROCK),
    Form("converse stream in a reply", CONVERSE, {"stream": BEDROCK}),
    Form("converse calls a tool", CONVERSE, message([{"text": "I look."}, {"toolUse": {"name": "search"}}]), NOTHING),
    Form("invoke model, stream", CONVERSE, [payload(one) for one in ANTHROPIC]),
    Form("invoke titan, stream", CONVERSE, [payload({"outputText": one, "index": 0}) for one in CHUNKS]),
    Form("invoke llama", CONVERSE, {"generation": ANSWER, "prompt_token_count": 9, "stop_reason": "stop"}),
    Form("invoke titan", CONVERSE, {"results": [{"outputText": ANSWER, "completionReason": "FINISH"}]}),
    Form("retrieve and generate", "boto/botocore botocore/data/bedrock-agent-runtime/2023-07-26/service-2.json",
         {"output": {"text": ANSWER}, "citations": [{"generatedResponsePart": {"textResponsePart": {"text": "x"}}}]}),
)  # fmt: skip


def ai_chunk(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "AIMessageChunk", "content": content, "tool_call_chunks": [], **more}


LANGCHAIN_FORMS: Final = (
    Form("message of LangChain", f"{LANGCHAIN}messages/ai.py", {"type": "ai", "content": ANSWER, "tool_calls": []}),
    Form("message with reasoning", f"{LANGCHAIN}messages/ai.py",
         {"type": "ai", "content": ANSWER, "additional_kwargs": {"reasoning_content": THOUGHT}}, left_out=("reasoning",)),
    Form("constructor", f"{LANGCHAIN}load/dump.py", lc("AIMessage", content=ANSWER, type="ai")),
    Form("content blocks", f"{LANGCHAIN}messages/content.py",
         {"type": "ai", "content": [{"type": "reasoning", "reasoning": THOUGHT}, text(FIRST), text(SECOND)]}),
    Form("text among blocks", f"{LANGCHAIN}messages/base.py", {"type": "ai", "content": [FIRST, text(SECOND)]}),
    Form("chunks", f"{LANGCHAIN}messages/ai.py", [ai_chunk(one) for one in CHUNKS]),
    Form("chunks of blocks", f"{LANGCHAIN}messages/ai.py",
         [ai_chunk([{"type": "thinking", "thinking": THOUGHT, "index": 0}]),
          *(ai_chunk([text(one, index=1)]) for one in CHUNKS)]),
    Form("constructors of chunks", f"{LANGCHAIN}load/dump.py",
         [lc("AIMessageChunk", content=one, type="AIMessageChunk") for one in CHUNKS]),
    Form("printed chunks of LangChain", f"{LANGCHAIN}messages/ai.py",
         [f"content={one!r} additional_kwargs={{}} response_metadata={{}} id='run-1'" for one in CHUNKS], REFUSED),
    Form("printed classes of chunks", f"{LANGCHAIN}messages/ai.py",
         "[" + ", ".join(f"AIMessageChunk(content={one!r}, additional_kwargs={{}}, id='run-1')" for one in CHUNKS) + "]"),
    Form("chunks and texts", f"{LANGCHAIN}messages/ai.py", [CHUNKS[0], *(ai_chunk(one) for one in CHUNKS[1:])]),
    Form("chunks and the whole", f"{LANGCHAIN}messages/ai.py",
         [*(ai_chunk(one) for one in CHUNKS), {"type": "ai", "content": ANSWER}]),
    Form("events of a stream", f"{LANGCHAIN}runnables/schema.py",
         [{"event": "on_chat_model_start", "data": {"input": {"messages": []}}},
          *({"event": "on_chat_model_stream", "data": {"chunk": ai_chunk(one)}} for one in CHUNKS),
          {"event": "on_chat_model_end", "data": {"output": {"type": "ai", "content": ANSWER}}}]),
    Form("messages of LangGraph", "langchain-ai/langgraph libs/langgraph/langgraph/pregel/_messages.py",
         [[ai_chunk(one), {"langgraph_node": "model"}] for one in CHUNKS]),
    Form("result of a model", f"{LANGCHAIN}outputs/llm_result.py",
         {"generations": [[{"text": ANSWER, "message": {"type": "ai", "content": ANSWER}}]], "llm_output": {}}),
    Form("result with two generations", f"{LANGCHAIN}outputs/llm_result.py",
         {"generations": [[{"text": ANSWER}, {"text": "Every 9 months."}]]}),
    Form("results of two prompts", f"{LANGCHAIN}outputs/llm_result.py",
         {"generations": [[{"text": ANSWER}], [{"text": "Every 9 months."}]]}, REFUSED),
    Form("state of a graph", "langchain-ai/langgraph libs/langgraph/langgraph/graph/message.py",
         {"messages": [{"type": "human", "content": QUESTION}, {"type": "ai", "content": ANSWER}]}),
    Form("state without an answer", "langchain-ai/langgraph libs/langgraph/langgraph/graph/message.py",
         {"messages": [{"type": "ai", "content": "Hello!"}, {"type": "human", "content": QUESTION}]}, NOTHING),
    Form("printed state", "langchain-ai/langgraph libs/langgraph/langgraph/graph/message.py",
         f"{{'messages': [HumanMessage(content='{QUESTION}'), AIMessage(content='{ANSWER}')]}}"),
    Form("printed text of a part", "langchain-ai/langchain-azure PR 634", str(text(index=0))),
    Form("state with chunks", f"{LANGCHAIN}messages/ai.py", {"answer": [ai_chunk(one) for one in CHUNKS]}),
)  # fmt: skip

LLAMA_FORMS: Final = (
    Form("response of LlamaIndex", f"{LLAMA}base/response/schema.py",
         {"response": ANSWER, "source_nodes": [{"node": {"text": FILTER}, "score": 0.5}], "metadata": {}}),
    Form("chat response", f"{LLAMA}base/llms/types.py",
         {"message": {"role": "assistant", "blocks": [{"block_type": "text", "text": ANSWER}]}, "raw": {}, "delta": None}),
    Form("blocks", f"{LLAMA}base/llms/types.py", {"role": "assistant", "blocks": [
        {"block_type": "thinking", "content": THOUGHT}, {"block_type": "text", "text": ANSWER},
        {"block_type": "image", "image": PNG}]}, left_out=("image", "reasoning")),
    Form("texts so far", f"{LLAMA}base/llms/types.py", so_far()),
    Form("messages so far", f"{LLAMA}base/llms/types.py",
         [{"message": message(one["text"]), "delta": one["delta"], "raw": None} for one in so_far()]),
    Form("texts that grow", "gradio-app/gradio guides/05_chatbots/01_creating-a-chatbot-fast.md",
         [one["text"] for one in so_far(delta=False)]),
    Form("texts of a stream", f"{LLAMA}base/response/schema.py", list(CHUNKS)),
    Form("texts of a stream as a text", "langchain-ai/langsmith-sdk PR 3238", json.dumps(CHUNKS)),
    Form("printed answer of an agent", f"{LLAMA}agent/workflow/workflow_events.py",
         f"AgentOutput(response=ChatMessage(role=<MessageRole.ASSISTANT: 'assistant'>, additional_kwargs={{}}, "
         f"blocks=[TextBlock(block_type='text', text='{ANSWER}')]), tool_calls=[], raw=None)"),
    Form("cut answer of an agent", f"{LLAMA}instrumentation/dispatcher.py", "StopEvent(result=AgentOutput(respo...", REFUSED),
    Form("stream of an agent", f"{LLAMA}agent/workflow/workflow_events.py",
         [{"delta": one, "response": "x", "current_agent_name": "a", "tool_calls": []} for one in CHUNKS]),
)  # fmt: skip

HAYSTACK_FORMS: Final = (
    Form("message of Haystack", f"{HAYSTACK}chat_message.py",
         {"role": "assistant", "content": [{"reasoning": {"reasoning_text": THOUGHT}}, {"text": ANSWER}], "meta": {}}),
    Form("fields of a message", f"{HAYSTACK}chat_message.py",
         {"_role": "assistant", "_content": [{"text": ANSWER}], "_name": None, "_meta": {}}),
    Form("replies", "haystack-ai 3.4 haystack/components/generators/chat/openai.py", {"llm": {"replies": [ANSWER]}}),
    Form("replies that differ", "haystack-ai 3.4 haystack/components/generators/chat/openai.py",
         {"llm": {"replies": [ANSWER, "Every 9 months."]}}, REFUSED),
    Form("generated answer", f"{HAYSTACK}answer.py", {"answers": [
        {"data": ANSWER, "query": QUESTION, "documents": [{"content": FILTER}], "meta": {}}]}),
    Form("generated answer with its type", f"{HAYSTACK}answer.py", {
        "type": "haystack.dataclasses.answer.GeneratedAnswer", "init_parameters": {"data": ANSWER, "query": QUESTION}}),
    Form("chunks of Haystack", f"{HAYSTACK}streaming_chunk.py",
         "[" + ", ".join(f"StreamingChunk(content={one!r}, meta={{}}, index=0)" for one in CHUNKS) + "]"),
    Form("printed message of Haystack", f"{HAYSTACK}chat_message.py",
         f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text='{ANSWER}')], _meta={{}})"),
)  # fmt: skip

DSPY_FORMS: Final = (
    Form("prediction", DSPY, WIDE, left_out=("reasoning",)),
    Form("prediction on one line", DSPY, f"Prediction(reasoning='{THOUGHT}', answer='{ANSWER}')"),
    Form("prediction with quotes", DSPY, f'Prediction(\n    reasoning="It\'s \\"unsure\\": f(x=1)",\n    answer=\'{ANSWER}\'\n)'),
    Form("prediction with completions", DSPY,
         f"Prediction(\n    answer='{ANSWER}',\n    completions=Completions(...)\n) (2 completions omitted)"),
    Form("prediction with a name of its own", DSPY, f"Prediction(\n    reasoning='{THOUGHT}',\n    advice='{ANSWER}'\n)"),
    Form("prediction with two names of its own", DSPY,
         f"Prediction(\n    reasoning='{THOUGHT}',\n    advice='{ANSWER}',\n    topic='pump'\n)", REFUSED),
    Form("prediction of an agent", DSPY,
         f"Prediction(\n    trajectory={{'thought_0': '{THOUGHT}', 'tool_name_0': 'search'}},\n    answer='{ANSWER}'\n)"),
    Form("completions", DSPY, f"Completions(\n    answer=['{ANSWER}']\n)"),
    Form("completions that differ", DSPY, f"Completions(\n    answer=['{ANSWER}', 'Every 9 months.']\n)", REFUSED),
    Form("cut prediction", DSPY, WIDE[:70], REFUSED),
)  # fmt: skip

OTHER_FORMS: Final = (
    Form("ollama chat", OLLAMA, {"model": "m", "message": message(thinking=THOUGHT), "done": True}),
    Form("ollama chunks", OLLAMA, [
        {"model": "m", "message": message("", thinking=THOUGHT), "done": False},
        *({"model": "m", "message": message(one), "done": False} for one in CHUNKS),
        {"model": "m", "message": message(""), "done": True, "done_reason": "stop", "eval_count": 9}]),
    Form("ollama chunks as lines", OLLAMA,
         "\n".join(json.dumps({"model": "m", "response": one, "done": False}) for one in CHUNKS)),
    Form("ollama generate", OLLAMA, {"model": "m", "response": ANSWER, "done": True, "context": [1, 2]}),
    Form("text-generation-inference", "huggingface-hub 2.4 TextGenerationStreamOutput",
         [*({"token": {"id": 1, "text": one}, "generated_text": None} for one in CHUNKS[:-1]),
          {"token": {"id": 2, "text": CHUNKS[-1]}, "generated_text": ANSWER}]),
    Form("cohere", "cohere-ai/cohere-python src/cohere/v2/types/v2chat_response.py",
         {"message": message([text()]), "finish_reason": "COMPLETE"}),
    Form("cohere stream", "cohere-ai/cohere-python src/cohere/types/chat_content_delta_event.py",
         [{"type": "message-start", "id": "x"},
          *({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": one}}}} for one in CHUNKS),
          {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}]),
    Form("AI SDK chunks", f"{VERCEL}ui-message-stream/ui-message-chunks.ts",
         [{"type": "start"}, {"type": "start-step"}, {"type": "reasoning-delta", "id": "0", "delta": THOUGHT},
          {"type": "text-start", "id": "1"}, *({"type": "text-delta", "id": "1", "delta": one} for one in CHUNKS),
          {"type": "text-end", "id": "1"}, {"type": "finish-step"}, {"type": "finish"}]),
    Form("AI SDK message", f"{VERCEL}ui/ui-messages.ts", {"id": "1", "role": "assistant", "parts": [
        {"type": "step-start"}, {"type": "reasoning", "text": THOUGHT, "state": "done"}, {"type": "text", "text": ANSWER}]}),
    Form("AI SDK result", f"{VERCEL}generate-text/generate-text-result.ts",
         {"text": ANSWER, "reasoningText": THOUGHT, "steps": [], "finishReason": "stop"}),
    Form("AI SDK data stream", "vercel/ai packages/ui-utils/src/data-stream-parts.ts",
         'f:{"messageId":"1"}\ng:"Perhaps."\n' + "".join(f"0:{json.dumps(one)}\n" for one in CHUNKS) + 'd:{"finishReason":"stop"}\n'),
    Form("structured content and its text", MCP,
         {"content": [text("1 answer found.")], "structuredContent": {"answer": ANSWER}, "isError": False}),
    Form("text and structured content without an answer", MCP,
         {"content": [text()], "structuredContent": {"pages": [4]}, "isError": False}),
    Form("message of the conventions", SEMCONV,
         [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}], "finish_reason": "stop"}]),
    Form("choices of the conventions", SEMCONV,
         [{"role": "assistant", "parts": [{"type": "text", "content": one}], "finish_reason": "stop"}
          for one in (ANSWER, "Every 9 months.")]),
    Form("reasoning of the conventions", SEMCONV,
         [{"role": "assistant", "parts": [{"type": "reasoning", "content": THOUGHT}, {"type": "text", "content": ANSWER}]}]),
    Form("pydantic ai", "pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/messages.py",
         {"parts": [{"part_kind": "thinking", "content": THOUGHT}, {"part_kind": "text", "content": ANSWER}], "kind": "response"}),
    Form("contents of OpenInference", "Arize-ai/openinference python/openinference-semantic-conventions",
         {"message": {"role": "assistant", "contents": [
             {"message_content": {"type": "reasoning", "text": THOUGHT}}, {"message_content": {"type": "text", "text": ANSWER}}]}}),
    Form("parts", "langchain-ai/langchain-azure PR 634", [text(FIRST), text(SECOND)]),
    Form("parts that are two sentences", f"{LLAMA}base/llms/types.py", [text("It is new."), text("It runs.")], "It is new.\nIt runs."),
    Form("conversation", f"{OPENAI}chat/chat_completion_message_param.py", CHAT),
    Form("several answers", "rajpurkar/SQuAD and rows of annotators", ["Every 6 months.", "Every 9 months."], REFUSED),
    Form("several generations", f"{OPENAI}completion.py", [" Every 6 months.", " Every 9 months."], REFUSED),
    Form("the same answer twice", "rajpurkar/SQuAD", [ANSWER, ANSWER]),
)  # fmt: skip

MEDIA_FORMS: Final = (
    Form("blob beside the answer", "Arize-ai/phoenix#12837", message([text(), {
        "type": "blob", "modality": "image", "mime_type": "image/png", "content": "aGVsbG8gd29ybGQ="}]), left_out=("image",)),
    Form("image beside the answer", f"{OPENAI}chat/chat_completion_content_part_image.py",
         message([text(), {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]), left_out=("image",)),
    Form("image alone", "Arize-ai/phoenix#11655", f"data:image/png;base64,{PNG}", REFUSED, left_out=("image",)),
    Form("base64 of an image alone", "Arize-ai/phoenix#11655", PNG, REFUSED, left_out=("image",)),
    Form("generated image", f"{OPENAI}images_response.py",
         {"role": "assistant", "content": [{"type": "image", "image": PNG}]}, REFUSED, left_out=("image",)),
    Form("file beside the answer", f"{OPENAI}responses/response_input_file.py",
         message([{"type": "input_file", "file_data": f"data:application/pdf;base64,{PNG}"}, text()]), left_out=("file",)),
    Form("spoken answer with a transcript", f"{OPENAI}realtime/realtime_conversation_item_assistant_message.py",
         message([{"type": "output_audio", "transcript": ANSWER, "audio": PNG}])),
    Form("audio alone", MCP, {"content": [{"type": "audio", "data": "UklGRiQ=", "mimeType": "audio/wav"}]}, REFUSED,
         left_out=("audio",)),
    Form("resource that is a text in base64", MCP, {"content": [{"type": "resource", "resource": {
        "uri": "a", "mimeType": "text/plain", "blob": base64.b64encode(ANSWER.encode()).decode()}}]}),
)  # fmt: skip

OBJECTS: Final = tuple(
    Form(f"printed object: {value[:24]}", seen_in, value, REFUSED)
    for seen_in, value in (
        ("mem0ai/mem0#260", "<generator object App.stream at 0x7f7a9a8b3890>"),
        ("openlayer-ai/openlayer-python PR 500", "<coroutine object Rag.ask at 0x7f7a9a8b3890>"),
        ("RailtownAI/railtracks#1194", "<async_generator object stream at 0x7f7a9a8b3890>"),
        ("openai/openai-python src/openai/_streaming.py", "<openai.AsyncStream[openai.X] object at 0x7f7a9a8b>"),
        ("python/cpython Lib/asyncio/tasks.py", "<Task pending name='Task-1' coro=<ask() running at a.py:1>>"),
        ("python/cpython Lib/unittest/mock.py", "<MagicMock name='llm.invoke()' id='140322'>"),
        ("ECMAScript Object.prototype.toString", "[object Object]"),
        ("openjdk/jdk java/lang/Object.java", "com.acme.rag.Answer@1b6d3586"),
    )
)

NO_FIELDS: Final = dict.fromkeys(("code_execution_result", "function_call", "inline_data", "thought", "video_metadata"))
"""Fields without a value, as Pydantic's `model_dump` writes them."""
RUNS: Final[tuple[dict[str, Any], ...]] = tuple(
    {"event": f"on_{kind}_stream", "run_id": kind, "parent_ids": [], "data": {"chunk": ai_chunk(piece)}}
    for piece in CHUNKS
    for kind in ("chat_model", "parser", "chain")
)

DUMPED_FORMS: Final = (
    Form("completion that only calls tools", "openai 3.57 ChatCompletion", completion(message(None, tool_calls=[CALL])), NOTHING),
    Form("completion with a refusal", "openai 3.57 ChatCompletionMessage.refusal", completion(message(None, refusal=ANSWER))),
    Form("printed completion of a class", "openai 3.57 ParsedChatCompletion",
         f"ParsedChatCompletion[Out](id='c', choices=[ParsedChoice[Out](index=0, message=ParsedChatCompletionMessage[Out]("
         f"content='{ANSWER}', role='assistant', parsed=Out(pages=4)))])"),
    Form("printed completion that only calls tools", "openai 3.57 ChatCompletion",
         "ChatCompletion(id='c', choices=[Choice(index=0, message=ChatCompletionMessage(content=None, role='assistant', "
         "tool_calls=[ChatCompletionMessageFunctionToolCall(id='t', type='function')]))])", NOTHING),
    Form("printed chunks in lines", "openai 3.57 ChatCompletionChunk, print(chunk)",
         "\n".join(f"ChatCompletionChunk(id='c', choices=[Choice(delta=ChoiceDelta(content={piece!r}), index=0)])" for piece in CHUNKS)),
    Form("chunks that end with a call of a tool", "openai 3.57 ChoiceDelta.tool_calls",
         [chunk("I look it up."), chunk(None, tool_calls=[{"index": 0, **CALL}])], NOTHING),
    Form("fields that Pydantic prints", "pydantic 2.14 BaseModel.__str__", f"answer='{ANSWER}' confidence=0.9"),
    Form("completions of the old API", "anthropic 2.14 Completion",
         [{"type": "completion", "completion": piece, "stop_reason": None} for piece in CHUNKS]),
    Form("failed item of a batch", "anthropic 2.14 MessageBatchErroredResult",
         {"result": {"type": "errored", "error": {"type": "error", "error": {"message": "Overloaded"}}}}, NOTHING),
    Form("printed fields of gemini", "google-genai 3.6 GenerateContentResponse.__str__",
         f"sdk_http_response=None candidates=[Candidate(\n  content=Content(\n    parts=[\n      Part(\n        text='{ANSWER}'\n"
         f"      ),\n    ],\n    role='model'\n  )\n)] model_version='g' parsed=None"),
    Form("dump of gemini", "google-genai 3.6 Content.model_dump", {"parts": [{"text": ANSWER, **NO_FIELDS}], "role": "model"}),
    Form("gemini with a text and a call", "google-genai 3.6 GenerateContentResponse",
         gemini({"text": "I look it up."}, {"functionCall": {"name": "search", "args": {}}}), NOTHING),
    Form("gemini that is blocked", "google-genai 3.6 GenerateContentResponse.prompt_feedback",
         {"candidates": None, "prompt_feedback": {"block_reason": "SAFETY"}}, NOTHING),
    Form("gemini live", "google-genai 3.6 LiveServerMessage",
         [{"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": piece}]}}} for piece in CHUNKS]),
    Form("events of runs in runs", "langchain-core 1.8 astream_events", list(RUNS)),
    Form("events of two calls", "langchain-core 1.8 astream_events",
         [{**RUNS[0], "run_id": "a"}, {**RUNS[0], "run_id": "b"}], REFUSED),
    Form("chunks of a call", "langchain-core 1.8 AIMessageChunk.tool_call_chunks",
         [ai_chunk("I look."), {**ai_chunk(""), "tool_call_chunks": [{"name": "search", "args": "{}", "index": 0}]}], NOTHING),
    Form("printed fields of a message that calls", "langchain-core 1.8 AIMessage.__str__",
         "content='I look.' additional_kwargs={} response_metadata={} tool_calls=[{'name': 'search', 'args': {}, 'id': 't'}]", NOTHING),
    Form("printed chunk of a generation", "langchain-core 1.8 ChatGenerationChunk",
         f"ChatGenerationChunk(text='{ANSWER}', message=AIMessageChunk(content='{ANSWER}', tool_call_chunks=[]))"),
    Form("object that the JSON does not have", "langchain-core 1.8 load.dumps",
         {"lc": 1, "type": "not_implemented", "id": ["openai"], "repr": f"Completion(id='c', choices=[CompletionChoice(index=0, text='{ANSWER}')])"}),
    Form("updates of a graph", "langgraph 1.2 stream_mode='updates'",
         [{"agent": {"messages": [message("I look.")]}}, {"tools": {"messages": [message(FILTER, "tool")]}}], NOTHING),
    Form("item of a stream of two modes", "langgraph 1.2 stream_mode=['messages', 'updates']",
         ["values", {"messages": CHAT}]),
    Form("stream of Dify", "langgenius/dify api/core/app/entities/task_entities.py MessageStreamResponse",
         "".join(f"data: {json.dumps({'event': 'message', 'id': 'm', 'answer': piece})}\n\n" for piece in CHUNKS)
         + 'data: {"event": "message_end", "metadata": {"retriever_resources": []}}\n\n'),
    Form("events of an application of its own", "every door", 'data: {"word": "The"}\n\ndata: {"word": " pump"}\n\n', REFUSED),
    Form("printed text with a call", "haystack-ai 3.4 ChatMessage.__repr__",
         "ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text='I look.'), "
         "ToolCall(tool_name='search', arguments={}, id=None)], _meta={})", NOTHING),
    Form("printed message with its role", "llama-index-core 0.14 ChatResponse.__str__", f"assistant: {ANSWER}"),
    Form("example", "dspy 3.4 Example.__repr__",
         f"Example({{'question': '{QUESTION}', 'answer': '{ANSWER}'}}) (input_keys={{'question'}})"),
    Form("ollama with a text and a call", "ollama 0.6 ChatResponse",
         {"model": "m", "message": message("I look.", tool_calls=[{"function": {"name": "search"}}]), "done": True}, NOTHING),
    Form("text of no kind under a known field", "every door", '{"answer": {"code": 4, "pages": [1]}}', REFUSED),
    Form("printed run of an agent", "openai-agents 0.24 util/_pretty_print.py",
         f'RunResult:\n- Last agent: Agent(name="Shop", ...)\n- Final output (str):\n    {ANSWER}\n- 1 new item(s)\n'
         "- 1 raw response(s)\n(See `RunResult` for more details)"),
    Form("printed run of an agent that failed", "openai-agents 0.24 util/_pretty_print.py",
         'RunErrorDetails:\n- Last agent: Agent(name="Shop", ...)\n- 1 new item(s)', REFUSED),
    Form("printed message that only calls tools", "llama-index-core 0.14 ChatMessage.__str__", "assistant: None", NOTHING),
    Form("growing text in lines", "every door, print() in a loop", "The pump\nThe pump is serviced\nThe pump is serviced every\n" + ANSWER),
    Form("printed messages in lines", "llama-index-core 0.14 ChatMessage.__str__",
         f"user: {QUESTION}\nassistant: {ANSWER}", REFUSED),
    Form("growing text in paragraphs", "every door, print() in a loop",
         "The pump is\r\n\r\nThe pump is serviced\r\n\r\n" + ANSWER),
    Form("numbers in lines", "every door", "In litres: 1\n10\n100", "In litres: 1\n10\n100"),
    Form("embeddings", "openai 3.57 CreateEmbeddingResponse", json.dumps(
        {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m"}), REFUSED),
    Form("moderation", "openai 3.57 ModerationCreateResponse", json.dumps(
        {"id": "modr-1", "model": "m", "results": [{"flagged": False, "categories": {"hate": False}}]}), REFUSED),
    Form("ranking", "cohere 5 V2RerankResponse", json.dumps(
        {"id": "r", "results": [{"index": 0, "relevance_score": 0.9}], "meta": {}}), REFUSED),
    Form("JSON of an application", "every door", json.dumps({"city": "Paris", "opened": 1889}), json.dumps({"city": "Paris", "opened": 1889})),
    Form("output in a stream", "every door", json.dumps({"stream": [{"output": ANSWER}]})),
    Form("outputs in a stream", "every door", json.dumps({"stream": [{"output": ANSWER}, {"output": FILTER}]}), REFUSED),
    Form("completions beside the prompt", "AI21 Jurassic-2 complete", {
        "id": 1, "prompt": {"text": QUESTION}, "completions": [{"data": {"text": ANSWER}, "finishReason": {"reason": "endoftext"}}]}),
    Form("answers of a builder", "haystack-ai 3.4 AnswerBuilder", json.dumps(
        {"answer_builder": {"answers": [{"data": ANSWER, "query": QUESTION, "documents": [], "meta": {}}]}})),
    Form("printed answers of a builder", "haystack-ai 3.4 AnswerBuilder",
         f"{{'answer_builder': {{'answers': [GeneratedAnswer(data='{ANSWER}', query='q', documents=[Document(id=a1, content: 'd1')], meta={{}})]}}}}"),
    Form("printed answers with an apostrophe in a document", "haystack-ai 3.4 AnswerBuilder", json.dumps({"answers": {"answers": [
        f"GeneratedAnswer(data={ANSWER!r}, query='q', documents=[Document(id=a1, content: 'It's {ANSWER}', score: 1.0)], meta={{}})"]}})),
    Form("printed answer that is no text", "haystack-ai 3.4 AnswerBuilder",
         "GeneratedAnswer(data={'a': 1}, query='q', documents=[Document(id=a1, content: 'It's so')], meta={})", REFUSED),
    Form("no answers of a builder", "haystack-ai 3.4 AnswerBuilder", '{"answer_builder": {"answers": []}}', REFUSED),
    Form("printed fields of chunks of a call", "langchain-core 1.8 AIMessageChunk.__str__",
         ["content='I look.' additional_kwargs={} response_metadata={} tool_calls=[] tool_call_chunks=[]",
          "content='' additional_kwargs={} response_metadata={} tool_calls=[{'name': 'search', 'args': {}, 'id': 't'}]"], NOTHING),
    Form("special tokens", "huggingface-hub 2.4 TextGenerationStreamOutputToken",
         [*({"index": 0, "token": {"id": 1, "text": one, "special": False}, "generated_text": None} for one in CHUNKS),
          {"index": 9, "token": {"id": 2, "text": "</s>", "special": True}, "generated_text": None}]),
    Form("events of Mistral's conversations", "mistralai 3.7 ConversationEvents",
         [{"event": "conversation.response.started", "data": {"type": "conversation.response.started"}},
          *({"event": "message.output.delta", "data": {"type": "message.output.delta", "content": one, "role": "assistant"}}
            for one in CHUNKS),
          {"event": "conversation.response.done", "data": {"type": "conversation.response.done", "usage": {}}}]),
    Form("messages of Pydantic AI", "pydantic-ai 2.68 ModelMessagesTypeAdapter", [
        {"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "Be brief."},
                                      {"part_kind": "user-prompt", "content": QUESTION}]},
        {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "search", "args": "{}"}]},
        {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "search", "content": FILTER}]},
        {"kind": "response", "parts": [{"part_kind": "thinking", "content": THOUGHT}, {"part_kind": "text", "content": ANSWER}]}]),
    Form("printed response of Pydantic AI", "pydantic-ai 2.68 ModelResponse.__repr__",
         f"ModelResponse(parts=[ThinkingPart(content='{THOUGHT}'), TextPart(content='{ANSWER}')], model_name='m')"),
    Form("text and call of Pydantic AI", "pydantic-ai 2.68 ModelResponse.__repr__",
         "ModelResponse(parts=[TextPart(content='I look.'), ToolCallPart(tool_name='search', args='{}')])", NOTHING),
    Form("events of Pydantic AI", "pydantic-ai 2.68 PartStartEvent, PartDeltaEvent", [
        {"index": 0, "event_kind": "part_start", "part": {"content": FIRST, "part_kind": "text"}},
        {"index": 0, "event_kind": "part_delta", "delta": {"content_delta": SECOND, "part_delta_kind": "text"}}]),
    Form("question of Pydantic AI", "pydantic-ai 2.68 ModelRequest", {"kind": "request", "parts": [
        {"part_kind": "system-prompt", "content": "Be brief."}, {"part_kind": "user-prompt", "content": QUESTION}]},
        QUESTION, "question"),
    Form("question beside a document", "anthropic 2.14 DocumentBlockParam", message([
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": FILTER}}, text(QUESTION)], "user"),
        QUESTION, "question"),
    Form("question that LangChain prints", "langchain-core 1.8 HumanMessage.__str__",
         f"content='{QUESTION}' additional_kwargs={{}} response_metadata={{}}", QUESTION, "question"),
)  # fmt: skip

QUESTIONS: Final = (
    Form("question", "every door", QUESTION, QUESTION, "question"),
    Form("conversation with a question", f"{OPENAI}chat/chat_completion_message_param.py",
         [message("Be short.", "system"), message(QUESTION, "user")], QUESTION, "question"),
    Form("question with an image", f"{OPENAI}chat/chat_completion_content_part_param.py",
         message([text(QUESTION), {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}], "user"),
         QUESTION, "question", left_out=("image",)),
    Form("question in parts", f"{OPENAI}responses/response_input_text.py",
         [{"type": "input_text", "text": QUESTION}], QUESTION, "question"),
    Form("inputs of a chain", f"{LANGCHAIN}runnables/base.py", {"question": QUESTION, "chat_history": []}, QUESTION, "question"),
    Form("message of Haystack with a question", f"{HAYSTACK}chat_message.py",
         {"_role": "user", "_content": [{"text": QUESTION}]}, QUESTION, "question"),
    Form("content of gemini with a question", GENAI, {"role": "user", "parts": [{"text": QUESTION}]}, QUESTION, "question"),
    Form("several questions", "batches", ["When?", "Where?"], REFUSED, "question"),
    Form("printed object as a question", "mem0ai/mem0#260", "<generator object f at 0x7f7a9a8b3890>", REFUSED, "question"),
    Form("reference", "every door", ANSWER, ANSWER, "reference"),
    Form("several references", "rajpurkar/SQuAD", ["Every 6 months.", "Twice a year."], "Every 6 months.", "reference"),
    Form("reference of SQuAD", "rajpurkar/SQuAD", {"text": ["Every 6 months."], "answer_start": [9]}, "Every 6 months.", "reference"),
    Form("reference in parts", "langchain-ai/langchain-azure PR 634", [text(FIRST), text(SECOND)], ANSWER, "reference"),
)  # fmt: skip

BOTH: Final = (ANSWER, FILTER)
DOCUMENT_FORMS: Final = tuple(
    Form(f"documents: {name}", seen_in, value, expected, "documents", left_out=left_out)
    for name, seen_in, value, expected, left_out in (
        ("texts", "every door", list(BOTH), BOTH, ()),
        ("texts with an image", "confident-ai/deepeval#2284", [ANSWER, f"data:image/png;base64,{PNG}"], (ANSWER,), ("image",)),
        ("texts with base64 of an image", "vibrantlabsai/ragas PR 1559", [ANSWER, PNG], (ANSWER,), ("image",)),
        ("parts with an image", f"{OPENAI}chat/chat_completion_content_part_image.py",
         [text(), {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}, text(FILTER)], BOTH, ("image",)),
        ("only an image", "confident-ai/deepeval#2284", [f"data:image/png;base64,{PNG}"], REFUSED, ("image",)),
        ("documents of LangChain", f"{LANGCHAIN}documents/base.py", [{"page_content": one, "metadata": {}} for one in BOTH], BOTH, ()),
        ("constructors of documents", f"{LANGCHAIN}load/dump.py",
         [{"lc": 1, "type": "constructor", "id": ["langchain", "Document"], "kwargs": {"page_content": one}} for one in BOTH], BOTH, ()),
        ("nodes", f"{LLAMA}schema.py", [{"node": {"text": one, "id_": "n"}, "score": 0.5} for one in BOTH], BOTH, ()),
        ("documents of Haystack", f"{HAYSTACK}document.py", [{"id": "a", "content": one, "blob": None, "meta": {}} for one in BOTH], BOTH, ()),
        ("retrieval of Bedrock", "boto/botocore botocore/data/bedrock-agent-runtime/2023-07-26/service-2.json",
         {"retrievalResults": [{"content": {"text": one, "type": "TEXT"}, "score": 0.5} for one in BOTH]}, BOTH, ()),
        ("file search", f"{OPENAI}responses/response_file_search_tool_call.py",
         [{"file_id": "f", "filename": "a.pdf", "score": 0.5, "text": one} for one in BOTH], BOTH, ()),
        ("structured content and a summary", MCP,
         {"content": [text("2 passages found.")], "structuredContent": {"result": [{"text": one} for one in BOTH]}}, BOTH, ()),
        ("texts in JSON", "every door", json.dumps(BOTH), BOTH, ()),
        ("printed documents", "langchain-core 1.8 Document.__str__", [f"page_content={one!r} metadata={{'page': 4}}" for one in BOTH], BOTH, ()),
        ("printed documents in lines", "langchain-core 1.8 Document.__repr__",
         "\n".join(f"Document(metadata={{'page': 4}}, page_content={one!r})" for one in BOTH), BOTH, ()),
        ("printed nodes", f"{LLAMA}schema.py NodeWithScore.__str__",
         [f"Node ID: {place}\nText: {one}\nScore:  0.830\n" for place, one in enumerate(BOTH)], BOTH, ()),
        ("printed nodes in one text", f"{LLAMA}schema.py NodeWithScore.__str__",
         "\n".join(f"Node ID: a1\nText: {one}\nScore: None\n" for one in BOTH), BOTH, ()),
        ("printed node that is wrapped", f"{LLAMA}schema.py BaseNode.__str__", "Node ID: a1\nText: " + ANSWER.replace("serviced ", "serviced\n"), (ANSWER,), ()),
        ("printed node that is cut", f"{LLAMA}schema.py BaseNode.__str__", "Node ID: a1\nText: The pump is serv...", REFUSED, ()),
        ("formatted sources", f"{LLAMA}base/response/schema.py get_formatted_sources",
         "\n\n".join(f"> Source (Doc id: a1): {one}" for one in BOTH), BOTH, ()),
        ("formatted sources that are cut", f"{LLAMA}base/response/schema.py get_formatted_sources",
         f"> Source (Doc id: a1): {ANSWER}\n\n> Source (Doc id: a2): The filter is cl...", REFUSED, ()),
        ("blocks with a content", "anthropic 2.14 DocumentBlockParam",
         [{"type": "document", "source": {"type": "content", "content": [text(one)]}} for one in BOTH], BOTH, ()),
        ("documents in JSON each", "langchain-core 1.8 Document.model_dump_json",
         [json.dumps({"id": None, "metadata": {}, "page_content": one, "type": "Document"}) for one in BOTH], BOTH, ()),
        ("references of an answer", "boto/botocore botocore/data/bedrock-agent-runtime/2023-07-26/service-2.json",
         {"output": {"text": THOUGHT}, "citations": [{
             "generatedResponsePart": {"textResponsePart": {"text": THOUGHT}},
             "retrievedReferences": [{"content": {"text": one}} for one in BOTH]}]}, BOTH, ()),
        ("resource that was read", "mcp 2.3 ReadResourceResult", {"contents": [{"uri": "a", "text": one} for one in BOTH]}, BOTH, ()),
        ("nothing found, in words", "mcp 2.3 CallToolResult", {"content": [text("No results found.")], "isError": False}, (), ()),
        ("error of a tool", "mcp 2.3 CallToolResult", {"content": [text("Error: timeout")], "isError": True}, REFUSED, ()),
        ("lines of JSON", "langchain-core 1.8 Document.model_dump_json",
         "\n".join(json.dumps({"metadata": {}, "page_content": one}) for one in BOTH), BOTH, ()),
        ("fields of printed documents in lines", "langchain-core 1.8 Document.__str__",
         "\n".join(f"page_content={one!r} metadata={{}}" for one in BOTH), REFUSED, ()),
        ("cut list", "mlflow/mlflow mlflow/entities/span.py", '[{"text": "The pump is', REFUSED, ()),
        ("nothing found", "every door", [], (), ()),
        ("printed generator", "mem0ai/mem0#260", "<generator object retrieve at 0x7f7a9a8b3890>", REFUSED, ()),
        ("printed objects", f"{LLAMA}schema.py", ["<Node object at 0x7f7a9a8b3890>"], REFUSED, ()),
    )
)  # fmt: skip

FORMS: Final = (
    *TEXTS, *OPENAI_FORMS, *ANTHROPIC_FORMS, *GEMINI_FORMS, *BEDROCK_FORMS, *LANGCHAIN_FORMS, *LLAMA_FORMS,
    *HAYSTACK_FORMS, *DSPY_FORMS, *OTHER_FORMS, *MEDIA_FORMS, *OBJECTS, *DUMPED_FORMS, *QUESTIONS,
    *DOCUMENT_FORMS,
)  # fmt: skip
