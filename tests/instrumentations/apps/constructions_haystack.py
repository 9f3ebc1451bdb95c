"""Constructions of Haystack, as applications build them: pipelines, own components, routers, agents and tools."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import truth
from haystack import Document, Pipeline, SuperComponent, component
from haystack.components.agents import Agent
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder, PromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.generators.chat import FallbackChatGenerator, OpenAIChatGenerator
from haystack.components.joiners import DocumentJoiner
from haystack.components.query import QueryExpander
from haystack.components.rankers import LLMRanker, LostInTheMiddleRanker
from haystack.components.retrievers import MultiQueryTextRetriever, SentenceWindowRetriever
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.components.routers import ConditionalRouter
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import AgentTool, ComponentTool, PipelineTool, create_tool_from_function
from openinference.instrumentation import using_attributes
from openinference.instrumentation.haystack import HaystackInstrumentor
from opentelemetry import trace
from truth import HANDBOOK, MODEL, Failure, Reply, after_tools, call, construction, saw, scripted

from ragtide import otel

TEMPLATE = """Answer by these documents:
{% for document in documents %}{{ document.content }}
{% endfor %}
Question: {{ question }}"""
application = trace.get_tracer("application")


@component
class HandbookRetriever:
    """Searches the handbook, or a part of it."""

    def __init__(self, k: int = 3, only: str = "", meta: dict[str, Any] | None = None) -> None:
        self.k, self.only, self.meta = k, only, meta or {}

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        """Search the handbook."""
        found = [item for item in truth.search(query, 12) if item[0].startswith(self.only)][: self.k]
        documents = [
            Document(id=name, content=text, meta=self.meta, score=1 / rank)
            for rank, (name, text) in enumerate(found, 1)
        ]
        return {"documents": documents}


@component
class WrongRetriever:
    """Finds something else than what was asked."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        """Search."""
        return {"documents": [Document(id=name, content=text) for name, text in truth.search("insulin", 2)]}


@component
class EmptyRetriever:
    """An index that is down, and does not say so."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        """Search."""
        return {"documents": []}


@component
class Rerank:
    """A step of the application, whose name is not that of a ranker: it keeps what has a number."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """Rank."""
        kept = [document for document in documents if any(char.isdigit() for char in document.content or "")]
        return {"documents": kept[::-1]}


@component
class MyRanker:
    """A ranker of the application."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """Rank."""
        return {"documents": documents[::-1][:2]}


@component
class CutOff:
    """A step of the application, which drops what has a low score."""

    def __init__(self, least: float) -> None:
        self.least = least

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Drop documents."""
        return {"documents": [document for document in documents if (document.score or 0) >= self.least]}


@component
class Shorten:
    """A step of the application, which cuts the texts."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Cut the texts."""
        return {"documents": [Document(content=(document.content or "")[:30]) for document in documents]}


@component
class Grader:
    """A step of the application: a model says which texts are about the question."""

    def __init__(self, keeps: Callable[[str], bool]) -> None:
        self.keeps, self.generator = keeps, OpenAIChatGenerator(model="gpt-4o-mini")

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        """Grade."""
        kept = []
        for document in documents:
            ask = f"Is this text about the question? Say yes or no.\n{document.content}\n{query}"
            with scripted(lambda messages: "yes" if self.keeps(truth.text_of(messages[-1])) else "no"):
                grade = self.generator.run(messages=[ChatMessage.from_user(ask)])["replies"][0].text
            kept += [document] if grade == "yes" else []
        return {"documents": kept}


# After the components are known: then they have spans wherever they run, in an agent, too.
otel.configure(pipeline="helpdesk")
HaystackInstrumentor().instrument()


def llm_of(**options: Any) -> OpenAIChatGenerator:
    return OpenAIChatGenerator(**{"model": "gpt-4o-mini", "max_retries": 0, **options})


def pipeline_of(*steps: Any, retriever: Any = None, llm: Any = None, template: str = TEMPLATE) -> Pipeline:
    """Return a pipeline with steps between its retriever and its prompt."""
    made = Pipeline()
    made.add_component("retriever", retriever or HandbookRetriever())
    made.add_component(
        "prompt", ChatPromptBuilder([ChatMessage.from_user(template)], required_variables=["documents", "question"])
    )
    made.add_component("llm", llm or llm_of())
    last = "retriever"
    for number, step in enumerate(steps):
        made.add_component(f"step{number}", step)
        made.connect(f"{last}.documents", f"step{number}.documents")
        last = f"step{number}"
    made.connect(f"{last}.documents", "prompt.documents")
    made.connect("prompt.prompt", "llm.messages")
    return made


def inputs_of(pipeline: Pipeline, question: str) -> dict[str, Any]:
    """Return the question at all inputs that take it."""
    return {
        name: {key: question for key in sockets if key in ("query", "question")}
        for name, sockets in pipeline.inputs().items()
        if not sockets.keys().isdisjoint(("query", "question"))
    }


def answer_of(pipeline: Pipeline, question: str) -> str:
    return str(pipeline.run(inputs_of(pipeline, question))["llm"]["replies"][0].text)


def answered(pipeline: Pipeline, topic: int = 0, **more: Any) -> None:
    """Ask a pipeline, and note what was seen."""
    question = truth.asked(topic)
    saw(question, answer_of(pipeline, question), **more)


def in_turn(*replies: Reply) -> Callable[[list[dict[str, Any]]], Reply]:
    """Return a script that gives one reply after another."""
    left = list(replies)
    return lambda _: left.pop(0)


def given() -> list[str]:
    """Return the documents in the last prompt."""
    prompt = truth.prompt_of(MODEL.requests[-1][0])
    return [text for text in HANDBOOK.values() if text in prompt]


def in_span() -> Any:
    """Open a span of the application."""
    return application.start_as_current_span("answer")


# Agents


def retrieval_tool(retriever: Any, name: str = "search") -> ComponentTool:
    return ComponentTool(
        component=retriever,
        name=name,
        description="Searches the handbook.",
        outputs_to_string={"source": "documents", "handler": joined},
    )


def joined(documents: Iterable[Document]) -> str:
    return "\n".join(document.content or "" for document in documents)


def search_text(query: str) -> str:
    """Search the handbook, and return one text."""
    return "\n\n".join(text for _, text in truth.search(query, 2))


def search_json(query: str) -> str:
    """Search the handbook, and return JSON."""
    return json.dumps([{"id": name, "text": text, "score": 0.5} for name, text in truth.search(query, 2)])


def search_results(query: str) -> dict[str, Any]:
    """Search the handbook, and return an object."""
    return {"results": [{"id": name, "text": text} for name, text in truth.search(query, 2)]}


def search_objects(query: str) -> list[dict[str, str]]:
    """Search the handbook, and return objects."""
    return [{"id": name, "text": text} for name, text in truth.search(query, 2)]


def search_documents(query: str) -> list[Document]:
    """Search the handbook, and return documents."""
    return [Document(id=name, content=text) for name, text in truth.search(query, 2)]


def search_index(query: str) -> str:
    """Search the handbook, whose index is down."""
    raise TimeoutError("the index does not reply")


def weather(city: str) -> str:
    """Return the weather of a city."""
    return truth.WEATHER


def agent_of(*tools: Any, **options: Any) -> Agent:
    made = [create_tool_from_function(tool) if isinstance(tool, type(weather)) else tool for tool in tools]
    return Agent(chat_generator=llm_of(), tools=made, system_prompt="You answer by the handbook.", **options)


def run_agent(question: str, *tools: Any, **options: Any) -> str:
    """Return the answer of an agent in a pipeline."""
    pipeline = Pipeline()
    pipeline.add_component("agent", agent_of(*tools, **options))
    return str(pipeline.run({"agent": {"messages": [ChatMessage.from_user(question)]}})["agent"]["last_message"].text)


@construction("agent_without_pipeline")
def agent_without_pipeline() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search", query="Eiffel Tower year"))):
        output = agent_of(retrieval_tool(HandbookRetriever())).run(messages=[ChatMessage.from_user(question)])
    saw(question, output["last_message"].text)


@construction("agent_async")
def agent_async() -> None:
    async def main(question: str) -> str:
        agent = agent_of(retrieval_tool(HandbookRetriever()))
        return str((await agent.run_async(messages=[ChatMessage.from_user(question)]))["last_message"].text)

    question = truth.asked()
    with scripted(after_tools(call("search", query="Eiffel Tower year"))):
        saw(question, asyncio.run(main(question)))


@construction("agent")
def agent() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search", query="Eiffel Tower year"))):
        saw(question, run_agent(question, retrieval_tool(HandbookRetriever())))


@construction("agent_stream")
def agent_streamed() -> None:
    question = truth.asked()
    pieces: list[str] = []
    with scripted(after_tools(call("search", query="Eiffel Tower year"))):
        run_agent(
            question,
            retrieval_tool(HandbookRetriever()),
            streaming_callback=lambda chunk: pieces.append(chunk.content),
        )
    saw(question, "".join(pieces))


def _with_tool(function: Any, query: str = "Eiffel Tower") -> None:
    with scripted(after_tools(call(function.__name__, query=query))):
        run_agent(truth.asked(), function)


# No instrumentation makes a span for a function that is a tool, so nothing says that it searched.


@construction("text_tool", "not recorded")
def agent_with_text_tool() -> None:
    _with_tool(search_text)


@construction("json_tool", "not recorded")
def agent_with_json_tool() -> None:
    _with_tool(search_json)
    _with_tool(search_results)


@construction("objects_tool", "not recorded")
def agent_with_objects_tool() -> None:
    _with_tool(search_objects)
    _with_tool(search_documents)


@construction("agent_two_tools")
def agent_with_two_tools() -> None:
    question = f"{truth.asked(4)} And how long is the Nile?"
    script = after_tools(truth.Calls((("rivers", {"query": "river Nile"}), ("space", {"query": "Pluto"}))))
    with scripted(script):
        tools = retrieval_tool(HandbookRetriever(2), "rivers"), retrieval_tool(HandbookRetriever(1), "space")
        saw(question, run_agent(question, *tools))


@construction("agent_two_rounds")
def agent_with_two_rounds() -> None:
    question = f"{truth.asked(1)} And who discovered Pluto?"
    with scripted(after_tools(call("rivers", query="river Nile"), call("space", query="Pluto"))):
        tools = retrieval_tool(HandbookRetriever(2), "rivers"), retrieval_tool(HandbookRetriever(1), "space")
        saw(question, run_agent(question, *tools))
    question = f"{truth.asked()} And how warm is it there?"
    with scripted(after_tools(call("search", query="Eiffel Tower"), call("weather", city="Paris"))):
        saw(question, run_agent(question, retrieval_tool(HandbookRetriever(2)), weather))


@construction("agent_empty")
def agent_finds_nothing() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search", query="Eiffel Tower"), final=lambda _: "I do not know.")):
        saw(question, run_agent(question, retrieval_tool(EmptyRetriever())), [])


@construction("tool_error_only", "not recorded")
def agent_tool_fails() -> None:
    with scripted(after_tools(call("search_index", query="Eiffel"), final=lambda _: "I cannot search.")):
        run_agent(truth.asked(), search_index)


@construction("agent_without_search", "not recorded")
def agent_without_search() -> None:
    with scripted(lambda _: "Hello to you, too."):
        run_agent("Hello!", retrieval_tool(HandbookRetriever()))


@construction("chain_as_tool")
def pipeline_as_tool() -> None:
    tool = PipelineTool(
        pipeline=pipeline_of(),
        name="ask_handbook",
        description="Answers by the handbook.",
        input_mapping={"query": ["retriever.query", "prompt.question"]},
        output_mapping={"llm.replies": "replies"},
        outputs_to_string={"source": "replies", "handler": lambda replies: replies[0].text},
    )
    question = truth.asked()
    replies = (
        call("ask_handbook", query="the year of the Eiffel Tower"),
        "In 1889.",
        "Finally: in 1889, says the tool.",
    )
    with scripted(in_turn(*replies)):
        saw(question, run_agent(question, tool), through=["In 1889.", "Finally"])


@construction("agent_as_tool")
def agent_as_tool() -> None:
    researcher = agent_of(retrieval_tool(HandbookRetriever(2)))
    tool = AgentTool(agent=researcher, name="researcher", description="Finds facts.")
    question = truth.asked()
    replies = (
        call("researcher", messages=[{"role": "user", "content": "Find the year of the tower."}]),
        call("search", query="Eiffel Tower"),
        "The tower is of 1889, says the researcher.",
        "Finally: it was built in 1889.",
    )
    with scripted(in_turn(*replies)):
        saw(question, run_agent(question, tool), through=["The tower is of 1889", "Finally"])


# Ways of calling


@construction("chain")
def bm25() -> None:
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=name, content=text) for name, text in HANDBOOK.items()])
    answered(pipeline_of(retriever=InMemoryBM25Retriever(store, top_k=2)))


@construction("chain_async")
def awaited() -> None:
    async def main() -> None:
        pipelines = [pipeline_of() for _ in range(3)]
        questions = [truth.asked(topic) for topic in range(3)]
        found = await asyncio.gather(
            *(
                pipeline.run_async(inputs_of(pipeline, question))
                for pipeline, question in zip(pipelines, questions, strict=True)
            )
        )
        for question, output in zip(questions, found, strict=True):
            saw(question, output["llm"]["replies"][0].text)

    asyncio.run(main())


@construction("chain_stream")
def streamed() -> None:
    question = truth.asked(1)
    pieces: list[str] = []
    llm = llm_of(streaming_callback=lambda chunk: pieces.append(chunk.content))
    answer_of(pipeline_of(llm=llm), question)
    saw(question, "".join(pieces))


class ClosedError(Exception):
    """The user closed the stream."""


@construction("stream_closed", "not recorded")
def stream_closed() -> None:
    pieces: list[str] = []

    def show(chunk: Any) -> None:
        pieces.append(chunk.content)
        if len(pieces) > 2:
            raise ClosedError

    with suppress(PipelineRuntimeError):
        answer_of(pipeline_of(llm=llm_of(streaming_callback=show)), truth.asked(1))


@construction("dict_output")
def answer_builder() -> None:
    pipeline = pipeline_of()
    pipeline.add_component("answers", AnswerBuilder())
    pipeline.connect("llm.replies", "answers.replies")
    pipeline.connect("retriever.documents", "answers.documents")
    question = truth.asked()
    saw(question, pipeline.run(inputs_of(pipeline, question))["answers"]["answers"][0].data)


@construction("prompt_builder")
def prompt_builder() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", HandbookRetriever())
    pipeline.add_component("prompt", PromptBuilder(TEMPLATE, required_variables="*"))
    pipeline.add_component("llm", llm_of())
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    answered(pipeline)


@construction("common_span")
def common_span() -> None:
    question = truth.asked()
    with in_span():
        documents = HandbookRetriever().run(query=question)["documents"][:2]
        prompt = f"Answer by these documents:\n{joined(documents)}\n\nQuestion: {question}"
        saw(question, llm_of().run(messages=[ChatMessage.from_user(prompt)])["replies"][0].text)


@construction("no_common_span", "not recorded")
def no_common_span() -> None:
    question = truth.asked()
    documents = HandbookRetriever().run(query=question)["documents"]
    llm_of().run(messages=[ChatMessage.from_user(f"{joined(documents)}\n\nQuestion: {question}")])


@construction("router")
def routed() -> None:
    pipeline = Pipeline()
    routes = [
        {"condition": f"{{{{ {'' if wanted else 'not '}('Nile' in query) }}}}", "output": "{{ query }}",
         "output_name": name, "output_type": str}
        for name, wanted in (("nile", True), ("other", False))
    ]  # fmt: skip
    pipeline.add_component("router", ConditionalRouter(routes))
    for name in ("nile", "other"):
        pipeline.add_component(f"{name}_retriever", HandbookRetriever(2))
        pipeline.connect(f"router.{name}", f"{name}_retriever.query")
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.connect("nile_retriever", "joiner.documents")
    pipeline.connect("other_retriever", "joiner.documents")
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)], required_variables="*"))
    pipeline.add_component("llm", llm_of())
    pipeline.connect("joiner.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    answered(pipeline, 1)


@construction("sub_pipeline")
def super_component() -> None:
    inner = Pipeline()
    inner.add_component("retriever", HandbookRetriever())
    inner.add_component("ranker", MyRanker())
    inner.connect("retriever.documents", "ranker.documents")
    retrieval = SuperComponent(
        pipeline=inner,
        input_mapping={"query": ["retriever.query", "ranker.query"]},
        output_mapping={"ranker.documents": "documents"},
    )
    answered(pipeline_of(retriever=retrieval))


# Steps between the retriever and the prompt


@construction("rerank_step")
def reranked() -> None:
    answered(pipeline_of(Rerank()))


@construction("ranker")
def ranked() -> None:
    answered(pipeline_of(MyRanker()))


@construction("reorder")
def reordered() -> None:
    answered(pipeline_of(LostInTheMiddleRanker(), retriever=HandbookRetriever(4)))


@construction("model_ranker")
def ranked_by_a_model() -> None:
    question = truth.asked()
    pipeline = pipeline_of(LLMRanker(chat_generator=llm_of()))
    ranks = json.dumps({"documents": [{"index": 3}, {"index": 1}]})
    with scripted(in_turn(ranks, "It was built in 1889, for the fair.")):
        saw(question, answer_of(pipeline, question))


@construction("cut_off")
def cut_off() -> None:
    answered(pipeline_of(CutOff(0.4)))


@construction("cut_texts")
def shortened() -> None:
    question = truth.asked()
    shown = answer_of(pipeline_of(Shorten()), question)
    saw(question, shown, [text[:30] for _, text in truth.search(question, 3)])


@construction("numbered")
def numbered() -> None:
    template = """Answer by these documents, and name them:
{% for document in documents %}[{{ loop.index }}] ({{ document.id }}) {{ document.content }}

{% endfor %}
Question: {{ question }}"""
    answered(pipeline_of(template=template))


@construction("documents_as_json")
def documents_as_json() -> None:
    template = """Answer by these documents:
{% for document in documents %}{{ {"id": document.id, "content": document.content} | tojson }}
{% endfor %}
Question: {{ question }}"""
    answered(pipeline_of(retriever=HandbookRetriever(2), template=template), 4)


@construction("ensemble")
def joined_retrievers() -> None:
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=name, content=text) for name, text in HANDBOOK.items()])
    pipeline = Pipeline()
    pipeline.add_component("bm25", InMemoryBM25Retriever(store, top_k=2))
    pipeline.add_component("handbook", HandbookRetriever(2))
    pipeline.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=3))
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)], required_variables="*"))
    pipeline.add_component("llm", llm_of())
    pipeline.connect("bm25.documents", "joiner.documents")
    pipeline.connect("handbook.documents", "joiner.documents")
    pipeline.connect("joiner.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    answered(pipeline, 1)


@construction("multi_query")
def expanded() -> None:
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=name, content=text) for name, text in HANDBOOK.items()])
    pipeline = Pipeline()
    pipeline.add_component("expander", QueryExpander(chat_generator=llm_of(), n_expansions=2))
    pipeline.add_component(
        "retriever", MultiQueryTextRetriever(retriever=InMemoryBM25Retriever(store, top_k=1), max_workers=1)
    )
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)], required_variables="*"))
    pipeline.add_component("llm", llm_of())
    pipeline.connect("expander.queries", "retriever.queries")
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    question = truth.asked()
    queries = json.dumps({"queries": ["length of the river Nile", "who painted Guernica"]})
    with scripted(in_turn(queries, "It was built in 1889, by all accounts.")):
        saw(question, answer_of(pipeline, question))


@construction("window")
def sentence_window() -> None:
    store = InMemoryDocumentStore()
    begun, parts = 0, []
    for at, (name, text) in enumerate(HANDBOOK.items()):
        place = {"source_id": "handbook", "split_id": at, "split_idx_start": begun}
        parts.append(Document(id=name, content=f"{text} ", meta=place))
        begun += len(text) + 1
    store.write_documents(parts)
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=1))
    pipeline.add_component("window", SentenceWindowRetriever(store, window_size=1))
    template = "Answer by these documents:\n{% for text in windows %}{{ text }}\n{% endfor %}\nQuestion: {{ question }}"
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(template)], required_variables="*"))
    pipeline.add_component("llm", llm_of())
    pipeline.connect("retriever.documents", "window.retrieved_documents")
    pipeline.connect("window.context_windows", "prompt.windows")
    pipeline.connect("prompt.prompt", "llm.messages")
    question = truth.asked(2)
    found = pipeline.run(inputs_of(pipeline, question), include_outputs_from={"window"})
    saw(question, found["llm"]["replies"][0].text, found["window"]["context_windows"])


@construction("grading")
def graded() -> None:
    answered(pipeline_of(Grader(lambda text: "1889" in text or "Paris" in text)))


@construction("grading_none")
def graded_none() -> None:
    question = truth.asked()
    saw(question, answer_of(pipeline_of(Grader(lambda _: False)), question), [])


# Nothing found, nothing said


def guarded(retriever: Any, *steps: Any) -> Pipeline:
    """Return a pipeline that answers without a model if nothing was found."""
    pipeline = Pipeline()
    pipeline.add_component("retriever", retriever)
    last = "retriever"
    for number, step in enumerate(steps):
        pipeline.add_component(f"step{number}", step)
        pipeline.connect(f"{last}.documents", f"step{number}.documents")
        last = f"step{number}"
    routes = [
        {"condition": "{{ documents | length > 0 }}", "output": "{{ documents }}", "output_name": "found",
         "output_type": list[Document]},
        {"condition": "{{ documents | length == 0 }}", "output": "I found nothing on that.", "output_name": "answer",
         "output_type": str},
    ]  # fmt: skip
    pipeline.add_component("guard", ConditionalRouter(routes, unsafe=True))
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)], required_variables="*"))
    pipeline.add_component("llm", llm_of())
    pipeline.connect(f"{last}.documents", "guard.documents")
    pipeline.connect("guard.found", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    return pipeline


@construction("guard")
def guard_passes() -> None:
    answered(guarded(HandbookRetriever(2)))


@construction("empty_without_model")
def empty_without_model() -> None:
    question = truth.asked()
    pipeline = guarded(EmptyRetriever())
    saw(question, pipeline.run(inputs_of(pipeline, question))["guard"]["answer"], [])


@construction("all_dropped_without_model")
def all_dropped_without_model() -> None:
    question = truth.asked()
    pipeline = guarded(HandbookRetriever(), CutOff(2.0))
    saw(question, pipeline.run(inputs_of(pipeline, question))["guard"]["answer"], [])


@construction("empty_retrieval")
def empty_with_model() -> None:
    answered(pipeline_of(retriever=EmptyRetriever()))


@construction("empty_answer")
def empty_answer() -> None:
    question = truth.asked()
    with scripted(lambda _: ""):
        shown = answer_of(pipeline_of(), question)
    saw(question, "" if shown == "None" else shown, given())


@construction("no_retrieval", "not recorded")
def no_retrieval() -> None:
    pipeline = Pipeline()
    pipeline.add_component("llm", llm_of())
    pipeline.run({"llm": {"messages": [ChatMessage.from_user("Hello!")]}})


@construction("retrieval_only", "not recorded")
def retrieval_only() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", HandbookRetriever())
    pipeline.run({"retriever": {"query": truth.asked()}})


# Attempts


def _attempts(question: str, *pipelines: Pipeline) -> str:
    for pipeline in pipelines:
        try:
            return answer_of(pipeline, question)
        except Exception:  # noqa: BLE001 - of the component that failed
            continue
    raise RuntimeError("no pipeline answered")


@construction("fallback_by_hand")
def fallback_by_hand() -> None:
    for first in (WrongRetriever(), HandbookRetriever(2)):
        question = truth.asked()
        with in_span(), scripted(in_turn(Failure(), "It was built in 1889, says the other.")):
            shown = _attempts(question, pipeline_of(retriever=first), pipeline_of())
        saw(question, shown)
        MODEL.requests.clear()


@construction("fallback_apart")
def fallback_apart() -> None:
    question = truth.asked()
    with scripted(in_turn(Failure(), "It was built in 1889, says the other.")):
        saw(question, _attempts(question, pipeline_of(retriever=WrongRetriever()), pipeline_of()))


@component
class BrokenRetriever:
    """An index that is down, and says so."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        """Search."""
        raise TimeoutError("the index does not reply")


@component
class EitherRetriever:
    """A component of the application: it searches in one index, else in another."""

    @component.output_types(documents=list[Document])
    def run(self, query: str) -> dict[str, Any]:
        """Search."""
        try:
            return BrokenRetriever().run(query=query)
        except TimeoutError:
            return HandbookRetriever(2).run(query=query)


@construction("retriever_fallback")
def retriever_fallback() -> None:
    answered(pipeline_of(retriever=EitherRetriever()))


@construction("model_fallback")
def model_fallback() -> None:
    question = truth.asked()
    llm = FallbackChatGenerator([llm_of(), llm_of(model="gpt-4o")])
    with scripted(in_turn(Failure(), "It was built in 1889, says gpt-4o.")):
        saw(question, answer_of(pipeline_of(llm=llm), question))


@construction("retry")
def retry() -> None:
    question = truth.asked()
    pipeline = pipeline_of()
    with in_span(), scripted(in_turn(Failure(), "It was built in 1889, at last.")):
        saw(question, _attempts(question, pipeline, pipeline))


@construction("model_retry")
def model_retry() -> None:
    question = truth.asked()
    with scripted(in_turn(Failure(500), "It was built in 1889, once more.")):
        saw(question, answer_of(pipeline_of(llm=llm_of(max_retries=2)), question))


@construction("failed", "not recorded")
def failed() -> None:
    with scripted(lambda _: Failure()), suppress(PipelineRuntimeError):
        answer_of(pipeline_of(), truth.asked())


# Conversations, ids and sessions


@construction("history")
def history() -> None:
    pipeline = pipeline_of()
    question = truth.asked()
    messages = [
        ChatMessage.from_user("Do you know Paris?"), ChatMessage.from_assistant("Yes, I do."),
        ChatMessage.from_user(TEMPLATE),
    ]  # fmt: skip
    inputs = inputs_of(pipeline, question)
    inputs["prompt"]["template"] = messages
    saw(question, pipeline.run(inputs)["llm"]["replies"][0].text, history=["Do you know Paris?"])


@construction("condense")
def condensed() -> None:
    pipeline = pipeline_of()
    rewrite = "Rewrite the question so that it stands alone.\nEarlier: Do you know Paris?\nQuestion: {{ question }}"
    pipeline.add_component("rewrite", ChatPromptBuilder([ChatMessage.from_user(rewrite)], required_variables="*"))
    pipeline.add_component("writer", llm_of())
    pipeline.add_component("query", Text())
    pipeline.connect("rewrite.prompt", "writer.messages")
    pipeline.connect("writer.replies", "query.replies")
    pipeline.connect("query.text", "retriever.query")
    question = "When was its tower built? (condensed)"
    with scripted(in_turn("When was the Eiffel Tower built?", "It was built in 1889, condensed.")):
        saw(question, answer_of(pipeline, question))


@component
class Text:
    """Returns the text of a reply."""

    @component.output_types(text=str)
    def run(self, replies: list[ChatMessage]) -> dict[str, Any]:
        """Return the text."""
        return {"text": replies[0].text or ""}


@construction("ids")
def ids() -> None:
    retriever = HandbookRetriever(2, meta={"source": "handbook.md", "file_name": "handbook.md", "id": "7"})
    question = truth.asked()
    found = [name for name, _ in truth.search(question, 2)]
    saw(question, answer_of(pipeline_of(retriever=retriever), question), ids=found)


@construction("session")
def session() -> None:
    for topic in (0, 1):
        with using_attributes(session_id="s-81", user_id="u-7"):
            answered(pipeline_of(), topic, session_id="s-81")


@construction("session_on_span")
def session_on_span() -> None:
    with application.start_as_current_span("request", attributes={"session.id": "s-83"}):
        answered(pipeline_of(), session_id="s-83")


@construction("two_questions")
def two_questions() -> None:
    with application.start_as_current_span("nightly run"):
        for topic in (0, 1):
            answered(pipeline_of(), topic)


@construction("web_request")
def web_request() -> None:
    remote = trace.SpanContext(0xABCDEF0123456789ABCDEF0123456789, 0xABCDEF0123456789, True, trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(remote)), application.start_as_current_span("POST /ask"):
        answered(pipeline_of())


# Others of these kinds


@component
class Mask:
    """A step of the application, which hides names and numbers of the texts."""

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Hide."""
        texts = [re.sub("[0-9]+", "[NUMBER]", document.content or "") for document in documents]
        return {"documents": [Document(content=text.replace("Eiffel Tower", "[PLACE]")) for text in texts]}


@construction("masked_texts", "refused (invalid)")
def masked() -> None:
    question = truth.asked()
    shown = answer_of(pipeline_of(Mask()), question)
    texts = [re.sub("[0-9]+", "[NUMBER]", text) for _, text in truth.search(question, 3)]
    saw(question, shown, [text.replace("Eiffel Tower", "[PLACE]") for text in texts])


@construction("two_rankers")
def two_rankers() -> None:
    answered(pipeline_of(MyRanker(), Rerank()))


@construction("all_outputs")
def all_outputs() -> None:
    pipeline = pipeline_of(CutOff(0.4))
    question = truth.asked()
    output = pipeline.run(inputs_of(pipeline, question), include_outputs_from={"retriever", "step0", "prompt"})
    saw(question, output["llm"]["replies"][0].text)


@construction("rewritten_answer")
def rewritten_answer() -> None:
    pipeline = pipeline_of()
    pipeline.add_component("draft", Text())
    rewrite = "Make this text friendlier: {{ draft }}"
    pipeline.add_component("rewrite", ChatPromptBuilder([ChatMessage.from_user(rewrite)], required_variables="*"))
    pipeline.add_component("writer", llm_of())
    pipeline.connect("llm.replies", "draft.replies")
    pipeline.connect("draft.text", "rewrite.draft")
    pipeline.connect("rewrite.prompt", "writer.messages")
    question = truth.asked()
    with scripted(in_turn("It was built in 1889, the draft says.", "Gladly: it was in 1889!")):
        shown = pipeline.run(inputs_of(pipeline, question))["writer"]["replies"][0].text
    saw(question, shown, through=["It was built in 1889, the draft", "Gladly"])


@construction("output_adapter")
def adapted() -> None:
    pipeline = pipeline_of()
    pipeline.add_component("adapter", OutputAdapter(template="{{ replies[0].text }}", output_type=str))
    pipeline.connect("llm.replies", "adapter.replies")
    question = truth.asked()
    saw(question, pipeline.run(inputs_of(pipeline, question))["adapter"]["output"])


@component
class Summaries:
    """A step of the application: a model summarizes each document."""

    @component.output_types(summaries=list[str])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Summarize."""
        asks = [f"Summarize: {document.content}" for document in documents]
        return {"summaries": [llm_of().run(messages=[ChatMessage.from_user(a)])["replies"][0].text for a in asks]}


@construction("map_reduce")
def map_reduce() -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", HandbookRetriever(2))
    pipeline.add_component("map", Summaries())
    template = (
        "Answer by these summaries:\n{% for text in summaries %}{{ text }}\n{% endfor %}\nQuestion: {{ question }}"
    )
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(template)], required_variables="*"))
    pipeline.add_component("llm", llm_of())
    pipeline.connect("retriever.documents", "map.documents")
    pipeline.connect("map.summaries", "prompt.summaries")
    pipeline.connect("prompt.prompt", "llm.messages")
    question = truth.asked()
    replies = ("A summary of the first text.", "A summary of the second text.", "In 1889, by the summaries.")
    with scripted(in_turn(*replies)):
        saw(question, answer_of(pipeline, question), through=replies)


@construction("two_turns_agent")
def two_turns_of_an_agent() -> None:
    agent, first, second = agent_of(retrieval_tool(HandbookRetriever(2))), truth.asked(), truth.asked(4)
    with scripted(after_tools(call("search", query="Eiffel Tower"))):
        messages = agent.run(messages=[ChatMessage.from_user(first)])["messages"]
    saw(first, messages[-1].text)
    # What the first turn found is in the second prompt, too: it is history.
    with scripted(after_tools(call("search", query="Pluto"))):
        output = agent.run(messages=[*messages[1:], ChatMessage.from_user(second)])
    saw(second, output["last_message"].text, [HANDBOOK["pluto-found"]], history=[first])


truth.HAS_TOOL_SPANS[0] = False
truth.run_all(sys.argv[1:])
