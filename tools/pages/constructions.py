"""The table of constructions: what is recorded of each way of building an application, in each framework.

The fixtures in `tests/producers/traces/captured` are its cells. A test reads each as ragtide reads it, and compares the
interactions with what the application itself saw.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

CAPTURED: Final = Path(__file__).parents[2] / "tests" / "producers" / "traces" / "captured"

FRAMEWORKS: Final = {
    "langchain": "LangChain",
    "langgraph": "LangGraph",
    "llamaindex": "LlamaIndex",
    "haystack": "Haystack",
    "pydantic_ai": "PydanticAI",
    "openai_agents": "OpenAI Agents",
    "langchain_openllmetry": "LangChain, OpenLLMetry",
    "langchain_genai": "LangChain, OTel GenAI",
}
"""The columns: name of the folder of fixtures, and heading."""

CONSTRUCTIONS: Final = {
    "chain": "chain, called once",
    "chain_stream": "streamed answer",
    "chain_batch": "batch",
    "chain_async": "async, and many at once",
    "stream_closed": "stream closed early",
    "stream_cancelled": "async stream closed early or cancelled",
    "fallback": "fallback to another chain",
    "model_fallback": "fallback to another model",
    "retry": "retry of the chain",
    "model_retry": "retry of the model",
    "rerank_step": "own rerank step",
    "ranker": "reranker of the framework",
    "cut_off": "cut-off in a plain function",
    "cut_texts": "texts cut to a length",
    "compression": "compressed documents",
    "multi_query": "several queries of one question",
    "ensemble": "two retrievers joined",
    "numbered": "numbered or marked documents in the prompt",
    "grading": "documents graded by a model",
    "grading_none": "grading that keeps nothing",
    "second_retrieval": "corrective second retrieval",
    "map_reduce": "map and reduce",
    "refine": "refine",
    "agent": "agent with one tool",
    "agent_two_tools": "agent with two tools",
    "agent_two_rounds": "agent with two rounds",
    "agent_stream": "agent, streamed",
    "text_tool": "tool that returns text",
    "json_tool": "tool that returns JSON",
    "artifact_tool": "tool with an artifact",
    "tool_error": "error of a tool",
    "sub_agents": "sub-agents, one after another",
    "supervisor": "supervisor of agents",
    "agent_as_tool": "agent as a tool",
    "chain_as_tool": "RAG chain as a tool",
    "sub_questions": "sub-questions",
    "condense": "question condensed with the history",
    "history": "history of messages",
    "session": "session set by the application",
    "session_over_thread": "session against the framework's own thread",
    "empty_retrieval": "nothing found, model asked",
    "empty_without_model": "nothing found, no model asked",
    "empty_answer": "empty answer of the model",
    "ids": "own ids of documents",
    "common_span": "retriever and model in plain code, one span around",
    "no_common_span": "retriever and model in plain code, no span around",
    "no_retrieval": "no retriever",
    "failed": "model that fails",
}
"""The rows: name of the fixture, and title."""

WRONG: Final = frozenset[str]()
"""Constructions (`framework/name`) that are not yet read as the application saw them."""


@cache
def fixtures() -> dict[str, dict[str, Any]]:
    """Return what each application saw, by `framework/name`."""
    return {
        path.relative_to(CAPTURED).with_suffix("").as_posix(): json.loads(path.read_text("utf-8"))["truth"]
        for path in sorted(CAPTURED.rglob("*.json"))
    }


def constructions_table() -> str:
    """Return the table: for each construction and framework what is recorded, empty where there is no such thing."""
    columns = [framework for framework in FRAMEWORKS if any(name.startswith(f"{framework}/") for name in fixtures())]
    lines = [["construction", *(FRAMEWORKS[framework] for framework in columns)], ["---"] * (len(columns) + 1)]
    for name, title in CONSTRUCTIONS.items():
        cells = [_cell(f"{framework}/{name}") for framework in columns]
        lines += [[title, *cells]] if any(cells) else []
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(name: str) -> str:
    if name not in fixtures():
        return ""
    return "wrong" if name in WRONG else fixtures()[name]["outcome"]
