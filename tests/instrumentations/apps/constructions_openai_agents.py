"""Constructions of OpenAI Agents, as applications build them: tools, handoffs, agents as tools, sessions, streams."""

import asyncio
import json
import sys
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import truth
from truth import call, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")

from openinference.instrumentation import using_attributes
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

OpenAIAgentsInstrumentor().instrument()

from agents import (
    Agent,
    GuardrailFunctionOutput,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    input_guardrail,
)
from agents import (
    trace as workflow,
)
from openai import AsyncOpenAI
from opentelemetry import trace
from pydantic import BaseModel

tracer = trace.get_tracer("application")
MODEL = "gpt-4o-mini"


def texts(query: str, k: int = 2) -> list[str]:
    return [text for _, text in truth.search(query, k)]


@function_tool
def search_documents(query: str) -> list[dict[str, str]]:
    """Search the documents."""
    return [{"id": name, "text": text} for name, text in truth.search(query, 2)]


@function_tool
def search_archive(query: str) -> str:
    """Search the archive."""
    return texts(query, 1)[0]


def agent_of(*tools: Any, **options: Any) -> Agent[Any]:
    given = {"name": "Helper", "instructions": "Answer by the handbook.", "model": MODEL}
    return Agent(tools=list(tools), **{**given, **options})


LOOP = asyncio.new_event_loop()


def awaited(answer: Awaitable[Any]) -> Any:
    return LOOP.run_until_complete(answer)


def run(agent: Agent[Any], question: Any, **given: Any) -> Any:
    return awaited(Runner.run(agent, question, **given)).final_output


@construction("agent")
def agent_with_a_search() -> None:
    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_documents", query="Nile length"))):
        saw(question, run(agent_of(search_documents), question))


@construction("agent_async")
def agents_at_once() -> None:
    async def main() -> None:
        questions = [truth.asked(topic) for topic in (0, 1)]
        agent = agent_of(search_documents)
        results = await asyncio.gather(*(Runner.run(agent, question) for question in questions))
        for question, result in zip(questions, results, strict=True):
            saw(question, result.final_output)

    script = truth.after_tools(lambda question: call("search_documents", query=question.split(" Reply")[0]))
    with scripted(script):
        awaited(main())


@construction("other_model")
def model_of_chat_completions() -> None:
    question = truth.asked(1)
    chat = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI())
    with scripted(truth.after_tools(call("search_documents", query="Nile length"))):
        saw(question, run(agent_of(search_documents, model=chat), question))


@construction("agent_stream")
def agent_streamed() -> None:
    async def main(question: str) -> str:
        result = Runner.run_streamed(agent_of(search_documents), question)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    question = truth.asked(3)
    with scripted(truth.after_tools(call("search_documents", query="Titanic sank"))):
        saw(question, awaited(main(question)))


@construction("stream_closed", "refused (no_content)")
def stream_closed() -> None:
    async def main(question: str) -> str:
        result = Runner.run_streamed(agent_of(search_documents), question)
        shown = ""
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                shown += event.data.delta
                if len(shown.split()) == 3:
                    result.cancel()
        return shown

    question = truth.asked(3)
    with scripted(truth.after_tools(call("search_documents", query="Titanic sank")), pause_s=0.02):
        saw(question, awaited(main(question)))


@construction("web_request")
def below_a_request() -> None:
    question = truth.asked(2)
    with (
        scripted(truth.after_tools(call("search_documents", query="insulin pancreas"))),
        tracer.start_as_current_span("POST /ask"),
    ):
        shown = run(agent_of(search_documents), question)
    saw(question, shown)


@construction("two_questions")
def two_questions_in_one_trace() -> None:
    script = truth.after_tools(lambda question: call("search_documents", query=question.split(" Reply")[0]))
    with scripted(script), workflow("nightly job"):
        for topic in (0, 3):
            question = truth.asked(topic)
            saw(question, run(agent_of(search_documents), question))


@construction("failed", "not recorded")
def fails() -> None:
    def script(messages: list[dict[str, Any]]) -> Any:
        has_searched = any(message.get("type") == "function_call" for message in messages)
        return truth.Failure() if has_searched else call("search_documents", query="Eiffel Tower")

    with scripted(script), suppress(Exception):
        run(agent_of(search_documents), truth.asked(0))


@construction("agent_two_tools")
def agent_with_two_searches() -> None:
    question = "When was the Eiffel Tower built, and who painted Guernica? Reply within 802 words."
    both = truth.Calls((("search_documents", {"query": "Eiffel Tower"}), ("search_archive", {"query": "Guernica"})))
    with scripted(truth.after_tools(both)):
        saw(question, run(agent_of(search_documents, search_archive), question))


@construction("agent_two_rounds")
def agent_with_two_rounds() -> None:
    question = "Who painted Guernica, and when did the Titanic sink? Reply within 803 words."
    rounds = (call("search_documents", query="Guernica"), call("search_archive", query="Titanic sank"))
    with scripted(truth.after_tools(*rounds)):
        saw(question, run(agent_of(search_documents, search_archive), question))


@construction("agent_empty")
def agent_that_finds_nothing() -> None:
    question = truth.strange()
    with scripted(truth.after_tools(call("search_documents", query="Australia"))):
        saw(question, run(agent_of(search_documents), question))


@construction("agent_memory")
def agent_with_a_session() -> None:
    session = SQLiteSession("s-90")
    earlier: list[str] = []
    for topic, query in ((0, "Eiffel Tower"), (3, "Titanic sank")):
        question = truth.asked(topic)
        with scripted(truth.after_tools(call("search_documents", query=query))):
            shown = run(agent_of(search_documents), question, session=session)
        saw(question, shown, texts(query), history=list(earlier))
        earlier.append(question)
    run(agent_of(search_documents), "Thank you!", session=session)


@construction("history")
def remembers() -> None:
    items: list[Any] = []
    earlier: list[str] = []
    for topic, query in ((0, "Eiffel Tower"), (3, "Titanic sank")):
        question = truth.asked(topic)
        with scripted(truth.after_tools(call("search_documents", query=query))):
            result = awaited(Runner.run(agent_of(search_documents), [*items, {"role": "user", "content": question}]))
        saw(question, result.final_output, texts(query), history=list(earlier))
        earlier.append(question)
        items = result.to_input_list()


@construction("session")
def has_a_session() -> None:
    question = truth.asked(4)
    with (
        scripted(truth.after_tools(call("search_documents", query="Pluto"))),
        using_attributes(session_id="s-81", user_id="u-7"),
    ):
        shown = run(agent_of(search_documents), question)
    saw(question, shown, session_id="s-81")


@construction("session_on_span")
def has_a_session_on_an_own_span() -> None:
    question = truth.asked(4)
    with (
        scripted(truth.after_tools(call("search_documents", query="Pluto"))),
        tracer.start_as_current_span("turn", attributes={"session.id": "s-82", "user.id": "u-8"}),
    ):
        shown = run(agent_of(search_documents), question)
    saw(question, shown, session_id="s-82")


@construction("session_over_thread")
def has_a_session_and_a_group() -> None:
    question = truth.asked(4)
    with (
        scripted(truth.after_tools(call("search_documents", query="Pluto"))),
        using_attributes(session_id="s-84", user_id="u-7"),
    ):
        shown = run(agent_of(search_documents), question, run_config=RunConfig(group_id="thread-80"))
    saw(question, shown, session_id="s-84")


# Tools.


@construction("text_tool")
def tool_of_text() -> None:
    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_archive", query="Nile long"))):
        saw(question, run(agent_of(search_archive), question))


@construction("joined_text_tool")
def tool_of_joined_texts() -> None:
    @function_tool
    def search_handbook(query: str) -> str:
        """Search the documents."""
        return "\n\n".join(texts(query))

    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_handbook", query="Nile long"))):
        saw(question, run(agent_of(search_handbook), question), ["\n\n".join(texts("Nile long"))])


class Passage(BaseModel):
    """A found passage."""

    text: str
    score: float


@function_tool
def search_dump(query: str) -> str:
    """Search the documents."""
    return json.dumps([{"score": 0.5, "text": text} for text in texts(query)])


@function_tool
def search_results(query: str) -> dict[str, Any]:
    """Search the documents."""
    return {"results": [{"content": text, "url": "a.html"} for text in texts(query)], "query": query}


@function_tool
def search_texts(query: str) -> list[str]:
    """Search the documents."""
    return texts(query)


@function_tool
def search_objects(query: str) -> list[Passage]:
    """Search the documents."""
    return [Passage(text=text, score=0.5) for text in texts(query)]


@construction("json_tool")
def tool_of_json() -> None:
    for searching in (search_dump, search_results, search_texts, search_objects):
        question = truth.asked(1)
        with scripted(truth.after_tools(call(searching.name, query="Nile long"))):
            saw(question, run(agent_of(searching), question))


@construction("tool_error")
def tool_that_fails_first() -> None:
    outcomes = iter([True, False])

    @function_tool
    def search_handbook(query: str) -> str:
        """Search the documents."""
        if next(outcomes):
            raise RuntimeError("the index timed out")
        return texts(query, 1)[0]

    question = truth.asked(1)
    with scripted(truth.after_tools(*[call("search_handbook", query="Nile long")] * 2)):
        saw(question, run(agent_of(search_handbook), question), failed=1)


@construction("tool_error_only")
def tool_that_fails() -> None:
    @function_tool
    def search_handbook(query: str) -> str:
        """Search the documents."""
        raise RuntimeError("the index timed out")

    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_handbook", query="Nile long"))):
        saw(question, run(agent_of(search_handbook), question), failed=1)


@construction("other_tool", "not recorded")
def tool_that_calculates() -> None:
    @function_tool
    def add(first: int, second: int) -> int:
        """Add two numbers."""
        return first + second

    with scripted(truth.after_tools(call("add", first=1, second=2))):
        run(agent_of(add), truth.asked(1))


@construction("no_retrieval", "not recorded")
def agent_without_tools() -> None:
    run(agent_of(), truth.asked(1))


@construction("agent_structured")
def agent_with_a_structured_answer() -> None:
    class Answer(BaseModel):
        """The answer."""

        answer: str
        year: int

    question = truth.asked(0)
    wanted = json.dumps({"answer": "In 1889, sir.", "year": 1889})
    with scripted(truth.after_tools(call("search_documents", query="Eiffel Tower"), final=lambda _: wanted)):
        shown = run(agent_of(search_documents, output_type=Answer), question)
    saw(question, shown.answer, texts("Eiffel Tower"))


@construction("tool_as_answer", "not recorded")
def tool_whose_result_is_the_answer() -> None:
    @function_tool
    def lookup(query: str) -> str:
        """Look it up."""
        return texts(query, 1)[0]

    direct = agent_of(lookup, tool_use_behavior="stop_on_first_tool", model_settings=ModelSettings(tool_choice="auto"))
    with scripted(truth.after_tools(call("lookup", query="Nile long"))):
        run(direct, truth.asked(1))


# Several agents.


def by_instructions(**scripts: Any) -> Any:
    """Return a script for several agents, by the first word of their instructions."""

    def script(messages: list[dict[str, Any]]) -> Any:
        return scripts[truth.text_of(messages[0]).split()[0].lower().strip(".,:")](messages)

    return script


@construction("handoff")
def hands_off() -> None:
    expert = agent_of(search_documents, name="Expert", instructions="Expert: answer by the handbook.")
    triage = agent_of(name="Triage", instructions="Triage: hand over.", handoffs=[expert])
    question = truth.asked(3)

    def hand_over(messages: list[dict[str, Any]]) -> Any:
        return call("transfer_to_expert")

    def answer(messages: list[dict[str, Any]]) -> Any:
        has_searched = any(message.get("name") == "search_documents" for message in messages)
        return truth.usual(messages) if has_searched else call("search_documents", query="Titanic sank")

    with scripted(by_instructions(triage=hand_over, expert=answer)):
        saw(question, run(triage, question))


@construction("agent_as_tool")
def agent_in_a_tool() -> None:
    researcher = agent_of(search_documents, name="Researcher", instructions="Researcher: look things up.")
    research = researcher.as_tool("research", "Let a researcher look it up.")
    question = "What should I know about the Titanic? Reply within 805 words."
    notes, final = "It sank in April 1912.", "You should know that it sank in 1912."
    inner = truth.after_tools(call("search_documents", query="Titanic sank"), final=lambda _: notes)
    outer = truth.after_tools(call("research", input="the sinking of the Titanic"), final=lambda _: final)
    with scripted(by_instructions(researcher=inner, answer=outer)):
        shown = run(agent_of(research), question)
    saw(question, shown, through=[notes, final])


@construction("sub_agents", "refused (invalid)")
def agents_after_each_other() -> None:
    researcher = agent_of(search_documents, name="Researcher", instructions="Researcher: look things up.")
    writer = agent_of(name="Writer", instructions="Writer: write.")
    question = "What is special about the Nile? Reply within 806 words."
    notes, final = "The Nile has 6650 kilometres.", "It is very long, with 6650 kilometres."
    inner = truth.after_tools(call("search_documents", query="river Nile"), final=lambda _: notes)
    with scripted(by_instructions(researcher=inner, writer=lambda _: final)), workflow("newsroom"):
        found = run(researcher, question)
        shown = run(writer, f"Question: {question}\nNotes: {found}")
    saw(question, shown, through=[notes, final])


@construction("guardrail")
def guarded_by_a_model() -> None:
    guard = agent_of(name="Guard", instructions="Guard: is this allowed?")

    @input_guardrail
    async def allowed(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        verdict = (await Runner.run(guard, given, context=ctx.context)).final_output
        return GuardrailFunctionOutput(output_info=verdict, tripwire_triggered=verdict != "allowed")

    question = truth.asked(5)
    inner = truth.after_tools(call("search_documents", query="Guernica"))
    with scripted(by_instructions(guard=lambda _: "allowed", answer=inner)):
        saw(question, run(agent_of(search_documents, input_guardrails=[allowed]), question))


truth.run_all(sys.argv[1:])
