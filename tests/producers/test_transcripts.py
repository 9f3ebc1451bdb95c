"""A transcript of an agent's run is read the same in every protocol, and no part of a broken one is lost unsaid."""

import json
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem
from tests.support.transcripts import (
    ANSWER,
    EXPECTED,
    FAILURE,
    HOURS,
    ORDER,
    POLICIES,
    POLICY,
    QUESTION,
    TRANSCRIPTS,
    Asked,
    Items,
    Rounds,
    anthropic,
    fields_seen_in,
    gemini,
    openai_chat,
    openai_responses,
)

from ragtide import InvalidEntryError, RagInteraction, RetrievedDocument
from ragtide_producers.given_fields import interaction_of
from ragtide_producers.ingest.items import read_item, sent_interaction
from ragtide_producers.ingest.split_items import ITEM_BYTES
from ragtide_producers.shapes.calls import ToolCall, calls_in, run_in, step_fields
from ragtide_producers.shapes.documents import Found
from ragtide_producers.shapes.evidence import evidence_in
from ragtide_producers.shapes.messages import messages_of
from ragtide_producers.shapes.turns import turns_of
from ragtide_schemas.plain_values import LeftOut


def read(messages: Any, **fields: Any) -> RagInteraction:
    return interaction_of({"pipeline": "shop", "messages": messages, **fields})


def asks(*calls: tuple[str | None, str, Any]) -> dict[str, Any]:
    functions = [{"id": key, "function": {"name": name, "arguments": asked}} for key, name, asked in calls]
    return {"role": "assistant", "content": None, "tool_calls": functions}


def says(result: Any, key: str | None = None, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": key, "content": result, **more}


def run(*items: dict[str, Any]) -> Items:
    return [{"role": "user", "content": QUESTION}, *items, {"role": "assistant", "content": ANSWER}]


def shape(items: Any) -> list[tuple[str, int | None, str | None]]:
    """Name, round and error of each call."""
    return [(call.name, call.round, call.error) for call in calls_in(items)]


@pytest.mark.parametrize("make", TRANSCRIPTS, ids=lambda make: make.__name__)
def test_a_run_has_its_question_calls_documents_and_answer_in_each_protocol(make: Callable[[], Items]) -> None:
    interaction = read(make())
    assert fields_seen_in(interaction) == EXPECTED
    assert not interaction.left_out
    assert fields_seen_in(read(json.dumps(make()))) == EXPECTED
    assert fields_seen_in(read({"messages": make()})) == EXPECTED


@st.composite
def rounds(draw: st.DrawFn) -> list[list[Asked]]:
    """Rounds of calls; their results come in any order, fail, or never come in the last round."""
    results = st.sampled_from([(ORDER, False), (POLICIES, False), ("[]", False), ("ok", False), (FAILURE, True)])
    arguments: list[dict[str, Any]] = [{"query": "lamp"}, {"order": 7}, {}, {"q": ["a", 1], "deep": {"x": None}}]
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    ids = draw(st.permutations([f"c{n:02d}" for n in range(sum(sizes))]))
    made = []
    for place, size in enumerate(sizes):
        names = draw(st.permutations(["orders", "search_policies", "book_return", "a tool"]))[:size]
        is_last = place == len(sizes) - 1
        calls = []
        for name in names:
            result, failed = (None, False) if is_last and draw(st.booleans()) else draw(results)
            calls.append(Asked(ids.pop(), name, draw(st.sampled_from(arguments)), result, failed))
        made.append(calls)
    return made


@settings(max_examples=60, deadline=None)
@given(rounds())
def test_every_protocol_gives_the_same_calls_and_none_is_lost(made: list[list[Asked]]) -> None:
    first, *others = (fields_seen_in(read(make(made))) for make in (openai_chat, openai_responses, anthropic, gemini))
    assert others == [first] * len(others)
    given = [(number, call) for number, calls in enumerate(made, 1) for call in calls]
    for (number, call), step in zip(given, first["steps"], strict=True):
        assert (step["name"], step["round"]) == (call.name.replace(" ", "_"), number)
        assert step.get("query", step.get("arguments")) == call.arguments.get("query", call.arguments)
        expected = "no_result" if call.result is None else "timeout" if call.failed else None
        assert step.get("error") == expected
    texts = {call.result for _, call in given}
    assert {POLICY in first["documents"], HOURS in first["documents"]} == {POLICIES in texts}


def test_items_of_responses_are_turns() -> None:
    assert turns_of(openai_responses()) == turns_of(openai_chat())
    assert [message.calls_tools for message in messages_of(openai_responses())].count(True) == 4
    assert messages_of([item for item in openai_responses() if item.get("type") == "function_call"]) == []


def test_a_given_field_wins_over_that_of_the_transcript() -> None:
    given = read(openai_chat(), question="Lamp?", response="No.", documents=[RetrievedDocument(id="x", text=POLICY)])
    assert (given.question, given.response, len(given.documents)) == ("Lamp?", "No.", 1)
    assert given.steps is not None
    assert [step.documents for step in given.steps] == [(), (), (0,), ()]
    assert [step.returned for step in given.steps] == [1, None, 2, None]
    own = read(openai_chat(), steps=[], history=[{"question": "Why?"}])
    assert own.history is not None
    assert (own.steps, own.history[0].question) == (None, "Why?")


def test_calls_of_one_message_are_of_one_round_and_so_are_calls_before_a_result() -> None:
    together = run(asks(("a", "orders", "{}"), ("b", "rates", "{}")), says("One.", "a"), says("Two.", "b"))
    assert shape(together) == [("orders", 1, None), ("rates", 1, None)]
    after = run(asks(("a", "orders", "{}")), says("One.", "a"), asks(("b", "rates", "{}")), says("Two.", "b"))
    assert shape(after) == [("orders", 1, None), ("rates", 2, None)]
    item = {"type": "function_call", "arguments": "{}"}
    output = {"type": "function_call_output"}
    beside: Items = [
        {**item, "call_id": "a", "name": "orders"},
        {"type": "reasoning", "summary": []},
        {**item, "call_id": "b", "name": "rates"},
        {**output, "call_id": "b", "output": "Two."},
        {**output, "call_id": "a", "output": "One."},
        {**item, "call_id": "c", "name": "rates"},
        {**output, "call_id": "c", "output": "Three."},
    ]
    calls = calls_in(run(*beside))
    assert [(call.round, call.result) for call in calls] == [(1, "One."), (1, "Two."), (2, "Three.")]


def test_only_the_last_question_that_something_follows_is_read() -> None:
    earlier = run(asks(("a", "orders", "{}")), says("One.", "a"))
    waiting = {"role": "user", "content": "And tomorrow?"}
    assert shape([*earlier, {"role": "user", "content": "Thanks!"}, {"role": "assistant", "content": "Bye."}]) == []
    assert shape([*earlier, waiting]) == [("orders", 1, None)]
    assert run_in([*earlier, waiting]).question == QUESTION
    silent = read([*earlier, waiting, {"role": "assistant", "content": "Yes."}])
    assert (silent.documents, silent.steps, silent.question) == ((), None, "And tomorrow?")


def test_a_call_that_a_history_repeats_is_one_call_and_another_call_with_its_id_is_a_second() -> None:
    turn = [asks(("a", "orders", '{"order": 7}')), says("One.", "a")]
    assert shape(run(*turn, *turn, asks(("b", "rates", "{}")), says("Two.", "b"))) == [
        ("orders", 1, None),
        ("rates", 2, None),
    ]
    other = [asks(("a", "orders", '{"order": 8}')), says("Eight.", "a")]
    calls = calls_in(run(*turn, *other))
    assert [(call.round, call.result) for call in calls] == [(1, "One."), (2, "Eight.")]
    both = run(asks(("a", "orders", "1"), ("a", "orders", "2")), says("One.", "a"), says("Two.", "a"))
    assert [call.result for call in calls_in(both)] == ["One.", "Two."]


def test_a_call_without_a_result_failed_and_a_result_without_a_call_is_a_call() -> None:
    missing = run(asks(("a", "orders", "{}"), ("b", "rates", "{}")), says("Two.", "b"))
    assert shape(missing) == [("orders", 1, "no_result"), ("rates", 1, None)]
    orphans = run(says("Rain in the north.", "zz", name="weather"), says("It is dry."), says("It is dry."))
    assert shape(orphans) == [("weather", None, None), ("tool", None, None), ("tool", None, None)]
    interaction = read(orphans)
    assert [document.text for document in interaction.documents] == ["Rain in the north.", "It is dry."]
    assert interaction.steps is not None
    assert [step.documents for step in interaction.steps] == [(0,), (1,), (1,)]
    first = run(says("One.", "a"), asks(("a", "orders", "{}")))
    assert shape(first) == [("tool", None, None), ("orders", 1, "no_result")]


def test_results_without_ids_belong_to_the_calls_of_their_names_in_their_round() -> None:
    calls: Items = [{"functionCall": {"name": name, "args": {}}} for name in ("orders", "rates", "orders")]
    answers = [("rates", "Two."), ("orders", "One."), ("orders", "Three.")]
    results = [{"functionResponse": {"name": name, "response": {"result": text}}} for name, text in answers]
    items = [{"role": "user", "parts": [{"text": "q"}]}, {"role": "model", "parts": calls}]
    read_calls = calls_in([*items, {"role": "user", "parts": results}])
    assert [call.documents for call in read_calls] == [[Found("One.")], [Found("Two.")], [Found("Three.")]]


def test_handoffs_and_notes_are_no_calls_and_the_arguments_of_the_last_tool_may_be_the_answer() -> None:
    items = [
        {"role": "user", "content": QUESTION},
        asks(("a", "transfer_to_billing", "{}")),
        says("Transferred.", "a"),
        asks(("b", "search", '{"query": "lamp"}')),
        says("Lamps can be returned.", "b"),
        asks(("c", "final_result", '{"answer": "Yes."}')),
        says("Final result processed.", "c"),
    ]
    assert shape(items) == [("search", 1, None)]
    assert read(items).response == "Yes."


def test_a_run_that_ends_without_an_answer_has_an_empty_response() -> None:
    items = run(asks(("a", "search", '{"query": "lamp"}')), says("Lamps.", "a"))[:-1]
    assert read(items).response == ""
    assert read([*items[:2]]).steps is not None


def test_calls_that_the_service_makes_itself_have_their_result_in_them() -> None:
    searched = {
        "type": "file_search_call", "id": "fs", "status": "completed", "queries": ["lamp"],
        "results": [{"file_id": "f", "filename": "a.md", "score": 0.9, "text": POLICY}],
    }  # fmt: skip
    failed = {"type": "mcp_call", "id": "m", "name": "orders", "arguments": "{}", "output": None, "error": "timed out"}
    web = {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "lamp"}}
    interaction = read(run(searched, failed, web))
    assert [document.text for document in interaction.documents] == [POLICY]
    assert interaction.steps is not None
    seen = [(step.name, step.round, step.query, step.error, step.returned) for step in interaction.steps]
    assert seen == [
        ("file_search", 1, "lamp", None, 1),
        ("orders", 2, None, "timeout", None),
        ("web_search", 3, "lamp", None, None),
    ]
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "lamp"}}
    result = {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "content": [{"type": "web_search_result", "url": "u"}],
    }
    content = [{"type": "text", "text": "Let me look."}, block, result, {"type": "text", "text": ANSWER}]
    anthropic = read([{"role": "user", "content": QUESTION}, {"role": "assistant", "content": content}])
    assert anthropic.response == ANSWER
    assert [(step.name, step.query) for step in anthropic.steps or ()] == [("web_search", "lamp")]


EVIDENCE: dict[str, tuple[str, Any, list[str] | None]] = {
    "a booking": ("book_return", "Your return has been booked.", None),
    "ok of a tool": ("orders", "ok", None),
    "a number": ("calculator", "42", None),
    "a status": ("orders", {"status": "created", "id": 7, "success": True}, None),
    "a status in the content of MCP": ("orders", {"content": [{"type": "text", "text": "Done."}]}, None),
    "the text of a tool that writes": (
        "send_mail",
        "We sent the long letter to the customer in the north.",
        None,
    ),
    "the state that was looked up": ("order_status", "shipped", ["shipped"]),
    "a sentence that was looked up": ("get_order", "It was sent on 3 May.", ["It was sent on 3 May."]),
    "a weather": ("weather", "It rains in the north.", ["It rains in the north."]),
    "nothing": ("search", "[]", []),
    "nothing in words": ("orders", "No orders found.", []),
    "null of a search": ("search", None, []),
    "null of another tool": ("orders", None, None),
    "nothing of a tool that writes": ("clear_cart", [], None),
    "documents of a tool that writes": ("save_search", [{"id": "a", "text": "A lamp."}], ["A lamp."]),
    "a row of a table": ("sql", {"total": 3, "city": "Rome"}, ['{"total":3,"city":"Rome"}']),
    "a picture": ("plot", None, None),
}


@pytest.mark.parametrize("case", EVIDENCE.values(), ids=EVIDENCE.keys())
def test_a_result_is_evidence_unless_it_only_says_that_something_was_done(case: tuple[str, Any, list[str]]) -> None:
    name, result, expected = case
    documents = evidence_in(name, result)
    assert (None if documents is None else [document.text for document in documents]) == expected


def test_calls_beyond_the_first_64_are_counted_and_their_documents_stay() -> None:
    turns = [(asks((str(n), "search", f'{{"query": "q{n}"}}')), says(f"Text {n}.", str(n))) for n in range(70)]
    interaction = read(run(*(item for turn in turns for item in turn)))
    assert interaction.steps is not None
    assert (len(interaction.steps), interaction.steps_left_out, len(interaction.documents)) == (64, 6, 70)
    given = {"pipeline": "shop", "question": "q", "documents": [], "response": "r"}
    steps = [{"name": "search", "kind": "tool", "query": str(n)} for n in range(70)]
    cut = interaction_of({**given, "steps": steps, "steps_left_out": 1})
    assert cut.steps is not None
    assert (len(cut.steps), cut.steps_left_out) == (64, 7)
    with pytest.raises(InvalidEntryError, match="steps"):
        interaction_of({**given, "steps": [{"name": "bm25", "kind": "retriever", "documents": []}] * 70})


def test_ten_thousand_calls_take_time_in_proportion() -> None:
    def seconds(n: int) -> float:
        turns = ((asks((str(k), f"t{k % 9}", f'{{"query": "q{k}"}}')), says(f"Text {k}.", str(k))) for k in range(n))
        items = run(*(item for turn in turns for item in turn))
        begun = process_time()
        interaction = read(items)
        spent = process_time() - begun
        assert (interaction.steps_left_out, len(interaction.documents)) == (n - 64, min(n, 500))
        assert interaction.left_out.get("documents", 0) == max(n - 500, 0)
        return spent

    seconds(100)
    few = min(seconds(1_000) for _ in range(3))
    assert min(seconds(10_000) for _ in range(2)) < 30 * few


@pytest.mark.parametrize("make", [openai_chat, openai_responses, anthropic, gemini])
def test_the_messages_of_ten_thousand_calls_are_one_item_of_a_request(make: Callable[[Rounds], Items]) -> None:
    calls = [[Asked(f"c{n:05d}", "search", {"query": f"q{n}"}, f"Text {n}.")] for n in range(10_000)]
    body = json.dumps({"pipeline": "shop", "messages": make(calls)}).encode()
    interaction = sent_interaction(read_item(body, ITEM_BYTES), source="http", key=None, index=0)
    assert (interaction.steps_left_out, interaction.left_out) == (9_936, {"documents": 9_500})


def test_names_beyond_the_most_are_joined_and_counted() -> None:
    left_out = LeftOut()
    calls = [ToolCall(f"tool {n}", {"n": n}, round=1) for n in range(20)]
    steps, n_left = step_fields(calls, [], left_out)
    assert (n_left, left_out["steps.name"], len({step["name"] for step in steps})) == (0, 5, 16)
    assert steps[-1]["name"] == "other_tools"


def test_a_result_of_five_megabytes_is_cut_and_counted() -> None:
    interaction = read(run(asks(("a", "search", "{}")), says("A long text. " * 400_000, "a")))
    assert len(interaction.documents[0].text) == 1_000_000
    assert interaction.left_out == {"documents.text": 1}
    assert interaction.steps is not None
    assert interaction.steps[0].documents == (0,)
    rows = json.dumps([{"row": n, "city": "Rome"} for n in range(5_000)])
    assert read(run(asks(("a", "sql", "{}")), says(rows, "a"))).documents[0].text.startswith('[{"row"')


def test_arguments_that_are_too_long_are_left_out_whole_and_counted() -> None:
    long = read(run(asks(("a", "search", json.dumps({"query": "x" * 3_000}))), says("Lamps.", "a")))
    assert long.steps is not None
    assert (long.steps[0].query, long.steps[0].arguments, long.left_out) == (None, None, {"steps.query": 1})
    odd = read(run(asks(("a", "search", "lamps, please")), says("Lamps.", "a")))
    assert odd.steps is not None
    assert odd.steps[0].query == "lamps, please"


def circle() -> Items:
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    message["tool_calls"] = [{"id": "a", "function": {"name": "search", "arguments": message}}]
    return [{"role": "user", "content": QUESTION}, message]


BROKEN: dict[str, tuple[Any, str]] = {
    "a number": (7, "no list of messages"),
    "an empty list": ([], "no list of messages"),
    "a text": ("hello", "no list of messages"),
    "half of a list": ('[{"role": "user"', "messages cannot be read"),
    "a question alone": ([{"role": "user", "content": "q"}], "no answer and no call"),
    "an answer alone": ([{"role": "assistant", "content": "a"}], "no question"),
    "calls alone": ([asks(("a", "search", "{}"))], "no question"),
    "no messages": ([1, "x", None, {"a": 1}], "no answer and no call"),
    "a circle": (circle(), "levels"),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_run_is_refused_with_the_field_and_a_remedy(case: tuple[Any, str]) -> None:
    value, why = case
    with pytest.raises(InvalidEntryError, match=why) as refused:
        read(value)
    assert refused.value.detail.startswith("messages ")
    assert ": " in refused.value.detail
    assert len(refused.value.detail) < 300


def test_the_result_of_a_tool_may_be_an_object() -> None:
    interaction = read(run(asks(("a", "search", "{}")), says({"documents": [{"id": "d", "text": POLICY}]}, "a")))
    assert [document.id for document in interaction.documents] == ["d"]


def test_objects_of_a_client_are_read_as_what_they_are_sent_as() -> None:
    chat = [
        ChatCompletionMessage.model_validate(item) if item["role"] == "assistant" else item for item in openai_chat()
    ]
    assert fields_seen_in(read(chat)) == EXPECTED
    classes: dict[str, Any] = {"function_call": ResponseFunctionToolCall, "reasoning": ResponseReasoningItem}
    items = [
        classes[item["type"]].model_validate(item) if item.get("type") in classes else item
        for item in openai_responses()
    ]
    assert fields_seen_in(read(items)) == EXPECTED
