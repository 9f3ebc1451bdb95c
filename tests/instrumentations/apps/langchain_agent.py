"""An agent of LangChain whose tool is a retriever, and one whose tool returns documents as an artifact."""

import os
import sys

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.tools import create_retriever_tool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI

options = {}
if sys.argv[1] == "langfuse":
    from langfuse import get_client
    from langfuse.langchain import CallbackHandler

    options = {"callbacks": [CallbackHandler()]}
else:
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

store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))
store.add_documents([Document("The tower was built in 1889.", id="t1"), Document("It stands in Paris.", id="t2")])
handbook = create_retriever_tool(store.as_retriever(search_kwargs={"k": 2}), "handbook", "Search the handbook")


@tool(response_format="content_and_artifact")
def lookup(query: str) -> tuple[str, list[Document]]:
    """Look things up."""
    documents = store.similarity_search(query, k=2)
    return "\n\n".join(document.page_content for document in documents), documents


for offered, question in ((handbook, "When was the tower built?"), (lookup, "How old is the tower?")):
    agent = create_agent(ChatOpenAI(model="gpt-4o-mini"), tools=[offered], system_prompt="You answer by the handbook.")
    earlier = [{"role": "user", "content": "Is it open?"}, {"role": "assistant", "content": "It is open."}]
    agent.invoke({"messages": [*earlier, {"role": "user", "content": question}]}, config=options)
if sys.argv[1] == "langfuse":
    get_client().flush()
