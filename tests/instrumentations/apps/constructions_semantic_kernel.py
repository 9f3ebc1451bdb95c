"""Constructions of Semantic Kernel, as applications build them: agents with plugins and threads."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import truth
from truth import after_tools, call, construction, saw, scripted

os.environ["SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE"] = "true"

from openai import AsyncOpenAI
from opentelemetry import trace
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import kernel_function

from ragtide import otel

otel.configure(pipeline="helpdesk")
application = trace.get_tracer("application")


class Handbook:
    """A plugin that searches the handbook."""

    def __init__(self, find: Callable[[str], Any] = lambda query: truth.search(query, 3)) -> None:
        self.find = find

    @kernel_function(description="Search the handbook")
    def search(self, query: str) -> str:
        return json.dumps([{"id": name, "text": text} for name, text in self.find(query)])


class Texts:
    """A plugin whose search returns one text."""

    @kernel_function(description="Search the handbook")
    def search(self, query: str) -> str:
        return "\n\n".join(text for _, text in truth.search(query, 2))


class Broken:
    """A plugin whose index is down."""

    @kernel_function(description="Search the handbook")
    def search(self, query: str) -> str:
        raise TimeoutError("the index does not reply")


class Weather:
    """A plugin that searches nothing."""

    @kernel_function(description="Return the weather of a city")
    def weather(self, city: str) -> str:
        return truth.WEATHER


def agent_of(*plugins: Any, model: str = "gpt-4o-mini") -> ChatCompletionAgent:
    service = OpenAIChatCompletion(ai_model_id=model, async_client=AsyncOpenAI(max_retries=0))
    return ChatCompletionAgent(
        service=service, name="helper", instructions="You answer by the handbook.", plugins=list(plugins)
    )


async def ask(agent: ChatCompletionAgent, question: str, **options: Any) -> str:
    return str((await agent.get_response(question, **options)).content)


SEARCH = call("Handbook-search", query="Eiffel Tower built")


def answered(question: str, *rounds: Any, plugins: Any = None, documents: Any = None, **more: Any) -> None:
    """Ask an agent, and note what was seen."""
    with scripted(after_tools(*(rounds or [SEARCH]))):
        shown = asyncio.run(ask(agent_of(*(plugins or [Handbook()])), question))
    saw(question, shown, documents, **more)


@construction("agent")
def agent() -> None:
    answered(truth.asked())


@construction("agent_stream")
def agent_streamed() -> None:
    async def main(question: str) -> str:
        agent = agent_of(Handbook())
        return "".join([str(reply.content) async for reply in agent.invoke_stream(question)])

    question = truth.asked()
    with scripted(after_tools(SEARCH)):
        saw(question, asyncio.run(main(question)))


@construction("joined_text_tool")
def agent_with_text_tool() -> None:
    text = "\n\n".join(text for _, text in truth.search("Eiffel Tower built", 2))
    answered(truth.asked(), call("Texts-search", query="Eiffel Tower built"), plugins=[Texts()], documents=[text])


@construction("json_tool")
def agent_with_json_tool() -> None:
    answered(truth.asked(4), call("Handbook-search", query="Pluto"))


@construction("agent_two_rounds")
def agent_with_two_rounds() -> None:
    question = f"{truth.asked()} And how warm is it there?"
    answered(question, SEARCH, call("Weather-weather", city="Paris"), plugins=[Handbook(), Weather()])


@construction("agent_empty")
def agent_finds_nothing() -> None:
    answered(truth.strange(), call("Handbook-search", query="kangaroo"), documents=[])


@construction("empty_answer")
def empty_answer() -> None:
    question = truth.asked()
    with scripted(after_tools(SEARCH, final=lambda _: "")):
        shown = asyncio.run(ask(agent_of(Handbook()), question))
    saw(question, shown, [text for _, text in truth.search("Eiffel Tower built", 3)])


@construction("tool_error_only")
def agent_tool_fails() -> None:
    with scripted(after_tools(call("Broken-search", query="Eiffel"), final=lambda _: "I cannot search.")):
        question = truth.asked()
        saw(question, asyncio.run(ask(agent_of(Broken()), question)), failed=1)


@construction("agent_without_search", "not recorded")
def agent_without_search() -> None:
    with scripted(lambda _: "Hello to you, too."):
        asyncio.run(ask(agent_of(Handbook()), "Hello!"))


@construction("failed", "not recorded")
def failed() -> None:
    with suppress(Exception):
        asyncio.run(ask(agent_of(Handbook(), model="broken"), truth.asked()))


@construction("history")
def history() -> None:
    past = ChatHistory()
    past.add_user_message("Do you know Paris?")
    past.add_assistant_message("Yes, I do.")
    question = truth.asked()
    with scripted(after_tools(SEARCH)):
        shown = asyncio.run(ask(agent_of(Handbook()), question, thread=ChatHistoryAgentThread(chat_history=past)))
    saw(question, shown)


@construction("session_on_span")
def session_on_span() -> None:
    with application.start_as_current_span("request", attributes={"session.id": "s-83"}):
        answered(truth.asked(), session_id="s-83")


truth.run_all(sys.argv[1:])
