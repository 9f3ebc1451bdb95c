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
    "dspy": "DSPy",
    "strands": "Strands",
    "semantic_kernel": "Semantic Kernel",
    "pydantic_ai": "PydanticAI",
    "openai_agents": "OpenAI Agents",
    "crewai": "CrewAI",
    "google_adk": "Google ADK",
    "mcp": "MCP",
}
"""The columns: name of the folder of fixtures, and heading."""

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Ways of calling": {
        "chain": "chain, called once",
        "chain_stream": "streamed answer",
        "chain_batch": "batch",
        "chain_async": "async, and many at once",
        "web_request": "below the span of a web request",
        "two_questions": "two questions below one span",
        "dict_output": "answer with its sources as a mapping",
        "all_outputs": "answer beside the outputs of all steps",
        "output_adapter": "answer as a text of the last step",
        "changed_answer": "answer changed by the application",
        "router": "router between chains",
        "other_model": "another protocol of the model",
        "few_shot": "examples in the prompt",
        "model_cache": "cache of the model",
        "common_span": "retriever and model in plain code, one span around",
        "no_common_span": "retriever and model in plain code, no span around",
        "completion_model": "model of completions",
        "prompt_builder": "prompt of one text",
        "own_template": "own template of the prompt",
        "plain_predict": "answer without reasoning",
        "custom": "own query engine",
        "workflow": "own workflow",
        "structured": "structured answer",
        "sub_pipeline": "retrieval in a pipeline of its own",
    },
    "Attempts": {
        "stream_closed": "stream closed early",
        "stream_closed_at_once": "stream closed after its first piece",
        "stream_cancelled": "async stream closed early or cancelled",
        "fallback": "fallback to another chain",
        "fallback_stream": "fallback to another chain, streamed or async",
        "fallback_by_hand": "fallback in plain code",
        "model_fallback": "fallback to another model",
        "retry": "retry of the chain",
        "model_retry": "retry of the model",
        "discarded_attempt": "poor answer thrown away, asked again",
        "failed": "all attempts fail",
        "stream_left": "stream left, and not closed",
        "fallback_apart": "fallback in plain code, no span around",
        "retriever_fallback": "fallback to another retriever",
    },
    "Steps between retriever and prompt": {
        "rerank_step": "own rerank step",
        "ranker": "reranker of the framework",
        "structured_ranker": "reranker that calls a function",
        "two_rankers": "several steps, one after another",
        "cut_off": "cut-off in a plain function",
        "cut_texts": "texts cut to a length",
        "masked_texts": "texts with hidden names and numbers",
        "chunks": "chunks that overlap",
        "auto_merging": "chunks merged into their parents",
        "numbered": "numbered or marked documents",
        "documents_as_json": "documents as JSON, or as printed objects",
        "compression": "documents compressed by a model",
        "summary": "documents summarized by a model",
        "multi_query": "several queries of one question",
        "ensemble": "two retrievers joined",
        "hyde": "retrieval by a made-up answer",
        "grading": "documents graded by a model",
        "grading_none": "grading that keeps nothing",
        "rewritten_question": "query rewritten by a model",
        "second_retrieval": "corrective second retrieval",
        "model_ranker": "documents ranked by a model",
        "reorder": "documents in another order",
        "window": "sentence replaced by its window",
        "metadata_in_text": "metadata beside the text in the prompt",
    },
    "Answers of several calls": {
        "map_reduce": "map and reduce",
        "refine": "refine",
        "two_hops": "two searches, the second by what the first found",
        "rewritten_answer": "answer rewritten by a second call",
        "checked_answer": "answer checked by a model",
        "sub_questions": "sub-questions",
        "simple_summary": "texts cut to one prompt",
        "tree_summarize": "tree of summaries with one prompt",
        "accumulate": "an answer for each document",
        "multi_step": "question in several steps",
    },
    "Conversations": {
        "condense": "question condensed with the history",
        "history": "history of messages",
        "two_turns": "two turns of one agent",
        "two_turns_agent": "two turns with a memory",
        "session": "session set by the application",
        "session_in_metadata": "session in the metadata of the call",
        "session_on_span": "session on an own outer span",
        "thread": "thread of the framework as session",
        "session_over_thread": "session against the framework's own thread",
        "condense_context": "question condensed, and context in the chat",
        "condense_completion": "question condensed by completions",
        "history_completion": "history with completions",
    },
    "Nothing found, nothing said": {
        "empty_retrieval": "nothing found, model asked",
        "empty_without_model": "nothing found, no model asked",
        "all_dropped_without_model": "all documents dropped, no model asked",
        "empty_answer": "empty answer of the model",
        "no_retrieval": "no retriever",
        "retrieval_only": "retriever without an answer",
        "answer_cache": "cache of answers, without a retriever",
        "step_without_retriever": "store asked in plain code by a step",
        "ids": "own ids of documents",
        "empty_without_model_stream": "nothing found, no model asked, streamed",
        "guard": "branch without a model, not taken",
    },
    "Agents": {
        "agent": "agent with one tool",
        "agent_async": "agent, async",
        "agent_stream": "agent, streamed",
        "events": "agent, whose events are streamed",
        "agent_two_tools": "agent with two tools at once",
        "agent_two_rounds": "agent with two rounds",
        "agent_memory": "agent with memory",
        "agent_without_search": "turn of an agent without a search",
        "agent_empty": "agent that finds nothing",
        "agent_structured": "agent with a structured answer",
        "text_tool": "tool that returns a text",
        "joined_text_tool": "tool that returns joined texts: one document",
        "web_search": "search that returns an answer",
        "json_tool": "tool that returns JSON or objects",
        "artifact_tool": "tool with an artifact",
        "tool_as_answer": "tool whose result is the answer",
        "tool_error": "tool whose first reply is an error",
        "tool_error_only": "tool that only fails",
        "other_tool": "tool that is no search",
        "chain_as_tool": "RAG chain as a tool",
        "return_direct": "tool that answers the user",
        "agent_as_tool": "agent as a tool",
        "sub_agents": "researcher, then writer",
        "sub_agents_in_span": "the same, below a span with question and answer",
        "handoff": "handoff to another agent",
        "guardrail": "guardrail that asks a model",
        "supervisor": "supervisor of agents",
        "own_tool_calls": "calls of tools in an own form",
        "results_tool": "tool that returns an object with results",
        "list_tool": "tool that returns a list of texts",
        "objects_tool": "tool that returns a list of objects",
        "react": "ReAct agent",
        "react_two_rounds": "ReAct agent with two rounds",
        "agent_without_pipeline": "agent outside a pipeline",
        "sub_graph": "graph in a graph",
    },
}
"""The rows: name of the fixture, and title, by section."""

CONSTRUCTIONS: Final = {name: title for rows in SECTIONS.values() for name, title in rows.items()}


@cache
def fixtures() -> dict[str, dict[str, Any]]:
    """Return what each application saw, by `framework/name`."""
    return {
        path.relative_to(CAPTURED).with_suffix("").as_posix(): json.loads(path.read_text("utf-8"))["truth"]
        for path in sorted(CAPTURED.rglob("*.json"))
    }


def constructions_part() -> str:
    """Return a table for each section: for each construction and framework what is recorded of it.

    A cell is empty where there is no such application.
    """
    columns = [framework for framework in FRAMEWORKS if versions(framework)]
    parts = []
    for section, rows in SECTIONS.items():
        lines = [[section.lower(), *(FRAMEWORKS[framework] for framework in columns)], ["---"] * (len(columns) + 1)]
        for name, title in rows.items():
            cells = [_cell(f"{framework}/{name}") for framework in columns]
            lines += [[title, *cells]] if any(cells) else []
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def versions_part() -> str:
    """Return a table of the versions with which the applications were run."""
    lines = ["| | tested with |", "|---|---|"]
    lines += [f"| {title} | {', '.join(found)} |" for name, title in FRAMEWORKS.items() if (found := versions(name))]
    return "\n".join(lines)


@cache
def versions(framework: str) -> list[str]:
    """Return the packages of a framework with their versions, as the fixtures were captured with them."""
    file = CAPTURED / framework / "versions.txt"
    return file.read_text("utf-8").splitlines() if file.exists() else []


def _cell(name: str) -> str:
    if name not in fixtures():
        return ""
    return str(fixtures()[name]["outcome"])
