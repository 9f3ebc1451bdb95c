"""An agent of Semantic Kernel: its model calls have no texts, which only the span of the agent has."""

import asyncio
import json
import os

os.environ["SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE"] = "true"

from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function

from ragtide import otel

otel.configure(pipeline="helpdesk")


class Handbook:
    """A plugin with a search, and one that finds nothing."""

    found = ({"id": "t1", "text": "The tower was built in 1889."}, {"id": "t2", "text": "It stands in Paris."})

    @kernel_function(description="Search the handbook")
    def search(self, query: str) -> str:
        return json.dumps(self.found)


class EmptyHandbook(Handbook):
    """A plugin that finds nothing."""

    found = ()


async def main() -> None:
    service = OpenAIChatCompletion(ai_model_id="gpt-4o-mini", async_client=AsyncOpenAI())
    for plugin, question in ((Handbook(), "When was the tower built?"), (EmptyHandbook(), "How old is the tower?")):
        agent = ChatCompletionAgent(service=service, name="helper", plugins=[plugin])
        await agent.get_response(question)


asyncio.run(main())
