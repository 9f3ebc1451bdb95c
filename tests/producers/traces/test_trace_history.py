"""The history of an interaction is read from the chat messages before its question, or from an attribute."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.producers.traces.test_shapes import ANSWER, QUESTION, TEXTS, chain, found_in, llm, retriever
from tests.support.cases import for_each
from tests.support.traces import Branch, branch

from ragtide_producers.shapes.documents import Found
from ragtide_producers.shapes.messages import Message
from ragtide_producers.shapes.turns import turns_in
from ragtide_producers.traces.history import START_CHARS, without_documents
from ragtide_producers.traces.interactions import Refusal

pytestmark = pytest.mark.pure

ASKED, TOLD = "What does a ride cost?", "A ride costs 1 euro."
TURN = {"question": ASKED, "response": TOLD}
SYSTEM = {"role": "system", "content": "Be short. Examples follow."}
BEFORE: list[dict[str, Any]] = [
    SYSTEM,
    {"role": "assistant", "content": "Hello! How can I help?"},
    {"role": "user", "content": ASKED},
    {"role": "assistant", "content": "I search.", "tool_calls": [{"id": "1", "function": {"name": "search"}}]},
    {"role": "tool", "content": "prices"},
    {"role": "assistant", "content": TOLD},
]


def call(*messages: dict[str, Any], answer: str = ANSWER, given: Sequence[str] = TEXTS[:2]) -> Branch:
    """Return a model call as OpenTelemetry's GenAI conventions write it, with documents in its instructions."""
    parts = [
        {"role": message["role"], "parts": [{"type": "text", "content": message["content"]}], **message}
        for message in messages
    ]
    return branch(
        "chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.system_instructions": [{"type": "text", "content": text} for text in given],
            "gen_ai.input.messages": parts,
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}],
        },
    )


def history(root: Branch, **options: Any) -> list[dict[str, str]]:
    (found,) = found_in(root, **options)
    assert found.interaction is not None, found.detail
    assert found.interaction.response == ANSWER
    return [turn.model_dump() for turn in found.interaction.history or ()]


def asked(*messages: dict[str, Any], question: Any = QUESTION) -> Branch:
    return chain("ask", retriever(*TEXTS[:2]), call(*messages), question=question, answer=ANSWER)


NOW = {"role": "user", "content": QUESTION}


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        pytest.param(asked(*BEFORE, NOW), [TURN], id="turns before the last question"),
        pytest.param(asked(SYSTEM, NOW), [], id="a first question"),
        pytest.param(asked(SYSTEM, {"role": "user", "content": "Context"}, NOW), [], id="a question of two messages"),
        pytest.param(
            asked(*BEFORE, NOW, {"role": "assistant", "content": "Scan"}), [TURN], id="an answer that is begun"
        ),
        pytest.param(
            asked(
                SYSTEM,
                NOW,
                {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
                {"role": "tool", "content": "found"},
            ),
            [],
            id="steps of an agent",
        ),
        pytest.param(
            asked(*BEFORE, {"role": "user", "content": f"{TEXTS[0]}\n{TEXTS[1]}\n{QUESTION}"}), [TURN], id="a prompt"
        ),
        pytest.param(
            asked(
                {"role": "user", "content": f"Context: {TEXTS[0]}\n{ASKED}"},
                {"role": "assistant", "content": TOLD},
                {"role": "user", "content": TEXTS[1]},
                {"role": "assistant", "content": TOLD},
                NOW,
            ),
            [{"question": f"Context: \n{ASKED}", "response": TOLD}],
            id="documents in earlier prompts",
        ),
        pytest.param(
            chain(
                "ask", call(*BEFORE, NOW, answer="q"), retriever(*TEXTS[:2]), llm(), question=QUESTION, answer=ANSWER
            ),
            [TURN],
            id="only the call that rewrites the question has the history",
        ),
        pytest.param(
            asked(NOW, question={"question": QUESTION, "chat_history": [[ASKED, TOLD]]}), [TURN], id="in the input"
        ),
        pytest.param(asked(NOW, question={"messages": [*BEFORE, NOW]}), [TURN], id="messages in the input"),
        pytest.param(
            asked(NOW, question={"question": QUESTION, "chat_history": []}), [], id="an empty history in the input"
        ),
        pytest.param(
            asked(*[one for n in range(30) for one in ({"role": "user", "content": f"q-{n}"}, BEFORE[-1])], NOW),
            [{"question": f"q-{n}", "response": TOLD} for n in range(10, 30)],
            id="a long conversation",
        ),
    ],
)
def test_the_turns_before_the_last_question_are_the_history(root: Branch, expected: list[dict[str, str]]) -> None:
    assert history(root) == expected


def with_attribute(value: Any) -> Branch:
    whole = asked(*BEFORE, NOW)
    return branch(whole.name, {**whole.attributes, "ragtide.history": value}, *whole.children)


@for_each(
    "value",
    [
        [{"question": "Why?", "response": "So."}],
        json.dumps([["Why?", "So."]]),
        [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}],
    ],
)
def test_the_attribute_wins(value: Any) -> None:
    assert history(with_attribute(value)) == [{"question": "Why?", "response": "So."}]
    assert history(with_attribute(value), history=False) == [{"question": "Why?", "response": "So."}]
    assert history(with_attribute([])) == []


@for_each("value", ["none", '[{"question": "Wh', 5, [5]])
def test_an_attribute_without_turns_is_refused_with_the_remedy(value: Any) -> None:
    (found,) = found_in(with_attribute(value))
    assert found.refusal is Refusal.INVALID
    assert "ragtide.history holds no turns" in found.detail
    assert '[{"question": "...", "response": "..."}]' in found.detail


def test_the_rule_can_be_turned_off() -> None:
    assert history(asked(*BEFORE, NOW), history=False) == []


def test_a_history_that_is_cut_is_none_and_the_interaction_stays() -> None:
    whole = call(*BEFORE, NOW)
    cut = {
        key: str(value)[:-40] if key == "gen_ai.input.messages" else value for key, value in whole.attributes.items()
    }
    root = chain("ask", retriever(*TEXTS[:2]), branch("chat", cut), question=QUESTION, answer=ANSWER)
    assert history(root) == []
    dropped = chain(
        "ask",
        retriever(*TEXTS[:2]),
        branch("chat", whole.attributes, dropped_attributes=3),
        question=QUESTION,
        answer=ANSWER,
    )
    assert history(dropped) == []


def test_an_interaction_that_only_its_history_makes_too_large_stays() -> None:
    large = ["\u4e00" * 450_000 + str(n) for n in range(3)]  # of three bytes a character
    past = [{"role": "user", "content": "\u4e00" * 90_000}, BEFORE[-1]]
    root = chain("ask", retriever(*large), call(*past, NOW, given=large), question=QUESTION, answer=ANSWER)
    assert history(root) == []
    (found,) = found_in(
        chain("ask", retriever(*large[:2]), call(*past, NOW, given=large[:2]), question=QUESTION, answer=ANSWER)
    )
    assert found.interaction is not None
    assert found.interaction.history is not None


def test_hostile_texts_end() -> None:
    same = "a" * START_CHARS
    documents = [Found("a" * 100_000 + "b"), *(Found(same + "c" * n) for n in range(500))]
    turns = [{"question": "a" * 100_000, "response": ""}]
    assert without_documents(turns, documents) == turns
    assert len(turns_in([Message("user", "q", False), *[Message("assistant", "r" * 1_000, False)] * 30_000])) == 1
