"""Constructions of PydanticAI, as applications build them: agents with tools, delegation, streams and histories."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import truth
from truth import call, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")

from opentelemetry import trace
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, ToolReturn
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

Agent.instrument_all()
tracer = trace.get_tracer("application")
model = OpenAIChatModel("gpt-4o-mini")


def texts(query: str, k: int = 2) -> list[str]:
    return [text for _, text in truth.search(query, k)]


def search_documents(query: str) -> list[dict[str, str]]:
    """Search the documents."""
    return [{"id": name, "text": text} for name, text in truth.search(query, 2)]


def search_archive(query: str) -> list[dict[str, str]]:
    """Search the archive."""
    return [{"id": name, "text": text} for name, text in truth.search(query, 1)]


def agent_of(*tools: Callable[..., Any], **options: Any) -> Agent[None, Any]:
    return Agent(options.pop("model", model), instructions="Answer by the handbook.", tools=list(tools), **options)


LOOP = asyncio.new_event_loop()


def awaited(answer: Awaitable[Any]) -> Any:
    return LOOP.run_until_complete(answer)


def run(agent: Agent[None, Any], question: str, **given: Any) -> Any:
    return awaited(agent.run(question, **given)).output


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
        results = await asyncio.gather(*(agent.run(question) for question in questions))
        for question, result in zip(questions, results, strict=True):
            saw(question, result.output)

    script = truth.after_tools(lambda question: call("search_documents", query=question.split(" Reply")[0]))
    with scripted(script):
        awaited(main())


@construction("agent_stream")
def agent_streamed() -> None:
    async def main(question: str) -> str:
        async with agent_of(search_documents).run_stream(question) as stream:
            return [text async for text in stream.stream_text()][-1]

    question = truth.asked(3)
    with scripted(truth.after_tools(call("search_documents", query="Titanic sank"))):
        saw(question, awaited(main(question)))


@construction("stream_closed")
def stream_closed() -> None:
    async def main(question: str) -> str:
        async with agent_of(search_documents).run_stream(question) as stream:
            async for text in stream.stream_text(debounce_by=None):
                if len(text.split()) >= 3:
                    return text.strip()
        raise AssertionError("the stream ended")

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
def two_questions_below_one_span() -> None:
    script = truth.after_tools(lambda question: call("search_documents", query=question.split(" Reply")[0]))
    with scripted(script), tracer.start_as_current_span("nightly job"):
        for topic in (0, 3):
            question = truth.asked(topic)
            saw(question, run(agent_of(search_documents), question))


@construction("other_model")
def model_of_responses() -> None:
    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_documents", query="Nile length"))):
        saw(question, run(agent_of(search_documents, model=OpenAIResponsesModel("gpt-4o-mini")), question))


@construction("model_fallback")
def falls_back() -> None:
    question = truth.asked(1)
    falling = FallbackModel(OpenAIChatModel("broken-4o"), model)
    with scripted(truth.after_tools(call("search_documents", query="Nile length"))):
        saw(question, run(agent_of(search_documents, model=falling), question))


@construction("retry")
def retries_in_plain_code() -> None:
    question = truth.asked(0)
    fails = iter([False, True])
    inner = truth.after_tools(call("search_documents", query="Eiffel Tower"))

    def script(messages: list[dict[str, Any]]) -> Any:
        is_second = any(message.get("tool_calls") for message in messages)
        return truth.Failure() if is_second and next(fails, None) is False else inner(messages)

    with scripted(script), tracer.start_as_current_span("POST /ask"):
        agent = agent_of(search_documents)
        try:
            shown = run(agent, question)
        except Exception:  # noqa: BLE001 - as applications do it
            shown = run(agent, question)
    saw(question, shown, calls=[(1, "search_documents")])


@construction("failed", "not recorded")
def fails() -> None:
    def script(messages: list[dict[str, Any]]) -> Any:
        has_searched = any(message.get("tool_calls") for message in messages)
        return truth.Failure() if has_searched else call("search_documents", query="Eiffel Tower")

    with scripted(script), suppress(Exception):
        run(agent_of(search_documents), truth.asked(0))


@construction("discarded_attempt")
def validator_that_refuses_the_first_answer() -> None:
    agent = agent_of(search_documents)

    @agent.output_validator
    def has_a_year(output: str) -> str:
        if "19" not in output and "18" not in output:
            raise ModelRetry("Name the year.")
        return output

    question = truth.asked(0)
    answers = iter([call("search_documents", query="Eiffel Tower"), "A long time ago.", truth.answer_to(question)])
    with scripted(lambda _: next(answers)):
        saw(question, run(agent, question))


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


@construction("history")
def remembers() -> None:
    agent = agent_of(search_documents)
    messages: list[Any] = []
    earlier: list[str] = []
    for topic, query in ((0, "Eiffel Tower"), (3, "Titanic sank")):
        question = truth.asked(topic)
        with scripted(truth.after_tools(call("search_documents", query=query))):
            result = awaited(agent.run(question, message_history=messages))
        saw(question, result.output, texts(query), history=list(earlier))
        earlier.append(question)
        messages = result.all_messages()


@construction("agent_without_search")
def agent_that_needs_no_search() -> None:
    """The second turn needs no tool: the results of the first are in its messages, and are not searched again."""
    agent = agent_of(search_documents)
    question = truth.asked(3)
    with scripted(truth.after_tools(call("search_documents", query="Titanic"))):
        result = awaited(agent.run(question))
    saw(question, result.output)
    run(agent, "Thank you!", message_history=result.all_messages())


@construction("session_on_span")
def has_a_session_on_an_own_span() -> None:
    question = truth.asked(4)
    with (
        scripted(truth.after_tools(call("search_documents", query="Pluto"))),
        tracer.start_as_current_span("turn", attributes={"session.id": "s-82", "user.id": "u-8"}),
    ):
        shown = run(agent_of(search_documents), question)
    saw(question, shown, session_id="s-82")


@construction("thread")
def has_a_conversation() -> None:
    question = truth.asked(4)
    with scripted(truth.after_tools(call("search_documents", query="Pluto"))):
        saw(question, run(agent_of(search_documents), question, conversation_id="c-83"), session_id="c-83")


# Tools.


@construction("text_tool")
def tool_of_text() -> None:
    def search_documents(query: str) -> str:
        """Search the documents."""
        return texts(query, 1)[0]

    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_documents", query="Nile long"))):
        saw(question, run(agent_of(search_documents), question))


@construction("joined_text_tool")
def tool_of_joined_texts() -> None:
    def search_documents(query: str) -> str:
        """Search the documents."""
        return "\n\n".join(texts(query))

    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_documents", query="Nile long"))):
        saw(question, run(agent_of(search_documents), question), ["\n\n".join(texts("Nile long"))])


class Passage(BaseModel):
    """A found passage."""

    text: str
    score: float


def search_dump(query: str) -> str:
    """Search the documents."""
    return json.dumps([{"score": 0.5, "text": text} for text in texts(query)])


def search_results(query: str) -> dict[str, Any]:
    """Search the documents."""
    return {"results": [{"content": text, "url": "a.html"} for text in texts(query)], "query": query}


def search_texts(query: str) -> list[str]:
    """Search the documents."""
    return texts(query)


def search_objects(query: str) -> list[Passage]:
    """Search the documents."""
    return [Passage(text=text, score=0.5) for text in texts(query)]


@construction("json_tool")
def tool_of_json() -> None:
    for searching in (search_dump, search_results, search_texts, search_objects):
        question = truth.asked(4)
        with scripted(truth.after_tools(call(searching.__name__, query="Pluto Clyde Tombaugh"))):
            saw(question, run(agent_of(searching), question))


@construction("artifact_tool")
def tool_whose_documents_are_a_message() -> None:
    def search_documents(query: str) -> ToolReturn:
        """Search the documents."""
        found = texts(query)
        return ToolReturn(return_value=found, metadata={"pages": [1, 2]}, content="Answer by these documents.")

    question = truth.asked(0)
    replies = iter([call("search_documents", query="Eiffel Tower"), truth.answer_to(question)])
    with scripted(lambda _: next(replies)):
        saw(question, run(agent_of(search_documents), question))


@construction("tool_error")
def tool_that_fails_first() -> None:
    outcomes = iter([True, False])

    def search_documents(query: str) -> str:
        """Search the documents."""
        if next(outcomes):
            raise ModelRetry("the index timed out, try again")
        return texts(query, 1)[0]

    question = truth.asked(1)
    with scripted(truth.after_tools(*[call("search_documents", query="Nile long")] * 2)):
        saw(question, run(agent_of(search_documents), question), failed=1)


@construction("tool_error_only")
def tool_that_fails() -> None:
    def search_documents(query: str) -> str:
        """Search the documents."""
        return "Error: the index timed out"

    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_documents", query="Nile long"))):
        saw(question, run(agent_of(search_documents), question), failed=1)


@construction("other_tool", "not recorded")
def tool_that_calculates() -> None:
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
    rounds = (call("search_documents", query="Eiffel Tower"), call("final_result", answer="In 1889, sir.", year=1889))
    with scripted(truth.after_tools(*rounds)):
        shown = run(agent_of(search_documents, output_type=Answer), question)
    saw(question, shown.answer, texts("Eiffel Tower"))


# Several agents.


@construction("agent_as_tool")
def agent_delegates() -> None:
    researcher: Agent[None, str] = Agent(
        model, instructions="You are a researcher.", tools=[search_documents], name="researcher"
    )

    async def research(ctx: RunContext[None], topic: str) -> str:
        """Let a researcher look it up."""
        return (await researcher.run(topic, usage=ctx.usage)).output

    question = "What should I know about the Titanic? Reply within 805 words."
    notes, final = "It sank in April 1912.", "You should know that it sank in 1912."
    inner = truth.after_tools(call("search_documents", query="Titanic sank"), final=lambda _: notes)
    outer = truth.after_tools(call("research", topic="the sinking of the Titanic"), final=lambda _: final)

    def script(messages: list[dict[str, Any]]) -> Any:
        return (inner if "You are a researcher" in truth.prompt_of(messages[:1]) else outer)(messages)

    with scripted(script):
        shown = run(agent_of(research), question)
    saw(question, shown, through=[notes, final])


def newsroom(question: str) -> str:
    researcher: Agent[None, str] = Agent(
        model, instructions="You are a researcher.", tools=[search_documents], name="researcher"
    )
    writer: Agent[None, str] = Agent(model, instructions="You are a writer.", name="writer")
    notes = run(researcher, question)
    return str(run(writer, f"Question: {question}\nNotes: {notes}"))


def written(question: str, notes: str, final: str) -> str:
    """Return what the newsroom answers, with these replies of its agents."""
    inner = truth.after_tools(call("search_documents", query="river Nile"), final=lambda _: notes)

    def script(messages: list[dict[str, Any]]) -> Any:
        return inner(messages) if "You are a researcher" in truth.prompt_of(messages[:1]) else final

    with scripted(script):
        return newsroom(question)


@construction("sub_agents", "refused (invalid)")
def agents_after_each_other() -> None:
    question = "What is special about the Nile? Reply within 806 words."
    with tracer.start_as_current_span("POST /ask"):
        shown = written(question, "The Nile has 6650 kilometres.", "It is very long, with 6650 kilometres.")
    saw(question, shown)


@construction("sub_agents_in_span")
def agents_in_a_span_with_question_and_answer() -> None:
    question = "What is special about the Nile? Reply within 807 words."
    notes, final = "The Nile has 6650 kilometres.", "It is very long, with 6650 kilometres."
    with tracer.start_as_current_span("POST /ask", attributes={"input.value": question}) as span:
        shown = written(question, notes, final)
        span.set_attribute("output.value", shown)
    saw(question, shown, through=[notes, final])


truth.run_all(sys.argv[1:])
