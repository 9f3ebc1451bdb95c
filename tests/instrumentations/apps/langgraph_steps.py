"""A graph of LangGraph whose step `retrieve` asks the store itself: there is no span of a retriever."""

import sys
from typing import Any, TypedDict

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph

options: dict[str, Any] = {}
if sys.argv[1] == "langfuse":
    from langfuse import get_client
    from langfuse.langchain import CallbackHandler

    options = {"callbacks": [CallbackHandler()]}
else:
    from ragtide import otel

    otel.configure(pipeline="helpdesk")
    if sys.argv[1] == "openllmetry":
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor as Instrumentor
    else:
        from openinference.instrumentation.langchain import LangChainInstrumentor as Instrumentor
    Instrumentor().instrument()

store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))
store.add_documents([Document("The tower was built in 1889.", id="t1"), Document("It stands in Paris.", id="t2")])
model = ChatOpenAI(model="gpt-4o-mini")


class State(TypedDict):
    question: str
    context: list[Document]
    answer: str


def retrieve(state: State) -> dict[str, Any]:
    return {"context": store.similarity_search(state["question"], k=2)}


def generate(state: State) -> dict[str, Any]:
    context = "\n\n".join(document.page_content for document in state["context"])
    return {"answer": model.invoke(f"Context: {context}\nQuestion: {state['question']}").content}


graph = StateGraph(State).add_sequence([retrieve, generate])
graph.add_edge(START, "retrieve")
graph.compile().invoke({"question": "When was the tower built?"}, config=options)
if sys.argv[1] == "langfuse":
    get_client().flush()
