"""Constructions of Strands, as applications build them: agents with tools of every form, agents of agents, sessions."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Any

import truth
from truth import MODEL, Failure, Reply, after_tools, call, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")

from opentelemetry import trace
from strands import Agent, tool
from strands.models.openai import OpenAIModel

application = trace.get_tracer("application")


@tool
def search(query: str) -> dict:
    """Search the handbook, and return documents."""
    found = [{"id": name, "text": text} for name, text in truth.search(query, 3)]
    return {"status": "success", "content": [{"json": {"documents": found}}]}


@tool
def search_text(query: str) -> str:
    """Search the handbook, and return one text."""
    return "\n\n".join(text for _, text in truth.search(query, 2))


@tool
def search_json(query: str) -> str:
    """Search the handbook, and return JSON."""
    return json.dumps([{"id": name, "text": text, "score": 0.5} for name, text in truth.search(query, 2)])


@tool
def search_results(query: str) -> dict:
    """Search the handbook, and return an object."""
    return {"results": [{"id": name, "text": text} for name, text in truth.search(query, 2)]}


@tool
def search_list(query: str) -> list:
    """Search the handbook, and return a list."""
    return [text for _, text in truth.search(query, 2)]


@tool
def search_index(query: str) -> str:
    """Search the handbook, whose index is down."""
    raise TimeoutError("the index does not reply")


@tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return truth.WEATHER


def agent_of(*tools: Any, **options: Any) -> Agent:
    model = OpenAIModel(client_args={"max_retries": 0}, model_id=options.pop("model_id", "gpt-4o-mini"))
    return Agent(
        model=model, tools=list(tools), system_prompt="You answer by the handbook.", callback_handler=None, **options
    )


def text_of(result: Any) -> str:
    return "".join(part.get("text", "") for part in result.message["content"])


def in_turn(*replies: Reply) -> Callable[[list[dict[str, Any]]], Reply]:
    """Return a script that gives one reply after another."""
    left = list(replies)
    return lambda _: left.pop(0)


def answered(agent: Agent, question: str, *rounds: Any, documents: Any = None, **more: Any) -> None:
    """Ask an agent, and note what was seen."""
    with scripted(after_tools(*rounds)):
        shown = text_of(agent(question))
    saw(question, shown, documents, **more)


@construction("agent")
def agent() -> None:
    answered(agent_of(search), truth.asked(), call("search", query="Eiffel Tower built"))


@construction("agent_async")
def agent_async() -> None:
    async def main(question: str) -> str:
        return text_of(await agent_of(search).invoke_async(question))

    question = truth.asked()
    with scripted(after_tools(call("search", query="Eiffel Tower built"))):
        saw(question, asyncio.run(main(question)))


@construction("agent_stream")
def agent_streamed() -> None:
    async def main(question: str) -> str:
        return "".join([event.get("data", "") async for event in agent_of(search).stream_async(question)])

    question = truth.asked()
    with scripted(after_tools(call("search", query="Eiffel Tower built"))):
        saw(question, asyncio.run(main(question)))


@construction("stream_closed", "not recorded")
def stream_closed() -> None:
    async def main(question: str) -> None:
        async with aclosing(agent_of(search).stream_async(question)) as events:
            async for event in events:
                if event.get("data"):
                    break

    with scripted(after_tools(call("search", query="Eiffel Tower built"))):
        asyncio.run(main(truth.asked()))


@construction("joined_text_tool")
def agent_with_text_tool() -> None:
    query = "Eiffel Tower built"
    texts = "\n\n".join(text for _, text in truth.search(query, 2))
    answered(agent_of(search_text), truth.asked(), call("search_text", query=query), documents=[texts])


@construction("json_tool")
def agent_with_json_tool() -> None:
    answered(agent_of(search_json), truth.asked(), call("search_json", query="Eiffel Tower built"))
    answered(agent_of(search_json), truth.asked(4), call("search_json", query="Pluto"))


@construction("results_tool")
def agent_with_results_tool() -> None:
    answered(agent_of(search_results), truth.asked(), call("search_results", query="Eiffel Tower built"))
    answered(agent_of(search_results), truth.asked(4), call("search_results", query="Pluto"))


@construction("list_tool")
def agent_with_list_tool() -> None:
    answered(agent_of(search_list), truth.asked(), call("search_list", query="Eiffel Tower built"))


@construction("agent_two_tools")
def agent_with_two_tools() -> None:
    question = f"{truth.asked()} And who discovered Pluto?"
    both = truth.Calls((("search", {"query": "Eiffel Tower built"}), ("search_results", {"query": "Pluto"})))
    answered(agent_of(search, search_results), question, both, documents_in_any_order=True)


@construction("agent_two_rounds")
def agent_with_two_rounds() -> None:
    question = f"{truth.asked()} And how warm is it there?"
    answered(
        agent_of(search, weather), question, call("search", query="Eiffel Tower built"), call("weather", city="Paris")
    )


@construction("agent_empty")
def agent_finds_nothing() -> None:
    answered(agent_of(search), truth.strange(), call("search", query="kangaroo"), documents=[])
    answered(agent_of(search_list), truth.strange(), call("search_list", query="kangaroo"), documents=[])


@construction("empty_answer")
def empty_answer() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search", query="Eiffel Tower built"), final=lambda _: "")):
        shown = text_of(agent_of(search)(question))
    saw(question, shown, [text for _, text in truth.search("Eiffel Tower built", 3)])


@construction("tool_error_only")
def agent_tool_fails() -> None:
    with scripted(after_tools(call("search_index", query="Eiffel"), final=lambda _: "I cannot search.")):
        question = truth.asked()
        saw(question, text_of(agent_of(search_index)(question)), failed=1)


@construction("agent_without_search", "not recorded")
def agent_without_search() -> None:
    with scripted(lambda _: "Hello to you, too."):
        agent_of(search)("Hello!")


@construction("failed", "not recorded")
def failed() -> None:
    with suppress(Exception):
        agent_of(search, model_id="broken")(truth.asked())


@construction("fallback_by_hand")
def fallback() -> None:
    question = truth.asked()
    with application.start_as_current_span("answer"):
        with suppress(Exception), scripted(after_tools(call("search", query="insulin"), final=lambda _: Failure())):
            agent_of(search)(question)
        MODEL.requests.clear()
        answered(agent_of(search), question, call("search", query="Eiffel Tower built"))


@construction("history")
def history() -> None:
    messages = [
        {"role": "user", "content": [{"text": "Do you know Paris?"}]},
        {"role": "assistant", "content": [{"text": "Yes, I do."}]},
    ]
    agent = agent_of(search, messages=messages)
    answered(agent, truth.asked(), call("search", query="Eiffel Tower built"), history=["Do you know Paris?"])


@construction("two_turns")
def two_turns() -> None:
    agent = agent_of(search)
    answered(agent, truth.asked(), call("search", query="Eiffel Tower built"))
    # What the first turn found is in the second prompt, too: it is history.
    found = [text for _, text in truth.search("Pluto discovered", 3)]
    answered(agent, truth.asked(4), call("search", query="Pluto discovered"), documents=found)


@construction("session")
def session() -> None:
    agent = agent_of(search, trace_attributes={"session.id": "s-81", "user.id": "u-7"})
    answered(agent, truth.asked(), call("search", query="Eiffel Tower built"), session_id="s-81")


@construction("session_on_span")
def session_on_span() -> None:
    with application.start_as_current_span("request", attributes={"session.id": "s-83"}):
        answered(agent_of(search), truth.asked(), call("search", query="Eiffel Tower built"), session_id="s-83")


@construction("agent_as_tool")
def agent_as_tool() -> None:
    @tool
    def ask_researcher(task: str) -> str:
        """Let a researcher find facts."""
        return text_of(agent_of(search)(task))

    question = truth.asked()
    replies = (
        call("ask_researcher", task="Find the year of the tower."),
        call("search", query="Eiffel Tower built"),
        "The tower is of 1889, says the researcher.",
        "Finally: it was built in 1889.",
    )
    with scripted(in_turn(*replies)):
        shown = text_of(agent_of(ask_researcher)(question))
    saw(question, shown, through=["The tower is of 1889", "Finally"])


truth.run_all(sys.argv[1:])
