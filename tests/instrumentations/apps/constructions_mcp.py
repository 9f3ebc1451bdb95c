"""Constructions of plain code with the tools of a real MCP server, which sends its own spans, too."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import Any

import truth
from truth import WEATHER, Calls, after_tools, call, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")

from mcp import Client
from mcp.server import MCPServer
from openai import AsyncOpenAI
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry import trace

OpenAIInstrumentor().instrument()
tracer = trace.get_tracer("application")
MODEL = AsyncOpenAI(max_retries=0)
server = MCPServer("handbook")


@server.tool()
def search(query: str) -> list[dict[str, str]]:
    """Search the handbook, and return documents."""
    return [{"id": name, "text": text} for name, text in truth.search(query, 3)]


@server.tool()
def search_archive(query: str) -> dict[str, list[dict[str, str]]]:
    """Search the archive, and return an object."""
    return {"results": [{"id": name, "text": text} for name, text in truth.search(query, 2)]}


@server.tool()
def search_text(query: str) -> str:
    """Search the handbook, and return one text."""
    return "\n\n".join(text for _, text in truth.search(query, 2))


@server.tool()
def search_list(query: str) -> list[str]:
    """Search the handbook, and return a list."""
    return [text for _, text in truth.search(query, 2)]


@server.tool()
def search_index(query: str) -> str:
    """Search the handbook, whose index is down."""
    raise TimeoutError("the index does not reply")


@server.tool()
def weather(city: str) -> str:
    """Return the weather of a city."""
    return WEATHER


def connected() -> Client:
    """Return a client of the server, by the streams of its protocol."""
    return Client(server, mode="legacy")


def text_of(reply: Any) -> str:
    """Return what the model gets of the reply of a tool."""
    structured = reply.structured_content
    if not reply.is_error and structured and not isinstance(structured.get("result"), str):
        return json.dumps(structured)
    return "\n".join(part.text for part in reply.content)


async def answer(client: Client, question: str, earlier: list[dict[str, Any]], model: str = "gpt-4o-mini") -> str:
    """Return the answer of the model, which may call tools of the server in each round, several at once."""
    listed = (await client.list_tools()).tools
    functions = [
        {"type": "function", "function": {"name": tool.name, "parameters": tool.input_schema}} for tool in listed
    ]
    earlier.append({"role": "user", "content": question})
    while True:
        reply = await MODEL.chat.completions.create(model=model, messages=earlier, tools=functions)
        message = reply.choices[0].message
        earlier.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content or ""
        wanted = [(made.id, made.function) for made in message.tool_calls]
        replies = await asyncio.gather(
            *(client.call_tool(function.name, json.loads(function.arguments)) for _, function in wanted)
        )
        for (call_id, _), reply in zip(wanted, replies, strict=True):
            earlier.append({"role": "tool", "tool_call_id": call_id, "content": text_of(reply)})


def asked(question: str, *, has_span: bool = True, **options: Any) -> str:
    """Return the answer to a question, below a span with both."""

    async def main() -> str:
        async with connected() as client:
            with tracer.start_as_current_span("answer") if has_span else nullcontext() as span:
                shown = await answer(client, question, [], **options)
                if span is not None:
                    span.set_attributes({"input.value": question, "output.value": shown})
                return shown

    return asyncio.run(main())


def answered(question: str, *rounds: Calls | Callable[[str], Calls], documents: Any = None, **more: Any) -> None:
    """Ask a question, and note what was seen."""
    with scripted(after_tools(*rounds)):
        shown = asked(question)
    saw(question, shown, documents, **more)


@construction("agent")
def agent() -> None:
    answered(truth.asked(), call("search", query="Eiffel Tower built"))


@construction("agent_async")
def questions_at_once() -> None:
    async def one(client: Client, question: str) -> str:
        with tracer.start_as_current_span("answer", attributes={"input.value": question}) as span:
            shown = await answer(client, question, [])
            span.set_attribute("output.value", shown)
            return shown

    async def main() -> None:
        questions = [truth.asked(topic) for topic in (0, 1)]
        async with connected() as client:
            waiting: list[Awaitable[str]] = [one(client, question) for question in questions]
            for question, shown in zip(questions, await asyncio.gather(*waiting), strict=True):
                saw(question, shown)

    with scripted(after_tools(lambda question: call("search", query=question.split(" Reply")[0]))):
        asyncio.run(main())


@construction("no_common_span")
def no_common_span() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search", query="Eiffel Tower built"))):
        saw(question, asked(question, has_span=False))


@construction("joined_text_tool")
def text_tool() -> None:
    query = "Eiffel Tower built"
    texts = "\n\n".join(text for _, text in truth.search(query, 2))
    answered(truth.asked(), call("search_text", query=query), documents=[texts])


@construction("results_tool")
def results_tool() -> None:
    answered(truth.asked(), call("search_archive", query="Eiffel Tower built"))


@construction("list_tool")
def list_tool() -> None:
    answered(truth.asked(), call("search_list", query="Eiffel Tower built"))


@construction("agent_two_tools")
def two_tools() -> None:
    question = f"And who discovered Pluto? {truth.asked()}"
    answered(question, Calls((("search", {"query": "Eiffel Tower built"}), ("search_archive", {"query": "Pluto"}))))


@construction("agent_two_rounds")
def two_rounds() -> None:
    question = f"How warm is it in Paris? {truth.asked()}"
    answered(question, call("search", query="Eiffel Tower built"), call("weather", city="Paris"))


@construction("agent_empty")
def finds_nothing() -> None:
    answered(truth.strange(), call("search", query="kangaroo"), documents=[])


@construction("tool_error")
def tool_fails_first() -> None:
    answered(truth.asked(), call("search_index", query="Eiffel"), call("search", query="Eiffel Tower built"), failed=1)


@construction("tool_error_only")
def tool_fails() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search_index", query="Eiffel"), final=lambda _: "I cannot search.")):
        saw(question, asked(question), failed=1)


@construction("agent_without_search", "not recorded")
def without_search() -> None:
    with scripted(lambda _: "Hello to you, too."):
        asked("Hello!")


@construction("other_tool", "not recorded")
def another_tool() -> None:
    with scripted(after_tools(call("weather", city="Paris"))):
        asked(truth.asked())


@construction("failed", "not recorded")
def failed() -> None:
    with suppress(Exception):
        asked(truth.asked(), model="broken")


@construction("two_turns")
def two_turns() -> None:
    async def main() -> None:
        earlier: list[dict[str, Any]] = []
        async with connected() as client:
            for topic, query in ((0, "Eiffel Tower built"), (4, "Pluto discovered")):
                question = truth.asked(topic)
                with (
                    scripted(after_tools(call("search", query=query))),
                    tracer.start_as_current_span("answer", attributes={"input.value": question}) as span,
                ):
                    shown = await answer(client, question, earlier)
                    span.set_attribute("output.value", shown)
                # What the first turn found is in the second prompt, too: it is history.
                saw(question, shown, [text for _, text in truth.search(query, 3)])

    asyncio.run(main())


@construction("session_on_span")
def session_on_span() -> None:
    with tracer.start_as_current_span("request", attributes={"session.id": "s-83"}):
        answered(truth.asked(), call("search", query="Eiffel Tower built"), session_id="s-83")


truth.run_all(sys.argv[1:])
