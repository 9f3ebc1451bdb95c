"""The dialects of traces as one table: which attribute has the role, the question, the documents and the answer.

Sources: OpenInference (spec/semantic_conventions.md), OpenTelemetry GenAI (gen-ai-spans.md), OpenLLMetry, Langfuse,
MLflow, LangSmith, Vercel's AI SDK, Haystack, PydanticAI. A new dialect is a new row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Role = Literal["retrieval", "rerank", "llm", "embedding", "tool", "guard", "other"]
"""The part of a span in an interaction. A guard (guardrail, evaluator) neither retrieves nor answers."""

REDACTED: Final = frozenset({"__REDACTED__", "[REDACTED]", "<redacted>", "<masked>", "***"})
"""Values that stand for a content which the sender hides: the content is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """Names of attributes in one dialect.

    A name that ends in `.` is the beginning of flattened names, as in `retrieval.documents.0.document.content`.
    """

    name: str
    kinds: tuple[str, ...]
    """Attributes that name the role of a span."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """The role by the value of such an attribute, in lower case."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    """The query of a retrieval, as text."""
    documents: tuple[str, ...] = ()
    """The documents of a retrieval."""
    reranked: tuple[str, ...] = ()
    """The documents after a reranking."""
    rerank_inputs: tuple[str, ...] = ()
    input_messages: tuple[str, ...] = ()
    output_messages: tuple[str, ...] = ()
    prompt_variables: tuple[str, ...] = ()
    """Variables of the prompt template; some have the question and the documents."""
    model: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    """The provider of the model, the surest first."""
    address: tuple[str, ...] = ()
    """Host name of the endpoint of the model."""
    cache_read: tuple[str, ...] = ()
    """Input tokens that came from the cache; they are counted in `input_tokens`, too."""
    cache_write: tuple[str, ...] = ()
    """Input tokens that went into the cache; they are counted in `input_tokens`, too."""
    cost: tuple[str, ...] = ()
    session: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    switch: str = ""
    """The remedy when spans of this dialect come without content."""
    marks: tuple[str, ...] = ()
    """Beginnings of attribute names which tell the dialect of a span without a role."""


_KINDS: Final[Mapping[str, Role]] = {
    "retriever": "retrieval",
    "retrieval": "retrieval",
    "reranker": "rerank",
    "rerank": "rerank",
    "llm": "llm",
    "chat_model": "llm",
    "generation": "llm",
    "completion": "llm",
    "embedding": "embedding",
    "tool": "tool",
    "guardrail": "guard",
    "evaluator": "guard",
}

OPENINFERENCE: Final = Convention(
    name="OpenInference",
    kinds=("openinference.span.kind",),
    roles=_KINDS,
    inputs=("input.value",),
    outputs=("output.value",),
    query=("reranker.query",),
    documents=("retrieval.documents.",),
    reranked=("reranker.output_documents.",),
    rerank_inputs=("reranker.input_documents.",),
    input_messages=("llm.input_messages.",),
    output_messages=("llm.output_messages.",),
    prompt_variables=("llm.prompt_template.variables",),
    model=("llm.model_name",),
    input_tokens=("llm.token_count.prompt",),
    output_tokens=("llm.token_count.completion",),
    provider=("llm.provider", "llm.system"),
    cache_read=("llm.token_count.prompt_details.cache_read",),
    cache_write=("llm.token_count.prompt_details.cache_write",),
    cost=("llm.cost.total",),
    session=("session.id",),
    user=("user.id",),
    switch="OPENINFERENCE_HIDE_INPUTS=false, OPENINFERENCE_HIDE_OUTPUTS=false",
    marks=("openinference.", "retrieval.documents.", "reranker.", "llm."),
)

LANGFUSE: Final = Convention(
    name="Langfuse",
    kinds=("langfuse.observation.type",),
    roles=_KINDS,
    inputs=("langfuse.observation.input", "langfuse.trace.input"),
    outputs=("langfuse.observation.output", "langfuse.trace.output"),
    input_messages=("langfuse.observation.input",),
    output_messages=("langfuse.observation.output",),
    model=("langfuse.observation.model.name",),
    cost=("langfuse.observation.cost_details",),
    input_tokens=("langfuse.observation.usage_details",),
    output_tokens=("langfuse.observation.usage_details",),
    session=("langfuse.session.id", "session.id"),
    user=("langfuse.user.id", "user.id"),
    switch="observe(capture_input=True, capture_output=True)",
    marks=("langfuse.",),
)

OPENLLMETRY: Final = Convention(
    name="OpenLLMetry",
    kinds=("gen_ai.operation.name", "llm.request.type", "traceloop.span.kind", "db.operation"),
    roles={
        "vector_db_retrieve": "retrieval",
        "retriever": "retrieval",
        "query": "retrieval",
        "search": "retrieval",
        "rerank": "rerank",
        "chat": "llm",
        "completion": "llm",
        "text_completion": "llm",
        "embedding": "embedding",
        "embeddings": "embedding",
        "tool": "tool",
    },
    inputs=("traceloop.entity.input", "gen_ai.task.input"),
    outputs=("traceloop.entity.output", "gen_ai.task.output"),
    documents=("db.query.result.",),
    input_messages=("gen_ai.prompt.", "gen_ai.input.messages"),
    output_messages=("gen_ai.completion.", "gen_ai.output.messages"),
    provider=("traceloop.association.properties.ls_provider",),
    session=("traceloop.association.properties.session_id", "traceloop.association.properties.thread_id"),
    user=("traceloop.association.properties.user_id",),
    switch="TRACELOOP_TRACE_CONTENT=true",
    marks=("traceloop.", "db.vector", "db.system"),
)

MLFLOW: Final = Convention(
    name="MLflow",
    kinds=("mlflow.spanType",),
    roles={**_KINDS, "chat_model": "llm", "parser": "other"},
    inputs=("mlflow.spanInputs",),
    outputs=("mlflow.spanOutputs",),
    input_messages=("mlflow.spanInputs",),
    output_messages=("mlflow.spanOutputs",),
    session=("mlflow.trace.session",),
    user=("mlflow.trace.user",),
    marks=("mlflow.",),
)

LANGSMITH: Final = Convention(
    name="LangSmith",
    kinds=("langsmith.span.kind",),
    roles=_KINDS,
    inputs=("gen_ai.prompt", "langsmith.inputs", "inputs"),
    outputs=("gen_ai.completion", "langsmith.outputs", "outputs"),
    input_messages=("gen_ai.prompt", "gen_ai.prompt."),
    output_messages=("gen_ai.completion", "gen_ai.completion."),
    session=("langsmith.trace.session_id", "langsmith.metadata.session_id", "langsmith.metadata.thread_id"),
    user=("langsmith.metadata.user_id",),
    marks=("langsmith.",),
)

VERCEL: Final = Convention(
    name="AI SDK",
    kinds=("ai.operationId", "operation.name"),
    roles={
        "ai.generatetext.dogenerate": "llm",
        "ai.streamtext.dostream": "llm",
        "ai.generateobject.dogenerate": "llm",
        "ai.streamobject.dostream": "llm",
        "ai.toolcall": "tool",
        "ai.embed": "embedding",
        "ai.embed.doembed": "embedding",
        "ai.embedmany": "embedding",
        "ai.embedmany.doembed": "embedding",
        "ai.rerank": "rerank",
        "ai.rerank.dorerank": "rerank",
    },
    inputs=("ai.prompt", "ai.toolCall.args"),
    outputs=("ai.response.text", "ai.toolCall.result", "ai.result.text"),
    input_messages=("ai.prompt.messages",),
    output_messages=("ai.response.text",),
    model=("ai.response.model", "ai.model.id"),
    input_tokens=("ai.usage.inputTokens", "ai.usage.promptTokens"),
    output_tokens=("ai.usage.outputTokens", "ai.usage.completionTokens"),
    provider=("ai.model.provider",),
    cache_read=("ai.usage.cachedInputTokens",),
    session=("ai.telemetry.metadata.sessionId",),
    user=("ai.telemetry.metadata.userId",),
    switch="experimental_telemetry: { recordInputs: true, recordOutputs: true }",
    marks=("ai.",),
)

HAYSTACK: Final = Convention(
    name="Haystack",
    kinds=("haystack.component.type",),
    inputs=("haystack.component.input", "haystack.pipeline.input_data"),
    outputs=("haystack.component.output", "haystack.pipeline.output_data"),
    output_messages=("haystack.component.output",),
    switch="HAYSTACK_CONTENT_TRACING_ENABLED=true",
    marks=("haystack.",),
)

GENAI: Final = Convention(
    name="OpenTelemetry GenAI",
    kinds=("gen_ai.operation.name",),
    roles={
        "chat": "llm",
        "text_completion": "llm",
        "generate_content": "llm",
        "completion": "llm",
        "responses": "llm",
        "retrieval": "retrieval",
        "retrieve": "retrieval",
        "search_memory": "retrieval",
        "rerank": "rerank",
        "execute_tool": "tool",
        "embeddings": "embedding",
    },
    inputs=("gen_ai.tool.call.arguments", "gen_ai.task.input", "tool_arguments"),
    outputs=("gen_ai.tool.call.result", "gen_ai.task.output", "tool_response", "final_result"),
    query=("gen_ai.retrieval.query.text", "gen_ai.retrieval.query"),
    documents=("gen_ai.retrieval.documents", "gen_ai.retrieval.documents."),
    input_messages=(
        "gen_ai.input.messages",
        "pydantic_ai.all_messages",
        "all_messages_events",
        "gen_ai.prompt.",
        "gen_ai.prompt",
    ),
    output_messages=("gen_ai.output.messages", "gen_ai.completion.", "gen_ai.completion"),
    prompt_variables=("gen_ai.prompt.variable.",),
    model=("gen_ai.response.model", "gen_ai.request.model"),
    input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    provider=("gen_ai.provider.name", "gen_ai.system"),
    address=("server.address",),
    cache_read=("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    cache_write=("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens"),
    cost=("operation.cost",),
    session=("gen_ai.conversation.id", "session.id"),
    user=("user.id", "enduser.id"),
    switch="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
    marks=("gen_ai.",),
)

BY_HAND: Final = Convention(
    name="names by hand",
    kinds=(),
    inputs=("input", "inputs", "question", "query", "user_query", "request"),
    outputs=("output", "outputs", "documents", "retrieved_documents", "context", "answer", "response", "result"),
)

CONVENTIONS: Final = (OPENINFERENCE, LANGFUSE, MLFLOW, LANGSMITH, VERCEL, HAYSTACK, OPENLLMETRY, GENAI, BY_HAND)
"""The dialects, the preferred first: a span may have names of two."""
DECISIVE: Final = (OPENINFERENCE, LANGFUSE, MLFLOW, LANGSMITH, VERCEL)
"""Dialects that name the role of every span: a name tells nothing more."""

DOCUMENT_KEYS: Final = ("context", "contexts", "documents", "docs", "sources", "passages", "retrieved_documents")
"""Keys of a prompt's variables that may have the documents."""

RETRIEVAL_WORDS: Final = ("retriev", "vector_search", "vectorsearch", "vector search", "similarity_search", "search")
"""Parts of a name that tell a retrieval where no attribute tells the role."""
PREPARING_WORDS: Final = (
    "generat", "creat", "rewrit", "rephras", "condens", "build", "plan", "expand", "decide", "decision", "route",
    "should", "need", "grade", "check", "pars", "format",
)  # fmt: skip
"""Parts of a name that tell a step around a retrieval, such as `generate_search_query`: its output has no documents."""
TOOL_WORDS: Final = (
    "lookup", "look_up", "knowledge", "vector", "find_doc", "get_doc", "fetch_doc", "read_doc", "query_doc", "passage",
    "get_context", "query_engine", "query_index", "rag_",
)  # fmt: skip
"""Further parts of the name of a tool that tell a retrieval: the reply of such a tool goes to the model."""
RERANK_WORDS: Final = ("rerank", "ranker")
LLM_WORDS: Final = ("generator", "chatcompletion", "chat_completion", "llm")
"""Parts of the type of a Haystack component that tell a model call."""
