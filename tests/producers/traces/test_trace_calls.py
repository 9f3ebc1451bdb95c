"""The calls of an agent's run in a trace: which spans are calls, their rounds, documents and errors."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from tests.support.counted_lines import lines_of
from tests.support.traces import START_NS, STEP_NS, Branch, branch, event, spans

from ragtide_producers.traces.explaining import explain_traces
from ragtide_producers.traces.grouping import groups_of
from ragtide_producers.traces.interactions import interactions_of
from ragtide_producers.traces.span import Span
from ragtide_producers.traces.steps import steps_of
from ragtide_producers.traces.tree import Tree
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_schemas import RagInteraction
from ragtide_schemas.limits import STEPS_MAX
from ragtide_schemas.plain_values import LeftOut

pytestmark = pytest.mark.pure

LAMP, TERMS = "Lamps can be returned for 14 days.", "Refunds take five days."
ORDER = "Order 7: lamp, delivered 28 April."


ASKED = {"role": "user", "content": "Can I return the lamp?"}


def reply_of(text: str = "", *asked: tuple[str, ...]) -> dict[str, Any]:
    """Return the message of a model: a text, or names and ids of tools that it asks for, perhaps with queries."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if asked:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(dict(zip(["query"], query, strict=False)))},
            }
            for name, call_id, *query in asked
        ]
    return message


def model(reply: str = "", *asked: tuple[str, ...], **more: Any) -> Branch:
    """Return a model call that replies with a text, or asks for tools."""
    message, given = reply_of(reply, *asked), {"gen_ai.input.messages": [ASKED]}
    return branch("chat", {"gen_ai.operation.name": "chat", **given, "gen_ai.output.messages": [message]}, **more)


def tool(name: str, result: Any = None, *inside: Branch, call_id: str = "", given: Any = None, **more: Any) -> Branch:
    """Return the call of a tool."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    attributes |= {"gen_ai.tool.call.id": call_id} if call_id else {}
    attributes |= {} if result is None else {"gen_ai.tool.call.result": result}
    attributes |= {} if given is None else {"gen_ai.tool.call.arguments": given}
    return branch(f"execute_tool {name}", {**attributes, **more.pop("attributes", {})}, *inside, **more)


def failure(kind: str, message: str = "it failed") -> dict[str, Any]:
    return {"failed": True, "events": (event("exception", {"exception.type": kind, "exception.message": message}),)}


def agent(*below: Branch, answer: str = "Yes, you can.", name: str = "invoke_agent shop") -> Branch:
    texts = {"input": "Can I return the lamp?", "output": answer}
    return branch(name, {"gen_ai.operation.name": "invoke_agent", **texts}, *below)


def trace(*below: Branch) -> list[Span]:
    return spans(agent(*below, model("Yes, you can.")))


def recorded(*below: Branch, **options: Any) -> RagInteraction:
    (mapping,) = interactions_of(trace(*below), IngestSettings(**options))
    assert mapping.interaction is not None, mapping.detail
    return mapping.interaction


def calls(*below: Branch, **options: Any) -> list[tuple[int | None, str, tuple[int, ...], int | None, str | None]]:
    return [
        (call.round, call.name, call.documents, call.returned, call.error) for call in recorded(*below, **options).calls
    ]


def found(*texts: str) -> list[dict[str, str]]:
    return [{"id": text[:5], "text": text} for text in texts]


def test_a_run_has_its_calls_with_what_each_was_asked_and_returned() -> None:
    interaction = recorded(
        model("", ("order_lookup", "1"), ("search_terms", "2")),
        tool("order_lookup", found(ORDER), call_id="1", given={"order": 7}),
        tool("search_terms", call_id="2", given={"query": "return lamp"}, **failure("TimeoutError")),
        model("", ("search_terms", "3")),
        tool("search_terms", found(LAMP, TERMS), call_id="3", given={"query": "returning lamps"}),
    )
    assert [document.text for document in interaction.documents] == [ORDER, LAMP, TERMS]
    assert [call.model_dump(exclude_none=True) for call in interaction.calls] == [
        {
            "name": "order_lookup",
            "kind": "tool",
            "round": 1,
            "arguments": {"order": 7},
            "documents": (0,),
            "returned": 1,
            "latency_s": 1.0,
        },
        {
            "name": "search_terms",
            "kind": "tool",
            "round": 1,
            "query": "return lamp",
            "documents": (),
            "error": "timeout",
            "latency_s": 1.0,
        },
        {
            "name": "search_terms",
            "kind": "tool",
            "round": 2,
            "query": "returning lamps",
            "documents": (1, 2),
            "returned": 2,
            "latency_s": 1.0,
        },
    ]


@pytest.mark.parametrize("ids", [("1", "2", "3"), ("", "", "")], ids=["by ids", "by times"])
def test_calls_of_one_reply_are_of_one_round_also_if_they_run_after_each_other(ids: Sequence[str]) -> None:
    asked = [("search_terms", ids[0] or "x"), ("search_orders", ids[1] or "y")]
    assert [call[:2] for call in calls(
        model("", *asked),
        tool("search_terms", found(LAMP), call_id=ids[0]),
        model("yes"),  # a grader, which asks for no tool
        tool("search_orders", found(ORDER), call_id=ids[1]),
        model("", ("search_terms", ids[2] or "z")),
        tool("search_terms", found(TERMS), call_id=ids[2]),
    )] == [(1, "search_terms"), (1, "search_orders"), (2, "search_terms")]  # fmt: skip


@pytest.mark.parametrize("ids", [("1", "2"), ("", "")], ids=["by ids", "by names"])
@pytest.mark.parametrize("inside", [False, True], ids=["as results", "inside"])
def test_calls_of_one_reply_have_its_order_with_their_documents_whichever_began_first(
    ids: Sequence[str], inside: bool
) -> None:
    def search(name: str, text: str, call_id: str) -> Branch:
        retriever = branch("index", {"openinference.span.kind": "RETRIEVER", **flat(text)})
        return tool(name, "text", retriever, call_id=call_id) if inside else tool(name, found(text), call_id=call_id)

    asks = model("", ("search_terms", "1"), ("search_orders", "2"))
    searches = [search("search_terms", TERMS, ids[0]), search("search_orders", ORDER, ids[1])]
    for below in (searches, searches[::-1]):
        run = recorded(asks, *below)
        assert [(call.round, call.name, call.documents) for call in run.calls] == [
            (1, "search_terms", (0,)),
            (1, "search_orders", (1,)),
        ]
        assert [document.text for document in run.documents] == [TERMS, ORDER]


def test_calls_of_one_tool_are_ordered_by_their_arguments_and_by_time_where_nothing_tells() -> None:
    asks = model("", ("search_terms", "1", "lamp"), ("search_terms", "2", "refund"), ("search_terms", "3", "lamp"))
    lamp, refund = ({"query": query} for query in ("lamp", "refund"))
    orders = {
        tuple(call.query for call in recorded(asks, *below).calls)
        for below in permutations([*(tool("search_terms", found(LAMP), given=lamp) for _ in range(2)),
                                   tool("search_terms", found(TERMS), given=refund)])
    }  # fmt: skip
    assert orders == {("lamp", "refund", "lamp")}
    unknown = [tool("search_terms", found(text), given=f"{{'a': {n}, 1: 2}}") for n, text in enumerate((TERMS, LAMP))]
    assert [call.arguments["a"] for call in recorded(asks, *unknown).calls if call.arguments] == [0, 1]


@pytest.mark.parametrize("ids", [("1", "2"), ("", "")], ids=["by ids", "by names"])
def test_calls_of_a_reply_without_its_calls_have_the_order_of_the_next_messages(ids: Sequence[str]) -> None:
    silent = branch("chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [ASKED]})
    asks = reply_of("", ("search_terms", "1"), ("search_orders", "2"))
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in (("1", TERMS), ("2", ORDER))
    ]
    given = {"gen_ai.input.messages": [ASKED, asks, *results], "gen_ai.output.messages": [reply_of("So.")]}
    answers = branch("chat", {"gen_ai.operation.name": "chat", **given})
    searches = [tool("search_terms", TERMS, call_id=ids[0]), tool("search_orders", ORDER, call_id=ids[1])]
    for below in (searches, searches[::-1]):
        assert [call[:3] for call in calls(silent, *below, answers)] == [
            (1, "search_terms", (0,)),
            (1, "search_orders", (1,)),
        ]


def test_parallel_agents_do_not_push_each_other_into_later_rounds() -> None:
    def helper(name: str, start: int, *ends: int) -> list[Branch]:
        times = [START_NS + at * STEP_NS for at in (start, *ends)]
        asks = model("", (name, name), start_ns=times[0], end_ns=times[1])
        return [asks, tool(name, found(f"What {name} has."), start_ns=times[1], end_ns=times[2])]

    given = calls(*helper("search_a", 2, 3, 8), *helper("search_b", 4, 5, 9))
    assert [call[:2] for call in given] == [(1, "search_a"), (1, "search_b")]


def test_the_spans_of_client_and_server_of_one_call_are_one_call() -> None:
    server = branch(
        "tools/call search_terms",
        {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search_terms", "mcp.tool.result": found(LAMP)},
    )
    client = branch(
        "MCP send tools/call search_terms",
        {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search_terms", "mcp.tool.arguments": {"query": "lamp"}},
        server,
    )
    listing = branch("MCP send tools/list", {"mcp.method.name": "tools/list"})
    run = recorded(listing, model("", ("search_terms", "1")), tool("search_terms", None, client, call_id="1"))
    assert [(call.round, call.name, call.query, call.returned) for call in run.calls] == [
        (1, "search_terms", "lamp", 1)
    ]
    assert calls(model("", ("search_terms", "1")), client) == [(1, "search_terms", (0,), 1, None)]


def test_an_error_of_the_server_is_that_of_the_call() -> None:
    server = branch(
        "tools/call search_terms",
        {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search_terms", "error.type": "rate_limit_exceeded"},
    )
    given = calls(model("", ("search_terms", "1")), tool("search_terms", None, server, call_id="1"))
    assert given == [(1, "search_terms", (), None, "rate_limited")]


def test_the_calls_of_an_agent_that_is_a_tool_are_those_of_the_run() -> None:
    inner = agent(
        model("", ("search_terms", "2")),
        tool("search_terms", found(LAMP), call_id="2"),
        model("", ("search_orders", "3")),
        tool("search_orders", found(ORDER), call_id="3"),
        model("Returns are possible."),
        answer="Returns are possible.",
    )
    assert [call[:3] for call in calls(
        model("", ("research", "1")), tool("research", "Returns are possible.", inner, call_id="1")
    )] == [(1, "search_terms", (0,)), (2, "search_orders", (1,))]  # fmt: skip


def test_a_chain_that_is_a_tool_is_one_call_with_the_documents_inside() -> None:
    search = branch("retrieve", {"openinference.span.kind": "RETRIEVER", **flat(LAMP, TERMS)})
    chain = tool("ask_terms", "14 days.", search, model("14 days."), call_id="1")
    assert calls(model("", ("ask_terms", "1")), chain) == [(1, "ask_terms", (0, 1), 2, None)]


def flat(*texts: str) -> dict[str, str]:
    return {f"retrieval.documents.{place}.document.content": text for place, text in enumerate(texts)}


@pytest.mark.parametrize(
    "name", ["handoff to Expert", "handoff", "transfer_to_agent", "finish.__call__", "final_answer", "(merged tools)"]
)
def test_what_only_steers_agents_is_no_call(name: str) -> None:
    given = calls(model("", ("search_terms", "1")), tool("search_terms", found(LAMP)), tool(name, "Expert"))
    assert [call[1] for call in given] == ["search_terms"]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        (failure("httpx.ReadTimeout", "no reply from 10.0.0.7"), "timeout"),
        (failure("KeyError", "'Mrs Miller'"), "key_error"),
        ({"attributes": {"error.type": "429"}}, "rate_limited"),
        ({"attributes": {"gen_ai.tool.status": "error"}}, "tool_error"),
        ({"result": {"isError": True, "content": [{"type": "text", "text": "Mrs Miller is unknown"}]}}, "tool_error"),
        ({"result": "Error: the index timed out"}, "timeout"),
        ({"failed": True, "result": "An error occurred while running the tool."}, "tool_error"),
    ],
)
def test_a_failed_call_is_kept_with_the_kind_of_its_error_and_nothing_of_its_message(
    fields: dict[str, Any], kind: str
) -> None:
    run = recorded(
        model("", ("search_terms", "1")),
        tool("search_terms", call_id="1", **fields),
        model("", ("search_terms", "2")),
        tool("search_terms", found(LAMP), call_id="2"),
    )
    assert [(call.round, call.error, call.returned) for call in run.calls] == [(1, kind, None), (2, None, 1)]
    assert b"Miller" not in run.encode()


def test_a_run_whose_searches_all_failed_is_recorded_without_documents() -> None:
    run = recorded(model("", ("search_terms", "1")), tool("search_terms", call_id="1", **failure("TimeoutError")))
    assert (run.documents, [call.error for call in run.calls]) == ((), ["timeout"])
    assert run.metadata["documents_from"] == "retrieval"


def test_a_chat_with_a_tool_that_is_no_search_is_not_recorded_also_if_it_fails() -> None:
    for booking in (tool("book_return", "ok", call_id="1"), tool("book_return", call_id="1", **failure("KeyError"))):
        assert interactions_of(trace(model("", ("book_return", "1")), booking), IngestSettings()) == []


def test_the_results_of_all_tools_of_a_run_are_evidence_but_for_acknowledgements_and_named_actions() -> None:
    below = (
        model("", ("search_terms", "1"), ("weather", "2"), ("book_return", "3")),
        tool("search_terms", found(LAMP), call_id="1"),
        tool("weather", "It is 21 degrees warm.", call_id="2"),
        tool("book_return", "Your return has been booked.", call_id="3"),
    )
    assert [document.text for document in recorded(*below).documents] == [LAMP, "It is 21 degrees warm."]
    assert calls(*below) == [
        (1, "search_terms", (0,), 1, None),
        (1, "weather", (1,), 1, None),
        (1, "book_return", (), None, None),
    ]
    assert [call[2:4] for call in calls(*below, action_names=["Weather"])] == [((0,), 1), ((), None), ((), None)]
    assert interactions_of(trace(*below), IngestSettings(action_names=("weather", "search_terms"))) == []


def test_what_calls_were_asked_may_be_left_out() -> None:
    below = model("", ("search_terms", "1")), tool("search_terms", found(LAMP), call_id="1", given={"query": "lamp"})
    (kept,), (left,) = recorded(*below).calls, recorded(*below, arguments=False).calls
    assert (kept.query, left.query, left.arguments, left.returned) == ("lamp", None, None, 1)


def test_a_search_that_found_nothing_returned_none() -> None:
    assert calls(model("", ("search_terms", "1")), tool("search_terms", [], call_id="1")) == [
        (1, "search_terms", (), 0, None)
    ]


def test_what_an_agent_called_in_an_attempt_that_failed_is_no_call_of_the_answer() -> None:
    attempt = branch(
        "invoke_agent first",
        {"gen_ai.operation.name": "invoke_agent"},
        model("", ("search_terms", "1")),
        tool("search_terms", found(TERMS), call_id="1"),
        **failure("OverloadedError"),
    )
    given = calls(attempt, model("", ("search_terms", "2")), tool("search_terms", found(LAMP), call_id="2"))
    assert given == [(1, "search_terms", (0,), 1, None)]


def test_a_wrapper_that_failed_with_its_tool_leaves_the_call() -> None:
    wrapper = branch("call_tool", {}, tool("search_terms", **failure("KeyError")), **failure("KeyError"))
    given = calls(model("", ("search_terms", "1")), wrapper, tool("search_terms", found(LAMP)))
    assert [call[4] for call in given] == ["key_error", None]


def test_a_retriever_for_which_a_call_stands_is_no_step_and_those_inside_a_search_of_several_are() -> None:
    dense = branch("Dense", {"openinference.span.kind": "RETRIEVER", **flat(LAMP)})
    sparse = branch("BM25", {"openinference.span.kind": "RETRIEVER", **flat(TERMS)})

    def named(*inside: Branch, before: Sequence[Branch] = ()) -> list[tuple[str, str]]:
        run = recorded(*before, model("", ("search_terms", "1")), tool("search_terms", "text", *inside, call_id="1"))
        return [(step.name, step.kind) for step in run.steps or ()]

    assert named(dense) == [("search_terms", "tool")]
    assert named(dense, sparse) == [("search_terms", "tool"), ("dense", "retriever"), ("bm25", "retriever")]
    assert named(dense, before=[sparse]) == [("search_terms", "tool"), ("bm25", "retriever")]


def test_a_call_whose_documents_were_rewritten_on_the_way_is_not_known_to_be_without_use() -> None:
    ids = {f"retrieval.documents.{place}.document.id": name for place, name in enumerate("ab")}
    keys = branch("index", {"openinference.span.kind": "RETRIEVER", "input.value": "lamp", **ids})
    prompt = {"gen_ai.prompt.variable.context": "A lamp may go back within two weeks."}
    root = spans(
        agent(
            model("", ("search_terms", "1")),
            tool("search_terms", None, keys, call_id="1"),
            branch("chat", {"gen_ai.operation.name": "chat", **prompt, "gen_ai.completion": "Yes, you can."}),
        )
    )
    (mapping,) = interactions_of(root, IngestSettings())
    assert mapping.interaction is not None, mapping.detail
    assert [document.text for document in mapping.interaction.documents] == ["A lamp may go back within two weeks."]
    assert [(call.documents, call.returned) for call in mapping.interaction.calls] == [((), None)]


def test_the_spans_of_an_agent_that_never_ended_belong_to_the_tool_that_called_it() -> None:
    ended = tool("research", call_id="1", **failure("TimeoutError"))
    below = trace(model("", ("research", "1")), ended, model("", ("search_terms", "2")),
                  tool("search_terms", found(LAMP), call_id="2"))  # fmt: skip
    outer = next(span for span in below if span.name == "execute_tool research")
    inner = branch("", {}, model("", ("search_orders", "9")), tool("search_orders", found(ORDER)), model("So."))
    lost = [
        replace(
            span,
            trace_id=outer.trace_id,
            span_id=f"{900 + place:016x}",
            parent_id="f" * 16,
            start_ns=outer.start_ns + 1 + place,
            end_ns=outer.start_ns + 2 + place,
        )
        for place, span in enumerate(spans(inner)[1:])
    ]
    (mapping,) = interactions_of([*below, *lost], IngestSettings())
    assert mapping.interaction is not None, mapping.detail
    assert [(call.name, call.error) for call in mapping.interaction.calls] == [
        ("research", "timeout"),
        ("search_terms", None),
    ]


def test_the_first_calls_stay_and_the_documents_of_all() -> None:
    many = [tool("search_terms", found(f"Text {number:05d} of the terms.")) for number in range(STEPS_MAX + 6)]
    run = recorded(model("", ("search_terms", "1")), *many)
    assert (len(run.calls), run.steps_left_out, len(run.documents)) == (STEPS_MAX, 6, STEPS_MAX + 6)


def runs(count: int) -> list[Span]:
    below = [
        part
        for number in range(count)
        for part in (model("", ("search_terms", str(number))), tool("search_terms", [], call_id=str(number)))
    ]
    return trace(*below)


def nested(count: int) -> list[Span]:
    inner = tool("search_terms", found(LAMP))
    for _ in range(count // 4):
        inner = tool("search_terms", None, inner)
    return trace(model("", ("search_terms", "1")), inner)


def sub_agents(count: int) -> list[Span]:
    inner = tool("search_terms", found(LAMP), call_id="0")
    for number in range(min(count, 200)):
        inner = tool("research", "So.", agent(model("", ("x", str(number))), inner), call_id=str(number + 1))
    return trace(model("", ("research", "x")), *[inner] * max(1, count // 200))


@pytest.mark.parametrize("shape", [runs, nested, sub_agents])
def test_twice_the_calls_take_twice_the_lines(shape: Callable[[int], list[Span]]) -> None:
    def steps(count: int) -> int:
        return lines_of(lambda: [steps_of(group, None, [], LeftOut()) for group in groups_of(Tree(shape(count)))])

    small, large = steps(400), steps(800)
    assert large < 2.6 * small


def test_ten_thousand_calls_are_one_run() -> None:
    (mapping,) = interactions_of(runs(10_000), IngestSettings())
    assert mapping.interaction is not None, mapping.detail
    assert (len(mapping.interaction.calls), mapping.interaction.steps_left_out) == (STEPS_MAX, 10_000 - STEPS_MAX)


def test_a_result_of_five_megabytes_leaves_the_run() -> None:
    (mapping,) = interactions_of(
        trace(model("", ("search_terms", "1")), tool("search_terms", "word " * 1_000_000, call_id="1")),
        IngestSettings(),
    )
    assert mapping.interaction is not None, mapping.detail
    assert mapping.interaction.left_out["documents.text"] == 1
    assert [call.returned for call in mapping.interaction.calls] == [1]


def test_an_explanation_says_which_call_of_which_round_a_tool_is_and_why_it_has_no_documents() -> None:
    (explained,) = explain_traces(
        trace(
            model("", ("search_terms", "1"), ("book_return", "2")),
            tool("search_terms", call_id="1", **failure("TimeoutError")),
            tool("book_return", "ok", call_id="2"),
            tool("handoff", "Expert"),
            model("", ("search_terms", "3")),
            tool("search_terms", found(LAMP), call_id="3"),
        ),
        IngestSettings(),
    )
    assert [span.part for span in explained.spans if span.role == "tool"] == [
        "call 1 of interaction 1 (round 1), failed: timeout",
        "call 2 of interaction 1 (round 1), whose result is no evidence",
        "unused: it only steers agents",
        "documents of interaction 1: 1, call 3 of interaction 1 (round 2)",
    ]


def chat(*given: dict[str, Any], reply: str = "Yes, you can.") -> Branch:
    """Return a model call with the messages that went into it, and its reply."""
    return branch(
        "chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": [*given],
            "gen_ai.output.messages": [{"role": "assistant", "content": reply}],
        },
    )


def asked(name: str, call_id: str, result: str) -> list[dict[str, Any]]:
    """Return the messages of a call of a tool with its result."""
    function = {"name": name, "arguments": '{"query": "lamp"}'}
    return [
        {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


QUESTION = {"role": "user", "content": "Can I return the lamp?"}


@pytest.mark.parametrize("around", [None, {}, {"input": "Can I return the lamp?", "output": "Yes, you can."}])
def test_the_calls_in_the_messages_of_the_answer_are_a_run_if_no_tool_has_a_span(around: dict[str, Any] | None) -> None:
    last = chat(QUESTION, *asked("search_terms", "1", f'[{{"id": "a", "text": "{LAMP}"}}]'), *asked("mail", "2", "ok"))
    (mapping,) = interactions_of(spans(last if around is None else branch("ask", around, last)), IngestSettings())
    run = mapping.interaction
    assert run is not None, mapping.detail
    assert (run.question, run.response) == ("Can I return the lamp?", "Yes, you can.")
    assert ([document.text for document in run.documents], run.metadata["documents_from"]) == ([LAMP], "prompt")
    assert [(call.round, call.name, call.query, call.returned) for call in run.calls] == [
        (1, "search_terms", "lamp", 1),
        (2, "mail", "lamp", None),
    ]
    assert run.usage is None or run.usage.retrieval_latency_s is None


def test_the_calls_of_an_earlier_question_are_no_run() -> None:
    earlier = [QUESTION, *asked("search_terms", "1", LAMP), {"role": "assistant", "content": "Yes, you can."}]
    last = chat(*earlier, {"role": "user", "content": "Who are you?"}, reply="A helper.")
    assert interactions_of(spans(last), IngestSettings()) == []


def given_results(*texts: str, call_ids: Sequence[str], name: str = "search_terms") -> list[dict[str, Any]]:
    """Return the message that asks for calls of one tool at once, and those of their results."""
    made = [{"id": at, "type": "function", "function": {"name": name, "arguments": "{}"}} for at in call_ids]
    results = [{"role": "tool", "tool_call_id": at, "content": text} for at, text in zip(call_ids, texts, strict=True)]
    return [{"role": "assistant", "tool_calls": made}, *results]


def asking(name: str, call_id: str) -> dict[str, Any]:
    """Return the attribute of a model call that asks for a tool."""
    return {"gen_ai.output.messages": asked(name, call_id, "")[:1]}


def client(name: str) -> Branch:
    """Return the span of an MCP client, which has no result and no id of the model's call."""
    return branch(f"MCP send tools/call {name}", {"mcp.method.name": "tools/call", "jsonrpc.request.id": "7"})


def test_calls_without_results_and_ids_have_those_that_the_next_model_call_was_given() -> None:
    first = given_results(LAMP, TERMS, call_ids="ab")
    run = spans(
        agent(
            model("", ("search_terms", "a"), ("search_terms", "b")),
            client("search_terms"),
            client("search_terms"),
            branch("chat", {**chat(QUESTION, *first).attributes, **asking("search_orders", "c")}),
            client("search_orders"),
            chat(QUESTION, *first, *given_results(ORDER, call_ids="c", name="search_orders")),
        )
    )
    (mapping,) = interactions_of(run, IngestSettings())
    assert mapping.interaction is not None, mapping.detail
    assert [document.text for document in mapping.interaction.documents] == [LAMP, TERMS, ORDER]
    assert [(call.round, call.name, call.documents) for call in mapping.interaction.calls] == [
        (1, "search_terms", (0,)),
        (1, "search_terms", (1,)),
        (2, "search_orders", (2,)),
    ]


def test_a_call_whose_result_is_missing_is_not_one_that_found_nothing() -> None:
    below = model("", ("search_terms", "1"), ("search_orders", "2")), tool("search_terms", call_id="1")
    given = calls(*below, tool("search_orders", found(ORDER), call_id="2"))
    assert given == [(1, "search_terms", (), None, None), (1, "search_orders", (0,), 1, None)]
    assert interactions_of(trace(*below), IngestSettings()) == []
    (explained,) = explain_traces(trace(*below), IngestSettings())
    assert "search_terms has no result" in (explained.reason or "")


def test_a_result_for_which_no_model_asked_is_that_of_a_call() -> None:
    assert calls(tool("search_terms", found(LAMP), call_id="9")) == [(1, "search_terms", (0,), 1, None)]
    orphan = {"role": "tool", "tool_call_id": "9", "name": "search_terms", "content": LAMP}
    (mapping,) = interactions_of(spans(chat(QUESTION, orphan)), IngestSettings())
    assert mapping.interaction is not None, mapping.detail
    assert [(call.name, call.documents) for call in mapping.interaction.calls] == [("search_terms", (0,))]


@pytest.mark.parametrize("are_on_spans", [True, False], ids=["results on spans", "results in messages"])
def test_two_calls_with_one_id_are_two_calls(are_on_spans: bool) -> None:
    first, second = given_results(LAMP, call_ids="1"), given_results(ORDER, call_ids="1")
    results = (found(LAMP), found(ORDER)) if are_on_spans else (None, None)
    run = spans(
        agent(
            model("", ("search_terms", "1")),
            tool("search_terms", results[0], call_id="1"),
            branch("chat", {**chat(QUESTION, *first).attributes, **asking("search_terms", "1")}),
            tool("search_terms", results[1], call_id="1"),
            chat(QUESTION, *first, *second),
        )
    )
    (mapping,) = interactions_of(run, IngestSettings())
    assert mapping.interaction is not None, mapping.detail
    assert [document.text for document in mapping.interaction.documents] == [LAMP, ORDER]
    assert [(call.round, call.documents) for call in mapping.interaction.calls] == [(1, (0,)), (2, (1,))]


def test_calls_in_a_circle_leave_the_run_and_are_explained() -> None:
    given = trace(
        model("", ("search_a", "1"), ("search_b", "2"), ("search_terms", "3")),
        tool("search_a", found(ORDER), call_id="1"),
        tool("search_b", found(TERMS), call_id="2"),
        tool("search_terms", found(LAMP), call_id="3"),
    )
    ids = {span.name.rpartition(" ")[2]: span.span_id for span in given}
    circle = {ids["search_a"]: ids["search_b"], ids["search_b"]: ids["search_a"]}
    spans_in_circle = [replace(span, parent_id=circle.get(span.span_id, span.parent_id)) for span in given]
    (mapping,) = interactions_of(spans_in_circle, IngestSettings())
    assert mapping.interaction is not None, mapping.detail
    assert [(call.name, call.documents) for call in mapping.interaction.calls] == [("search_terms", (0,))]
    (explained,) = explain_traces(spans_in_circle, IngestSettings())
    parts = {span.name: span.part for span in explained.spans if span.role == "tool"}
    assert len(parts) == 3
    assert all(parts.values())


def test_agents_that_call_each_other_in_a_circle_are_one_run() -> None:
    inner = tool("search_terms", found(LAMP), call_id="0")
    for number in range(150):
        name = "ask_buyer" if number % 2 else "ask_seller"
        inner = tool(name, "So.", agent(model("", ("ask", str(number))), inner), call_id=str(number + 1))
    assert calls(model("", ("ask_buyer", "150")), inner) == [(1, "search_terms", (0,), 1, None)]


def test_an_agent_of_which_neither_span_nor_tool_ever_ended_belongs_to_the_request_in_whose_time_it_was() -> None:
    lost = agent(model("", ("search_orders", "9")), tool("search_orders", found(ORDER), call_id="9"), model("So."))
    run = trace(
        model("", ("research", "1")),
        tool("research", "So.", lost, call_id="1"),
        model("", ("search_terms", "2")),
        tool("search_terms", found(LAMP), call_id="2"),
    )
    root = next(span for span in run if span.parent_id is None)
    arrived = [span for span in run if span is root or span.name not in ("execute_tool research", root.name)]
    (mapping,) = interactions_of(arrived, IngestSettings())
    assert mapping.interaction is not None, mapping.detail
    assert mapping.interaction.response == "Yes, you can."
    assert [(call.round, call.name) for call in mapping.interaction.calls] == [
        (1, "search_orders"),
        (2, "search_terms"),
    ]
