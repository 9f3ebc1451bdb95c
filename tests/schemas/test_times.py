"""Times at a door: a number is a time in one unit only, and what is no time of an answer is refused by name."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from ragtide_schemas import Feedback, InvalidEntryError, RagInteraction
from ragtide_schemas.sent import sent
from ragtide_schemas.times import AHEAD, EARLIEST, PER_SECOND, check_time, time_in, unit_since_1970

NOW = datetime(2026, 7, 1, tzinfo=UTC)
MAY = datetime(2024, 5, 1, 12, tzinfo=UTC)
INTERACTION = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}
FEEDBACK = {"pipeline": "shop", "interaction_id": "i", "gold_scores": {"trace.adherence": 1}}


@given(
    st.timedeltas(timedelta(0), NOW - EARLIEST).map(lambda passed: EARLIEST + passed),
    st.sampled_from(sorted(PER_SECOND)),
    st.booleans(),
)
def test_a_number_has_the_only_unit_in_which_it_is_a_time_of_the_last_decades(
    time: datetime, unit: str, as_text: bool
) -> None:
    number = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * PER_SECOND[unit] // 10**6
    found, named = time_in(str(number) if as_text else number, NOW)
    assert named == unit == unit_since_1970(number, NOW)
    assert isinstance(found, datetime)
    assert timedelta(0) <= time - found < timedelta(seconds=1 / PER_SECOND[unit], microseconds=2)


@for_each(
    "value, words",
    [
        (45413.5, "may be a date as Excel counts it"),
        ("45413", "may be a date as Excel counts it"),
        (20240501, "may be a date"),
        ("20240501120000", "may be a date and a time of day"),
        (2024, "may be a year"),
        (2_460_431.5, "may be a Julian day"),
        (0, "no time since 1970"),
        (-1, "no time since 1970"),
        (0.5, "no time since 1970"),
        (10**5000, "no time since 1970"),
        ("1e300", "no time since 1970"),
        (float("nan"), "no time since 1970"),
        (133_590_384_000_000_000, "no time since 1970"),  # of a Windows file
        (datetime(1999, 12, 31, tzinfo=UTC), "before 2000"),
        (NOW + timedelta(days=2), "more than a day from now"),
    ],
)
def test_what_is_no_time_of_an_answer_is_refused(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        time_in(value, NOW)


@for_each("value", [None, "", "2024-05-01T12:00:00Z", "12:30", True, [1], "0001-01-01T00:00:00Z", "1" * 10_000])
def test_other_values_are_left_to_the_schema(value: object) -> None:
    assert time_in(value, NOW) == (value, None)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_is_plausible_from_2000_to_tomorrow(time: datetime) -> None:
    if EARLIEST <= time <= NOW + AHEAD:
        check_time(time, NOW)
    else:
        with pytest.raises(ValueError, match="correct the clock"):
            check_time(time, NOW)


@for_each("model, name, fields", [(RagInteraction, "occurred_at", INTERACTION), (Feedback, "given_at", FEEDBACK)])
def test_a_door_refuses_a_time_that_the_schema_still_reads(model: Any, name: str, fields: dict[str, Any]) -> None:
    """So a stream or a recording of an earlier version stays readable."""
    for time in ("1999-01-01T00:00:00Z", "2030-01-01T00:00:00+02:00"):
        assert model.from_fields({**fields, name: time}).model_dump()[name] == datetime.fromisoformat(time)
        with pytest.raises(InvalidEntryError, match=f"^{name} is "):
            sent(model.from_fields, {**fields, name: time}, NOW)
    with pytest.raises(InvalidEntryError, match=f"^{name} is the number 45413.5, which may be a date as Excel"):
        sent(model.from_fields, {**fields, name: 45413.5}, NOW)
    assert sent(model.from_fields, {**fields, name: 1_714_564_800_000_000}, NOW).model_dump()[name] == MAY
    for unset in ("0001-01-01T00:00:00Z", None, ""):
        assert name not in sent(model.from_fields, {**fields, name: unset}, NOW).model_fields_set
