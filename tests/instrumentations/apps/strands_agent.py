"""Agents of Strands: tools of its own, tools of an MCP server, and a search that finds nothing."""

import os
import sys

if sys.argv[1] == "latest":
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"

from pathlib import Path

from mcp import StdioServerParameters, stdio_client
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

from ragtide import otel

otel.configure(pipeline="helpdesk")
FOUND = [{"id": "t1", "text": "The tower was built in 1889."}, {"id": "t2", "text": "It stands in Paris."}]


@tool
def search_documents(query: str) -> dict:
    """Search the documents."""
    return {"status": "success", "content": [{"json": {"documents": FOUND}}]}


@tool
def search_archive(query: str) -> dict:
    """Search the archive."""
    return {"status": "success", "content": [{"text": "No documents found."}]}


def asked(question: str, *tools: object) -> None:
    Agent(model=OpenAIModel(model_id="gpt-4o-mini"), tools=list(tools), callback_handler=None)(question)


asked("When was the tower built?", search_documents)
asked("How old is the tower?", search_archive)
SERVER = """
from mcp.server import MCPServer

server = MCPServer("handbook")


@server.tool()
def search_handbook(query: str) -> list[dict[str, str]]:
    return [{"id": "t1", "text": "The tower was built in 1889."}, {"id": "t2", "text": "It stands in Paris."}]


server.run()
"""
Path("server.py").write_text(SERVER, "utf-8")
with MCPClient(lambda: stdio_client(StdioServerParameters(command=sys.executable, args=["server.py"]))) as client:
    asked("Where is the tower?", *client.list_tools_sync())
