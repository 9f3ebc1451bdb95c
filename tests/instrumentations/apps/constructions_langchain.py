"""Constructions of LangChain, as applications build them: chains, fallbacks, rerankers, agents and tools."""

import asyncio
import html
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import truth
from truth import by_prompt, call, construction, saw, scripted

from ragtide import otel

otel.configure(pipeline="helpdesk")

from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor

LangChainInstrumentor().instrument()

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_classic.chains import RetrievalQA, create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import ContextualCompressionRetriever, EnsembleRetriever, MultiQueryRetriever
from langchain_classic.retrievers.document_compressors import LLMChainExtractor
from langchain_core.caches import InMemoryCache
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnablePassthrough,
    RunnableWithMessageHistory,
)
from langchain_core.runnables import (
    chain as runnable,
)
from langchain_core.tools import create_retriever_tool, tool
from langchain_openai import ChatOpenAI
from opentelemetry import trace
from pydantic import BaseModel


class Handbook(BaseRetriever):
    """Searches the handbook."""

    k: int = 3

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [
            Document(text, id=name, metadata={"source": "handbook.md"}) for name, text in truth.search(query, self.k)
        ]


tracer = trace.get_tracer("application")
retriever = Handbook()
# Tokens are counted without the table of the vendor, which would be downloaded.
model = ChatOpenAI(model="gpt-4o-mini", max_retries=0, custom_get_token_ids=lambda text: list(range(len(text.split()))))
broken = ChatOpenAI(model="broken-4o", max_retries=0)
prompt = ChatPromptTemplate.from_messages(
    [("system", "Answer by these documents:\n{context}"), ("human", "{question}")]
)


def joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def chain_of(context: Runnable[str, Any], llm: Any = model) -> Runnable[str, str]:
    return {"context": context, "question": RunnablePassthrough()} | prompt | llm | StrOutputParser()


chain = chain_of(retriever | joined)


# Chains, in every way of calling them.


@construction("chain")
def chain_called() -> None:
    question = truth.asked()
    saw(question, chain.invoke(question))


@construction("chain_stream")
def chain_streamed() -> None:
    question = truth.asked(1)
    saw(question, "".join(chain.stream(question)))


@construction("chain_batch")
def chain_batched() -> None:
    questions = [truth.asked(topic) for topic in range(2)]
    for question, shown in zip(questions, chain.batch(questions), strict=True):
        saw(question, shown)


@construction("chain_async")
def chain_awaited() -> None:
    async def main() -> None:
        questions = [truth.asked(topic) for topic in range(4)]
        shown = list(await asyncio.gather(*(chain.ainvoke(question) for question in questions[:2])))
        shown.append("".join([piece async for piece in chain.astream(questions[2])]))
        shown += await chain.abatch(questions[3:])
        for question, response in zip(questions, shown, strict=True):
            saw(question, response)

    asyncio.run(main())


@construction("web_request")
def below_a_request() -> None:
    with tracer.start_as_current_span("POST /ask", attributes={"http.route": "/ask", "http.request.method": "POST"}):
        question = truth.asked(2)
        saw(question, chain.invoke(question))


@construction("two_questions")
def two_questions_below_one_span() -> None:
    with tracer.start_as_current_span("nightly job"):
        for topic in range(2):
            question = truth.asked(topic)
            saw(question, chain.invoke(question))


@construction("dict_output")
def sources_beside_the_answer() -> None:
    with_sources = RunnablePassthrough.assign(context=lambda given: retriever.invoke(given["question"])).assign(
        answer=RunnablePassthrough.assign(context=lambda given: joined(given["context"]))
        | prompt
        | model
        | StrOutputParser()
    )
    question = truth.asked(3)
    saw(question, with_sources.invoke({"question": question})["answer"])
    question = truth.asked(4)
    pieces = [piece["answer"] for piece in with_sources.stream({"question": question}) if "answer" in piece]
    saw(question, "".join(pieces))


@construction("changed_answer")
def sources_below_the_answer() -> None:
    changed = chain | (lambda answer: f"{answer}\n\nSources: handbook.md")
    question = truth.asked(5)
    shown = changed.invoke(question)
    saw(question, shown, through=[shown.split("\n")[0]])


@construction("router")
def routed() -> None:
    route = RunnableBranch(
        (lambda question: "Nile" in question, chain_of(Handbook(k=1) | joined)),
        (lambda question: "Pluto" in question, chain_of(Handbook(k=2) | joined)),
        chain,
    )
    for topic in (1, 4, 0):
        question = truth.asked(topic)
        saw(question, route.invoke(question))


@construction("few_shot")
def examples_in_the_prompt() -> None:
    shots = ChatPromptTemplate.from_messages(
        [
            ("system", "Answer by these documents:\n{context}"),
            ("human", "How deep is the ocean?"),
            ("ai", "It is 11 kilometres deep."),
            ("human", "{question}"),
        ]
    )
    question = truth.asked(3)
    few = {"context": retriever | joined, "question": RunnablePassthrough()} | shots | model | StrOutputParser()
    saw(question, few.invoke(question))


@construction("model_cache")
def cached() -> None:
    cached_chain = chain_of(retriever | joined, ChatOpenAI(model="gpt-4o-mini", cache=InMemoryCache()))
    question = truth.asked(1)
    shown = cached_chain.invoke(question)
    for _ in range(2):
        saw(question, shown)
    cached_chain.invoke(question)


# Streams that nobody reads to their end.


def closed_after(pieces: int) -> tuple[str, str]:
    """Return a question, and what the user saw of its answer."""
    question, shown = truth.asked(pieces), ""
    with scripted(pause_s=0.02):
        stream = chain.stream(question)
        while len(shown.split()) < pieces:
            shown += next(stream)
        stream.close()
    return question, shown


@construction("stream_closed")
def stream_closed() -> None:
    # LangChain leaves out the last piece: it was on its way when the stream was closed.
    question, shown = closed_after(4)
    saw(question, shown, response_is_cut=True)


@construction("stream_closed_at_once", "refused (no_content)")
def stream_closed_at_once() -> None:
    """The spans have the answer of the model, which goes on, and nothing of what the user saw."""
    saw(*closed_after(1))


@construction("stream_cancelled")
def stream_cancelled() -> None:
    async def read(question: str, shown: list[str], pieces: int) -> None:
        stream = chain.astream(question)
        async for piece in stream:
            shown.append(piece)
            if len("".join(shown).split()) >= pieces:
                break
        await stream.aclose()

    async def cancelled(question: str, shown: list[str], is_enough: asyncio.Event) -> None:
        async for piece in chain.astream(question):
            shown.append(piece)
            if len("".join(shown).split()) >= 3:
                is_enough.set()
                await asyncio.Event().wait()

    async def main() -> None:
        question, shown = truth.asked(0), list[str]()
        await read(question, shown, 3)
        saw(question, "".join(shown), response_is_cut=True)
        question, shown = truth.asked(2), list[str]()
        is_enough = asyncio.Event()
        task = asyncio.create_task(cancelled(question, shown, is_enough))
        await is_enough.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        saw(question, "".join(shown), response_is_cut=True)

    with scripted(pause_s=0.02):
        asyncio.run(main())


# Attempts that fail, and others that follow.

unlike = chain_of(RunnableLambda(lambda _: Handbook(k=2).invoke("insulin Titanic")) | joined, broken)


@construction("fallback")
def falls_back() -> None:
    question = truth.asked(1)
    saw(question, unlike.with_fallbacks([chain]).invoke(question))

    def checked(answer: str) -> str:
        if "1889" not in answer:
            raise ValueError("the answer has no year")
        return answer

    unusable = chain_of(Handbook(k=1) | joined) | checked
    question = truth.asked(3)
    saw(question, unusable.with_fallbacks([chain_of(Handbook(k=2) | joined)]).invoke(question))


@construction("fallback_stream")
def falls_back_in_a_stream() -> None:
    question = truth.asked(1)
    saw(question, "".join(unlike.with_fallbacks([chain]).stream(question)))

    async def main() -> None:
        question = truth.asked(2)
        saw(question, await unlike.with_fallbacks([chain]).ainvoke(question))

    asyncio.run(main())


@construction("fallback_by_hand")
def falls_back_by_hand() -> None:
    @runnable
    def answer(question: str) -> str:
        try:
            return unlike.invoke(question)
        except Exception:  # noqa: BLE001 - as applications do it
            return chain.invoke(question)

    question = truth.asked(1)
    saw(question, answer.invoke(question))


@construction("model_fallback")
def model_falls_back() -> None:
    question = truth.asked(2)
    saw(question, chain_of(retriever | joined, broken.with_fallbacks([model])).invoke(question))


@construction("retry")
def retries() -> None:
    question = truth.asked(3)
    with scripted(truth.failing(1)):
        saw(question, chain.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).invoke(question))
    question = truth.asked(4)
    # Each attempt finds other documents.
    places = iter([1, 2, 3])
    turning = chain_of(RunnableLambda(lambda text: Handbook(k=next(places)).invoke(text)) | joined)
    with scripted(truth.failing(2)):
        saw(question, turning.with_retry(stop_after_attempt=3, wait_exponential_jitter=False).invoke(question))


@construction("model_retry")
def model_retries() -> None:
    question = truth.asked(5)
    again = model.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    with scripted(truth.failing(1)):
        saw(question, chain_of(retriever | joined, again).invoke(question))


@construction("discarded_attempt")
def asks_again_after_a_poor_answer() -> None:
    @runnable
    def answer(question: str) -> str:
        first = chain_of(Handbook(k=1) | joined).invoke(question)
        return first if "no idea" not in first else chain.invoke(question)

    question = truth.asked(0)
    answers = iter(["I have no idea.", truth.answer_to(question)])
    with scripted(lambda _: next(answers)):
        saw(question, answer.invoke(question))


@construction("failed", "not recorded")
def fails() -> None:
    for failing in (chain_of(retriever | joined, broken), unlike.with_fallbacks([unlike])):
        with suppress(Exception):
            failing.invoke(truth.asked())


# Steps between the retriever and the prompt.


@construction("rerank_step")
def reranks() -> None:
    def rerank(documents: list[Document]) -> list[Document]:
        return sorted(documents, key=lambda document: document.page_content, reverse=True)[:2]

    question = truth.asked(1)
    saw(question, chain_of(retriever | RunnableLambda(rerank) | joined).invoke(question))

    def lost_in_the_middle(documents: list[Document]) -> list[Document]:
        return [*documents[::2], *documents[1::2][::-1]]

    question = truth.asked(0)
    saw(question, chain_of(retriever | RunnableLambda(lost_in_the_middle) | joined).invoke(question))


@construction("ranker")
def reranked_by_the_framework() -> None:
    class Shortest(BaseDocumentCompressor):
        def compress_documents(self, documents: Sequence[Document], query: str, callbacks: Any = None) -> Any:
            return sorted(documents, key=lambda document: len(document.page_content))[:2]

    ranked = ContextualCompressionRetriever(base_compressor=Shortest(), base_retriever=retriever)
    question = truth.asked(1)
    saw(question, chain_of(ranked | joined).invoke(question))


@construction("cut_off")
def cuts_off() -> None:
    question = truth.asked(0)
    saw(question, chain_of(retriever | (lambda documents: joined(documents[:1]))).invoke(question))

    @runnable
    def answer(question: str) -> str:
        found = [document for document in retriever.invoke(question) if "built" in document.page_content]
        return (prompt | model | StrOutputParser()).invoke({"context": joined(found), "question": question})

    question = truth.asked(0)
    saw(question, answer.invoke(question))


@construction("cut_texts")
def cuts_texts() -> None:
    def beginnings(documents: list[Document]) -> str:
        return "\n\n".join(document.page_content[:30] for document in documents)

    question = truth.asked(1)
    cut = [text[:30] for _, text in truth.search(question)]
    saw(question, chain_of(retriever | beginnings).invoke(question), cut)
    question = truth.asked(0)
    budget = "\n\n".join(text for _, text in truth.search(question))[:90]
    saw(question, chain_of(retriever | (lambda found: joined(found)[:90])).invoke(question), budget.split("\n\n"))


@construction("numbered")
def numbers() -> None:
    def numbered(documents: list[Document]) -> str:
        return "\n".join(
            f"[{number}] {document.page_content} (source: {document.metadata['source']})"
            for number, document in enumerate(documents, 1)
        )

    def tagged(documents: list[Document]) -> str:
        return "\n".join(
            f"<document id='{document.id}'>\n  {html.escape(document.page_content)}\n</document>"
            for document in documents
        )

    for form in (numbered, tagged):
        question = truth.asked(4)
        saw(question, chain_of(retriever | form).invoke(question))


@construction("documents_as_json")
def as_json() -> None:
    def dumped(documents: list[Document]) -> str:
        return json.dumps([{"id": document.id, "text": document.page_content} for document in documents])

    question = truth.asked(4)
    saw(question, chain_of(retriever | dumped).invoke(question))
    question = truth.asked(3)
    saw(question, chain_of(retriever).invoke(question))  # the list of objects, as Python prints it


@construction("compression")
def compresses() -> None:
    extractor = ContextualCompressionRetriever(
        base_compressor=LLMChainExtractor.from_llm(model), base_retriever=Handbook(k=2)
    )
    script = by_prompt(
        ("NO_OUTPUT", lambda text: "built in 1889" if "was built in 1889" in text else "330 metres high"),
    )
    question = truth.asked(0)
    with scripted(script):
        saw(question, chain_of(extractor | joined).invoke(question), ["built in 1889", "330 metres high"])


@construction("summary")
def summarizes_the_documents() -> None:
    summary = "The tower dates from 1889 and is tall."
    summarize = ChatPromptTemplate.from_template("Summarize these notes:\n{notes}") | model | StrOutputParser()
    shortened = retriever | joined | (lambda notes: {"notes": notes}) | summarize
    question = truth.asked(0)
    with scripted(by_prompt(("Summarize these notes", summary))):
        saw(question, chain_of(shortened).invoke(question), [summary])


@construction("multi_query")
def several_queries() -> None:
    several = MultiQueryRetriever.from_llm(retriever=Handbook(k=2), llm=model)
    script = by_prompt(("different versions", "How high is the Eiffel Tower?\nTower of Paris visitors"))
    question = truth.asked(0)
    with scripted(script):
        saw(question, chain_of(several | joined).invoke(question))


@construction("ensemble")
def two_retrievers() -> None:
    both = EnsembleRetriever(retrievers=[Handbook(k=2), RunnableLambda(lambda text: Handbook(k=3).invoke(text))])
    question = truth.asked(1)
    saw(question, chain_of(both | joined).invoke(question))


@construction("hyde")
def hypothetical_answer() -> None:
    write = ChatPromptTemplate.from_template("Write a passage that answers: {question}") | model | StrOutputParser()
    found = (lambda question: {"question": question}) | write | retriever | joined
    question = truth.asked(5)
    with scripted(by_prompt(("Write a passage", "Pablo Picasso painted Guernica in Spain."))):
        saw(question, chain_of(found).invoke(question))


def graded_chain(again: str = "") -> Runnable[str, str]:
    grade = ChatPromptTemplate.from_template("Is this relevant? {text}\nQuestion: {question}\nSay yes or no.") | model

    def relevant(question: str, query: str) -> list[Document]:
        return [
            document
            for document in retriever.invoke(query)
            if grade.invoke({"text": document.page_content, "question": question}).content == "yes"
        ]

    @runnable
    def context(question: str) -> str:
        return joined(relevant(question, question) or (relevant(question, again) if again else []))

    return chain_of(context)


@construction("grading")
def grades() -> None:
    question = truth.asked(1)
    with scripted(by_prompt(("Say yes or no", lambda text: "yes" if "6650" in text or "source" in text else "no"))):
        saw(question, graded_chain().invoke(question))


@construction("grading_none")
def grades_all_as_poor() -> None:
    question = truth.asked(1)
    with scripted(by_prompt(("Say yes or no", "no"))):
        saw(question, graded_chain().invoke(question))


@construction("second_retrieval")
def retrieves_again() -> None:
    question = truth.asked(1)
    script = by_prompt(("Say yes or no", lambda text: "yes" if "Victoria" in text else "no"))
    with scripted(script):
        saw(question, graded_chain("Lake Victoria").invoke(question))


# Answers of several calls.


@construction("map_reduce")
def maps_and_reduces() -> None:
    qa = RetrievalQA.from_chain_type(model, chain_type="map_reduce", retriever=retriever)
    parts = {
        "6650 kilometres": "It is 6650 km long.",
        "flows north": "It ends in a sea.",
        "Victoria": "It has a source.",
    }
    script = by_prompt(
        ("Given the following extracted parts", truth.answer_to),
        *parts.items(),
    )
    question = truth.asked(1)
    with scripted(script):
        shown = qa.invoke({"query": question})["result"]
    saw(question, shown, through=[*parts.values(), shown])


@construction("refine")
def refines() -> None:
    qa = RetrievalQA.from_chain_type(model, chain_type="refine", retriever=retriever)
    question = truth.asked(0)
    drafts = ["A draft: 1889.", "A better draft: 1889, and 330 metres.", truth.answer_to(question)]
    replies = iter(drafts)
    with scripted(lambda _: next(replies)):
        shown = qa.invoke({"query": question})["result"]
    saw(question, shown, through=drafts)


@construction("rewritten_answer")
def rewrites_the_answer() -> None:
    polish = ChatPromptTemplate.from_template("Say this in a friendly way: {answer}") | model | StrOutputParser()
    question = truth.asked(2)
    friendly = "Gladly: your pancreas makes it."
    with scripted(by_prompt(("friendly way", friendly))):
        shown = (chain | (lambda answer: {"answer": answer}) | polish).invoke(question)
    saw(question, shown, through=[truth.answer_to(question), friendly])


@construction("checked_answer")
def checks_the_answer() -> None:
    check = ChatPromptTemplate.from_template("Documents:\n{context}\nIs this grounded? {answer}") | model

    @runnable
    def answer(question: str) -> str:
        found = joined(retriever.invoke(question))
        shown = (prompt | model | StrOutputParser()).invoke({"context": found, "question": question})
        verdict = check.invoke({"context": found, "answer": shown}).content
        return shown if verdict == "grounded" else "Please ask a person."

    question = truth.asked(4)
    with scripted(by_prompt(("Is this grounded?", "grounded"))):
        saw(question, answer.invoke(question))


@construction("sub_questions")
def decomposes() -> None:
    split = ChatPromptTemplate.from_template("Split into simple questions: {question}") | model | StrOutputParser()
    synthesis = ChatPromptTemplate.from_template("Combine these notes:\n{notes}\nQuestion: {question}") | model

    @runnable
    def answer(question: str) -> str:
        parts = split.invoke({"question": question}).split("\n")
        notes = "\n".join(f"{part} {chain.invoke(part)}" for part in parts)
        return (synthesis | StrOutputParser()).invoke({"notes": notes, "question": question})

    question = "Compare the age of the Eiffel Tower with the length of the Nile."
    final = "The tower is from 1889, the river has 6650 kilometres."
    script = by_prompt(
        ("Split into", f"{truth.TOPICS[0][0]}\n{truth.TOPICS[1][0]}"),
        ("Combine these notes", final),
    )
    with scripted(script):
        shown = answer.invoke(question)
    saw(question, shown, through=[truth.TOPICS[0][1], truth.TOPICS[1][1], final])


# Conversations.

TURNS = [HumanMessage("Tell me about Paris."), AIMessage("Paris is a city.")]


@construction("condense")
def condenses() -> None:
    ask = ChatPromptTemplate.from_messages(
        [("system", "Write a standalone question."), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    answering = ChatPromptTemplate.from_messages(
        [("system", "Answer by these:\n{context}"), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    aware = create_history_aware_retriever(model, retriever, ask)
    rag = create_retrieval_chain(aware, create_stuff_documents_chain(model, answering))
    question = "And how high is its tower? Reply within 901 words."
    with scripted(by_prompt(("standalone question", "How high is the Eiffel Tower in Paris?"))):
        shown = rag.invoke({"input": question, "chat_history": TURNS})["answer"]
    saw(question, shown, history=["Tell me about Paris."])


@construction("history")
def remembers() -> None:
    histories: dict[str, InMemoryChatMessageHistory] = {}
    talking = ChatPromptTemplate.from_messages(
        [("system", "Answer by these:\n{context}"), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    rag = (
        RunnablePassthrough.assign(context=lambda given: joined(retriever.invoke(given["question"]))) | talking | model
    )
    talk = RunnableWithMessageHistory(
        rag | StrOutputParser(),
        lambda session_id: histories.setdefault(session_id, InMemoryChatMessageHistory()),
        input_messages_key="question",
        history_messages_key="history",
    )
    earlier: list[str] = []
    for topic in range(2):
        question = truth.asked(topic)
        shown = talk.invoke({"question": question}, config={"configurable": {"session_id": "s-1"}})
        saw(question, shown, history=list(earlier))
        earlier.append(question)


@construction("session")
def has_a_session() -> None:
    with using_attributes(session_id="s-81", user_id="u-7"):
        question = truth.asked(3)
        saw(question, chain.invoke(question), session_id="s-81")


@construction("session_in_metadata")
def has_a_session_in_its_metadata() -> None:
    question = truth.asked(3)
    shown = chain.invoke(question, {"metadata": {"session_id": "s-83"}})
    saw(question, shown, session_id="s-83")


@construction("session_on_span")
def has_a_session_on_an_own_span() -> None:
    with tracer.start_as_current_span("turn", attributes={"session.id": "s-82", "user.id": "u-8"}):
        question = truth.asked(4)
        saw(question, chain.invoke(question), session_id="s-82")


# Nothing found, and nothing said.


@construction("empty_retrieval")
def finds_nothing() -> None:
    question = truth.strange()
    saw(question, chain.invoke(question))


def guarded(context: Runnable[str, Any]) -> Runnable[str, str]:
    with_context = {"context": context, "question": RunnablePassthrough()}
    return with_context | RunnableBranch(
        (lambda given: not given["context"], lambda _: "Sorry, I found nothing."),
        RunnablePassthrough.assign(context=lambda given: joined(given["context"])) | prompt | model | StrOutputParser(),
    )


@construction("empty_without_model")
def says_that_it_finds_nothing() -> None:
    question = truth.strange()
    saw(question, guarded(retriever).invoke(question), [])
    question = truth.asked(3)
    saw(question, guarded(retriever).invoke(question))


@construction("all_dropped_without_model")
def drops_all_and_says_so() -> None:
    question = truth.asked(0)
    saw(question, guarded(retriever | RunnableLambda(lambda _: [])).invoke(question), [])


@construction("empty_answer")
def says_nothing() -> None:
    question = truth.asked(5)
    with scripted(lambda _: ""):
        shown = chain.invoke(question)
    saw(question, shown, [text for _, text in truth.search(question)])


@construction("no_retrieval", "not recorded")
def retrieves_nothing() -> None:
    talk = ChatPromptTemplate.from_template("{question}") | model | StrOutputParser()
    talk.invoke({"question": truth.asked()})


@construction("retrieval_only", "not recorded")
def only_retrieves() -> None:
    (retriever | joined).invoke(truth.asked())


@construction("answer_cache", "not recorded")
def answers_from_a_cache() -> None:
    @runnable
    def answer(question: str) -> str:
        return "It was built in 1889."

    answer.invoke(truth.asked())


@construction("ids")
def has_ids() -> None:
    question = truth.asked(1)
    saw(question, chain.invoke(question), ids=[name for name, _ in truth.search(question)])
    # Chunks of one file have ids of their own, or none.
    chunks = RunnableLambda(
        lambda text: [Document(found, metadata={"source": "a.md", "page": 1}) for _, found in truth.search(text)]
    )

    class Chunks(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return chunks.invoke(query)

    question = truth.asked(0)
    saw(question, chain_of(Chunks() | joined).invoke(question))


def plain(question: str) -> str:
    found = joined(retriever.invoke(question))
    return str(model.invoke(f"Answer by these documents:\n{found}\n\nQuestion: {question}").content)


@construction("common_span")
def plain_code_below_a_span() -> None:
    with tracer.start_as_current_span("POST /ask"):
        question = truth.asked(2)
        saw(question, plain(question))


@construction("no_common_span", "not recorded")
def plain_code() -> None:
    plain(truth.asked(2))


# Agents.


def texts(query: str, k: int = 2) -> list[str]:
    return [text for _, text in truth.search(query, k)]


def agent_of(*tools: Any, **options: Any) -> Any:
    return create_agent(model, tools=list(tools), system_prompt="Answer by the handbook.", **options)


def run(agent: Any, question: str, config: Any = None, **given: Any) -> str:
    messages = {"messages": [*given.get("before", ()), {"role": "user", "content": question}]}
    return str(agent.invoke(messages, config=config)["messages"][-1].content)


handbook = create_retriever_tool(Handbook(k=2), "handbook", "Search the handbook")
archive = create_retriever_tool(Handbook(k=1), "archive", "Search the archive")


@construction("agent")
def agent_with_a_retriever() -> None:
    question = "How long is the river Nile? Answer me for the Nile, please. Reply within 801 words."
    with scripted(truth.after_tools(call("handbook", query="Nile length"))):
        saw(question, run(agent_of(handbook), question, before=TURNS), history=["Tell me about Paris."])


@construction("agent_async")
def agent_awaited() -> None:
    async def main() -> None:
        question = truth.asked(1)
        messages = {"messages": [{"role": "user", "content": question}]}
        shown = (await agent_of(handbook).ainvoke(messages))["messages"][-1].content
        saw(question, shown)

    with scripted(truth.after_tools(call("handbook", query="Nile length"))):
        asyncio.run(main())


@construction("agent_stream")
def agent_streamed() -> None:
    question = truth.asked(1)
    with scripted(truth.after_tools(call("handbook", query="Nile length"))):
        steps = agent_of(handbook).stream({"messages": [{"role": "user", "content": question}]}, stream_mode="updates")
        last = [message for step in steps for update in step.values() for message in update["messages"]][-1]
    saw(question, last.content)


@construction("agent_two_tools")
def agent_with_two_retrievers() -> None:
    question = "When was the Eiffel Tower built, and who painted Guernica? Reply within 802 words."
    both = truth.Calls((("handbook", {"query": "Eiffel Tower"}), ("archive", {"query": "Guernica"})))
    with scripted(truth.after_tools(both)):
        saw(question, run(agent_of(handbook, archive), question))


@construction("agent_two_rounds")
def agent_with_two_rounds() -> None:
    question = "Who painted Guernica, and when did the Titanic sink? Reply within 803 words."
    with scripted(truth.after_tools(call("handbook", query="Guernica"), call("archive", query="Titanic sank"))):
        saw(question, run(agent_of(handbook, archive), question))


@construction("agent_without_search")
def agent_that_needs_no_search() -> None:
    """The second turn needs no tool: only the first is an answer from documents."""
    question = truth.asked(3)
    with scripted(truth.after_tools(call("handbook", query="Titanic"))):
        saw(question, run(agent_of(handbook), question))
    run(agent_of(handbook), "Thank you!")


@construction("agent_empty")
def agent_that_finds_nothing() -> None:
    question = truth.strange()
    with scripted(truth.after_tools(call("handbook", query="Australia"))):
        saw(question, run(agent_of(handbook), question))


@construction("text_tool")
def tool_of_text() -> None:
    @tool
    def search_documents(query: str) -> str:
        """Search the documents."""
        return texts(query, 1)[0]

    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_documents", query="Nile long"))):
        saw(question, run(agent_of(search_documents), question))


@construction("joined_text_tool")
def tool_of_joined_texts() -> None:
    @tool
    def search_documents(query: str) -> str:
        """Search the documents."""
        return "\n\n".join(texts(query))

    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_documents", query="Nile long"))):
        saw(question, run(agent_of(search_documents), question), ["\n\n".join(texts("Nile long"))])


def tool_in_each_form() -> Iterator[Any]:
    @tool
    def search_list(query: str) -> list[dict[str, str]]:
        """Search the documents."""
        return [{"id": name, "text": text} for name, text in truth.search(query, 2)]

    @tool
    def search_dump(query: str) -> str:
        """Search the documents."""
        return json.dumps([{"score": 0.5, "text": text} for text in texts(query)])

    @tool
    def search_results(query: str) -> dict[str, Any]:
        """Search the documents."""
        return {"results": [{"content": text, "url": "a.html"} for text in texts(query)], "query": query}

    @tool
    def search_texts(query: str) -> list[str]:
        """Search the documents."""
        return texts(query)

    @tool
    def search_objects(query: str) -> list[Document]:
        """Search the documents."""
        return Handbook(k=2).invoke(query)

    yield from (search_list, search_dump, search_results, search_texts, search_objects)


@construction("json_tool")
def tool_of_json() -> None:
    for searching in tool_in_each_form():
        question = truth.asked(1)
        with scripted(truth.after_tools(call(searching.name, query="Nile long"))):
            saw(question, run(agent_of(searching), question))


@construction("artifact_tool")
def tool_with_an_artifact() -> None:
    @tool(response_format="content_and_artifact")
    def fetch_context(query: str) -> tuple[str, list[Document]]:
        """Fetch what is known."""
        found = [Document(text) for text in texts(query)]
        return joined(found), found

    question = truth.asked(0)
    with scripted(truth.after_tools(call("fetch_context", query="Eiffel Tower"))):
        saw(question, run(agent_of(fetch_context), question))


@construction("tool_error")
def tool_that_fails_first() -> None:
    outcomes = iter([True, False])

    @tool
    def search_documents(query: str) -> str:
        """Search the documents."""
        return "Error: the index timed out" if next(outcomes) else texts(query, 1)[0]

    question = truth.asked(1)
    with scripted(truth.after_tools(*[call("search_documents", query="Nile long")] * 2)):
        saw(question, run(agent_of(search_documents), question), failed=1)


@construction("tool_error_only")
def tool_that_fails() -> None:
    @tool
    def search_documents(query: str) -> str:
        """Search the documents."""
        return "Error: the index timed out"

    question = truth.asked(1)
    with scripted(truth.after_tools(call("search_documents", query="Nile long"))):
        saw(question, run(agent_of(search_documents), question), failed=1)


@construction("other_tool", "not recorded")
def tool_that_calculates() -> None:
    @tool
    def add(first: int, second: int) -> int:
        """Add two numbers."""
        return first + second

    with scripted(truth.after_tools(call("add", first=1, second=2))):
        run(agent_of(add), truth.asked(1))


@construction("agent_structured")
def agent_with_a_structured_answer() -> None:
    class Answer(BaseModel):
        """The answer."""

        answer: str
        year: int

    for kind in (ToolStrategy(Answer), ProviderStrategy(Answer)):
        question = truth.asked(0)
        wanted = {"answer": "In the year 1889.", "year": 1889}
        rounds = [call("handbook", query="Eiffel Tower")]
        rounds += [call("Answer", **wanted)] if isinstance(kind, ToolStrategy) else []
        with scripted(truth.after_tools(*rounds, final=lambda _, wanted=wanted: json.dumps(wanted))):
            agent = agent_of(handbook, response_format=kind)
            found = agent.invoke({"messages": [{"role": "user", "content": question}]})["structured_response"]
        saw(question, found.answer, texts("Eiffel Tower"))


@construction("chain_as_tool")
def chain_in_a_tool() -> None:
    @tool
    def ask_handbook(question: str) -> str:
        """Ask the handbook."""
        return chain.invoke(question)

    question = "Tell me in a friendly way how long the Nile is. Reply within 804 words."
    inner = truth.TOPICS[1][0]
    final = "My pleasure: about 6650 kilometres."
    script = by_prompt(("Answer by these documents", truth.TOPICS[1][1]), otherwise=truth.after_tools(
        call("ask_handbook", question=inner), final=lambda _: final
    ))  # fmt: skip
    with scripted(script):
        shown = run(agent_of(ask_handbook), question)
    saw(question, shown, through=[truth.TOPICS[1][1], final])


@construction("agent_as_tool")
def agent_in_a_tool() -> None:
    researcher = create_agent(model, tools=[handbook], system_prompt="You are a researcher.")

    @tool
    def research(topic: str) -> str:
        """Let a researcher look it up."""
        return run(researcher, topic)

    question = "What should I know about the Titanic? Reply within 805 words."
    notes, final = "It sank in April 1912.", "You should know that it sank in 1912."
    inner = truth.after_tools(call("handbook", query="Titanic sank"), final=lambda _: notes)
    outer = truth.after_tools(call("research", topic="the sinking of the Titanic"), final=lambda _: final)

    def script(messages: list[dict[str, Any]]) -> Any:
        return (inner if "You are a researcher" in truth.prompt_of(messages[:1]) else outer)(messages)

    with scripted(script):
        shown = run(agent_of(research), question)
    saw(question, shown, through=[notes, final])


@construction("sub_agents")
def agents_after_each_other() -> None:
    researcher = create_agent(model, tools=[handbook], system_prompt="You are a researcher.", name="researcher")
    writer = create_agent(model, tools=[], system_prompt="You are a writer.", name="writer")

    @runnable
    def newsroom(question: str) -> str:
        notes = run(researcher, f"Research this: {question}")
        return run(writer, f"Write an answer to {question} from these notes: {notes}")

    question = "What is special about the Nile? Reply within 806 words."
    notes, final = "The Nile has 6650 kilometres.", "It is very long, with 6650 kilometres."
    inner = truth.after_tools(call("handbook", query="river Nile"), final=lambda _: notes)

    def script(messages: list[dict[str, Any]]) -> Any:
        return inner(messages) if "You are a researcher" in truth.prompt_of(messages[:1]) else final

    with scripted(script):
        shown = newsroom.invoke(question)
    saw(question, shown, through=[notes, final])


truth.run_all(sys.argv[1:])
