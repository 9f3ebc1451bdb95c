"""The dialects of traces as one table: which attribute or event has the role, the question, the documents, the answer.

Each row names the version of its project whose source or documentation was read. A new dialect is a new row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast, get_args

from ..shapes.messages import Author

Role = Literal["retrieval", "rerank", "llm", "embedding", "tool", "guard", "other"]
"""The part of a span in an interaction. A guard (guardrail, evaluator) neither retrieves nor answers."""

REDACTED: Final = frozenset({"__REDACTED__", "[REDACTED]", "<redacted>", "<masked>", "***"})
"""Values that stand for a content which the sender hides: the content is absent."""


@dataclass(frozen=True, slots=True)
class EventContent:
    """An event of a span that holds a content, which is read as if the span had it under `attribute`."""

    name: str
    """Name of the event."""
    keys: tuple[str, ...]
    """Attributes of the event that have the content; the first that is present counts."""
    attribute: str
    author: Author | None = None
    """Author, if the event is one message; the messages of a span make one list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """Names of attributes in one dialect.

    A name that ends in `.` is the beginning of flattened names, as in `retrieval.documents.0.document.content`.
    """

    name: str
    version: str
    """Version of the project, or of its package, whose names these are."""
    kinds: tuple[str, ...] = ()
    """Attributes that name the role of a span."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """The role by the value of such an attribute, in lower case."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    """The query of a retrieval, as text."""
    documents: tuple[str, ...] = ()
    """The documents of a retrieval; an event with such a beginning of names as its own name is one of them."""
    found: tuple[str, ...] = ()
    """The number of the found documents."""
    no_list_is_empty: bool = False
    """Whether a retrieval with a visible input and no output found nothing: flattened names have no empty list."""
    events: tuple[EventContent, ...] = ()
    tool_name: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    """The id of the call of a tool, which the messages repeat with its result."""
    reranked: tuple[str, ...] = ()
    """The documents after a reranking."""
    rerank_inputs: tuple[str, ...] = ()
    input_messages: tuple[str, ...] = ()
    output_messages: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    """The prompts of a model that completes a text, and has no messages."""
    instructions: tuple[str, ...] = ()
    """The instructions of the system, where they are no message."""
    prompt_variables: tuple[str, ...] = ()
    """Variables of the prompt template; some have the question and the documents."""
    parameters: tuple[str, ...] = ()
    """Parameters of a request to a model."""
    response_id: tuple[str, ...] = ()
    """The provider's id of the response of a model call."""
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
    """Beginnings of attributes, as `name=value`, which show the dialect of a span."""


def _roles(**words: str) -> dict[str, Role]:
    return {word: cast("Role", role) for role, listed in words.items() for word in listed.split()}


_KINDS: Final = _roles(
    retrieval="retriever retrieval",
    rerank="reranker rerank",
    llm="llm chat_model generation completion",
    embedding="embedding",
    tool="tool",
    guard="guardrail evaluator",
)

OPENINFERENCE: Final = Convention(
    name="OpenInference",
    version="semantic conventions 0.1.32",
    kinds=("openinference.span.kind",),
    roles=_KINDS,
    inputs=("input.value",),
    outputs=("output.value",),
    query=("reranker.query",),
    documents=("retrieval.documents.", "retrieval.documents"),
    reranked=("reranker.output_documents.",),
    rerank_inputs=("reranker.input_documents.",),
    input_messages=("llm.input_messages.",),
    output_messages=("llm.output_messages.",),
    prompts=("llm.prompts", "llm.prompts."),
    parameters=("llm.invocation_parameters",),
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
    marks=("openinference.", "retrieval.documents.", "reranker.", "llm.input", "llm.output", "llm.model", "llm.token_"),
    no_list_is_empty=True,
    tool_name=("tool.name",),
    call_id=("tool.id", "tool_call.id"),
)

LANGFUSE: Final = Convention(
    name="Langfuse",
    version="Python SDK 5.0",
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
    version="0.62.1",
    kinds=("gen_ai.operation.name", "llm.request.type", "traceloop.span.kind", "db.operation"),
    roles=_roles(
        retrieval="vector_db_retrieve retriever query search",
        rerank="rerank arerank",
        llm="chat completion acompletion text_completion atext_completion responses aresponses anthropic_messages",
        embedding="embedding embeddings aembedding",
        tool="tool",
        other="workflow agent",
    ),
    inputs=("traceloop.entity.input", "gen_ai.task.input"),
    outputs=("traceloop.entity.output", "gen_ai.task.output"),
    documents=("db.query.result.", "db.search.result."),
    input_messages=("gen_ai.prompt.", "gen_ai.input.messages"),
    output_messages=("gen_ai.completion.", "gen_ai.output.messages"),
    provider=("traceloop.association.properties.ls_provider",),
    session=("traceloop.association.properties.session_id", "traceloop.association.properties.thread_id"),
    user=("traceloop.association.properties.user_id",),
    switch="TRACELOOP_TRACE_CONTENT=true",
    marks=("traceloop.", "llm.request.", "db.vector", "db.system"),
    found=("db.vector.query.result_count",),
    tool_name=("traceloop.entity.name",),
)

ENVELOPES: Final = frozenset((*OPENLLMETRY.inputs, *OPENLLMETRY.outputs))
"""Attributes whose value may be an envelope of what a callback of LangChain got."""
ENVELOPED: Final = frozenset({"inputs", "outputs", "output"})
"""Keys of the content in an envelope."""
SETTINGS_OF_CALLS: Final = frozenset({"tags", "metadata", "kwargs", "input_str"})
"""Keys beside it."""

MLFLOW: Final = Convention(
    name="MLflow",
    version="documentation of 2026",
    kinds=("mlflow.spanType",),
    roles={**_KINDS, "parser": "other"},
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
    version="documentation of 2026",
    kinds=("langsmith.span.kind",),
    roles=_KINDS,
    inputs=("gen_ai.prompt", "langsmith.inputs", "inputs"),
    outputs=("gen_ai.completion", "langsmith.outputs", "outputs"),
    input_messages=("gen_ai.prompt", "gen_ai.prompt."),
    output_messages=("gen_ai.completion", "gen_ai.completion."),
    session=("langsmith.trace.session_id", "langsmith.metadata.session_id", "langsmith.metadata.thread_id"),
    user=("langsmith.metadata.user_id",),
    switch="LANGSMITH_HIDE_INPUTS=false, LANGSMITH_HIDE_OUTPUTS=false",
    marks=("langsmith.",),
)

VERCEL: Final = Convention(
    name="AI SDK",
    version="6.0.326, and 7.0 with @ai-sdk/otel 1.0",
    kinds=("ai.operationId", "operation.name"),
    roles=_roles(
        llm="ai.generatetext.dogenerate ai.streamtext.dostream ai.generateobject.dogenerate ai.streamobject.dostream",
        tool="ai.toolcall",
        embedding="ai.embed ai.embed.doembed ai.embedmany ai.embedmany.doembed",
        rerank="ai.rerank ai.rerank.dorerank",
    ),
    inputs=("ai.prompt", "ai.toolCall.args"),
    outputs=("ai.response.text", "ai.toolCall.result", "ai.result.text", "ai.response.object"),
    input_messages=("ai.prompt.messages",),
    output_messages=("ai.response.text",),
    response_id=("ai.response.id",),
    model=("ai.response.model", "ai.model.id"),
    input_tokens=("ai.usage.inputTokens", "ai.usage.promptTokens"),
    output_tokens=("ai.usage.outputTokens", "ai.usage.completionTokens"),
    provider=("ai.model.provider",),
    cache_read=("ai.usage.cachedInputTokens",),
    session=("ai.telemetry.metadata.sessionId",),
    user=("ai.telemetry.metadata.userId",),
    switch="experimental_telemetry: { recordInputs: true, recordOutputs: true }",
    marks=("ai.",),
    tool_name=("ai.toolCall.name",),
    call_id=("ai.toolCall.id",),
)

HAYSTACK: Final = Convention(
    name="Haystack",
    version="3.0",
    kinds=("haystack.component.type",),
    inputs=("haystack.component.input", "haystack.pipeline.input_data"),
    outputs=("haystack.component.output", "haystack.pipeline.output_data"),
    output_messages=("haystack.component.output",),
    switch="HAYSTACK_CONTENT_TRACING_ENABLED=true",
    marks=("haystack.",),
)

HAYSTACK_NAME: Final = "haystack.component.name"
"""Attribute with the name of a component in its pipeline."""

_MESSAGE_KEYS: Final = ("gen_ai.event.content", "message", "content", "body")
"""Attributes of an event that have a message."""

GENAI: Final = Convention(
    name="OpenTelemetry GenAI",
    version="semantic conventions 1.44",
    kinds=("gen_ai.operation.name",),
    roles=_roles(
        llm="chat text_completion generate_content completion responses",
        retrieval="retrieval retrieve search_memory",
        rerank="rerank",
        tool="execute_tool",
        embedding="embeddings",
    ),
    inputs=("gen_ai.tool.call.arguments", "gen_ai.task.input", "tool_arguments"),
    outputs=("gen_ai.tool.call.result", "gen_ai.task.output", "tool_response", "final_result"),
    found=("gen_ai.retrieval.document_count",),
    query=("gen_ai.retrieval.query.text", "gen_ai.retrieval.query"),
    documents=("gen_ai.retrieval.documents", "gen_ai.retrieval.documents."),
    input_messages=(
        "gen_ai.input.messages",
        "pydantic_ai.all_messages",
        "all_messages_events",
        "gen_ai.prompt.",
        "gen_ai.prompt",
        "request_data",
        "events",
    ),
    output_messages=("gen_ai.output.messages", "gen_ai.completion.", "gen_ai.completion", "response_data", "events"),
    instructions=("gen_ai.system_instructions",),
    prompt_variables=("gen_ai.prompt.variable.",),
    response_id=("gen_ai.response.id",),
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
    tool_name=("gen_ai.tool.name", "mcp.tool.name"),
    call_id=("gen_ai.tool.call.id",),
    events=(
        *(
            EventContent("gen_ai.client.inference.operation.details", (name,), name)
            for name in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")
        ),
        *(
            EventContent(f"gen_ai.{author}.message", _MESSAGE_KEYS, "gen_ai.input.messages", author)
            for author in get_args(Author)
        ),
        EventContent("gen_ai.choice", _MESSAGE_KEYS, "gen_ai.output.messages", "assistant"),
        EventContent("gen_ai.content.prompt", ("gen_ai.prompt", "gen_ai.event.content"), "gen_ai.prompt"),
        EventContent("gen_ai.content.completion", ("gen_ai.completion", "gen_ai.event.content"), "gen_ai.completion"),
    ),
)

SPRING_AI: Final = Convention(
    name="Spring AI",
    version="1.0.0-M8; 2.0.1 sends no documents of its own",
    kinds=("spring.ai.kind",),
    roles=_roles(retrieval="vector_store", tool="tool_call", other="advisor chat_client"),
    inputs=("spring.ai.tool.call.arguments",),
    outputs=("spring.ai.tool.call.result",),
    query=("db.vector.query.content",),
    documents=("db.vector.query.response.documents",),
    session=("spring.ai.chat.client.conversation.id",),
    tool_name=("spring.ai.tool.definition.name",),
    call_id=("spring.ai.tool.call.id",),
    events=(
        EventContent(
            "db.vector.content.query.response",
            ("db.vector.query.response.documents",),
            "db.vector.query.response.documents",
        ),
    ),
    switch="1.0 and later write documents, prompt and completion into the log only: add an ObservationFilter that sets "
    "db.vector.query.response.documents, gen_ai.prompt and gen_ai.completion; before, "
    "spring.ai.vectorstore.observations.include-query-response=true",
    marks=("spring.ai.",),
)

SEMANTIC_KERNEL: Final = Convention(
    name="Semantic Kernel",
    version="Python 1.45, .NET 1.80",
    kinds=("gen_ai.operation.name",),
    roles=_roles(llm="chat.completions text.completions text_completions"),
    switch="SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true",
    marks=("sk.", "gen_ai.operation.name=chat.completions", "gen_ai.operation.name=text.completions"),
)

GOOGLE_ADK: Final = Convention(
    name="Google ADK",
    version="2.13, and its schema 1 (1.x)",
    inputs=("gcp.vertex.agent.tool_call_args",),
    outputs=("gcp.vertex.agent.tool_response", "gcp.vertex.agent.llm_response"),
    input_messages=("gcp.vertex.agent.llm_request",),
    output_messages=("gcp.vertex.agent.llm_response",),
    session=("gcp.vertex.agent.session_id",),
    switch="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY, "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental",
    marks=("gcp.vertex.agent.",),
)

STRANDS: Final = Convention(
    name="Strands Agents",
    version="1.62",
    kinds=("gen_ai.operation.name",),
    roles=_roles(other="execute_event_loop_cycle"),
    marks=("event_loop.",),
)

LANGCHAIN4J: Final = Convention(
    name="LangChain4j",
    version="1.20 with OpenInference 0.1.8, or Quarkus",
    outputs=("gen_ai.content.completion",),
    switch="quarkus.langchain4j.tracing.include-prompt=true, quarkus.langchain4j.tracing.include-completion=true, "
    "quarkus.langchain4j.tracing.include-tool-result=true",
    marks=("langchain4j.", "gen_ai.content."),
)

MCP: Final = Convention(
    name="MCP",
    version="Python SDK 2.3.0, OpenLIT 1.45",
    kinds=("mcp.method.name", "gen_ai.operation.name"),
    roles=_roles(tool="tools/call mcp_tool_call"),
    inputs=("mcp.tool.arguments",),
    outputs=("mcp.tool.result", "mcp.response.value"),
    marks=("mcp.",),
)

BY_HAND: Final = Convention(
    name="names by hand",
    version="-",
    inputs=("input", "inputs", "question", "query", "user_query", "request"),
    outputs=("output", "outputs", "documents", "retrieved_documents", "context", "answer", "response", "result"),
)

CONVENTIONS: Final = (
    OPENINFERENCE, LANGFUSE, MLFLOW, LANGSMITH, VERCEL, HAYSTACK, SPRING_AI, GOOGLE_ADK, OPENLLMETRY, SEMANTIC_KERNEL,
    STRANDS, LANGCHAIN4J, GENAI, MCP, BY_HAND,
)  # fmt: skip
"""The dialects, the preferred first: a span may have names of two."""
DECISIVE: Final = (OPENINFERENCE, LANGFUSE, MLFLOW, LANGSMITH, VERCEL)
"""Dialects that name the role of every span: the name of a span adds nothing."""

DOCUMENT_KEYS: Final = ("context", "contexts", "documents", "docs", "sources", "passages", "retrieved_documents")
"""Keys of a prompt's variables that may have the documents."""

FRAMEWORK_SESSIONS: Final = (
    "gen_ai.conversation.id", "traceloop.association.properties.thread_id", "langsmith.metadata.thread_id",
    "spring.ai.chat.client.conversation.id", "gcp.vertex.agent.session_id",
)  # fmt: skip
"""Attributes with the session that a framework knows: one that the application sets wins."""
THREAD_KEYS: Final = ("thread_id", "conversation_id")
"""Keys in the metadata of LangChain with a value that OpenInference writes as the session, too."""
NO_SEARCHES: Final = ("research",)
"""Words that have the word of a retrieval in them, and indicate none."""

RETRIEVAL_WORDS: Final = ("retriev", "vector_search", "vectorsearch", "vector search", "similarity_search", "search")
"""Parts of a name that indicate a retrieval where no attribute names the role."""
PREPARING_WORDS: Final = (
    "generat", "creat", "rewrit", "rephras", "condens", "build", "plan", "expand", "decide", "decision", "route",
    "should", "need", "grade", "check", "pars", "format",
)  # fmt: skip
"""Parts of a name that indicate a step around a retrieval, such as `generate_search_query`: it has no documents."""
TOOL_WORDS: Final = (
    "lookup", "look_up", "knowledge", "vector", "find_doc", "get_doc", "fetch_doc", "read_doc", "query_doc", "passage",
    "get_context", "query_engine", "query_index", "rag_",
)  # fmt: skip
"""Further parts of the name of a tool that indicate a retrieval: the reply of such a tool goes to the model."""
CONTENT_WORDS: Final = ("input", "output", "prompt", "completion", "response", "answer", "document", "message")
"""Parts of a name that indicate a content."""
RERANK_WORDS: Final = ("rerank", "ranker")
PREPARED_CALLS: Final = ("._prepare_chat_with_tools",)
"""Ends of the names of spans with the role of a model that ask none: they write a request (LlamaIndex 0.14)."""
LLM_WORDS: Final = ("generator", "chatcompletion", "chat_completion", "llm")
"""Parts of the type of a Haystack component that indicate a model call."""
WRITING_OPERATIONS: Final = frozenset({"add", "delete", "insert", "update", "upsert", "create", "remove", "write"})
"""Operations of a vector store that retrieve nothing."""
OPERATIONS: Final = ("db.operation.name", "db.operation")
"""Attributes with the operation of a vector store."""
WRITING_WORDS: Final = (
    "delet", "updat", "save", "clear", "remov", "insert", "upsert", "writ", "store", "log", "config", "enable",
    "disable", "cancel", "submit", "send", "reindex", "research",
)  # fmt: skip
"""Parts of the name of a tool whose empty reply does not say that it found nothing."""
MERGED_CALLS: Final = "(merged tools)"
"""Name of the tool of a span that repeats the results of calls beside it (Google ADK)."""
DECODERS: Final = ("FunctionCallingProgram.",)
"""Beginnings of the names of spans in which a tool is only the form of a model's reply (LlamaIndex)."""
ERROR_TYPE: Final = "error.type"
"""Attribute of the span of a tool with the kind of its error."""
TOOL_STATUS: Final = "gen_ai.tool.status"
"""Attribute that says `error` of a tool that failed (Strands)."""
CALL_WORDS: Final = ("execute_tool ", "mcp send tools/call ", "tools/call ", "running tool: ")
"""Beginnings of the names of spans of tools that are no part of the name of the tool."""
METHODS: Final = (".__call__", ".acall", ".call", "._use", "._run", ".run", ".forward", ".ainvoke", ".invoke")
"""Ends of such names: the method that was called (DSPy, LlamaIndex, CrewAI, Haystack)."""
AGENT_OPERATIONS: Final = frozenset({"invoke_agent", "invoke_workflow", "create_agent"})
"""Operations whose messages are those of the application: the question as it was asked, and the answer."""
AGENT_NAMES: Final = ("gen_ai.agent.name", "agent.name")
"""Attributes with the name of an agent."""
RAG_WORDS: Final = ("retrieve_and_generate", "retrieveandgenerate", "retrieve-and-generate", "retrieve and generate")
"""Parts of a name that indicate a retrieval which answers, too (Bedrock's knowledge bases)."""
SERVED_MODEL: Final = "llm.model_name"
"""Attribute that a retrieval has only if it answers, too (OpenInference's instrumentation of Bedrock)."""
