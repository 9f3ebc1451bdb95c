"""Bodies of traces: a known interaction in the names of a framework, nested, shuffled, spoilt and wrapped at random.

What comes out is the interaction, nothing, or a refusal with its reason: never other documents, another question or
another answer. A trace that was not spoilt is always read.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ragtide_producers.errors import InvalidTracesError
from ragtide_producers.traces.explaining import explain_traces
from ragtide_producers.traces.otlp import decode_request, spans_of
from ragtide_runtime.settings.ingest import IngestSettings

WORDS = ("the", "lock", "opens", "within", "five", "seconds", "after", "code", "on", "frame", "helmets", "are", "lent")
NOTHING: tuple[Any, ...] = ([], {"results": []}, {"documents": [], "total": 0}, "No results found.", "null")
STEP_NS = 1_000_000
START_NS = 1_790_000_000_000_000_000
OPTIONS = IngestSettings(default_pipeline="shop")


@dataclass
class Wire:
    """A span on its way to JSON."""

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)
    children: list["Wire"] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@dataclass
class Truth:
    """The interaction that a trace is made from."""

    question: str
    documents: list[dict[str, str]]
    answer: str

    @property
    def texts(self) -> list[str]:
        return [document["text"] for document in self.documents]


def sentence(dice: random.Random, mark: str) -> str:
    """Return a text that no other text of the trace has; some have quotes, other scripts and half a surrogate."""
    extra = dice.choice(["", "", ' "quoted"', " 5 €", " \U0001f600", "\nnext line", " {a: [1]}", "\\n", " \ud83d"])
    return f"{mark} {' '.join(dice.choices(WORDS, k=dice.randint(3, 9)))}{extra}"


def truth_of(dice: random.Random) -> Truth:
    number = dice.choice([0, 1, 1, 2, 2, 3, 5])
    documents = [{"id": f"d{at}", "text": sentence(dice, f"Document {at}:")} for at in range(number)]
    return Truth(sentence(dice, "Question:") + "?", documents, sentence(dice, "Answer:"))


def found_by(dice: random.Random, truth: Truth) -> Any:
    """Return the reply of a search, in one of the shapes of tools."""
    found = truth.documents
    if not found:
        return dice.choice(NOTHING)
    parts = [{"type": "text", "text": json.dumps(one)} for one in found]
    resources = [{"type": "resource", "resource": {"uri": one["id"], "text": one["text"]}} for one in found]
    summary = {"type": "text", "text": f"{len(found)} passages found."}
    return dice.choice(
        [
            found,
            {"results": found},
            {"documents": found, "total": len(found)},
            {"content": parts, "isError": False},
            {"content": [{"type": "text", "text": json.dumps({"results": found})}]},
            {"content": [summary], "structuredContent": {"result": found}},
            {"content": [summary, *resources]},
            [{"json": {"documents": found}}],
            {"result": json.dumps(found)},
            [{"page_content": one["text"], "metadata": {"id": one["id"]}} for one in found],
        ]
    )


def spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def genai(dice: random.Random, truth: Truth) -> Wire:
    """An agent with a search tool in names of OpenTelemetry, texts in attributes, in one event or in many."""
    place = dice.choice(["attributes", "details", "messages", "prompt"])
    reply, silent = found_by(dice, truth), dice.random() < 0.3
    call = {"type": "tool_call", "id": "c1", "name": "search_docs", "arguments": {"q": "x"}}
    asked = [said("user", truth.question)]
    results = [*asked, {"role": "assistant", "parts": [call]}, tool_message(reply)]
    told = {} if silent and place != "messages" else {"gen_ai.tool.call.result": spelled(reply)}
    tool = Wire(
        dice.choice(["execute_tool search_docs", "tools/call search_docs"]),
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search_docs",
            "gen_ai.tool.call.id": "c1",
            **told,
        },
    )
    return Wire(
        "invoke_agent helper",
        {"gen_ai.operation.name": "invoke_agent"},
        [chat(place, asked, {"role": "assistant", "parts": [call]}), tool,
         chat(place, results, said("assistant", truth.answer))],
    )  # fmt: skip


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def tool_message(reply: Any) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": reply}]}


def chat(place: str, given: list[dict[str, Any]], answer: dict[str, Any]) -> Wire:
    wire = Wire("chat m", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    texts = {"gen_ai.input.messages": json.dumps(given), "gen_ai.output.messages": json.dumps([answer])}
    if place == "attributes":
        wire.attributes.update(texts)
    elif place == "details":
        wire.events = [("gen_ai.client.inference.operation.details", {key: text}) for key, text in texts.items()]
    elif place == "prompt":
        wire.events = [
            ("gen_ai.content.prompt", {"gen_ai.prompt": texts["gen_ai.input.messages"]}),
            ("gen_ai.content.completion", {"gen_ai.completion": texts["gen_ai.output.messages"]}),
        ]
    else:
        wire.events = [(f"gen_ai.{one['role']}.message", {"content": blocks(one)}) for one in given]
        wire.events.append(("gen_ai.choice", {"message": blocks(answer)}))
    return wire


def blocks(message: dict[str, Any]) -> str:
    """Return the parts of a message as blocks of Bedrock, which Strands writes."""
    names = {"tool_call": "toolUse", "tool_call_response": "toolResult"}
    found = [
        {"text": part["content"]} if part["type"] == "text" else {names[part["type"]]: {"toolUseId": "c1"}}
        for part in message["parts"]
    ]
    return json.dumps(found)


def openinference(dice: random.Random, truth: Truth) -> Wire:
    documents = {f"retrieval.documents.{at}.document.content": text for at, text in enumerate(truth.texts)}
    retriever = Wire("search", {"openinference.span.kind": "RETRIEVER", "input.value": "unlock", **documents})
    if dice.random() < 0.3:
        retriever.children.append(Wire("embed", {"openinference.span.kind": "EMBEDDING", "input.value": "unlock"}))
    messages = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": truth.question,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": truth.answer,
    }
    model = Wire("ChatOpenAI", {"openinference.span.kind": "LLM", **messages})
    return Wire("ask", {"openinference.span.kind": "CHAIN", **whole(truth)}, [retriever, model])


def whole(truth: Truth) -> dict[str, Any]:
    return {"input.value": truth.question, "output.value": truth.answer}


def spring(_: random.Random, truth: Truth) -> Wire:
    store = {"spring.ai.kind": "vector_store", "db.operation.name": "query", "db.vector.query.content": truth.question}
    found = {"db.vector.query.response.documents": json.dumps(truth.texts)}
    model = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt": json.dumps([f"Context: {' '.join(truth.texts)} Query: {truth.question}"]),
        "gen_ai.completion": json.dumps([truth.answer]),
    }
    advisor = Wire("question_answer_advisor", {"spring.ai.kind": "advisor"})
    advisor.children = [Wire("pg_vector query", {**store, **found}), Wire("chat gpt", model)]
    return Wire("spring_ai chat_client", {"spring.ai.kind": "chat_client"}, [advisor])


def one_span(dice: random.Random, truth: Truth) -> Wire:
    """A span that retrieves and answers: Bedrock, file search, grounding."""
    documents = {f"retrieval.documents.{at}.document.content": text for at, text in enumerate(truth.texts)}
    model = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": truth.question,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": truth.answer,
    }
    search = {
        "type": "file_search_call",
        "results": [{"file_id": document["id"], "text": document["text"]} for document in truth.documents],
    }
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": truth.answer}]}
    chunks = [{"retrievedContext": {"uri": document["id"], "text": document["text"]}} for document in truth.documents]
    grounded = {
        "candidates": [
            {"content": {"parts": [{"text": truth.answer}]}, "groundingMetadata": {"groundingChunks": chunks}}
        ]
    }
    return dice.choice(
        [
            Wire("retrieve_and_generate", {"openinference.span.kind": "RETRIEVER", **whole(truth), **documents}),
            Wire("Response", {**model, "output.value": json.dumps({"output": [search, said]})}),
            Wire("generate_content", {**model, "output.value": json.dumps(grounded)}),
        ]
    )  # fmt: skip


def vercel(dice: random.Random, truth: Truth) -> Wire:
    asked = [{"role": "user", "content": [{"type": "text", "text": truth.question}]}]
    step = {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": json.dumps(asked)}
    tool = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "searchDocs", "ai.toolCall.args": '{"q": "x"}'}
    root = {"ai.operationId": "ai.generateText", "ai.prompt": json.dumps({"prompt": truth.question})}
    return Wire(
        "ai.generateText",
        {**root, "ai.response.text": truth.answer},
        [
            Wire("ai.generateText.doGenerate", {**step, "ai.response.toolCalls": "[]"}),
            Wire("ai.toolCall", {**tool, "ai.toolCall.result": spelled(found_by(dice, truth))}),
            Wire("ai.generateText.doGenerate", {**step, "ai.response.text": truth.answer}),
        ],
    )


FRAMEWORKS: list[Callable[[random.Random, Truth], Wire]] = [genai, openinference, spring, one_span, vercel]


def nested(dice: random.Random, root: Wire) -> Wire:
    """Return the trace below spans that have no part in it, beside tools that are no search."""
    for _ in range(dice.randint(0, 3)):
        beside = Wire("execute_tool add", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add",
                                           "gen_ai.tool.call.result": '{"sum": 3}'})  # fmt: skip
        root = Wire(
            dice.choice(["POST /ask", "handler", "step"]), {}, [*([beside] if dice.random() < 0.4 else []), root]
        )
    return root


def wires(root: Wire, trace_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    clock = iter(range(10_000))

    def walk(wire: Wire, parent: str | None) -> None:
        span_id, start = f"{len(found) + 1:016x}", START_NS + next(clock) * STEP_NS
        span = {
            "traceId": trace_id, "spanId": span_id, "name": wire.name, "startTimeUnixNano": str(start),
            "attributes": pairs(wire.attributes),
            "events": [{"name": name, "attributes": pairs(given)} for name, given in wire.events],
        }  # fmt: skip
        found.append(span if parent is None else {**span, "parentSpanId": parent})
        for child in wire.children:
            walk(child, span_id)
        span["endTimeUnixNano"] = found[int(span_id, 16) - 1]["endTimeUnixNano"] = str(START_NS + next(clock) * STEP_NS)

    walk(root, None)
    return found


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]


def spoilt(dice: random.Random, spans: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """Return the spans as they may arrive, and whether something is lost."""
    kind = dice.choice(["order", "order", "twice", "missing", "cut", "parent", "half"])
    found = [*spans]
    if kind == "twice":
        found += dice.sample(spans, dice.randint(1, len(spans)))
    elif kind == "missing":
        found.remove(dice.choice(spans))
    elif kind == "cut":
        texts = [pair for span in spans for pair in span["attributes"] if len(pair["value"]["stringValue"]) > 3]
        pair = dice.choice(texts)
        text = pair["value"]["stringValue"]
        pair["value"]["stringValue"] = text[: dice.randint(1, len(text) - 1)]
    elif kind == "parent":
        dice.choice(spans)["parentSpanId"] = dice.choice(["f" * 16, *(span["spanId"] for span in spans)])
    elif kind == "half":
        dice.choice(spans)["attributes"].append({"key": "preview", "value": {"stringValue": "cut \ud83d"}})
    dice.shuffle(found)
    return found, kind in ("missing", "cut", "parent")


def body_of(dice: random.Random, spans: list[dict[str, Any]]) -> bytes:
    """Return a body with these spans in one of the envelopes that carry OTLP."""
    resource = {"attributes": pairs({"service.name": "shop"})}
    half = dice.randint(0, len(spans))
    groups = [spans[:half], spans[half:]]
    scopes, scope = dice.choice([("scopeSpans", "scope"), ("instrumentationLibrarySpans", "instrumentationLibrary")])
    resources = [{"resource": resource, scopes: [{scope: {"name": "x"}, "spans": group}]} for group in groups]
    key = dice.choice(["resourceSpans", "batches"])
    shape = dice.choice(["one", "lines", "list", "spans"]) if spans else "one"
    if shape == "one":
        return json.dumps({key: resources}).encode()
    if shape == "list":
        return json.dumps([{key: [one]} for one in resources]).encode()
    if shape == "lines":
        return b"\n".join(json.dumps({key: [one]}).encode() for one in resources)
    return b"\n".join(json.dumps({**span, "resource": resource}).encode() for span in spans)


def mended(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()


def check(seed: int) -> None:
    """Check that a trace is read as the interaction it was made from, or that what cannot be read is named."""
    dice = random.Random(seed)
    truth = truth_of(dice)
    root = nested(dice, dice.choice(FRAMEWORKS)(dice, truth))
    spans, lossy = spoilt(dice, wires(root, f"{seed + 1:032x}"))
    try:
        request = decode_request(body_of(dice, spans), "json")
    except InvalidTracesError as error:
        raise AssertionError(f"the body was refused: {error}") from None
    if dice.random() < 0.5:
        request = decode_request(request.SerializeToString(), "protobuf")
    found = list(spans_of(request))
    assert len(found) == len(spans), "a span was lost on the way"
    explained = explain_traces(found, OPTIONS)
    interactions = [interaction for trace in explained for interaction in trace.interactions]
    assert all(bool(trace.reason) == (not trace.interactions) for trace in explained)
    assert all(bool(interaction.detail) == (interaction.interaction is None) for interaction in interactions)
    read = [interaction.interaction for interaction in interactions if interaction.interaction is not None]
    want = (mended(truth.question), [mended(text) for text in truth.texts], mended(truth.answer))
    for one in read:
        got = (one.question.strip(), [document.text.strip() for document in one.documents], one.response.strip())
        if not lossy:
            assert got == want, f"{got} is not {want}"
        # A plain text that is cut cannot be told from a whole one.
        known = [*want[1], *(text for text in NOTHING if isinstance(text, str))]
        assert all(any(text.startswith(cut) for text in known) for cut in got[1]), got
    if not lossy:
        assert len(read) == 1, [interaction.detail for interaction in interactions] or [
            trace.reason for trace in explained
        ]
