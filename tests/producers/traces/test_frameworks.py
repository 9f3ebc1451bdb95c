"""Traces of frameworks and services, by hand in the names of their own sources: what each was made from is read."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.traces import Branch, branch, event, spans

from ragtide_producers.traces.explaining import explain_traces
from ragtide_producers.traces.interactions import Mapped, interactions_of
from ragtide_runtime.settings.ingest import IngestSettings

pytestmark = pytest.mark.pure

TEXTS = ["The lock opens within five seconds.", "Helmets are lent for 2 euros."]
CONTEXT = "Answer by:\n" + "\n\n".join(TEXTS)
QUESTION = "How do I unlock a bicycle?"
ANSWER = "Scan the code."
NOTHING = "I found nothing about that."
FOUND = [{"id": "d1", "text": TEXTS[0]}, {"id": "d2", "text": TEXTS[1]}]


def read(root: Branch) -> list[tuple[str, list[str], str]]:
    found = interactions_of(spans(root), IngestSettings())
    assert [one.detail for one in found if one.interaction is None] == []
    return [content(one) for one in found]


def content(one: Mapped) -> tuple[str, list[str], str]:
    assert one.interaction is not None
    return one.interaction.question, [document.text for document in one.interaction.documents], one.interaction.response


def said(role: str, *parts: Any) -> dict[str, Any]:
    return {
        "role": role,
        "parts": [{"type": "text", "content": part} if isinstance(part, str) else part for part in parts],
    }


CALL = {"type": "tool_call", "id": "c1", "name": "search_docs", "arguments": {"q": "unlock"}}


def chat(*given: dict[str, Any], answer: Any = ANSWER, **more: Any) -> Branch:
    """Return a model call that has both texts in its prompt."""
    attributes = {
        "gen_ai.system_instructions": [{"type": "text", "content": CONTEXT}],
        "gen_ai.input.messages": list(given),
        "gen_ai.output.messages": [said("assistant", answer)],
        **more,
    }
    return branch("chat m", {"gen_ai.operation.name": "chat", **attributes})


def tool(result: Any = None, name: str = "search_docs", **more: Any) -> Branch:
    given = {} if result is None else {"gen_ai.tool.call.result": result}
    return branch(
        f"execute_tool {name}",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": "c1",
            **given,
            **more,
        },
    )


def agent(*steps: Branch) -> Branch:
    messages = {
        "gen_ai.input.messages": [said("user", QUESTION)],
        "gen_ai.output.messages": [said("assistant", ANSWER)],
    }
    return branch("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", **messages}, *steps)


def spring(
    documents: Any = None, *, events: Any = (), operation: str = "query", prompt: str = "", **more: Any
) -> Branch:
    given = {} if documents is None else {"db.vector.query.response.documents": documents}
    store = {"spring.ai.kind": "vector_store", "db.system": "pg_vector", "db.operation.name": operation}
    called = {"gen_ai.operation.name": "chat", "gen_ai.completion": json.dumps([ANSWER]), **more}
    return branch(
        "spring_ai chat_client",
        {"gen_ai.operation.name": "framework", "gen_ai.system": "spring_ai", "spring.ai.kind": "chat_client"},
        branch(
            "question_answer_advisor",
            {"gen_ai.operation.name": "framework", "spring.ai.kind": "advisor"},
            branch(
                f"pg_vector {operation}", {**store, "db.vector.query.content": QUESTION, **given}, events=tuple(events)
            ),
            branch("chat gpt", {**called, "gen_ai.prompt": json.dumps([f"Context. {prompt or documents or CONTEXT}"])}),
        ),
    )


def kernel(*messages: dict[str, Any], answer: dict[str, Any]) -> Branch:
    """Return a model call of Semantic Kernel for .NET, whose events have JSON."""
    events = [
        event(f"gen_ai.{message['role']}.message", {"gen_ai.event.content": json.dumps(message)})
        for message in messages
    ]
    choice = {"index": 0, "message": answer, "finish_reason": "stop"}
    events.append(event("gen_ai.choice", {"gen_ai.event.content": json.dumps(choice)}))
    return branch("chat gpt", {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"}, events=tuple(events))


ASKED = {"role": "user", "content": QUESTION}
CALLED = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "search"}}]}


def openinference(kind: str, name: str = "step", *children: Branch, **given: Any) -> Branch:
    attributes = {key.replace("__", "."): value for key, value in given.items() if value is not None}
    return branch(name, {"openinference.span.kind": kind, **attributes}, *children)


def documents_at(prefix: str = "retrieval.documents") -> dict[str, str]:
    return {f"{prefix}.{at}.document.content": text for at, text in enumerate(TEXTS)}


def response(results: Any) -> dict[str, Any]:
    """Return a reply of OpenAI's Responses API with a file search."""
    search = {"type": "file_search_call", "id": "fs", "status": "completed", "queries": ["unlock"], "results": results}
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    return {"object": "response", "output": [search, message]}


def grounded(key: str = "groundingChunks", inner: str = "retrievedContext") -> dict[str, Any]:
    chunks = [{inner: {"uri": f"gs://{at}", "title": "t", "text": text}} for at, text in enumerate(TEXTS)]
    metadata = key.replace("Chunks", "Metadata").replace("_chunks", "_metadata")
    content = {"role": "model", "parts": [{"text": ANSWER}]}
    return {"candidates": [{"content": content, metadata: {key: chunks}}]}


RETRIEVED = [{"content": {"text": text}, "metadata": {}} for text in TEXTS]
LLM_ASKED = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": QUESTION}
LLM_TOLD = {"llm.input_messages.1.message.role": "system", "llm.input_messages.1.message.content": CONTEXT}
LLM_SAID = {"llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": ANSWER}
MODEL = branch("model", {"openinference.span.kind": "LLM", **LLM_ASKED, **LLM_TOLD, **LLM_SAID})

WHOLE = {
    "Spring AI": spring(json.dumps(TEXTS)),
    "Spring AI's own list, with a quotation": spring('["' + '", "'.join(TEXTS) + '"]'),
    "Spring AI, an event of the vector store": spring(
        events=[
            event("db.vector.content.query.response", {"db.vector.query.response.documents": list(TEXTS)})
        ]
    ),
    "Semantic Kernel, texts in events of its own": branch(
        "invoke_agent a",
        {"gen_ai.operation.name": "invoke_agent"},
        kernel(ASKED, answer=CALLED),
        branch("execute_tool KB-search", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1",
                                          "gen_ai.tool.name": "KB-search"}),
        kernel(
            ASKED, CALLED, {"role": "tool", "tool_call_id": "c1", "content": json.dumps(FOUND)},
            answer={"role": "assistant", "content": ANSWER},
        ),
    ),
    "the result of a tool only in the messages": agent(
        chat(said("user", QUESTION), answer=CALL),
        tool(),
        chat(said("user", QUESTION), said("assistant", CALL),
             said("tool", {"type": "tool_call_response", "id": "c1", "response": FOUND})),
    ),
    "texts in one event": branch(
        "ask", {},
        tool(FOUND),
        branch(
            "chat", {"gen_ai.operation.name": "chat"},
            events=(
                event(
                    "gen_ai.client.inference.operation.details",
                    {
                        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": CONTEXT}]),
                        "gen_ai.input.messages": json.dumps([said("user", QUESTION)]),
                        "gen_ai.output.messages": json.dumps([said("assistant", ANSWER)]),
                    },
                ),
            ),
        ),
    ),
    "texts in events of one message each": branch(
        "ask", {},
        tool(FOUND),
        branch(
            "chat", {"gen_ai.operation.name": "chat"},
            events=(
                event("gen_ai.system.message", {"content": CONTEXT}),
                event("gen_ai.user.message", {"content": QUESTION}),
                event("gen_ai.choice", {"message": json.dumps([{"text": ANSWER}])}),
            ),
        ),
    ),
    "Google ADK, schema 1, grounded by Vertex AI Search": branch(
        "invoke_agent a",
        {"gen_ai.operation.name": "invoke_agent"},
        branch(
            "call_llm",
            {
                "gen_ai.system": "gcp.vertex.agent",
                "gcp.vertex.agent.llm_request": {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
                "gcp.vertex.agent.llm_response": {
                    "content": {"role": "model", "parts": [{"text": ANSWER}]},
                    "grounding_metadata": {
                        "grounding_chunks": [{"retrieved_context": {"uri": text, "text": text}} for text in TEXTS]
                    },
                },
            },
            branch("generate_content m", {"gen_ai.operation.name": "generate_content"}),
        ),
    ),
    "Vertex AI's RAG engine as a tool": agent(
        chat(said("user", QUESTION), answer=CALL),
        tool({"result": TEXTS}, name="retrieve_rag_documentation"),
        chat(said("user", QUESTION)),
    ),
    "Vertex AI in names of its JSON": openinference(
        "LLM", "generate_content", **LLM_ASKED, **LLM_SAID, **{"output.value": grounded()}
    ),
    "LangChain4j with OpenInference": openinference(
        "AGENT", "AiService.chat",
        openinference("TOOL", "AiService.tool", **{"tool.name": "searchDocs", "output.value": FOUND}),
        MODEL,
        **{"input.value": [{"role": "user", "content": QUESTION}], "output.value": ANSWER},
    ),
    "LangChain4j of Quarkus": branch(
        "langchain4j.aiservices.Assistant.chat", {},
        tool(FOUND, name="searchDocs", **{"gen_ai.tool.call.arguments": {"query": QUESTION}}),
        branch(
            "completion gpt",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.content.prompt": f"{CONTEXT}\n{QUESTION}",
                "gen_ai.content.completion": ANSWER,
            },
        ),
    ),
    "Bedrock's Retrieve": openinference(
        "CHAIN", "ask",
        openinference("RETRIEVER", "bedrock.retrieve", **{"input.value": QUESTION}, **documents_at()),
        MODEL, **{"input.value": QUESTION, "output.value": ANSWER},
    ),
    "Bedrock's RetrieveAndGenerate": openinference(
        "RETRIEVER", "bedrock.retrieve_and_generate",
        **{"input.value": QUESTION, "output.value": ANSWER, "llm.model_name": "m"}, **documents_at(),
    ),
    "Bedrock's RetrieveAndGenerate below the question": openinference(
        "CHAIN", "ask",
        openinference("RETRIEVER", "rag", **{"input.value": "unlock", "output.value": ANSWER}, **documents_at()),
        **{"input.value": QUESTION, "output.value": ANSWER},
    ),
    "Bedrock's RetrieveAndGenerate as it replies": openinference(
        "RETRIEVER", "RetrieveAndGenerateCommand",
        **{
            "input.value": QUESTION,
            "output.value": {
                "output": {"text": ANSWER}, "citations": [{"retrievedReferences": [one]} for one in RETRIEVED]
            },
        },
    ),
    "an agent of Bedrock with a knowledge base": openinference(
        "AGENT", "bedrock_agent.invoke_agent",
        openinference(
            "CHAIN", "orchestrationTrace", openinference("LLM", "LLM"),
            openinference("RETRIEVER", "knowledge_base", **{"input.value": "unlock"}, **documents_at()), MODEL,
        ),
        **{"input.value": QUESTION, "output.value": ANSWER},
    ),
    "file search of Responses": openinference(
        "LLM", "Response", **LLM_ASKED, **LLM_SAID, **{"output.value": response(FOUND)}
    ),
    "file search below an agent": openinference(
        "AGENT", "Agent",
        openinference("LLM", "Response", **LLM_ASKED, **LLM_SAID, **{"output.value": response(FOUND)}),
        **{"input.value": QUESTION, "output.value": ANSWER},
    ),
    "MCP by OpenLIT": agent(
        branch(
            "mcp tools/call search_docs",
            {
                "gen_ai.operation.name": "mcp_tool_call", "mcp.tool.name": "search_docs",
                "mcp.tool.result": {"content": [{"type": "text", "text": json.dumps(FOUND)}]},
            },
        ),
        chat(said("user", QUESTION)),
    ),
    "Milvus by OpenLLMetry": branch(
        "rag", {},
        branch(
            "milvus.search", {"db.system": "milvus", "db.operation": "search"},
            events=tuple(
                event("db.search.result", {"db.search.result.id": "x", "db.search.result.entity": json.dumps(one)})
                for one in FOUND
            ),
        ),
        chat(said("user", QUESTION)),
    ),
    "Pinecone by OpenLLMetry": branch(
        "rag", {},
        branch(
            "pinecone.query", {"db.system": "pinecone", "db.operation": "query"},
            events=tuple(
                event("db.query.result", {"db.query.result.id": one["id"], "db.query.result.score": 0.5,
                                          "db.query.result.metadata": str({"text": one["text"]})})
                for one in FOUND
            ),
        ),
        chat(said("user", QUESTION)),
    ),
}  # fmt: skip


@for_each("root", WHOLE.values())
def test_the_interaction_of_a_framework_is_read_from_its_own_names(root: Branch) -> None:
    assert read(root) == [(QUESTION, TEXTS, ANSWER)]
    reverse = list(reversed(spans(root)))
    assert [content(interaction) for interaction in interactions_of([*reverse, *reverse], IngestSettings())] == [
        (QUESTION, TEXTS, ANSWER)
    ]


EMPTY = {
    "a retriever of OpenInference without documents": openinference(
        "CHAIN", "ask", openinference("RETRIEVER", "search", **{"input.value": QUESTION}), MODEL,
        **{"input.value": QUESTION, "output.value": ANSWER},
    ),
    "a retriever that says so": openinference(
        "CHAIN", "ask", openinference("RETRIEVER", "r", **{"input.value": "x", "output.value": "No results found."}),
        MODEL, **{"input.value": QUESTION, "output.value": ANSWER},
    ),
    "Spring AI": spring("[]"),
    "a search tool of an agent": agent(tool([]), chat(said("user", QUESTION))),
    "a search tool that returned null": agent(tool("null"), chat(said("user", QUESTION))),
    "a tool of MCP in words": agent(
        tool({"content": [{"type": "text", "text": "No results found."}]}), chat(said("user", QUESTION))
    ),
    "a search of an agent that failed": agent(
        tool({"isError": True, "content": [{"type": "text", "text": "timeout"}]}), chat(said("user", QUESTION))
    ),
    "an empty result only in the messages": agent(
        tool(),
        chat(said("user", QUESTION), said("assistant", CALL),
             said("tool", {"type": "tool_call_response", "id": "c1", "response": []})),
    ),
    "a number of results": branch(
        "rag", {},
        branch("pinecone.query", {"db.operation": "query", "db.vector.query.result_count": 0}),
        chat(said("user", QUESTION)),
    ),
    "file search": openinference("LLM", "Response", **LLM_ASKED, **LLM_SAID, **{"output.value": response([])}),
    "Bedrock's RetrieveAndGenerate": openinference(
        "RETRIEVER", "bedrock.retrieve_and_generate", **{"input.value": QUESTION, "output.value": ANSWER}
    ),
    "a step of a chain": openinference(
        "CHAIN", "ask", openinference("CHAIN", "search_docs", **{"output.value": "[]"}), MODEL,
        **{"input.value": QUESTION, "output.value": ANSWER},
    ),
}  # fmt: skip


@for_each("root", EMPTY.values())
def test_a_search_that_found_nothing_is_an_interaction_without_documents(root: Branch) -> None:
    assert read(root) == [(QUESTION, [], ANSWER)]


def silent(prompt: str) -> Branch:
    asked = {**LLM_ASKED, "llm.input_messages.0.message.content": prompt}
    return openinference(
        "CHAIN", "ask", openinference("RETRIEVER", "search", **{"input.value": QUESTION}),
        openinference("LLM", "model", **asked, **LLM_SAID), **{"input.value": QUESTION, "output.value": ANSWER},
    )  # fmt: skip


def test_a_retriever_without_output_found_nothing_unless_the_prompt_has_documents() -> None:
    for prompt in (f"Context:\n\nQuestion: {QUESTION}", f"Be brief.\nQuestion: {QUESTION}"):
        assert read(silent(prompt)) == [(QUESTION, [], ANSWER)]
    for prompt in (f"Context:\n{TEXTS[0]}\n\nQuestion: {QUESTION}", f"<context>{TEXTS[0]}</context>\n{QUESTION}"):
        (found,) = interactions_of(spans(silent(prompt)), IngestSettings())
        assert str(found.refusal) == "no_content"


NONE = {
    "a tool that is no search": agent(tool({"sum": 3}, name="add"), chat(said("user", QUESTION))),
    "an empty list of another tool": agent(tool([], name="list_orders"), chat(said("user", QUESTION))),
    "null from a tool that deletes": agent(tool("null", name="delete_search_index"), chat(said("user", QUESTION))),
    "a summary without documents": agent(
        tool({"content": [{"type": "text", "text": "2 passages found."}]}), chat(said("user", QUESTION))
    ),
    "a vector store that adds": spring(operation="add"),
    "a model call without a search": openinference("LLM", "Response", **LLM_ASKED, **LLM_SAID),
    "a retrieval whose output repeats its documents": openinference(
        "RETRIEVER", "search", **{"input.value": QUESTION, "output.value": "\n\n".join(TEXTS)}, **documents_at()
    ),
    "grounding by the web, without texts": openinference(
        "LLM", "g", **LLM_ASKED, **LLM_SAID,
        **{"output.value": {"candidates": [{"groundingMetadata": {"groundingChunks": [{"web": {"uri": "a"}}]}}]}},
    ),
}  # fmt: skip


@for_each("root", NONE.values())
def test_what_is_no_retrieval_makes_no_interaction(root: Branch) -> None:
    assert interactions_of(spans(root), IngestSettings()) == []


def test_a_quote_that_hides_where_a_text_ends_is_refused() -> None:
    (found,) = interactions_of(spans(spring('["A 5" tyre", "c", "d"]')), IngestSettings())
    assert (found.interaction, str(found.refusal)) == (None, "invalid")
    assert "not escaped" in found.detail
    quoted = ['He said "hello" twice.', "Nothing else."]
    assert read(spring('["' + '", "'.join(quoted) + '"]')) == [(QUESTION, quoted, ANSWER)]


def test_a_cut_message_of_an_event_is_no_answer() -> None:
    cut = event("gen_ai.choice", {"message": '[{"text": "Scan the co'})
    root = branch("ask", {}, tool(FOUND), branch("chat", {"gen_ai.operation.name": "chat"}, events=(cut,)))
    (found,) = interactions_of(spans(root), IngestSettings())
    assert str(found.refusal) == "truncated"


def test_file_search_without_results_names_what_to_ask_for() -> None:
    hidden = openinference("LLM", "Response", **LLM_ASKED, **LLM_SAID, **{"output.value": response(None)})
    (found,) = interactions_of(spans(hidden), IngestSettings())
    assert str(found.refusal) == "no_content"
    assert "file_search_call.results" in found.detail


def test_two_answers_with_their_own_documents_below_one_request_are_two() -> None:
    calls = [
        openinference(
            "LLM", "Response",
            **{**LLM_ASKED, "llm.input_messages.0.message.content": text}, **LLM_SAID,
            **{"output.value": response([{"file_id": "f", "text": text}])},
        )
        for text in TEXTS
    ]  # fmt: skip
    assert read(branch("POST /ask", {}, *calls)) == [(text, [text], ANSWER) for text in TEXTS]


REASONS = {
    "chat": (branch("ask", {}, chat(said("user", QUESTION))), "no span is a retrieval"),
    "another tool": (agent(tool({"sum": 3}, name="add"), chat(said("user", QUESTION))), "add"),
    "a search without a result": (agent(tool(), chat(said("user", QUESTION))), "search_docs has no result"),
    "an error": (branch("ask", {}, tool({"isError": True, "content": []})), "error"),
    "no model call": (branch("ask", {}, tool(FOUND)), "no span is a model call"),
    "a failed retrieval": (branch("ask", {}, replace(tool(FOUND), fields={"failed": True})), "failed"),
    "a failed model call": (
        branch("ask", {}, tool(FOUND), replace(chat(said("user", QUESTION)), fields={"failed": True})), "failed",
    ),
    "the other order": (branch("ask", {}, chat(said("user", QUESTION)), tool(FOUND)), "no model call began after"),
}  # fmt: skip


@for_each("root, reason", REASONS.values())
def test_explain_names_the_cause(root: Branch, reason: str) -> None:
    (explained,) = explain_traces(spans(root), IngestSettings())
    assert explained.interactions == []
    assert reason in explained.reason
