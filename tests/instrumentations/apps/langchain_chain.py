"""A chain of LangChain in every way of calling it, without a page: the way of instrumenting is an argument."""

import asyncio
import os
import sys

from ragtide import otel

otel.configure(pipeline="helpdesk")
if sys.argv[1] == "genai":
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor as Instrumentor
elif sys.argv[1] == "openllmetry":
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor as Instrumentor
else:
    from openinference.instrumentation.langchain import LangChainInstrumentor as Instrumentor
Instrumentor().instrument()

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI
from opentelemetry import trace

store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))
store.add_documents([Document("The tower was built in 1889.", id="t1"), Document("It stands in Paris.", id="t2")])
retriever = store.as_retriever(search_kwargs={"k": 2})
model = ChatOpenAI(model="gpt-4o-mini")


def joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


prompt = ChatPromptTemplate.from_messages(
    [("system", "Answer by these documents:\n{context}"), ("human", "{question}")]
)
chain = {"context": retriever | joined, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
chain.invoke("When was the tower built?")
"".join(chain.stream("Who built the tower?"))
chain.batch(["Where is it?", "How high is it?"])
asyncio.run(chain.ainvoke("How heavy is it?"))
with trace.get_tracer("application").start_as_current_span("POST /ask"):
    documents = retriever.invoke("How deep is the river?")
    model.invoke(f"Documents:\n{joined(documents)}\n\nQuestion: How deep is the river?")
