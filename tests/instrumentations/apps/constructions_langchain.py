"""Constructions of LangChain, as applications build them: chains, fallbacks, rerankers, agents and tools."""

import asyncio
import sys
from typing import Any

import truth
from truth import construction, saw

from ragtide import otel

otel.configure(pipeline="helpdesk")
if sys.argv[1] == "openllmetry":
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor as Instrumentor
elif sys.argv[1] == "genai":
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor as Instrumentor
else:
    from openinference.instrumentation.langchain import LangChainInstrumentor as Instrumentor
Instrumentor().instrument()

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_openai import ChatOpenAI


class Handbook(BaseRetriever):
    """Searches the handbook."""

    k: int = 3

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [
            Document(text, id=name, metadata={"source": "handbook.md"}) for name, text in truth.search(query, self.k)
        ]


retriever = Handbook()
model = ChatOpenAI(model="gpt-4o-mini", max_retries=0)
prompt = ChatPromptTemplate.from_messages(
    [("system", "Answer by these documents:\n{context}"), ("human", "{question}")]
)


def joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


def chain_of(context: Runnable[str, Any], llm: Any = model) -> Runnable[str, str]:
    return {"context": context, "question": RunnablePassthrough()} | prompt | llm | StrOutputParser()


chain = chain_of(retriever | joined)


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
        shown = await asyncio.gather(*(chain.ainvoke(question) for question in questions[:2]))
        shown.append("".join([piece async for piece in chain.astream(questions[2])]))
        shown += await chain.abatch(questions[3:])
        for question, response in zip(questions, shown, strict=True):
            saw(question, response)

    asyncio.run(main())


truth.run_all(sys.argv[2:])
