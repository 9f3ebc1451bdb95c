"""Constructions of Google ADK, as applications build them: agents with tools of every form, sub-agents, sessions."""

import asyncio
import itertools
import json
import os
import sys
from contextlib import suppress
from typing import Any

os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import truth
from truth import WEATHER, after_tools, call, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")

from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from opentelemetry import trace

application = trace.get_tracer("application")
_names = itertools.count(1)


def search(query: str) -> dict[str, Any]:
    """Search the handbook, and return documents."""
    return {"documents": [{"id": name, "text": text} for name, text in truth.search(query, 3)]}


def search_archive(query: str) -> dict[str, Any]:
    """Search the archive, and return an object."""
    return {"results": [{"id": name, "text": text} for name, text in truth.search(query, 2)]}


def search_text(query: str) -> str:
    """Search the handbook, and return one text."""
    return "\n\n".join(text for _, text in truth.search(query, 2))


def search_json(query: str) -> str:
    """Search the handbook, and return JSON."""
    return json.dumps([{"id": name, "text": text, "score": 0.5} for name, text in truth.search(query, 2)])


def search_list(query: str) -> list[str]:
    """Search the handbook, and return a list."""
    return [text for _, text in truth.search(query, 2)]


def search_index(query: str) -> dict[str, Any]:
    """Search the handbook, whose index is down."""
    return {"error": "TimeoutError: the index does not reply"}


def weather(city: str) -> str:
    """Return the weather of a city."""
    return WEATHER


def agent_of(*tools: Any, **options: Any) -> LlmAgent:
    given = {
        "name": "helper", "instruction": "Answer by the handbook.",
        "model": LiteLlm(options.pop("model_id", "openai/gpt-4o-mini"), num_retries=0),
    }  # fmt: skip
    return LlmAgent(tools=list(tools), **{**given, **options})


class Chat:
    """A session of a user with an agent."""

    def __init__(self, agent: Any, session_id: str | None = None) -> None:
        self.session_id = session_id or f"session-{next(_names)}"
        self.runner = Runner(app_name="helpdesk", agent=agent, session_service=InMemorySessionService())
        self.is_new = True

    async def asked(self, question: str, **options: Any) -> str:
        """Return the last text that an agent wrote."""
        if self.is_new:
            service = self.runner.session_service
            await service.create_session(app_name="helpdesk", user_id="u-7", session_id=self.session_id)
            self.is_new = False
        message = types.Content(role="user", parts=[types.Part(text=question)])
        shown = ""
        async for event in self.runner.run_async(
            user_id="u-7", session_id=self.session_id, new_message=message, **options
        ):
            parts = event.content.parts if event.content and event.content.parts else []
            text = "".join(part.text or "" for part in parts)
            shown = text if text and not event.partial else shown
        return shown


def answered(agent: Any, question: str, *rounds: Any, documents: Any = None, **more: Any) -> None:
    """Ask an agent, and note what was seen."""
    with scripted(after_tools(*rounds)):
        shown = asyncio.run(Chat(agent).asked(question))
    saw(question, shown, documents, **more)


@construction("agent")
def agent() -> None:
    answered(agent_of(search), truth.asked(), call("search", query="Eiffel Tower built"))


@construction("agent_async")
def agents_at_once() -> None:
    async def main() -> None:
        questions = [truth.asked(topic) for topic in (0, 1)]
        shown = await asyncio.gather(*(Chat(agent_of(search)).asked(question) for question in questions))
        for question, response in zip(questions, shown, strict=True):
            saw(question, response)

    with scripted(after_tools(lambda question: call("search", query=question.split(" Reply")[0]))):
        asyncio.run(main())


@construction("agent_stream")
def agent_streamed() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search", query="Eiffel Tower built"))):
        options = {"run_config": RunConfig(streaming_mode=StreamingMode.SSE)}
        saw(question, asyncio.run(Chat(agent_of(search)).asked(question, **options)))


@construction("joined_text_tool")
def agent_with_text_tool() -> None:
    query = "Eiffel Tower built"
    texts = "\n\n".join(text for _, text in truth.search(query, 2))
    answered(agent_of(search_text), truth.asked(), call("search_text", query=query), documents=[texts])


@construction("json_tool")
def agent_with_json_tool() -> None:
    documents = [text for _, text in truth.search("Pluto discovered", 2)]
    answered(agent_of(search_json), truth.asked(4), call("search_json", query="Pluto discovered"), documents=documents)


@construction("results_tool")
def agent_with_results_tool() -> None:
    answered(agent_of(search_archive), truth.asked(), call("search_archive", query="Eiffel Tower built"))


@construction("list_tool")
def agent_with_list_tool() -> None:
    answered(agent_of(search_list), truth.asked(), call("search_list", query="Eiffel Tower built"))


@construction("agent_two_tools")
def agent_with_two_tools() -> None:
    question = f"And who discovered Pluto? {truth.asked()}"
    both = truth.Calls((("search", {"query": "Eiffel Tower built"}), ("search_archive", {"query": "Pluto"})))
    answered(agent_of(search, search_archive), question, both)


@construction("agent_two_rounds")
def agent_with_two_rounds() -> None:
    question = f"How warm is it in Paris? {truth.asked()}"
    answered(
        agent_of(search, weather), question, call("search", query="Eiffel Tower built"), call("weather", city="Paris")
    )


@construction("agent_empty")
def agent_finds_nothing() -> None:
    answered(agent_of(search), truth.strange(), call("search", query="kangaroo"), documents=[])
    answered(agent_of(search_list), truth.strange(), call("search_list", query="kangaroo"), documents=[])


@construction("tool_error")
def agent_tool_fails_first() -> None:
    question = truth.asked()
    rounds = call("search_index", query="Eiffel"), call("search", query="Eiffel Tower built")
    answered(agent_of(search_index, search), question, *rounds, failed=1)


@construction("tool_error_only")
def agent_tool_fails() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search_index", query="Eiffel"), final=lambda _: "I cannot search.")):
        saw(question, asyncio.run(Chat(agent_of(search_index)).asked(question)), failed=1)


@construction("agent_without_search", "not recorded")
def agent_without_search() -> None:
    with scripted(lambda _: "Hello to you, too."):
        asyncio.run(Chat(agent_of(search)).asked("Hello!"))


@construction("other_tool", "not recorded")
def agent_with_another_tool() -> None:
    with scripted(after_tools(call("weather", city="Paris"))):
        asyncio.run(Chat(agent_of(weather)).asked(truth.asked()))


@construction("failed", "not recorded")
def failed() -> None:
    with suppress(Exception):
        asyncio.run(Chat(agent_of(search, model_id="openai/broken")).asked(truth.asked()))


@construction("two_turns")
def two_turns() -> None:
    async def main() -> None:
        chat = Chat(agent_of(search), "s-82")
        first, second = truth.asked(), truth.asked(4)
        with scripted(after_tools(call("search", query="Eiffel Tower built"))):
            saw(first, await chat.asked(first), session_id="s-82")
        # What the first turn found is in the second prompt, too: it is history.
        found = [text for _, text in truth.search("Pluto discovered", 3)]
        with scripted(after_tools(call("search", query="Pluto discovered"))):
            saw(second, await chat.asked(second), found, session_id="s-82")

    asyncio.run(main())


@construction("session_on_span")
def session_on_span() -> None:
    with application.start_as_current_span("request", attributes={"session.id": "s-83"}):
        answered(agent_of(search), truth.asked(), call("search", query="Eiffel Tower built"), session_id="s-83")


@construction("agent_as_tool")
def agent_as_tool() -> None:
    researcher = agent_of(search, name="ask_researcher", description="Finds facts.", instruction="Research facts.")
    question = truth.asked()
    replies = [
        call("ask_researcher", request="Find the year of the tower."),
        call("search", query="Eiffel Tower built"),
        "The tower is of 1889, says the researcher.",
        "Finally: it was built in 1889.",
    ]
    with scripted(lambda _: replies.pop(0)):
        shown = asyncio.run(Chat(agent_of(AgentTool(researcher))).asked(question))
    saw(question, shown, through=["The tower is of 1889", "Finally"])


@construction("handoff")
def handoff() -> None:
    expert = agent_of(search, name="expert", description="Knows the handbook.", instruction="You are the expert.")
    question = truth.asked()
    replies = [
        call("transfer_to_agent", agent_name="expert"),
        call("search", query="Eiffel Tower built"),
        f"The expert says 1889, for {question.split()[-2]}.",
    ]
    with scripted(lambda _: replies.pop(0)):
        shown = asyncio.run(Chat(agent_of(sub_agents=[expert])).asked(question))
    saw(question, shown)


@construction("sub_agents", "refused (invalid)")
def researcher_then_writer() -> None:
    researcher = agent_of(search, name="researcher", output_key="facts")
    writer = agent_of(name="writer", instruction="Write by these facts: {facts}")
    question = truth.asked()
    replies = [call("search", query="Eiffel Tower built"), "It is of 1889, says the researcher.", "Finally: in 1889."]
    with scripted(lambda _: replies.pop(0)):
        shown = asyncio.run(Chat(SequentialAgent(name="team", sub_agents=[researcher, writer])).asked(question))
    saw(question, shown, through=["It is of 1889", "Finally"])


@construction("supervisor", "refused (invalid)")
def agents_in_parallel() -> None:
    def script(messages: list[dict[str, Any]]) -> truth.Reply:
        prompt = truth.prompt_of(messages)
        if "Write by" in prompt:
            return "Finally: in 1889, and in 1930."
        wanted = ("search", "Eiffel Tower built") if "Find the tower" in prompt else ("search_archive", "Pluto")
        has_searched = any(message.get("role") == "tool" for message in messages)
        return f"I found it by {wanted[0]}." if has_searched else call(wanted[0], query=wanted[1])

    question = truth.asked()
    helpers = [
        agent_of(search, name="tower", instruction="Find the tower.", output_key="tower"),
        agent_of(search_archive, name="planet", instruction="Find the planet.", output_key="planet"),
    ]
    writer = agent_of(name="writer", instruction="Write by these facts: {tower} {planet}")
    team = SequentialAgent(name="team", sub_agents=[ParallelAgent(name="helpers", sub_agents=helpers), writer])
    with scripted(script):
        shown = asyncio.run(Chat(team).asked(question))
    for _ in helpers:  # each of them has an answer that the user may have seen
        saw(question, shown, through=["I found it", "Finally"])


truth.run_all(sys.argv[1:])
