"""Constructions of CrewAI, as applications build them: crews with tools of every form, several agents, sessions."""

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["CREWAI_DISABLE_TRACKING"] = "true"
os.environ["CREWAI_TRACING_ENABLED"] = "false"

import truth
from truth import WEATHER, after_tools, call, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")

from openinference.instrumentation import using_attributes
from openinference.instrumentation.crewai import CrewAIInstrumentor

CrewAIInstrumentor().instrument(use_event_listener=True)

from crewai import LLM, Agent, Crew, Process, Task
from crewai.tools import tool
from opentelemetry import trace

application = trace.get_tracer("application")


@tool("search")
def search(query: str) -> list[dict[str, str]]:
    """Search the handbook, and return documents."""
    return [{"id": name, "text": text} for name, text in truth.search(query, 3)]


@tool("search_archive")
def search_archive(query: str) -> dict[str, Any]:
    """Search the archive, and return an object."""
    return {"results": [{"id": name, "text": text} for name, text in truth.search(query, 2)]}


@tool("search_text")
def search_text(query: str) -> str:
    """Search the handbook, and return one text."""
    return "\n\n".join(text for _, text in truth.search(query, 2))


@tool("search_json")
def search_json(query: str) -> str:
    """Search the handbook, and return JSON."""
    return json.dumps([{"id": name, "text": text, "score": 0.5} for name, text in truth.search(query, 2)])


@tool("search_list")
def search_list(query: str) -> list[str]:
    """Search the handbook, and return a list."""
    return [text for _, text in truth.search(query, 2)]


@tool("search_index")
def search_index(query: str) -> str:
    """Search the handbook, whose index is down."""
    raise TimeoutError("the index does not reply")


@tool("weather")
def weather(city: str) -> str:
    """Return the weather of a city."""
    return WEATHER


def agent_of(*tools: Any, **options: Any) -> Agent:
    given = {
        "role": "Helper", "goal": "Answer by the handbook.", "backstory": "You know the handbook.",
        "llm": LLM(model=options.pop("model_id", "gpt-4o-mini"), max_retries=0),
    }  # fmt: skip
    return Agent(tools=list(tools), verbose=False, **{**given, **options})


def crew_of(*agents: Agent, **options: Any) -> Crew:
    """Return a crew of agents, each with a task; the first is the question of the user."""
    first, *later = agents
    tasks = [Task(description="{question}", expected_output="An answer.", agent=first)]
    tasks += [
        Task(description="Write by what was found.", expected_output="An answer.", agent=agent) for agent in later
    ]
    return Crew(agents=list(agents), tasks=tasks, verbose=False, **options)


def answered(crew: Crew, question: str, *rounds: Any, documents: Any = None, **more: Any) -> None:
    """Ask a crew, and note what was seen."""
    with scripted(after_tools(*rounds)):
        shown = crew.kickoff(inputs={"question": question}).raw
    saw(question, shown, documents, **more)


@construction("agent")
def agent() -> None:
    answered(crew_of(agent_of(search)), truth.asked(), call("search", query="Eiffel Tower built"))


@construction("agent_async")
def agents_at_once() -> None:
    async def main() -> None:
        questions = [truth.asked(topic) for topic in (0, 1)]
        crews = [crew_of(agent_of(search)) for _ in questions]
        shown = await asyncio.gather(
            *(crew.akickoff(inputs={"question": question}) for crew, question in zip(crews, questions, strict=True))
        )
        for question, output in zip(questions, shown, strict=True):
            saw(question, output.raw)

    def query_of(prompt: str) -> truth.Calls:
        return call("search", query=prompt.partition(" Reply")[0].rpartition("Current Task: ")[2])

    with scripted(after_tools(query_of)):
        asyncio.run(main())


@construction("joined_text_tool")
def agent_with_text_tool() -> None:
    query = "Eiffel Tower built"
    texts = "\n\n".join(text for _, text in truth.search(query, 2))
    answered(crew_of(agent_of(search_text)), truth.asked(), call("search_text", query=query), documents=[texts])


@construction("json_tool")
def agent_with_json_tool() -> None:
    answered(crew_of(agent_of(search_json)), truth.asked(), call("search_json", query="Eiffel Tower built"))


@construction("results_tool")
def agent_with_results_tool() -> None:
    answered(crew_of(agent_of(search_archive)), truth.asked(), call("search_archive", query="Eiffel Tower built"))


@construction("list_tool")
def agent_with_list_tool() -> None:
    answered(crew_of(agent_of(search_list)), truth.asked(), call("search_list", query="Eiffel Tower built"))


@construction("agent_two_tools")
def agent_with_two_tools() -> None:
    question = f"And who discovered Pluto? {truth.asked()}"
    both = truth.Calls((("search", {"query": "Eiffel Tower built"}), ("search_archive", {"query": "Pluto"})))
    answered(crew_of(agent_of(search, search_archive)), question, both)


@construction("agent_two_rounds")
def agent_with_two_rounds() -> None:
    question = f"How warm is it in Paris? {truth.asked()}"
    rounds = call("search", query="Eiffel Tower built"), call("weather", city="Paris")
    answered(crew_of(agent_of(search, weather)), question, *rounds)


@construction("agent_empty")
def agent_finds_nothing() -> None:
    answered(crew_of(agent_of(search)), truth.strange(), call("search", query="kangaroo"), documents=[])


@construction("tool_error")
def agent_tool_fails_first() -> None:
    rounds = call("search_index", query="Eiffel"), call("search", query="Eiffel Tower built")
    answered(crew_of(agent_of(search_index, search)), truth.asked(), *rounds, failed=1)


@construction("tool_error_only")
def agent_tool_fails() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search_index", query="Eiffel"), final=lambda _: "I cannot search.")):
        saw(question, crew_of(agent_of(search_index)).kickoff(inputs={"question": question}).raw, failed=1)


@construction("agent_without_search", "not recorded")
def agent_without_search() -> None:
    with scripted(lambda _: "Hello to you, too."):
        crew_of(agent_of(search)).kickoff(inputs={"question": "Hello!"})


@construction("other_tool", "not recorded")
def agent_with_another_tool() -> None:
    with scripted(after_tools(call("weather", city="Paris"))):
        crew_of(agent_of(weather)).kickoff(inputs={"question": truth.asked()})


@construction("failed", "not recorded")
def failed() -> None:
    with suppress(Exception):
        crew_of(agent_of(search, model_id="gpt-4o-broken", max_retry_limit=0)).kickoff(inputs={"question": "Well?"})


@construction("session")
def session() -> None:
    with using_attributes(session_id="s-81"):
        answered(
            crew_of(agent_of(search)), truth.asked(), call("search", query="Eiffel Tower built"), session_id="s-81"
        )


@construction("session_on_span")
def session_on_span() -> None:
    with application.start_as_current_span("request", attributes={"session.id": "s-83"}):
        answered(
            crew_of(agent_of(search)), truth.asked(), call("search", query="Eiffel Tower built"), session_id="s-83"
        )


@construction("sub_agents")
def researcher_then_writer() -> None:
    question = truth.asked()
    replies = [call("search", query="Eiffel Tower built"), "It is of 1889, says the researcher.", "Finally: in 1889."]
    with scripted(lambda _: replies.pop(0)):
        crew = crew_of(agent_of(search), agent_of(role="Writer", goal="Write."))
        shown = crew.kickoff(inputs={"question": question}).raw
    saw(question, shown, through=["It is of 1889", "Finally"])


@construction("supervisor")
def manager_of_agents() -> None:
    question = truth.asked()
    delegated = {"task": "Find the year of the tower.", "context": "The Eiffel Tower.", "coworker": "Helper"}
    replies = [
        truth.Calls((("delegate_work_to_coworker", delegated),)),
        call("search", query="Eiffel Tower built"),
        "The tower is of 1889, says the helper.",
        "Finally: it was built in 1889.",
    ]
    with scripted(lambda _: replies.pop(0)):
        helper = agent_of(search)
        task = Task(description="{question}", expected_output="An answer.")
        model = LLM(model="gpt-4o-mini", max_retries=0)
        crew = Crew(agents=[helper], tasks=[task], process=Process.hierarchical, manager_llm=model, verbose=False)
        shown = crew.kickoff(inputs={"question": question}).raw
    saw(question, shown, through=["The tower is of 1889", "Finally"])


truth.run_all(sys.argv[1:])
