"""Constructions of LlamaIndex, as applications build them: engines, postprocessors, chats, agents and workflows."""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from typing import Any, ClassVar

import truth
from truth import HANDBOOK, MODEL, Failure, Reply, after_tools, call, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

LlamaIndexInstrumentor().instrument()

from llama_index.core import PromptTemplate, Settings, StorageContext, VectorStoreIndex
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.response.schema import Response
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.evaluation import RelevancyEvaluator
from llama_index.core.indices.query.query_transform import HyDEQueryTransform, StepDecomposeQueryTransform
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata, MessageRole
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    get_leaf_nodes,
)
from llama_index.core.postprocessor import (
    LLMRerank,
    LongContextReorder,
    MetadataReplacementPostProcessor,
    SentenceEmbeddingOptimizer,
    SimilarityPostprocessor,
    StructuredLLMRerank,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import (
    CitationQueryEngine,
    CustomQueryEngine,
    MultiStepQueryEngine,
    RetrieverQueryEngine,
    RetryQueryEngine,
    RouterQueryEngine,
    SubQuestionQueryEngine,
    TransformQueryEngine,
)
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.retrievers import AutoMergingRetriever, BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import Document, NodeWithScore, QueryBundle, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool, ToolSelection
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.llms.openai_like import OpenAILike
from openai import OpenAIError
from openinference.instrumentation import using_attributes
from opentelemetry import trace
from pydantic import BaseModel


class WordEmbedding(BaseEmbedding):
    """Counts words, so that the nearest nodes have the words of a question."""

    words: ClassVar = ("eiffel", "built", "nile", "long", "insulin", "pancreas", "titanic", "sank", "pluto", "guernica")

    def _get_text_embedding(self, text: str) -> list[float]:
        return [0.1, *(float(text.lower().count(word)) for word in self.words)]

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def llm_of(**options: Any) -> OpenAILike:
    given = {"model": "gpt-4o-mini", "max_retries": 0, "is_chat_model": True, **options}
    return OpenAILike(api_base=truth.URL, api_key="sk-test", is_function_calling_model=given["is_chat_model"], **given)


Settings.llm = llm_of()
Settings.embed_model = WordEmbedding(model_name="words")
completions = llm_of(is_chat_model=False)


class Handbook(BaseRetriever):
    """Searches the handbook, or a part of it."""

    def __init__(self, k: int = 3, only: str = "", metadata: dict[str, Any] | None = None) -> None:
        super().__init__()
        self._k, self._only, self._metadata = k, only, metadata or {}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = [item for item in truth.search(query_bundle.query_str, 12) if item[0].startswith(self._only)]
        return [
            NodeWithScore(node=TextNode(id_=name, text=text, metadata=self._metadata), score=1 / rank)
            for rank, (name, text) in enumerate(found[: self._k], 1)
        ]


class Wrong(Handbook):
    """Finds something else than what was asked."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return super()._retrieve(QueryBundle("insulin"))


class Nothing(BaseRetriever):
    """An index that is down, and does not say so."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return []


def engine_of(retriever: BaseRetriever | None = None, **options: Any) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(retriever or Handbook(), **options)


def index_of(**metadata: str) -> VectorStoreIndex:
    return VectorStoreIndex([TextNode(id_=name, text=text, metadata=metadata) for name, text in HANDBOOK.items()])


def in_turn(*replies: Reply) -> Callable[[list[dict[str, Any]]], Reply]:
    """Return a script that gives one reply after another."""
    left = list(replies)
    return lambda _: left.pop(0)


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns; all share a loop, because the client of the model keeps its connections."""
    return loop.run(main, context=copy_context())


def last_of(messages: Sequence[dict[str, Any]]) -> str:
    return truth.text_of(messages[-1])


handbook = index_of()
loop = asyncio.Runner()
application = trace.get_tracer("application")


# Query engines


@construction("chain")
def query() -> None:
    question = truth.asked()
    saw(question, str(handbook.as_query_engine(similarity_top_k=2).query(question)))


@construction("chain_async")
def queries() -> None:
    async def main() -> None:
        engine = handbook.as_query_engine(similarity_top_k=2)
        questions = [truth.asked(topic) for topic in range(3)]
        answers = await asyncio.gather(*(engine.aquery(question) for question in questions))
        for question, answer in zip(questions, answers, strict=True):
            saw(question, str(answer))

    run(main())


@construction("chain_stream")
def streamed() -> None:
    async def streamed_async(question: str) -> str:
        answer = await engine_of(streaming=True).aquery(question)
        return "".join([piece async for piece in answer.response_gen])

    question = truth.asked(1)
    saw(question, "".join(engine_of(streaming=True).query(question).response_gen))
    question = truth.asked(2)
    saw(question, run(streamed_async(question)))


@construction("completion_model")
def completed() -> None:
    question = truth.asked()
    saw(question, str(engine_of(llm=completions).query(question)))
    question = truth.asked(1)
    saw(question, "".join(engine_of(llm=completions, streaming=True).query(question).response_gen))


@construction("stream_closed", "refused (no_content)")
def stream_closed() -> None:
    question = truth.asked()
    pieces = engine_of(streaming=True).query(question).response_gen
    shown = next(pieces) + next(pieces)
    pieces.close()
    saw(question, shown)


@construction("stream_left", "refused (no_content)")
def stream_left() -> None:
    question = truth.asked(1)
    shown = ""
    for piece in engine_of(streaming=True).query(question).response_gen:
        shown += piece
        if len(shown) > 10:
            break
    saw(question, shown)


@construction("stream_cancelled", "refused (no_content)")
def stream_cancelled() -> None:
    async def main(question: str) -> str:
        answer = await engine_of(streaming=True).aquery(question)
        shown = ""
        async for piece in answer.response_gen:
            shown += piece
            if len(shown) > 10:
                break
        await answer.response_gen.aclose()
        return shown

    question = truth.asked(2)
    saw(question, run(main(question)))


# An answer of several prompts


@construction("refine")
def refined() -> None:
    question = truth.asked()
    replies = ("A first part.", "A second part.", "All of it.")
    with scripted(in_turn(*replies)):
        saw(question, str(engine_of(response_mode="refine").query(question)), through=replies)


@construction("map_reduce")
def summarized() -> None:
    def script(messages: list[dict[str, Any]]) -> str:
        parts = [name for name, text in HANDBOOK.items() if text in last_of(messages)]
        return f"A part about {' and '.join(parts)}." if parts else "A summary of the parts."

    question = truth.asked()
    filled = [TextNode(id_=name, text=f"{text}{' Nothing more is known.' * 20}") for name, text in HANDBOOK.items()]
    engine = VectorStoreIndex(filled).as_query_engine(
        similarity_top_k=3, response_mode="tree_summarize", llm=llm_of(context_window=420, max_tokens=64)
    )
    with scripted(script):
        answer = engine.query(question)
    # All texts went into the prompts, one of them in two parts.
    saw(question, str(answer), [node.text for node in answer.source_nodes])


@construction("tree_summarize")
def summarized_at_once() -> None:
    question = truth.asked()
    saw(question, str(engine_of(response_mode="tree_summarize").query(question)))


@construction("simple_summary")
def simply() -> None:
    question = truth.asked()
    saw(question, str(engine_of(response_mode="simple_summarize").query(question)))


@construction("accumulate")
def accumulated() -> None:
    question = truth.asked()
    replies = ("From the first.", "From the second.", "From the third.")
    with scripted(in_turn(*replies)):
        saw(question, str(engine_of(response_mode="accumulate").query(question)), through=replies)


@construction("retrieval_only", "not recorded")
def no_model() -> None:
    engine_of(response_mode="no_text").query(truth.asked())
    engine_of(response_mode="context_only").query(truth.asked())


# Steps between the retriever and the prompt


class Latest(BaseNodePostprocessor):
    """A step of the application: it keeps the texts with a number, in an order of its own."""

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None) -> Any:
        return sorted((node for node in nodes if re.search("[0-9]{3}", node.text)), key=lambda node: node.text[-3])


@construction("rerank_step")
def own_postprocessor() -> None:
    question = truth.asked()
    saw(question, str(engine_of(node_postprocessors=[Latest()]).query(question)))


@construction("ranker")
def llm_rerank() -> None:
    question = truth.asked()
    with scripted(in_turn("Doc: 3, Relevance: 9\nDoc: 1, Relevance: 4", "It was built in 1889, for the fair.")):
        saw(question, str(engine_of(node_postprocessors=[LLMRerank(top_n=2)]).query(question)))


@construction("reorder")
def reordered() -> None:
    question = truth.asked()
    saw(question, str(engine_of(Handbook(4), node_postprocessors=[LongContextReorder()]).query(question)))


@construction("window")
def sentence_window() -> None:
    question = truth.asked()
    parser = SentenceWindowNodeParser.from_defaults(window_size=1)
    nodes = parser.get_nodes_from_documents([Document(text=" ".join(HANDBOOK.values()), id_="handbook")])
    engine = VectorStoreIndex(nodes).as_query_engine(
        similarity_top_k=1, node_postprocessors=[MetadataReplacementPostProcessor(target_metadata_key="window")]
    )
    answer = engine.query(question)
    saw(question, str(answer), [answer.source_nodes[0].text])


@construction("cut_off")
def cut_off() -> None:
    question = truth.asked()
    step = SimilarityPostprocessor(similarity_cutoff=0.4)
    saw(question, str(engine_of(node_postprocessors=[step]).query(question)))
    question = truth.asked(1)
    saw(question, str(run(_aquery(engine_of(node_postprocessors=[step]), question))))


@construction("cut_texts")
def cut_texts() -> None:
    question = truth.asked()
    texts = [" ".join(list(HANDBOOK.values())[at : at + 3]) for at in (0, 3)]
    index = VectorStoreIndex([TextNode(id_=f"part-{at}", text=text) for at, text in enumerate(texts)])
    engine = index.as_query_engine(
        similarity_top_k=2,
        node_postprocessors=[SentenceEmbeddingOptimizer(embed_model=Settings.embed_model, percentile_cutoff=0.4)],
    )
    answer = engine.query(question)
    saw(question, str(answer), [node.text for node in answer.source_nodes])


async def _aquery(engine: Any, question: str) -> Any:
    return await engine.aquery(question)


@construction("empty_without_model")
def empty() -> None:
    question = truth.asked()
    saw(question, str(engine_of(Nothing()).query(question)), [])
    question = truth.asked()
    saw(question, str(run(_aquery(engine_of(Nothing()), question))), [])
    question = truth.asked()
    saw(question, str(ContextChatEngine.from_defaults(Nothing()).chat(question)), [])


@construction("all_dropped_without_model")
def all_dropped() -> None:
    question = truth.strange()
    step = SimilarityPostprocessor(similarity_cutoff=1.1)
    saw(question, str(handbook.as_query_engine(node_postprocessors=[step]).query(question)), [])


@construction("empty_without_model_stream", "refused (no_content)")
def empty_streamed() -> None:
    question = truth.asked()
    saw(question, "".join(engine_of(Nothing(), streaming=True).query(question).response_gen), [])


def _given() -> list[str]:
    """Return the documents in the last prompt."""
    prompt = truth.prompt_of(MODEL.requests[-1][0])
    return [text for text in HANDBOOK.values() if text in prompt]


@construction("empty_answer")
def empty_answer() -> None:
    with scripted(lambda _: ""):
        question = truth.asked()
        shown = engine_of().query(question).response
        saw(question, shown, _given())
        question = truth.asked()
        shown = "".join(engine_of(streaming=True).query(question).response_gen)
        saw(question, shown, _given())


class Grader(BaseNodePostprocessor):
    """A step of the application: a model says which texts are about the question."""

    keeps: Callable[[str], bool]

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None) -> Any:
        question = query_bundle.query_str if query_bundle else ""
        asks = [f"Is this text about the question? Say yes or no.\n{node.text}\n{question}" for node in nodes]
        with scripted(lambda messages: "yes" if self.keeps(last_of(messages)) else "no"):
            grades = [Settings.llm.complete(ask).text for ask in asks]
        return [node for node, grade in zip(nodes, grades, strict=True) if grade == "yes"]


@construction("grading")
def graded() -> None:
    question = truth.asked()
    step = Grader(keeps=lambda text: "1889" in text or "Paris" in text)
    saw(question, str(engine_of(node_postprocessors=[step]).query(question)))


@construction("grading_none")
def graded_none() -> None:
    question = truth.asked()
    saw(question, str(engine_of(node_postprocessors=[Grader(keeps=lambda _: False)]).query(question)), [])


# Engines of engines


def tools_of(**options: Any) -> list[QueryEngineTool]:
    return [
        QueryEngineTool.from_defaults(engine_of(Handbook(2, only=only), **options), name=only, description=only)
        for only in ("tower", "nile")
    ]


@construction("router")
def routed() -> None:
    question = truth.asked(1)
    selector = LLMSingleSelector.from_defaults()
    engine = RouterQueryEngine.from_defaults(tools_of(), selector=selector)
    with scripted(in_turn('[{"choice": 2, "reason": "a river"}]', "It is 6650 kilometres long, along its course.")):
        saw(question, str(engine.query(question)))


@construction("ensemble")
def ensemble() -> None:
    question = truth.asked()
    retriever = QueryFusionRetriever(
        [handbook.as_retriever(similarity_top_k=2), Handbook(2)], similarity_top_k=3, num_queries=1, use_async=False
    )
    saw(question, str(engine_of(retriever).query(question)))


@construction("numbered")
def cited() -> None:
    question = truth.asked()
    engine = CitationQueryEngine.from_args(handbook, retriever=Handbook(2))
    with scripted(lambda _: "It was built in 1889 [1]."):
        saw(question, str(engine.query(question)))


@construction("multi_query")
def fused() -> None:
    question = truth.asked()
    retriever = QueryFusionRetriever(
        [handbook.as_retriever(similarity_top_k=2)], similarity_top_k=3, num_queries=3, use_async=False
    )
    with scripted(in_turn("the Nile\ninsulin", "It was built in 1889, by all accounts.")):
        saw(question, str(engine_of(retriever).query(question)))


SUBS = (("When was the Eiffel Tower built?", "tower"), ("How long is the river Nile?", "nile"))


@construction("sub_questions")
def sub_questions() -> None:
    def script(messages: list[dict[str, Any]]) -> str:
        text = truth.prompt_of(messages)
        if "<User Question>" in text:
            return json.dumps([{"sub_question": sub, "tool_name": name} for sub, name in SUBS])
        if "Sub question:" in text:
            return "Both together."
        return "In 1889." if "Eiffel" in text else "6650 kilometres."

    for use_async in (False, True):
        question = f"{truth.asked()} And how long is the Nile?"
        generator = LLMQuestionGenerator.from_defaults()
        engine = SubQuestionQueryEngine.from_defaults(
            tools_of(), question_gen=generator, use_async=use_async, verbose=False
        )
        begun = len(MODEL.requests)
        with scripted(script):
            shown = str(run(_aquery(engine, question)) if use_async else engine.query(question))
        del MODEL.requests[:begun]
        parallel = {"documents_in_any_order": True} if use_async else {}
        saw(question, shown, through=["Both together.", "In 1889.", "6650 kilometres."], **parallel)


@construction("discarded_attempt")
def checked() -> None:
    question = truth.asked()
    engine = RetryQueryEngine(engine_of(), RelevancyEvaluator(), max_retries=1)
    with scripted(in_turn("Nobody knows.", "NO", "It was built in 1889, after all.", "YES")):
        saw(question, str(engine.query(question)))


@construction("hyde")
def hyde() -> None:
    question = truth.asked()
    engine = TransformQueryEngine(engine_of(), HyDEQueryTransform(include_original=True))
    with scripted(in_turn("The Eiffel Tower was built by many people.", "It was built in 1889, in the end.")):
        saw(question, str(engine.query(question)))


@construction("multi_step")
def multi_step() -> None:
    question = f"{truth.asked()} And how high is it?"
    transform = StepDecomposeQueryTransform(Settings.llm)
    engine = MultiStepQueryEngine(engine_of(Handbook(1)), transform, index_summary="A handbook.", num_steps=2)
    replies = (
        "When was the Eiffel Tower built?", "In 1889.", "How high is the Eiffel Tower, in metres?", "330 metres.",
        "In 1889, and 330 metres.",
    )  # fmt: skip
    with scripted(in_turn(*replies)):
        saw(question, str(engine.query(question)), through=["In 1889", "330 metres."])


class Year(BaseModel):
    """A year, with what happened."""

    year: int
    event: str


@construction("structured")
def structured() -> None:
    question = truth.asked()
    replies = [call("Year", year=1889, event="The tower was built.")]
    with scripted(lambda _: replies[0]):
        answer = engine_of(output_cls=Year, response_mode="simple_summarize").query(question)
    saw(question, str(answer), _given())


# Plain code


class FromScratch(CustomQueryEngine):
    """An engine of the application."""

    retriever: BaseRetriever

    def custom_query(self, query_str: str) -> Response:
        texts = "\n\n".join(node.text for node in self.retriever.retrieve(query_str))
        return Response(str(Settings.llm.complete(f"Context:\n{texts}\n\nQuestion: {query_str}\nAnswer:")))


@construction("no_common_span", "not recorded")
def no_common_span() -> None:
    question = truth.asked()
    texts = "\n".join(node.text for node in Handbook().retrieve(question))
    Settings.llm.complete(f"{texts}\n\nQuestion: {question}")


@construction("custom")
def custom_engine() -> None:
    question = truth.asked()
    saw(question, str(FromScratch(retriever=Handbook()).query(question)))


@construction("common_span")
def common_span() -> None:
    question = truth.asked(1)
    with in_span():
        texts = "\n".join(f"- {node.text}" for node in Handbook().retrieve(question)[:2])
        messages = [ChatMessage(role="system", content=f"Answer by:\n{texts}"), ChatMessage(content=question)]
        saw(question, Settings.llm.chat(messages).message.content or "")


class Corrective(CustomQueryEngine):
    """An engine of the application: it searches again with other words, and forgets what it found before."""

    def custom_query(self, query_str: str) -> Response:
        nodes = Wrong().retrieve(query_str)
        if not any("Eiffel" in node.text for node in nodes):
            nodes = Handbook(2).retrieve(f"{query_str} tower")
        texts = "\n\n".join(node.text for node in nodes)
        return Response(str(Settings.llm.complete(f"Context:\n{texts}\n\nQuestion: {query_str}\nAnswer:")))


@construction("empty_retrieval")
def empty_with_model() -> None:
    question = truth.strange()
    saw(question, str(FromScratch(retriever=Nothing()).query(question)), [])


@construction("second_retrieval")
def second_retrieval() -> None:
    question = truth.asked()
    saw(question, str(Corrective().query(question)))


class Search(Event):
    """What was found."""

    texts: list[str]
    question: str


class Steps(Workflow):
    """A workflow of the application: it searches, and then answers."""

    @step
    async def search(self, event: StartEvent) -> Search:
        nodes = await Handbook().aretrieve(event.question)
        return Search(texts=[node.text for node in nodes if "1889" in node.text], question=event.question)

    @step
    async def answer(self, event: Search) -> StopEvent:
        prompt = "Answer by these documents:\n{}\n\nQuestion: {}".format("\n".join(event.texts), event.question)
        return StopEvent(result=(await Settings.llm.acomplete(prompt)).text)


@construction("workflow")
def workflow() -> None:
    async def main(question: str) -> str:
        return str(await Steps(timeout=30).run(question=question))

    question = truth.asked()
    saw(question, run(main(question)))


# Failures


def in_span() -> Any:
    """Open a span of the application."""
    return application.start_as_current_span("answer")


def _attempts(question: str, *engines: Any) -> str:
    for engine in engines:
        try:
            return str(engine.query(question))
        except OpenAIError:
            continue
    raise RuntimeError("no engine answered")


@construction("fallback_by_hand")
def fallback() -> None:
    for engines in ((engine_of(Wrong()), engine_of()), (engine_of(), engine_of(Handbook(2)))):
        question = truth.asked()
        with (
            scripted(in_turn(Failure(), "It was built in 1889, says the other.")),
            application.start_as_current_span("answer"),
        ):
            shown = _attempts(question, *engines)
        saw(question, shown)
        MODEL.requests.clear()


@construction("fallback_apart")
def fallback_apart() -> None:
    question = truth.asked()
    with scripted(in_turn(Failure(), "It was built in 1889, says the other.")):
        saw(question, _attempts(question, engine_of(Wrong()), engine_of()))


@construction("model_fallback")
def model_fallback() -> None:
    class Either(CustomQueryEngine):
        def custom_query(self, query_str: str) -> Response:
            texts = "\n\n".join(node.text for node in Handbook().retrieve(query_str))
            prompt = f"Context:\n{texts}\n\nQuestion: {query_str}\nAnswer:"
            try:
                return Response(Settings.llm.complete(prompt).text)
            except OpenAIError:
                return Response(llm_of(model="gpt-4o").complete(prompt).text)

    question = truth.asked()
    with (
        scripted(in_turn(Failure(), "It was built in 1889, says gpt-4o.")),
        application.start_as_current_span("answer"),
    ):
        saw(question, str(Either().query(question)))


@construction("retry")
def retry() -> None:
    question = truth.asked()
    engine = engine_of()
    with in_span(), scripted(in_turn(Failure(), "It was built in 1889, at last.")):
        saw(question, _attempts(question, engine, engine))


@construction("model_retry")
def model_retry() -> None:
    question = truth.asked()
    with scripted(in_turn(Failure(500), "It was built in 1889, once more.")):
        saw(question, str(engine_of(llm=llm_of(max_retries=2)).query(question)))


@construction("failed", "not recorded")
def failed() -> None:
    with scripted(lambda _: Failure()):
        try:
            engine_of().query(truth.asked())
        except OpenAIError:
            return


# Ids, metadata and sessions


@construction("ids")
def ids() -> None:
    question = truth.asked()
    retriever = Handbook(2, metadata={"source": "handbook.md", "file_name": "handbook.md"})
    answer = engine_of(retriever).query(question)
    saw(question, str(answer), ids=[node.node_id for node in answer.source_nodes])


@construction("metadata_in_text")
def metadata_in_text() -> None:
    question = truth.asked()
    answer = index_of(file_name="handbook.md", title="The handbook").as_query_engine(similarity_top_k=2).query(question)
    saw(question, str(answer), ids=[node.node_id for node in answer.source_nodes])


@construction("session")
def session() -> None:
    for topic in (0, 1):
        question = truth.asked(topic)
        with using_attributes(session_id="s-81", user_id="u-7"):
            saw(question, str(engine_of().query(question)), session_id="s-81")
    question = truth.asked(2)
    with using_attributes(session_id="s-82"), scripted(after_tools(call("search", input="insulin made"))):
        saw(question, _run(FunctionAgent(tools=[tool_of(Handbook(2))], streaming=False), question), session_id="s-82")


@construction("session_on_span")
def session_on_span() -> None:
    question = truth.asked()
    with application.start_as_current_span("request", attributes={"session.id": "s-83"}):
        saw(question, str(engine_of().query(question)), session_id="s-83")
    question = truth.asked(2)
    with (
        application.start_as_current_span("request", attributes={"session.id": "s-84"}),
        scripted(after_tools(call("search", input="insulin made"))),
    ):
        saw(question, _run(FunctionAgent(tools=[tool_of(Handbook(2))], streaming=False), question), session_id="s-84")


@construction("two_questions")
def two_questions() -> None:
    with application.start_as_current_span("nightly run"):
        for topic in (0, 1):
            question = truth.asked(topic)
            saw(question, str(engine_of().query(question)))


@construction("web_request")
def web_request() -> None:
    question = truth.asked()
    remote = trace.SpanContext(0xABCDEF0123456789ABCDEF0123456789, 0xABCDEF0123456789, True, trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(remote)), application.start_as_current_span("POST /ask"):
        saw(question, str(engine_of().query(question)))


# Chats


HISTORY = [("Do you know Paris?", "Yes, I do.")]


def _history() -> list[ChatMessage]:
    roles = (MessageRole.USER, MessageRole.ASSISTANT)
    return [ChatMessage(role=role, content=text) for turn in HISTORY for role, text in zip(roles, turn, strict=True)]


@construction("condense")
def condense_question() -> None:
    question = "When was its tower built? (condensed)"
    engine = CondenseQuestionChatEngine.from_defaults(engine_of())
    with scripted(in_turn("When was the Eiffel Tower built?", "It was built in 1889, condensed.")):
        saw(question, str(engine.chat(question, chat_history=_history())))


@construction("condense_context")
def condense_plus_context() -> None:
    question = "When was its tower built? (with context)"
    engine = CondensePlusContextChatEngine.from_defaults(Handbook())
    with scripted(in_turn("When was the Eiffel Tower built?", "It was built in 1889, with context.")):
        saw(question, str(engine.chat(question, chat_history=_history())), history=["Do you know Paris?"])


@construction("condense_completion")
def condense_by_completion() -> None:
    replies = ("When was the Eiffel Tower built?", "It was built in 1889, as completed.")
    for engine in (
        CondenseQuestionChatEngine.from_defaults(engine_of(llm=completions), llm=completions),
        CondensePlusContextChatEngine.from_defaults(Handbook(), llm=completions),
    ):
        question = f"When was its tower built? ({type(engine).__name__})"
        with scripted(in_turn(*replies)):
            saw(question, str(engine.chat(question, chat_history=_history())))
        MODEL.requests.clear()


@construction("history")
def context_chat() -> None:
    question = truth.asked()
    engine = ContextChatEngine.from_defaults(Handbook(), system_prompt="You answer.")
    saw(question, str(engine.chat(question, chat_history=_history())), history=["Do you know Paris?"])
    question = truth.asked(1)
    engine = CondensePlusContextChatEngine.from_defaults(Handbook())
    saw(question, "".join(engine.stream_chat(question).response_gen))


@construction("history_completion")
def context_chat_by_completion() -> None:
    question = truth.asked()
    engine = ContextChatEngine.from_defaults(Handbook(), llm=completions)
    saw(question, str(engine.chat(question, chat_history=_history())))


# Agents


def _run(agent: Any, question: str) -> str:
    async def main() -> str:
        return str(await agent.run(question))

    return str(run(main()))


def tool_of(retriever: BaseRetriever, name: str = "search") -> RetrieverTool:
    return RetrieverTool.from_defaults(retriever, name=name, description="Searches the handbook.")


def agent_of(*tools: Any, **options: Any) -> FunctionAgent:
    made = [
        FunctionTool.from_defaults(tool) if callable(tool) and not hasattr(tool, "metadata") else tool for tool in tools
    ]
    return FunctionAgent(tools=made, system_prompt="You answer by the handbook.", **{"streaming": False, **options})


def search_text(query: str) -> str:
    """Search the handbook, and return one text."""
    return "\n\n".join(text for _, text in truth.search(query, 2))


def search_json(query: str) -> str:
    """Search the handbook, and return JSON."""
    return json.dumps([{"id": name, "text": text, "score": 0.5} for name, text in truth.search(query, 2)])


def search_results(query: str) -> dict[str, Any]:
    """Search the handbook, and return an object."""
    return {"results": [{"id": name, "text": text} for name, text in truth.search(query, 2)]}


def search_list(query: str) -> list[str]:
    """Search the handbook, and return a list."""
    return [text for _, text in truth.search(query, 2)]


def search_objects(query: str) -> list[dict[str, str]]:
    """Search the handbook, and return objects."""
    return [{"id": name, "text": text} for name, text in truth.search(query, 2)]


def weather(city: str) -> str:
    """Return the weather of a city."""
    return truth.WEATHER


def search_index(query: str) -> str:
    """Search the handbook, whose index is down."""
    raise TimeoutError("the index does not reply")


@construction("agent")
def agent() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search", input="Eiffel Tower year"))):
        saw(question, _run(agent_of(tool_of(Handbook())), question))


@construction("agent_stream")
def agent_streamed() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search", input="Eiffel Tower year"))):
        saw(question, _run(agent_of(tool_of(Handbook()), streaming=True), question))


@construction("joined_text_tool")
def agent_with_text_tool() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search_text", query="Eiffel Tower year"))):
        saw(question, _run(agent_of(search_text), question), [search_text("Eiffel Tower year")])


def _with_json(function: Callable[[str], Any]) -> None:
    question = truth.asked(4)
    with scripted(after_tools(call(function.__name__, query="Pluto"))):
        saw(question, _run(agent_of(function), question))
    question = truth.asked()
    with scripted(after_tools(call(function.__name__, query="Eiffel Tower"))):
        saw(question, _run(agent_of(function), question))


@construction("json_tool")
def agent_with_json_tool() -> None:
    _with_json(search_json)


@construction("results_tool")
def agent_with_results_tool() -> None:
    _with_json(search_results)


@construction("list_tool")
def agent_with_list_tool() -> None:
    _with_json(search_list)


@construction("objects_tool")
def agent_with_objects_tool() -> None:
    _with_json(search_objects)


@construction("agent_two_tools")
def agent_with_two_tools() -> None:
    script = after_tools(truth.Calls((("rivers", {"input": "river Nile"}), ("space", {"input": "Pluto"}))))
    question = f"{truth.asked(4)} And how long is the Nile?"
    with scripted(script):
        tools = tool_of(Handbook(2), "rivers"), tool_of(Handbook(1), "space")
        saw(question, _run(agent_of(*tools), question))


@construction("agent_two_rounds")
def agent_with_two_rounds() -> None:
    question = f"{truth.asked(1)} And who discovered Pluto?"
    with scripted(after_tools(call("rivers", input="river Nile"), call("space", input="Pluto"))):
        tools = tool_of(Handbook(2), "rivers"), tool_of(Handbook(1), "space")
        saw(question, _run(agent_of(*tools), question))
    question = f"{truth.asked()} And how warm is it there?"
    with scripted(after_tools(call("search_objects", query="Eiffel Tower"), call("weather", city="Paris"))):
        saw(question, _run(agent_of(search_objects, weather), question))


@construction("agent_empty")
def agent_finds_nothing() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search", input="Eiffel Tower"), final=lambda _: "I do not know.")):
        saw(question, _run(agent_of(tool_of(Nothing())), question), [])
    question = truth.asked()
    with scripted(after_tools(call("search_objects", query="kangaroo"), final=lambda _: "I do not know it.")):
        saw(question, _run(agent_of(search_objects), question), [])


@construction("tool_error_only")
def agent_tool_fails() -> None:
    question = truth.asked()
    with scripted(after_tools(call("search_index", query="Eiffel"), final=lambda _: "I cannot search.")):
        saw(question, _run(agent_of(search_index), question), failed=1)


@construction("agent_without_search", "not recorded")
def agent_without_search() -> None:
    with scripted(lambda _: "Hello to you, too."):
        _run(agent_of(tool_of(Handbook())), "Hello!")


@construction("no_retrieval", "not recorded")
def no_retrieval() -> None:
    Settings.llm.chat([ChatMessage(content="Hello!")])
    SimpleChatEngine.from_defaults().chat("Hello!")


class OwnModel(FunctionCallingLLM):
    """A model of the application, which writes its calls of tools in a way of its own."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="own-model", is_chat_model=True, is_function_calling_model=True)

    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        prompt = [{"role": message.role.value, "content": message.content} for message in messages]
        reply = MODEL.script(prompt)
        MODEL.requests.append((prompt, reply))
        if isinstance(reply, str):
            return ChatResponse(message=ChatMessage(role="assistant", content=reply))
        calls = {"own_calls": [{"function_name": name, "args": args} for name, args in reply.tools]}
        return ChatResponse(message=ChatMessage(role="assistant", content="", additional_kwargs=calls))

    def _prepare_chat_with_tools(self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any) -> Any:
        return {"messages": chat_history}

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:
        calls = response.message.additional_kwargs.get("own_calls", ())
        return [ToolSelection(tool_id="1", tool_name=one["function_name"], tool_kwargs=one["args"]) for one in calls]

    def chat(self, messages: Sequence[ChatMessage], **_: Any) -> Any:
        raise NotImplementedError

    complete = stream_chat = stream_complete = acomplete = astream_chat = astream_complete = chat


@construction("own_tool_calls")
def agent_with_own_model() -> None:
    question = truth.asked()
    with scripted(in_turn(call("search", input="Eiffel Tower year"), "It was built in 1889, says the own model.")):
        agent = FunctionAgent(tools=[tool_of(Handbook())], llm=OwnModel(), streaming=False)
        saw(question, _run(agent, question))


def _react(*steps: tuple[str, str], answer: str) -> list[str]:
    calls = [f'Thought: I need a tool.\nAction: {tool}\nAction Input: {{"input": "{text}"}}' for tool, text in steps]
    return [*calls, f"Thought: I can answer without using any more tools.\nAnswer: {answer}"]


@construction("react")
def react() -> None:
    for streaming in (False, True):
        question = truth.asked()
        replies = _react(("search", "Eiffel Tower year"), answer="It was built in 1889, as I found.")
        with scripted(in_turn(*replies)):
            agent = ReActAgent(tools=[tool_of(Handbook())], streaming=streaming)
            saw(question, _run(agent, question), through=replies[-1:], calls=[(1, "search")])
        MODEL.requests.clear()


@construction("react_two_rounds")
def react_with_two_rounds() -> None:
    question = f"{truth.asked(1)} And who discovered Pluto?"
    replies = _react(("rivers", "river Nile"), ("space", "Pluto"), answer="6650 kilometres, and Tombaugh.")
    with scripted(in_turn(*replies)):
        agent = ReActAgent(tools=[tool_of(Handbook(2), "rivers"), tool_of(Handbook(1), "space")], streaming=False)
        saw(question, _run(agent, question), through=replies[-1:], calls=[(1, "rivers"), (2, "space")])


@construction("chain_as_tool")
def engine_as_tool() -> None:
    question = truth.asked()
    replies = (call("tower", input="year of the Eiffel Tower"), "In 1889.", "Finally: in 1889, says the tool.")
    with scripted(in_turn(*replies)):
        saw(question, _run(agent_of(*tools_of()), question), through=["In 1889.", "Finally"])
    MODEL.requests.clear()
    question = truth.asked()
    first, last = _react(("tower", "year of the Eiffel Tower"), answer="It was in 1889, says the engine.")
    with scripted(in_turn(first, "In 1889.", last)):
        agent = ReActAgent(tools=tools_of(), streaming=False)
        saw(question, _run(agent, question), through=["In 1889.", last], calls=[(1, "tower")])


@construction("sub_agents")
def handoff() -> None:
    researcher = FunctionAgent(
        name="researcher", description="Finds facts.", tools=[tool_of(Handbook(2))], can_handoff_to=["writer"],
        streaming=False,
    )  # fmt: skip
    writer = FunctionAgent(
        name="writer", description="Writes.", tools=[FunctionTool.from_defaults(weather)], streaming=False
    )
    question = truth.asked()
    replies = (
        call("search", input="Eiffel Tower"),
        call("handoff", to_agent="writer", reason="The facts are there."),
        "Finally: it was built in 1889.",
    )
    with scripted(in_turn(*replies)):
        saw(question, _run(AgentWorkflow(agents=[researcher, writer], root_agent="researcher"), question))


@construction("agent_as_tool")
def agent_as_tool() -> None:
    async def ask_researcher(task: str) -> str:
        """Let a researcher find facts."""
        return str(await agent_of(tool_of(Handbook(2))).run(task))

    question = truth.asked()
    replies = (
        call("ask_researcher", task="Find the year of the tower."),
        call("search", input="Eiffel Tower"),
        "The tower is of 1889, says the researcher.",
        "Finally: it was built in 1889.",
    )
    with scripted(in_turn(*replies)):
        shown = _run(agent_of(FunctionTool.from_defaults(async_fn=ask_researcher)), question)
    saw(question, shown, through=["The tower is of 1889", "Finally"])


# Others of these kinds


class Masked(BaseNodePostprocessor):
    """A step of the application, which hides names and numbers of the texts."""

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None) -> Any:
        masked = [re.sub("[0-9]+", "[NUMBER]", node.text).replace("Eiffel Tower", "[PLACE]") for node in nodes]
        return [
            NodeWithScore(node=TextNode(id_=node.node_id, text=text), score=node.score)
            for node, text in zip(nodes, masked, strict=True)
        ]


@construction("masked_texts", "refused (invalid)")
def masked() -> None:
    question = truth.asked()
    answer = engine_of(node_postprocessors=[Masked()]).query(question)
    saw(question, str(answer), [node.text for node in answer.source_nodes])


@construction("structured_ranker")
def structured_rerank() -> None:
    question = truth.asked()
    ranks = [{"document_number": 3, "relevance": 9}, {"document_number": 1, "relevance": 4}]
    ranked = call("DocumentRelevanceList", documents=ranks)
    with scripted(in_turn(ranked, "It was built in 1889, by its rank.")):
        saw(question, str(engine_of(node_postprocessors=[StructuredLLMRerank(top_n=2)]).query(question)))


@construction("two_rankers")
def two_rankers() -> None:
    question = truth.asked()
    steps = [SimilarityPostprocessor(similarity_cutoff=0.3), Latest(), LongContextReorder()]
    saw(question, str(engine_of(Handbook(4), node_postprocessors=steps).query(question)))


@construction("auto_merging")
def auto_merging() -> None:
    question = truth.asked()
    text = " ".join(HANDBOOK.values())
    nodes = HierarchicalNodeParser.from_defaults(chunk_sizes=[128, 32], chunk_overlap=0).get_nodes_from_documents(
        [Document(text=text, id_="handbook")]
    )
    store = SimpleDocumentStore()
    store.add_documents(nodes)
    index = VectorStoreIndex(get_leaf_nodes(nodes))
    retriever = AutoMergingRetriever(
        index.as_retriever(similarity_top_k=3), StorageContext.from_defaults(docstore=store), simple_ratio_thresh=0.3
    )
    answer = engine_of(retriever).query(question)
    saw(question, str(answer), [node.text for node in answer.source_nodes])


@construction("chunks")
def overlapping_chunks() -> None:
    question = truth.asked()
    splitter = SentenceSplitter(chunk_size=40, chunk_overlap=15)
    nodes = splitter.get_nodes_from_documents([Document(text=" ".join(HANDBOOK.values()), id_="handbook")])
    answer = VectorStoreIndex(nodes).as_query_engine(similarity_top_k=3).query(question)
    saw(question, str(answer), [node.text for node in answer.source_nodes])


@construction("return_direct")
def tool_answers() -> None:
    def search_and_answer(query: str) -> str:
        """Answer by the handbook."""
        texts = "\n\n".join(node.text for node in Handbook(2).retrieve(query))
        return Settings.llm.complete(f"Context:\n{texts}\n\nQuestion: {query}\nAnswer:").text

    question = truth.asked()
    tool = FunctionTool.from_defaults(search_and_answer, return_direct=True)
    with scripted(in_turn(call("search_and_answer", query="Eiffel Tower year"), "It was in 1889, directly.")):
        saw(question, _run(agent_of(tool), question))


@construction("two_turns")
def two_turns_of_a_chat() -> None:
    engine = ContextChatEngine.from_defaults(Handbook(2))
    first, second = truth.asked(), truth.asked(4)
    saw(first, str(engine.chat(first)))
    saw(second, str(engine.chat(second)), history=[first])


@construction("two_turns_agent")
def two_turns_of_an_agent() -> None:
    agent, first, second = agent_of(tool_of(Handbook(2))), truth.asked(), truth.asked(4)
    memory = Memory.from_defaults(session_id="two turns")

    async def main(question: str) -> str:
        return str(await agent.run(question, memory=memory))

    with scripted(after_tools(call("search", input="Eiffel Tower"))):
        saw(first, str(run(main(first))))
    # What the first turn found is in the second prompt, too: it is history.
    with scripted(after_tools(call("search", input="Pluto"))):
        saw(second, str(run(main(second))), [HANDBOOK["pluto-found"]], history=[first])


@construction("events")
def agent_with_events() -> None:
    async def main(question: str) -> str:
        handler = agent_of(tool_of(Handbook(2)), streaming=True).run(question)
        pieces = [event.delta async for event in handler.stream_events() if isinstance(event, AgentStream)]
        await handler
        return "".join(pieces)

    question = truth.asked()
    with scripted(after_tools(call("search", input="Eiffel Tower"))):
        saw(question, run(main(question)))


@construction("rewritten_answer")
def rewritten_answer() -> None:
    class Rewriting(CustomQueryEngine):
        def custom_query(self, query_str: str) -> Response:
            draft = str(engine_of().query(query_str))
            return Response(Settings.llm.complete(f"Make this text friendlier: {draft}").text)

    question = truth.asked()
    with scripted(in_turn("It was built in 1889, the draft says.", "Gladly: it was in 1889!")):
        saw(question, str(Rewriting().query(question)), through=["It was built in 1889, the draft", "Gladly"])


@construction("own_template")
def own_template() -> None:
    question = truth.asked(4)
    template = PromptTemplate(
        "You answer in one sentence.\n\n<documents>\n{context_str}\n</documents>\n\nThe user asks: {query_str}"
    )
    saw(question, str(engine_of(text_qa_template=template).query(question)))


@construction("web_search")
def search_api_answers() -> None:
    def search_web(query: str) -> str:
        """Search the web."""
        return "According to 3 pages the Eiffel Tower was finished in 1889."

    question = truth.asked()
    with scripted(after_tools(call("search_web", query="Eiffel Tower"))):
        saw(question, _run(agent_of(search_web), question), [search_web("")])


truth.run_all(sys.argv[1:])
