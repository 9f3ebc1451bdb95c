"""An agent of PydanticAI with a tool that returns documents."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

from ragtide import otel

otel.configure(pipeline="helpdesk")
Agent.instrument_all()
agent = Agent(OpenAIChatModel("gpt-4o-mini"), system_prompt="Answer by the documents.")


@agent.tool_plain
def search_documents(query: str) -> list[dict[str, str]]:
    """Search the documents."""
    return [{"id": "t1", "text": "The tower was built in 1889."}, {"id": "t2", "text": "It stands in Paris."}]


agent.run_sync("When was the tower built?")
