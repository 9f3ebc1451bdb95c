"""One request of a user is one interaction, whatever is below it, and an attempt that failed lends nothing to it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.traces import STEP_NS, Branch, branch, event, spans

from ragtide_producers.traces.interactions import Mapped, interactions_of
from ragtide_runtime.settings.ingest import IngestSettings

pytestmark = pytest.mark.pure

QUESTION, ANSWER = "Which is older, the tower or the bridge?", "The tower is older."
SUB = ("When was the tower built?", "When was the bridge built?")
SAID = ("It was built in 1889.", "It was built in 1937.")
TEXTS = ("The tower was built in 1889.", "The bridge was built in 1937.")


@dataclass(frozen=True)
class Dialect:
    """How a dialect writes a step with a text in and out, a search, a model call and a tool."""

    step: Callable[..., Branch]
    search: Callable[..., Branch]
    call: Callable[..., Branch]
    tool: Callable[..., Branch]


def openinference(kind: str) -> Callable[..., Branch]:
    def made(name: str, asked: Any = None, said: Any = None, *below: Branch, **fields: Any) -> Branch:
        texts = {"input.value": asked, "output.value": said}
        given = {key: text for key, text in texts.items() if text is not None}
        return branch(name, {"openinference.span.kind": kind, **given}, *below, **fields)

    return made


def oi_search(*texts: str, query: str = QUESTION, **fields: Any) -> Branch:
    documents = {f"retrieval.documents.{at}.document.content": text for at, text in enumerate(texts)}
    none = {} if texts else {"output.value": "[]"}
    return branch("find", {"openinference.span.kind": "RETRIEVER", "input.value": query, **documents, **none}, **fields)


def oi_call(asked: str = QUESTION, said: str = ANSWER, tool: str = "", **fields: Any) -> Branch:
    out = "llm.output_messages.0.message."
    reply = (
        {f"{out}content": said}
        if not tool
        else {
            f"{out}tool_calls.0.tool_call.function.name": "ask",
            f"{out}tool_calls.0.tool_call.function.arguments": json.dumps({"query": tool}),
        }
    )
    given = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": asked}
    return branch("model", {"openinference.span.kind": "LLM", **given, f"{out}role": "assistant", **reply}, **fields)


def genai(operation: str) -> Callable[..., Branch]:
    def made(name: str, asked: Any = None, said: Any = None, *below: Branch, **fields: Any) -> Branch:
        sides = {"gen_ai.input.messages": ("user", asked), "gen_ai.output.messages": ("assistant", said)}
        given: dict[str, Any] = {
            key: [{"role": author, "parts": [{"type": "text", "content": text}]}]
            for key, (author, text) in sides.items()
            if isinstance(text, str)
        }
        values = {"gen_ai.task.input": asked, "gen_ai.task.output": said}
        given |= {key: value for key, value in values.items() if isinstance(value, list | dict)}
        return branch(name, {"gen_ai.operation.name": operation, **given}, *below, **fields)

    return made


def genai_search(*texts: str, query: str = QUESTION, **fields: Any) -> Branch:
    found = {"gen_ai.retrieval.query.text": query, "gen_ai.retrieval.documents": [{"content": text} for text in texts]}
    return branch("find", {"gen_ai.operation.name": "retrieval", **found}, **fields)


def genai_call(asked: str = QUESTION, said: str = ANSWER, tool: str = "", **fields: Any) -> Branch:
    part = {"type": "text", "content": said}
    wanted = {"type": "tool_call", "id": "1", "name": "ask", "arguments": {"query": tool}}
    given = {
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": asked}]}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": [wanted if tool else part]}],
    }
    return branch("chat", {"gen_ai.operation.name": "chat", **given}, **fields)


def genai_tool(name: str, asked: Any = None, said: Any = None, *below: Branch, **fields: Any) -> Branch:
    texts = {"gen_ai.tool.call.arguments": asked, "gen_ai.tool.call.result": said}
    given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **texts}
    return branch(name, {key: text for key, text in given.items() if text is not None}, *below, **fields)


def langfuse(kind: str) -> Callable[..., Branch]:
    def made(name: str, asked: Any = None, said: Any = None, *below: Branch, **fields: Any) -> Branch:
        texts = {"langfuse.observation.input": asked, "langfuse.observation.output": said}
        given = {key: text for key, text in texts.items() if text is not None}
        return branch(name, {"langfuse.observation.type": kind, **given}, *below, **fields)

    return made


def langfuse_search(*texts: str, query: str = QUESTION, **fields: Any) -> Branch:
    return langfuse("retriever")("find", query, [{"text": text} for text in texts], **fields)


def langfuse_call(asked: str = QUESTION, said: str = ANSWER, tool: str = "", **fields: Any) -> Branch:
    call = {"id": "1", "type": "function", "function": {"name": "ask", "arguments": json.dumps({"query": tool})}}
    reply = {"role": "assistant", "content": None, "tool_calls": [call]} if tool else said
    return langfuse("generation")("model", [{"role": "user", "content": asked}], reply, **fields)


DIALECTS = [
    Dialect(openinference("CHAIN"), oi_search, oi_call, openinference("TOOL")),
    Dialect(genai("invoke_agent"), genai_search, genai_call, genai_tool),
    Dialect(langfuse("chain"), langfuse_search, langfuse_call, langfuse("tool")),
]


def read(root: Branch) -> list[Mapped]:
    return interactions_of(spans(root), IngestSettings())


def contents(root: Branch) -> list[tuple[str, list[str], str]]:
    found = read(root)
    assert [item.detail for item in found if item.interaction is None] == []
    return [
        (
            item.interaction.question,
            [document.text for document in item.interaction.documents],
            item.interaction.response,
        )
        for item in found
        if item.interaction
    ]


WHOLE = [(QUESTION, list(TEXTS), ANSWER)]


def parts(of: Dialect, place: int) -> Branch:
    """Return a chain that answers a part of the question."""
    asked, said = SUB[place], SAID[place]
    return of.step("ask", asked, said, of.search(TEXTS[place], query=asked), of.call(f"{TEXTS[place]} {asked}", said))


@for_each("of", DIALECTS)
def test_the_questions_that_a_model_asks_are_parts_of_the_users_question(of: Dialect) -> None:
    """Decomposition: with a call that joins the answers, and without."""
    plan = of.call(f"Divide: {QUESTION}", "\n".join(SUB))
    last = of.call(f"Join: {' '.join(SAID)}\n{QUESTION}")
    assert contents(of.step("rag", QUESTION, ANSWER, plan, parts(of, 0), parts(of, 1), last)) == WHOLE
    joined = " ".join(SAID)
    (found,) = contents(of.step("rag", QUESTION, joined, plan, parts(of, 0), parts(of, 1)))
    assert found == (QUESTION, list(TEXTS), joined)


@for_each("of", DIALECTS)
@for_each("outer", [True, False])
def test_a_chain_that_a_model_uses_as_a_tool_is_no_request(of: Dialect, outer: bool) -> None:
    """The question is the user's, whether a span around the agent has it, or only the messages of its calls."""
    below = [
        of.call(QUESTION, tool=SUB[0]), of.tool("ask_tower", SUB[0], SAID[0], parts(of, 0)),
        of.call(QUESTION, tool=SUB[1]), of.tool("ask_bridge", SUB[1], SAID[1], parts(of, 1)),
        of.call(QUESTION),
    ]  # fmt: skip
    root = of.step("agent", QUESTION, ANSWER, *below) if outer else branch("POST /ask", {}, *below)
    assert contents(root) == WHOLE


@for_each("of", DIALECTS)
def test_the_answer_is_that_of_the_last_of_several_agents(of: Dialect) -> None:
    researcher = of.step("researcher", QUESTION, " ".join(SAID), of.search(*TEXTS), of.call(said=" ".join(SAID)))
    writer = of.step("writer", " ".join(SAID), ANSWER, of.call(" ".join(SAID)))
    assert contents(of.step("crew", QUESTION, ANSWER, researcher, writer)) == WHOLE


@for_each(
    "prompts, is_known",
    [
        (["{texts} {asked}", "Write a title: {first}"], False),
        (["{texts} {asked}", "{texts} Better this: {first}"], True),
        (["{texts} {asked}", "{texts} {asked}", "Combine: {first} {second}"], True),
        (["Rewrite: {asked}", "{texts} {first}"], True),
    ],
)
@for_each("of", DIALECTS)
def test_a_text_about_the_answer_is_not_taken_for_the_answer(of: Dialect, prompts: list[str], is_known: bool) -> None:
    """No span has the answer: a title for it and the answer in other words look alike."""
    said = ["The tower was finished in 1889.", "Paris is where it stands.", ANSWER]
    said = [*said[: len(prompts) - 1], ANSWER]
    given = {"texts": " ".join(TEXTS), "asked": QUESTION, "first": said[0], "second": said[1]}
    calls = [of.call(prompt.format(**given), reply) for prompt, reply in zip(prompts, said, strict=True)]
    (found,) = read(branch("POST /ask", {}, of.search(*TEXTS), *calls))
    assert (found.interaction is not None) == is_known
    assert is_known or (found.refusal == "invalid" and "ragtide.response" in found.detail)


@for_each(
    "name, prompt, said, is_known",
    [
        ("writer", f"Write an answer from: {SAID[0]}", ANSWER, False),
        ("writer", f"Write an answer from: {SAID[0]}", '{"answer": "In 1889."}', False),
        ("judge", f"Is this good? {SAID[0]}", "Yes.", True),
        ("guard", f"Is this allowed? {SAID[0]}", '{"is_allowed": true}', True),
        ("researcher", f"We said: {SAID[0]} Thank you!", ANSWER, True),
        ("writer", "Write a poem.", ANSWER, True),
        (None, f"Write an answer from: {SAID[0]}", ANSWER, True),
    ],
)
@for_each("attribute", ["gen_ai.agent.name", "agent.name"])
def test_which_text_was_shown_is_not_known_if_another_agent_was_given_the_answer(
    attribute: str, name: str | None, prompt: str, said: str, is_known: bool
) -> None:
    """Both are below a span without a question. The same agent may have another turn."""
    of = DIALECTS[0]

    def agent(name: str | None, *below: Branch) -> Branch:
        return branch("run", {"openinference.span.kind": "AGENT", **({attribute: name} if name else {})}, *below)

    researcher = agent("researcher", of.search(*TEXTS), of.call(said=SAID[0]))
    root = branch("POST /ask", {}, researcher, branch("step", {}, agent(name, of.call(prompt, said))))
    (found,) = read(root)
    assert (found.interaction is not None) == is_known
    assert is_known or (found.refusal == "invalid" and "output.value" in found.detail)
    assert not is_known or contents(root) == [(QUESTION, list(TEXTS), SAID[0])]


@for_each("of", DIALECTS)
@for_each(
    "asked, said",
    [
        (None, None),
        (list(SUB), list(SAID)),
        ("tests/tower.jsonl", "0.5"),
        ({"args": ["evaluation of Monday"], "kwargs": {}}, {"accuracy": 0.5, "answer": "half of them"}),
        (SUB[0], SAID[1]),
    ],
)
@for_each("number", [1, 2])
def test_a_span_around_requests_is_none_itself(of: Dialect, asked: Any, said: Any, number: int) -> None:
    """A batch, an evaluation, a session: its texts are not those of a question and its answer."""
    root = of.step("batch", asked, said, *(parts(of, place) for place in range(number)))
    if (asked, number) != (SUB[0], 1):  # which is a request with its question
        assert contents(root) == [(SUB[at], [TEXTS[at]], SAID[at]) for at in range(number)]


def batch(of: Dialect, asked: tuple[str, ...], said: tuple[str, ...], texts: tuple[str, ...]) -> Branch:
    """Return the chain of the first question, with those of the others inside it."""
    inside = (batch(of, asked[1:], said[1:], texts[1:]),) if asked[1:] else ()
    call = of.call(f"{texts[0]} {asked[0]}", said[0])
    return of.step("rag", asked[0], said[0], *inside, of.search(texts[0], query=asked[0]), call)


@for_each("of", DIALECTS)
@for_each("number", [2, 3])
def test_requests_of_a_batch_are_several_although_their_spans_stand_inside_each_other(of: Dialect, number: int) -> None:
    """Tracers that begin all requests of a batch before they end one (OpenLLMetry, Langfuse with LangChain)."""
    asked, said = (*SUB, "When was the gate built?"), (*SAID, "It was built in 1204.")
    texts = (*TEXTS, "The gate was built in 1204.")
    root = batch(of, asked[:number], said[:number], texts[:number])
    assert contents(root) == list(zip(asked, ([text] for text in texts), said, strict=True))[:number]


@for_each("of", DIALECTS)
@for_each("escaped", [False, True])
def test_a_question_of_the_program_whose_answer_a_model_gets_is_a_part(of: Dialect, escaped: bool) -> None:
    said = 'It was built in "1889".\nSo says the page.'
    inner = of.step("ask", SUB[0], said, of.search(TEXTS[0], query=SUB[0]), of.call(f"{TEXTS[0]} {SUB[0]}", said))
    last = of.call(f"{json.dumps({'found': said}) if escaped else said}\n{QUESTION}")
    assert contents(of.step("rag", QUESTION, ANSWER, inner, last)) == [(QUESTION, [TEXTS[0]], ANSWER)]


@for_each("of", DIALECTS)
def test_calls_of_a_batch_count_each_although_their_spans_stand_inside_each_other(of: Dialect) -> None:
    """MLflow nests the model calls of one `generate`; a client inside its wrapper is one call with it."""
    second = of.call(f"Is it in here? {TEXTS[1]} {QUESTION}", SAID[1])
    first = of.call(f"Is it in here? {TEXTS[0]} {QUESTION}", SAID[0])
    last = of.call(f"{' '.join(SAID)} {QUESTION}")
    nested = replace(first, children=(second,))
    assert contents(of.step("rag", QUESTION, ANSWER, of.search(*TEXTS), nested, last)) == WHOLE
    wrapped = replace(last, children=(last,))
    assert contents(of.step("rag", QUESTION, ANSWER, of.search(*TEXTS), nested, wrapped)) == WHOLE


@for_each("of", DIALECTS)
def test_a_step_that_returns_the_retrieved_text_is_no_request(of: Dialect) -> None:
    """The step has the question, a model that grades, and a text that comes out."""
    grade = of.call(f"Does it help? {TEXTS[0]}", "yes")
    context = of.step("context", QUESTION, "\n\n".join(TEXTS), of.search(*TEXTS), grade)
    last = of.call("\n".join((*TEXTS, QUESTION)))
    assert contents(of.step("rag", QUESTION, ANSWER, context, last)) == WHOLE
    assert contents(branch("POST /ask", {}, context, last))[0][2] != "\n\n".join(TEXTS)


def attempt(of: Dialect, *texts: str, failed: bool = True) -> Branch:
    """Return an attempt that retrieved something, and failed with the model."""
    return of.step("try", QUESTION, None, of.search(*texts), of.call(failed=True), failed=failed)


@for_each("of", DIALECTS)
@for_each("tells", [True, False])
def test_an_attempt_that_failed_lends_nothing_to_the_next(of: Dialect, tells: bool) -> None:
    """Fallbacks and retries, below a span that has the texts, or has none."""
    good = of.step("try", QUESTION, ANSWER, of.search(*TEXTS), of.call())
    bad = [
        attempt(of, "Another text."),
        of.step("deep", None, None, attempt(of, "A third.", failed=False), failed=True),
    ]
    texts = (QUESTION, ANSWER) if tells else (None, None)
    assert contents(of.step("fallbacks", *texts, *bad, good)) == WHOLE
    late = of.step("parse", QUESTION, None, of.search("Another text."), of.call(said="no JSON"), failed=True)
    assert contents(of.step("retry", *texts, late, good)) == WHOLE
    whole = of.step("ask", QUESTION, "no JSON", of.search("Another text."), of.call(said="no JSON"))
    assert contents(of.step("retry", *texts, of.step("parse", None, None, whole, failed=True), good)) == WHOLE


@for_each("of", DIALECTS)
def test_a_search_that_failed_is_replaced_by_the_next(of: Dialect) -> None:
    around = of.step("searches", QUESTION, None, of.search("Another text.", failed=True), of.search(*TEXTS))
    assert contents(of.step("rag", QUESTION, ANSWER, around, of.call())) == WHOLE


@for_each("of", DIALECTS)
def test_a_request_that_failed_gives_nothing(of: Dialect) -> None:
    """All attempts failed: what one of them has below it was not shown. A failed batch keeps what was answered."""
    inner = of.step("ask", QUESTION, ANSWER, of.search(*TEXTS), of.call())
    assert (
        contents(of.step("retry", QUESTION, None, of.step("try", QUESTION, None, inner, failed=True), failed=True))
        == []
    )
    assert contents(of.step("batch", "evaluation of Monday", None, inner, failed=True)) == WHOLE
    assert contents(branch("POST /ask", {}, inner, failed=True)) == WHOLE


@for_each("exception", ["langgraph.errors.ParentCommand", "GraphInterrupt"])
def test_an_exception_that_steers_a_program_is_no_failure(exception: str) -> None:
    of = DIALECTS[0]
    raised = (event("exception", {"exception.type": exception}),)
    inner = of.step("agent", QUESTION, None, of.search(*TEXTS), failed=True, events=raised)
    assert contents(of.step("graph", QUESTION, ANSWER, inner, of.call())) == WHOLE


@for_each("of", DIALECTS)
@for_each("rewritten", [False, True])
def test_nothing_found_and_no_model_asked_is_an_interaction_without_documents(of: Dialect, rewritten: bool) -> None:
    before = [of.call(f"Rewrite: {QUESTION}", SUB[0])] if rewritten else []
    search = of.search(query=SUB[0] if rewritten else QUESTION)
    assert contents(of.step("rag", QUESTION, "Empty Response", *before, search)) == [(QUESTION, [], "Empty Response")]


@for_each("of", DIALECTS)
def test_a_step_that_drops_all_leaves_no_documents(of: Dialect) -> None:
    cut_off = openinference("CHAIN")("cut off", [{"page_content": text} for text in TEXTS], "[]")
    root = of.step("rag", QUESTION, "Empty Response", of.search(*TEXTS), cut_off)
    assert contents(root) == [(QUESTION, [], "Empty Response")]


@for_each("of", DIALECTS)
@for_each(
    "said, below",
    [
        (ANSWER, [TEXTS]),  # the model is not instrumented: what it got is not known
        (f"1. {TEXTS[0]}\n2. {TEXTS[1]}", [TEXTS]),  # an API of a search
        (TEXTS[0], [(), TEXTS]),  # a cache
    ],
)
def test_documents_without_a_model_are_no_interaction(of: Dialect, said: str, below: list[tuple[str, ...]]) -> None:
    assert contents(of.step("rag", QUESTION, said, *(of.search(*texts) for texts in below))) == []


@for_each("of", DIALECTS)
def test_a_model_that_failed_is_no_empty_retrieval(of: Dialect) -> None:
    assert contents(of.step("rag", QUESTION, "Sorry.", of.search(), of.call(failed=True))) == []
    evaluation = of.step("recall", "tests/tower.jsonl", "0.5", *(of.search(query=asked) for asked in SUB))
    assert contents(evaluation) == []


def test_a_request_ends_at_its_process() -> None:
    """The spans of the process above come later, so they must not decide."""
    of = DIALECTS[0]
    inner = of.step("rag", SUB[0], SAID[0], of.search(TEXTS[0], query=SUB[0]), of.call(SUB[0], SAID[0]))
    remote = replace(inner, fields={"parent_is_remote": True})
    assert contents(of.step("agent", QUESTION, ANSWER, of.call(tool=SUB[0]), remote, of.call()))[0][0] == SUB[0]


@given(st.lists(st.sampled_from(["wrap", "step", "fail", "tool"]), max_size=6), st.sampled_from(DIALECTS))
def test_spans_around_and_beside_a_request_do_not_change_it(moves: list[str], of: Dialect) -> None:
    root = of.step("rag", QUESTION, ANSWER, of.search(*TEXTS), of.call())
    for move in moves:
        if move == "wrap":
            root = of.step("around", QUESTION, ANSWER, root)
        elif move == "step":
            root = branch("handler", {}, root, of.step("log", "saved", "ok"))
        elif move == "fail":
            root = of.step("around", QUESTION, ANSWER, attempt(of, "Another text."), root)
        else:
            root = of.step("around", QUESTION, ANSWER, of.tool("clock", "now", "12:00"), root)
    assert contents(root) == WHOLE


def test_a_deep_or_wide_trace_takes_linear_time() -> None:
    """Spans above each other that are no request, and many requests beside each other."""
    of = DIALECTS[0]
    root = parts(of, 0)
    for number in range(300):
        root = of.step("around", f"run {number}", "0.5", root)
    assert contents(root) == [(SUB[0], [TEXTS[0]], SAID[0])]
    assert len(contents(of.step("batch", None, None, *[parts(of, 0)] * 300))) == 300


def closed(name: str = "GeneratorExit") -> dict[str, Any]:
    return {"failed": True, "events": (event("exception", {"exception.type": name}),)}


@for_each("of", DIALECTS)
@for_each("exception", ["GeneratorExit", "asyncio.exceptions.CancelledError"])
def test_a_stream_that_its_reader_closed_is_recorded_as_far_as_it_was_shown(of: Dialect, exception: str) -> None:
    """Either the model call has the text until then, or the span above has it."""
    of_call = of.step(
        "rag", QUESTION, None, of.search(*TEXTS), of.call(said="The tower", **closed(exception)), **closed(exception)
    )
    of_root = of.step("rag", QUESTION, "The tower", of.search(*TEXTS), of.call())
    for root in (of_call, of_root):
        (found,) = read(root)
        assert found.interaction is not None, found.detail
        assert (found.interaction.response, found.interaction.metadata["response_cut"]) == ("The tower", "true")
    (whole,) = read(of.step("rag", QUESTION, ANSWER, of.search(*TEXTS), of.call()))
    assert whole.interaction is not None
    assert "response_cut" not in whole.interaction.metadata


@for_each(
    "outer",
    [
        {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ""},
        {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": "null"},
        {"mlflow.spanType": '"CHAIN"', "mlflow.spanInputs": json.dumps(QUESTION), "mlflow.spanOutputs": '""'},
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": {"inputs": QUESTION, "tags": []},
            "traceloop.entity.output": {"outputs": "", "kwargs": {"tags": []}},
        },
    ],
)
def test_what_was_shown_of_a_stream_that_was_closed_at_once_is_not_known(outer: dict[str, Any]) -> None:
    of = DIALECTS[0]
    (found,) = read(branch("rag", outer, of.search(*TEXTS), of.call()))
    assert (found.interaction, str(found.refusal)) == (None, "no_content")
    assert "shown" in found.detail


@for_each("of", DIALECTS)
@for_each("outer", [None, ""])
def test_an_empty_answer_of_the_model_is_an_empty_response(of: Dialect, outer: str | None) -> None:
    asked = QUESTION if outer is not None else None
    assert contents(of.step("rag", asked, outer, of.search(*TEXTS), of.call(said=""))) == [(QUESTION, list(TEXTS), "")]


@for_each("of", DIALECTS)
def test_an_empty_answer_after_a_tool_has_the_documents_of_its_own_prompt(of: Dialect) -> None:
    below = (of.call(QUESTION, tool=QUESTION), of.search(*TEXTS), of.call(f"{' '.join(TEXTS)} {QUESTION}", ""))
    assert contents(of.step("rag", QUESTION, None, *below)) == [(QUESTION, list(TEXTS), "")]


@for_each(
    "hidden",
    [
        {"llm.output_messages.0.message.content": "__REDACTED__", "llm.output_messages.0.message.role": "assistant"},
        {"output.value": "__REDACTED__"},
        {},
    ],
)
def test_an_answer_that_is_not_captured_is_no_empty_answer(hidden: dict[str, str]) -> None:
    of = DIALECTS[0]
    call = {key: text for key, text in of.call().attributes.items() if "output" not in key}
    (found,) = read(of.step("rag", QUESTION, None, of.search(*TEXTS), branch("model", call | hidden)))
    assert (found.interaction, str(found.refusal)) == (None, "no_content")
    unseen = {"gen_ai.operation.name": "chat"}
    events = (event("gen_ai.user.message", {}), event("gen_ai.choice", {"message": '{"role": "assistant"}'}))
    (found,) = read(branch("rag", {}, DIALECTS[1].search(*TEXTS), branch("chat", unseen, events=events)))
    assert str(found.refusal) == "no_content"


def test_a_tool_whose_result_has_documents_as_objects_is_a_retrieval_whatever_its_name() -> None:
    """A tool of LangChain with an artifact. The text is what the model got, the objects are the documents in it."""
    of = DIALECTS[0]
    objects: list[dict[str, Any]] = [
        {"id": None, "page_content": text, "metadata": {}, "type": "Document"} for text in TEXTS
    ]
    fields = {"content": "\n\n".join(TEXTS), "artifact": objects, "tool_call_id": "1", "status": "success"}
    below = (of.call(tool="tower"), of.tool("fetch", "tower", json.dumps({"type": "tool", "data": fields})), of.call())
    assert contents(of.step("agent", QUESTION, ANSWER, *below)) == WHOLE


@for_each("of", DIALECTS)
def test_the_text_of_a_tool_that_failed_is_no_document(of: Dialect) -> None:
    failed = of.tool("search_documents", "tower", "Error: the index timed out")
    found = of.tool("search_documents", "tower", [{"id": "a", "text": text} for text in TEXTS])
    assert contents(of.step("agent", QUESTION, ANSWER, of.call(tool="tower"), failed, of.call())) == [
        (QUESTION, [], ANSWER)
    ]
    assert contents(of.step("agent", QUESTION, ANSWER, failed, of.call(tool="tower"), found, of.call())) == WHOLE


REACT = "You can use tools. To use one, write:\nThought: why\nAction: its name\nAction Input: {{}}\n\n{0}"


@for_each("of", DIALECTS)
def test_the_question_of_an_agent_is_that_of_the_user_whatever_it_searches(of: Dialect) -> None:
    """No span has the question but the calls, whose requests for tools may be in a form of their own."""
    for reply in (of.call(QUESTION, tool="tower"), of.call(QUESTION, said=""), of.call(QUESTION, said="CALL tower")):
        tool = of.tool("lookup", "tower", "found", of.search(*TEXTS, query="input is tower"))
        assert contents(branch("agent", {}, reply, tool, of.call(QUESTION))) == WHOLE


@for_each("of", DIALECTS)
def test_an_agent_that_asks_for_tools_in_its_text_has_the_answer_after_its_thoughts(of: Dialect) -> None:
    asked = REACT.format(QUESTION)
    step, last = "Thought: I need it.\nAction: lookup\nAction Input: {}", f"Thought: I know it.\nAnswer: {ANSWER}"
    for final in (last, f"Thought: Now I know.\nFinal Answer: {ANSWER}", ANSWER):
        tools = [of.tool("lookup", "x", "found", of.search(text, query="input is x")) for text in TEXTS]
        below = (of.call(asked, step), tools[0], of.call(asked, step), tools[1], of.call(asked, final))
        (found,) = contents(of.step("agent", None, None, *below))
        assert found[1:] == (list(TEXTS), ANSWER)
    plain = of.step("agent", None, None, of.search(*TEXTS), of.call(said=last))
    assert contents(plain)[0][2] == last  # nobody asked the model for this form: the user saw the whole


def test_messages_in_the_name_of_the_user_that_a_program_wrote_are_no_question() -> None:
    """A retry after a failed validation, and a text beside the result of a tool (Pydantic AI)."""
    of = DIALECTS[1]

    def said(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": "text", "content": text}]}

    earlier = [said("user", "Is it open?"), said("assistant", "Yes.")]
    messages = [
        *earlier,
        said("user", QUESTION),
        said("assistant", "Old."),
        said("user", "Fix it."),
        said("assistant", ANSWER),
    ]
    given = {"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": messages, "final_result": ANSWER}
    last = of.call("\n".join((*TEXTS, "Fix it.")))
    root = branch("agent", given, of.call(QUESTION), of.search(*TEXTS, query="tower"), last)
    assert contents(root) == WHOLE


SESSION = {"session.id": "s-1"}


@for_each(
    "outer, inner, expected",
    [
        (SESSION, {"gen_ai.conversation.id": "7f3a"}, "s-1"),
        ({}, {"gen_ai.conversation.id": "7f3a"}, "7f3a"),
        (SESSION, {"session.id": "thread-7", "metadata": {"thread_id": "thread-7"}}, "s-1"),
        ({}, {"session.id": "thread-7", "metadata": {"thread_id": "thread-7"}}, "thread-7"),
        ({}, {"session.id": "s-2", "metadata": {"thread_id": "thread-7"}}, "s-2"),
        (SESSION, {"traceloop.association.properties.thread_id": "thread-7"}, "s-1"),
        (SESSION, {"langfuse.session.id": "s-3"}, "s-3"),
        (SESSION, {"session.id": 7, "metadata": "[7]"}, "7"),
    ],
)
def test_the_session_that_the_application_set_wins_over_that_of_a_framework(
    outer: dict[str, Any], inner: dict[str, Any], expected: str
) -> None:
    of = DIALECTS[0]
    rag = of.step("rag", QUESTION, ANSWER, of.search(*TEXTS), of.call())
    (found,) = read(branch("turn", outer, branch("rag", {**rag.attributes, **inner}, *rag.children)))
    assert found.interaction is not None
    assert found.interaction.session_id == expected


@for_each("name", ["researcher", "Research agent", "search agent"])
@for_each("kind", [{"gen_ai.operation.name": "invoke_agent"}, {"traceloop.span.kind": "agent"}])
def test_an_agent_is_no_retrieval_whatever_its_name(name: str, kind: dict[str, str]) -> None:
    of = DIALECTS[1]
    inner = branch(name, {**kind, "output": SAID[0]}, of.search(*TEXTS), of.call())
    assert contents(of.step("crew", QUESTION, ANSWER, inner)) == WHOLE


@for_each("of", DIALECTS)
@for_each("tells", [True, False])
def test_a_request_below_a_span_that_has_ended_is_one_of_its_own(of: Dialect, tells: bool) -> None:
    """A sender leaked its context: the next request of the process hangs below a span of the first."""
    texts = (QUESTION, ANSWER) if tells else (None, None)
    first, *others = spans(of.step("rag", *texts, of.search(*TEXTS), of.call()))
    earlier = [replace(first, attributes={**first.attributes, "session.id": "s-1"}), *others]
    later = spans(of.step("rag", SUB[0], SAID[0], of.search(TEXTS[0], query=SUB[0]), of.call(SUB[0], SAID[0])))
    shift = 100 * STEP_NS
    moved = [
        replace(
            span,
            span_id=f"f{span.span_id[1:]}",
            parent_id=earlier[-1].span_id if span.parent_id is None else f"f{span.parent_id[1:]}",
            start_ns=span.start_ns + shift,
            end_ns=span.end_ns + shift,
        )
        for span in later
    ]
    found = interactions_of([*earlier, *moved], IngestSettings())
    seen = {item.interaction.response: item.interaction for item in found if item.interaction}
    sessions = {said: (len(interaction.documents), interaction.session_id) for said, interaction in seen.items()}
    assert sessions == {ANSWER: (2, "s-1"), SAID[0]: (1, None)}


def test_work_that_a_span_only_started_belongs_to_it() -> None:
    """A function that returned a generator, or the handle of a workflow, has ended before any work begins."""
    of = DIALECTS[0]
    root, *others = spans(
        of.step("rag", QUESTION, ANSWER, of.step("run", SUB[0], SAID[0], of.search(*TEXTS), of.call()))
    )
    started = replace(root, end_ns=root.start_ns + 1)
    (found,) = interactions_of([started, *others], IngestSettings())
    assert found.interaction is not None
    assert found.interaction.question == QUESTION


@for_each("of", DIALECTS)
def test_questions_that_a_model_planned_are_no_turns(of: Dialect) -> None:
    plan = of.call(f"Divide: {QUESTION}", "\n".join(SUB))
    answers = [
        step
        for asked, said, text in zip(SUB, SAID, TEXTS, strict=True)
        for step in (of.search(text, query=asked), of.call(f"{text} {asked}", said))
    ]
    last = of.call(f"{' '.join(SAID)} {QUESTION}")
    (found,) = contents(branch("ask", {}, plan, *answers, last))
    assert found[1:] == (list(TEXTS), ANSWER)
    session = [answers[0], answers[1], answers[2], answers[3]]
    assert [item[2] for item in contents(branch("session", {}, *session))] == list(SAID)


@for_each("output", ['{"reasoning": "None.", "response": ""}', '{"answer": "", "context": ["a"]}'])
def test_an_output_whose_answer_is_an_empty_text_is_an_empty_answer(output: str) -> None:
    """DSPy: the raw reply of the model has marks of fields, and is not what the user saw."""
    of = DIALECTS[0]
    root = of.step(
        "rag", QUESTION, output, of.search(*TEXTS), of.call(said="[[ ## response ## ]]\n\n[[ ## completed ## ]]")
    )
    assert contents(root)[0][2] == ""


@for_each("of", DIALECTS)
def test_the_reply_of_a_tool_may_be_the_answer_to_the_users_question(of: Dialect) -> None:
    """The tool retrieves and answers, and no call of the agent follows; without an answer in it there is none."""
    direct = of.tool("lookup", "tower", ANSWER, of.search(*TEXTS, query="tower"), of.call(f"{TEXTS} tower", ANSWER))
    assert contents(branch("agent", {}, of.call(QUESTION, tool="tower"), direct)) == WHOLE
    only = of.tool("lookup", "tower", "found", of.search(*TEXTS, query="tower"))
    assert contents(branch("agent", {}, of.call(QUESTION, tool="tower"), only, of.call(failed=True))) == []
    alone = of.tool("lookup", QUESTION, ANSWER, of.search(*TEXTS), of.call(f"{TEXTS} {QUESTION}", ANSWER))
    assert contents(branch("server", {}, alone)) == WHOLE
