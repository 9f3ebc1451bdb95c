"""Rules that Pydantic's core checks accept what they describe in Python: not blank, and a time from 1970 to 2200."""

import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from ragtide import InvalidEntryError, RagInteraction
from ragtide_schemas.base import Name, NotBlank, UtcTime
from ragtide_schemas.limits import NAME_MAX_CHARS, TIME_MAX, TIME_MIN
from ragtide_schemas.printable import printable

NOT_BLANK = TypeAdapter(Annotated[str, NotBlank])
NAME = TypeAdapter(Name)
TIME = TypeAdapter(UtcTime)
SURROGATES = range(0xD800, 0xE000)
UNUSUAL = "".join(chr(code) for code in range(0x3001) if chr(code).isspace() or printable(chr(code)) != chr(code))
"""White space, and characters that control the output."""

texts = st.text(st.sampled_from(f"{UNUSUAL}\u200b\ufeff\u180e") | st.characters(exclude_categories=["Cs"]), max_size=8)
offsets = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
times = st.datetimes(timezones=offsets) | st.tuples(
    st.sampled_from([TIME_MIN, TIME_MAX]), st.timedeltas(timedelta(days=-2), timedelta(days=2)), offsets
).map(lambda parts: (parts[0] + parts[1]).astimezone(parts[2]))


def accepts(adapter: TypeAdapter[str], text: str) -> bool:
    try:
        assert adapter.validate_python(text) == text
    except ValidationError:
        return False
    return True


def test_white_space_is_what_python_takes_for_it() -> None:
    codes = (code for code in range(sys.maxunicode + 1) if code not in SURROGATES)
    assert [code for code in codes if accepts(NOT_BLANK, chr(code)) is chr(code).isspace()] == []


@given(texts)
def test_a_text_is_refused_if_nothing_is_left_of_it_without_white_space(text: str) -> None:
    assert accepts(NOT_BLANK, text) is bool(text.strip())


@given(texts | st.integers(NAME_MAX_CHARS - 1, NAME_MAX_CHARS + 1).map(lambda length: "x" * length))
def test_a_name_is_short_and_printable_and_not_blank(text: str) -> None:
    assert accepts(NAME, text) is (len(text) <= NAME_MAX_CHARS and printable(text) == text and bool(text.strip()))


@given(times)
def test_a_time_of_any_zone_is_taken_from_1970_to_2200_and_kept_in_utc(time: datetime) -> None:
    if not TIME_MIN <= time <= TIME_MAX:
        with pytest.raises(ValidationError, match="must be a time from 1970 to 2200"):
            TIME.validate_python(time)
        return
    found = TIME.validate_python(time)
    assert (found, found.tzinfo, found.utcoffset()) == (time, UTC, timedelta())


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("question", " \u2003", r"question must not be empty or only white space \(got ' \\u2003'\)"),
        ("question", "", r"question must not be empty or only white space \(got ''\)"),
        ("pipeline", "\xa0", r"pipeline must not be empty or only white space \(got '\\xa0'\)"),
        ("documents", [{"text": "\x1f"}], r"documents\.0\.text must not be empty or only white space"),
        ("occurred_at", "1969-12-31T23:00:00Z", r"occurred_at must be .* \(got '1969-12-31T23:00:00\+00:00'\)"),
    ],
)
def test_a_broken_rule_is_described_with_field_value_and_remedy(field: str, value: object, words: str) -> None:
    fields = {"pipeline": "shop", "question": "q", "documents": [], "response": "r", field: value}
    with pytest.raises(InvalidEntryError, match=words):
        RagInteraction.from_fields(fields)
    with pytest.raises(ValidationError, match=r"must (not be empty or only white space|be a time from 1970 to 2200)"):
        RagInteraction(**fields)
