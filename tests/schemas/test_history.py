"""The history of an interaction is bounded, and cut to its last turns."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ragtide import EarlierTurn, InvalidEntryError, RagInteraction
from ragtide_schemas.errors import Reason
from ragtide_schemas.interaction import last_turns
from ragtide_schemas.limits import HISTORY_MAX_CHARS, HISTORY_TURNS_MAX

pytestmark = pytest.mark.pure

GOOD: dict[str, Any] = {"pipeline": "p", "question": "And for children?", "documents": [], "response": "Free."}
TURN = {"question": "How much?", "response": "12 euros."}


def turns(*sizes: int) -> list[dict[str, str]]:
    return [{"question": "q" * (size - size // 2), "response": "r" * (size // 2)} for size in sizes]


def test_earlier_turns_survive_the_wire() -> None:
    given = RagInteraction(**GOOD, history=[TURN, EarlierTurn(question="Why?")])
    assert given.history == (EarlierTurn(**TURN), EarlierTurn(question="Why?", response=""))
    assert RagInteraction.decode(given.encode()) == given


@pytest.mark.parametrize("empty", [None, [], ()])
def test_an_empty_history_counts_as_not_given_and_adds_no_byte(empty: Any) -> None:
    interaction = RagInteraction(**GOOD, history=empty)
    assert interaction.history is None
    assert b"history" not in interaction.encode()


@pytest.mark.parametrize(
    ("history", "reason", "told"),
    [
        ([{"question": " ", "response": "r"}], Reason.INVALID, "history.0.question"),
        ([{"role": "user", "content": "q"}], Reason.INVALID, "history.0.question is missing"),
        (["q"], Reason.INVALID, "history.0"),
        ("q", Reason.INVALID, "history must be a list"),
    ],
)
def test_the_wire_refuses_a_history_beyond_its_bounds(history: Any, reason: Reason, told: str) -> None:
    with pytest.raises(InvalidEntryError) as error:
        RagInteraction.decode(json.dumps({**GOOD, "history": history}).encode())
    assert error.value.reason == reason
    assert told in error.value.detail
    assert len(error.value.detail) < 1_000


@pytest.mark.parametrize("sizes", [[HISTORY_MAX_CHARS], [HISTORY_MAX_CHARS // HISTORY_TURNS_MAX] * HISTORY_TURNS_MAX])
def test_a_history_at_its_bounds_is_accepted(sizes: list[int]) -> None:
    assert len(RagInteraction(**GOOD, history=turns(*sizes)).history or ()) == len(sizes)


@given(st.lists(st.integers(1, HISTORY_MAX_CHARS * 6 // 5) | st.integers(1, 9_000), max_size=30))
def test_the_last_turns_are_the_longest_end_of_the_history_that_is_valid(sizes: list[int]) -> None:
    every = turns(*sizes)
    kept = last_turns(every)
    assert every[len(every) - len(kept) :] == kept
    cut = RagInteraction(**GOOD, history=every)
    assert cut.history == RagInteraction(**GOOD, history=kept).history
    assert cut.left_out["history"] == len(every) - len(kept)


@pytest.mark.parametrize("wrong", ["text", {"question": "q"}, 5, [5], [{"question": [5]}], [None]])
def test_values_that_are_no_turns_are_left_to_validation(wrong: Any) -> None:
    with pytest.raises(ValidationError, match="history"):
        RagInteraction(**GOOD, history=wrong)
