"""LlamaIndex: a chat with two turns, a streamed answer, and an agent with a function as tool."""

import asyncio
import os

from llama_index.core import Document, MockEmbedding, Settings, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

from ragtide import otel

otel.configure(pipeline="helpdesk")
LlamaIndexInstrumentor().instrument()

Settings.embed_model = MockEmbedding(embed_dim=8)
Settings.llm = OpenAILike(
    model="gpt-4o-mini",
    api_base=os.environ["OPENAI_BASE_URL"],
    api_key="x",
    is_chat_model=True,
    is_function_calling_model=True,
)
index = VectorStoreIndex.from_documents(
    [Document(text="The tower was built in 1889."), Document(text="It stands in Paris.")]
)
chat = index.as_chat_engine(chat_mode="condense_plus_context", similarity_top_k=2)
chat.chat("When was the tower built?")
chat.chat("And where is it?")
streamed = index.as_query_engine(similarity_top_k=2, streaming=True).query("Who built the tower?")
"".join(streamed.response_gen)


def search_documents(query: str) -> str:
    """Search."""
    return "\n\n".join(node.text for node in index.as_retriever(similarity_top_k=2).retrieve(query))


async def ask(question: str) -> None:
    tools = [FunctionTool.from_defaults(search_documents)]
    await FunctionAgent(tools=tools, llm=Settings.llm, system_prompt="You answer.", streaming=False).run(question)


asyncio.run(ask("How old is the tower?"))
