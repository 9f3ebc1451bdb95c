"""The session that turns make."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragtide import RagInteraction
from ragtide_schemas.conversation import TURNS_MAX, has_turn, sessions_of, turn_of, turns_not_shown

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def turn(number: int, *, after_s: float | None = None, **fields: Any) -> RagInteraction:
    return RagInteraction.model_validate(
        {
            "interaction_id": f"i-{number}", "pipeline": "shop", "session_id": "s", "question": f"q{number}?",
            "documents": ["A document."], "response": f"r{number}.",
            "occurred_at": NOON + timedelta(seconds=60 * number if after_s is None else after_s), **fields,
        }
    )  # fmt: skip


def test_a_session_is_its_turns_in_the_order_of_their_times() -> None:
    (session,) = sessions_of([turn(2), turn(0), turn(1)], quiet_s=600)
    assert session.is_session
    assert [(t.question, t.response) for t in session.history or ()] == [("q0?", "r0."), ("q1?", "r1.")]
    assert (session.question, session.response, session.documents, session.turn) == ("q2?", "r2.", (), 2)
    assert (session.session_id, session.occurred_at) == ("s", NOON + timedelta(minutes=2))


def test_turns_that_all_have_a_number_are_in_the_order_of_their_numbers() -> None:
    turns = [turn(0, after_s=0, turn=1), turn(1, after_s=9, turn=0)]
    (session,) = sessions_of(turns, quiet_s=600)
    assert (session.question, session.occurred_at) == ("q0?", NOON + timedelta(seconds=9))
    (by_time,) = sessions_of([turns[0], turn(2, after_s=10)], quiet_s=600)
    assert by_time.question == "q2?"


def test_a_turn_after_the_quiet_time_begins_the_next_session_with_another_id() -> None:
    first, second = sessions_of([turn(0), turn(1), turn(2, after_s=661)], quiet_s=600)
    assert (first.question, second.question) == ("q1?", "q2?")
    assert first.interaction_id != second.interaction_id
    (alone,) = sessions_of([turn(2, after_s=661)], quiet_s=600)
    assert alone.interaction_id == second.interaction_id, "the same first turn makes the same session"
    assert len(sessions_of([turn(0), turn(1, after_s=600)], quiet_s=600)) == 1


def test_a_session_has_what_all_its_turns_have() -> None:
    turns = [
        turn(0, segments={"lang": "de", "tier": "a"}, user_id="u", cluster="c"),
        turn(1, segments={"lang": "de", "tier": "b"}, user_id="u", cluster="d"),
    ]
    (session,) = sessions_of(turns, quiet_s=600)
    assert (session.segments, session.user_id, session.cluster) == ({"lang": "de"}, "u", None)


def test_turns_beyond_the_bounds_are_counted() -> None:
    (long,) = sessions_of([turn(number, after_s=number) for number in range(30)], quiet_s=600)
    assert len(long.history or ()) + 1 == TURNS_MAX
    assert turns_not_shown(long) == 30 - TURNS_MAX
    assert [has_turn(long, f"i-{number}") for number in (8, 9, 29, 30)] == [False, True, True, False]
    (dropped,) = sessions_of([turn(7), turn(8)], quiet_s=600, missing=7)
    assert (turns_not_shown(dropped), dropped.turn) == (7, 8)
    (wide,) = sessions_of([turn(0, response="x" * 90_000), turn(1, response="y" * 90_000), turn(2)], quiet_s=600)
    assert turns_not_shown(wide) == 1
    assert RagInteraction.decode(wide.encode()) == wide
    (huge,) = sessions_of([turn(0, response="x" * 150_000), turn(1)], quiet_s=600)
    assert turns_not_shown(huge) == 0
    assert RagInteraction.decode(huge.encode()) == huge


def test_a_turn_keeps_no_documents_and_nothing_that_a_session_has_no_use_for() -> None:
    whole = turn(
        0, metadata={"a": 1}, reference_answer="R", gold_scores={"trace.adherence": 1.0}, usage={"latency_s": 1}
    )
    small = turn_of(whole)
    assert small == turn(0).model_copy(update={"documents": ()})
    assert RagInteraction.decode(small.encode()) == small


@given(st.permutations(range(6)), st.lists(st.floats(0, 2000), min_size=6, max_size=6))
def test_the_order_of_arrival_changes_no_session(order: list[int], times: list[float]) -> None:
    times = [time + number / 1000 for number, time in enumerate(sorted(times))]
    turns = [turn(number, after_s=times[number]) for number in range(6)]
    expected = sessions_of(turns, quiet_s=600)
    assert sessions_of([turns[place] for place in order], quiet_s=600) == expected
    assert sum(1 + len(session.history or ()) for session in expected) == 6
