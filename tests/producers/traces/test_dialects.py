"""Traces of further instrumentations, as their documentation describes them, written by hand."""

from typing import Any

import pytest
from tests.support.doc_pages import page_text
from tests.support.traces import Branch, branch, event, spans

from ragtide_producers.traces.conventions import CONVENTIONS
from ragtide_producers.traces.interactions import interactions_of
from ragtide_runtime.settings.ingest import IngestSettings

TEXTS = ["The lock opens within five seconds.", "Helmets are lent for 2 euros."]
QUESTION = "How do I unlock a bicycle?"
ANSWER = "Scan the code."


def said(role: str, text: str) -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}]}]


CONTEXT = "Answer by these documents:\n" + "\n\n".join(TEXTS)
CALL = [{"role": "assistant", "parts": [{"type": "tool_call", "name": "retrieve", "arguments": "{}"}]}]

PYDANTIC_AI = branch(
    "agent run",
    {
        "gen_ai.operation.name": "invoke_agent",
        "final_result": ANSWER,
        "pydantic_ai.all_messages": [*said("user", QUESTION), *said("assistant", ANSWER)],
    },
    branch("chat gpt", {"gen_ai.operation.name": "chat", "gen_ai.output.messages": CALL}),
    branch(
        "running tool",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "retrieve",
            "gen_ai.tool.call.arguments": {"search_query": "unlock"},
            "gen_ai.tool.call.result": [{"id": at, "content": text} for at, text in enumerate(TEXTS)],
        },
    ),
    branch(
        "chat gpt",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [
                *said("user", QUESTION),
                {"role": "user", "parts": [{"type": "tool_call_response", "id": "1", "result": TEXTS}]},
            ],
            "gen_ai.output.messages": said("assistant", ANSWER),
        },
    ),
)


def component(kind: str, given: dict[str, Any], returned: dict[str, Any]) -> Branch:
    content = {"haystack.component.input": given, "haystack.component.output": returned}
    return branch("haystack.component.run", {"haystack.component.type": kind, **content})


FOUND = [{"id": str(at), "content": text, "score": 1.0} for at, text in enumerate(TEXTS)]
HAYSTACK = branch(
    "haystack.pipeline.run",
    {
        "haystack.pipeline.input_data": {"retriever": {"query": QUESTION}, "prompt_builder": {"question": QUESTION}},
        "haystack.pipeline.output_data": {"llm": {"replies": [ANSWER]}},
    },
    component("InMemoryBM25Retriever", {"query": QUESTION, "top_k": 2}, {"documents": FOUND}),
    component("PromptBuilder", {"question": QUESTION}, {"prompt": "Answer: ..."}),
    component("OpenAIGenerator", {"prompt": "Answer: ..."}, {"replies": [ANSWER], "meta": [{"model": "gpt"}]}),
)

ASKED = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
RESULT = {"type": "tool-result", "toolCallId": "1", "output": {"type": "json", "value": [{"text": t} for t in TEXTS]}}
TOLD = [*ASKED, {"role": "tool", "content": [RESULT]}]
GENERATE = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": ASKED}
VERCEL = branch(
    "ai.generateText",
    {"ai.operationId": "ai.generateText", "ai.prompt": {"prompt": QUESTION}, "ai.response.text": ANSWER},
    branch("ai.generateText.doGenerate", {**GENERATE, "ai.response.toolCalls": "[]"}),
    branch(
        "ai.toolCall",
        {
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": "getInformation",
            "ai.toolCall.args": {"question": "unlock"},
            "ai.toolCall.result": [{"name": text, "text": text, "similarity": 0.8} for text in TEXTS],
        },
    ),
    branch("ai.generateText.doGenerate", {**GENERATE, "ai.prompt.messages": TOLD, "ai.response.text": ANSWER}),
)

HITS = tuple(
    event("db.query.result", {"db.query.result.document": text, "db.query.result.id": str(at)})
    for at, text in enumerate(TEXTS)
)
VECTOR_STORE = branch(
    "rag",
    {},
    branch("chroma.query", {"db.system": "chroma", "db.operation": "query"}, events=HITS),
    branch(
        "openai.chat",
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": CONTEXT,
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": QUESTION,
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": ANSWER,
        },
    ),
)

MLFLOW = branch(
    "rag",
    {"mlflow.spanType": "CHAIN", "mlflow.spanInputs": {"question": QUESTION}, "mlflow.spanOutputs": ANSWER},
    branch(
        "retrieve",
        {
            "mlflow.spanType": "RETRIEVER",
            "mlflow.spanInputs": {"query": QUESTION},
            "mlflow.spanOutputs": [{"page_content": text, "metadata": {"doc_uri": "a"}} for text in TEXTS],
        },
    ),
    branch(
        "chat",
        {
            "mlflow.spanType": "CHAT_MODEL",
            "mlflow.spanInputs": {"messages": [{"role": "user", "content": f"{CONTEXT}\n{QUESTION}"}]},
            "mlflow.spanOutputs": {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]},
        },
    ),
)

BY_HAND = branch(
    "rag_pipeline",
    {},
    branch(
        "vector_search",
        {
            "input": QUESTION,
            "output": {"matches": [{"id": "a", "score": 0.1, "metadata": {"text": text}} for text in TEXTS]},
        },
    ),
    branch(
        "call the model",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": said("user", QUESTION),
            "gen_ai.system_instructions": [{"type": "text", "content": CONTEXT}],
            "gen_ai.output.messages": said("assistant", ANSWER),
        },
    ),
)

MESSAGE_EVENTS = branch(
    "rag",
    {},
    branch("retrieve", {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": FOUND}),
    branch(
        "chat gpt",
        {"gen_ai.operation.name": "chat"},
        events=(
            event("gen_ai.system.message", {"content": CONTEXT}),
            event("gen_ai.user.message", {"content": QUESTION}),
            event("gen_ai.choice", {"message": f'{{"role": "assistant", "content": "{ANSWER}"}}'}),
        ),
    ),
)


RETRIEVAL_QA = branch(
    "RetrievalQA.workflow",
    {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": {"inputs": {"query": QUESTION}},
        "traceloop.entity.output": {"outputs": {"query": QUESTION, "result": ANSWER}},
    },
    branch(
        "vector_db_retrieve Handbook",
        {
            "gen_ai.operation.name": "vector_db_retrieve",
            "traceloop.entity.output": {"documents": [{"page_content": text} for text in TEXTS]},
        },
    ),
    branch(
        "ChatOpenAI.chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": said("user", "\n\n".join([*TEXTS, QUESTION])),
            "gen_ai.output.messages": said("assistant", ANSWER),
        },
    ),
)
"""OpenLLMetry: the name of the workflow has the word of a retrieval."""


@pytest.mark.parametrize(
    "root",
    [PYDANTIC_AI, HAYSTACK, VERCEL, VECTOR_STORE, MLFLOW, BY_HAND, MESSAGE_EVENTS, RETRIEVAL_QA],
    ids=["PydanticAI", "Haystack", "AI SDK", "vector store", "MLflow", "by hand", "GenAI events", "OpenLLMetry"],
)
def test_a_dialect_is_read(root: Branch) -> None:
    (found,) = interactions_of(spans(root), IngestSettings())
    assert found.interaction is not None, found.detail
    documents = [document.text for document in found.interaction.documents]
    assert (found.interaction.question, documents, found.interaction.response) == (QUESTION, TEXTS, ANSWER)


def test_the_page_names_every_dialect_with_its_version_and_its_names() -> None:
    page = page_text("traces")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    table = {row[0]: row for row in rows if len(row) == len(("dialect", "version", "role", "tested"))}
    for dialect in CONVENTIONS:
        if dialect.kinds or dialect.marks:
            assert table[dialect.name][1] == dialect.version
            assert dialect.kinds == () or any(f"`{kind}`" in table[dialect.name][2] for kind in dialect.kinds)
    events = {
        one.name for dialect in CONVENTIONS for one in dialect.events if one.author in (None, "user", "assistant")
    }
    assert [
        name for name in events - {"gen_ai.assistant.message", "gen_ai.content.completion"} if f"`{name}`" not in page
    ] == []


def enveloped(content: dict[str, Any], node: str) -> dict[str, Any]:
    """Return a value as the callback of LangChain in OpenLLMetry writes it: with tags and settings of the call."""
    kwargs = {"name": node, "tags": ["graph:step:1"]}
    return {
        **content,
        "tags": ["graph:step:1"],
        "metadata": {"langgraph_node": node, "langgraph_step": 1},
        "kwargs": kwargs,
    }


def graph_of_research(*steps: Branch, node: str = "research") -> Branch:
    """Return a graph whose node has the name of a search, and searches and answers below it."""
    task = {
        "traceloop.span.kind": "task",
        "traceloop.entity.input": enveloped({"inputs": {"question": QUESTION}}, node),
        "traceloop.entity.output": enveloped({"outputs": {"draft": ANSWER}}, node),
    }
    graph = {
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": enveloped({"inputs": {"question": QUESTION}}, "LangGraph"),
        "traceloop.entity.output": enveloped({"outputs": {"question": QUESTION, "answer": ANSWER}}, "LangGraph"),
    }
    return branch("LangGraph.workflow", graph, branch(f"execute_task {node}", task, *steps))


def test_a_step_with_the_name_of_a_search_is_none_if_spans_below_it_retrieve_and_answer() -> None:
    found = {"documents": [{"page_content": text, "metadata": {"source": "handbook.md"}} for text in TEXTS]}
    retrieval = branch(
        "vector_db_retrieve Handbook",
        {"gen_ai.operation.name": "vector_db_retrieve", "traceloop.entity.output": found},
    )
    call = branch(
        "ChatOpenAI.chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": said("user", "\n\n".join([*TEXTS, QUESTION])),
            "gen_ai.output.messages": said("assistant", ANSWER),
        },
    )
    for node in ("research", "web_researcher", "search_and_answer", "retrieve_and_answer"):
        (mapped,) = interactions_of(spans(graph_of_research(retrieval, call, node=node)), IngestSettings())
        assert mapped.interaction is not None, mapped.detail
        assert [document.text for document in mapped.interaction.documents] == TEXTS
        assert (mapped.interaction.question, mapped.interaction.response) == (QUESTION, ANSWER)


def test_tags_and_settings_of_a_call_are_no_documents() -> None:
    """A step with the name of a search has its tags beside an output that has no documents."""
    task = {
        "traceloop.span.kind": "task",
        "traceloop.entity.input": enveloped({"inputs": {"query": QUESTION}}, "search"),
        "traceloop.entity.output": enveloped({"outputs": {"attempts": 1}}, "search"),
    }
    call = branch(
        "ChatOpenAI.chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": said("user", QUESTION),
            "gen_ai.output.messages": said("assistant", ANSWER),
        },
    )
    graph = graph_of_research(branch("execute_task search", task), call, node="answer")
    assert interactions_of(spans(graph), IngestSettings()) == []
