"""Traces of further instrumentations, as their documentation describes them, written by hand."""

from typing import Any

import pytest
from tests.support.doc_pages import page_text
from tests.support.traces import Branch, branch, event, spans

from ragtide_producers.traces.conventions import CONVENTIONS
from ragtide_producers.traces.interactions import interactions_of
from ragtide_producers.traces.options import MappingOptions

TEXTS = ["The lock opens within five seconds.", "Helmets are lent for 2 euros."]
QUESTION = "How do I unlock a bicycle?"
ANSWER = "Scan the code."


def said(role: str, text: str) -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}]}]


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
            "gen_ai.input.messages": said("user", QUESTION),
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
    branch("ai.generateText.doGenerate", {**GENERATE, "ai.response.text": ANSWER}),
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
            "gen_ai.prompt.0.content": "Be brief.",
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
            "mlflow.spanInputs": {"messages": [{"role": "user", "content": QUESTION}]},
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
            event("gen_ai.user.message", {"content": QUESTION}),
            event("gen_ai.choice", {"message": f'{{"role": "assistant", "content": "{ANSWER}"}}'}),
        ),
    ),
)


@pytest.mark.parametrize(
    "root",
    [PYDANTIC_AI, HAYSTACK, VERCEL, VECTOR_STORE, MLFLOW, BY_HAND, MESSAGE_EVENTS],
    ids=["PydanticAI", "Haystack", "AI SDK", "vector store", "MLflow", "by hand", "GenAI events"],
)
def test_a_dialect_is_read(root: Branch) -> None:
    (found,) = interactions_of(spans(root), MappingOptions())
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
