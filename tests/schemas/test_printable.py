import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from tests.support.alerts import alert
from tests.support.names import BIDI_CONTROLS

from ragtide import Estimate, InvalidEntryError, RagInteraction
from ragtide_schemas.base import Name
from ragtide_schemas.printable import printable, printable_json

NAME: TypeAdapter[str] = TypeAdapter(Name)


def steers(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} or character in BIDI_CONTROLS


def test_names_refuse_exactly_the_characters_that_steer() -> None:
    # The basic plane, and the plane of tags; no other plane has such characters.
    for code in (*range(0x10000), *range(0xE0000, 0xE0200)):
        character = chr(code)
        if unicodedata.category(character) == "Cs":
            continue
        # Two letters beside it, so that white space is a name too.
        try:
            NAME.validate_python(f"a{character}b")
        except ValidationError:
            assert steers(character), hex(code)
        else:
            assert not steers(character), hex(code)


@pytest.mark.parametrize("name", ["क्‍ष", "👩‍🚀", "می‌خواهم", "naïve café", "東京", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"])
def test_names_of_every_script_are_taken(name: str) -> None:
    assert NAME.validate_python(name) == name


@given(st.text())
def test_printable_text_steers_nothing_and_keeps_the_rest(text: str) -> None:
    shown = printable(text)
    assert not any(map(steers, shown))
    if not any(map(steers, text)):
        assert shown == text
    assert printable(shown) == shown
    shown.encode()


@given(st.dictionaries(st.text(), st.text() | st.integers(), max_size=3))
def test_json_for_a_terminal_is_the_same_value(value: dict[str, object]) -> None:
    text = printable_json(value)
    assert json.loads(text) == value
    assert not any(map(steers, text))


@pytest.mark.parametrize("bad", ["\x1b[2J", "\x9b2J", "\u202ex", "a\u2028b", "a\u200f"])
def test_segments_of_alerts_and_estimates_are_names_too(bad: str) -> None:
    with pytest.raises(ValidationError, match="segment"):
        alert("a", segment=f"lang={bad}")
    with pytest.raises(ValidationError, match="segment"):
        Estimate.model_validate({"segment": f"lang={bad}"})
    assert alert("a", segment="lang=" + "x" * 200).segment is not None


@pytest.mark.parametrize("steering", ["\x1b]0;PWNED\x07\x1b[2J", "\x9b2J", "\u202e", "\u2028"])
def test_what_is_told_of_a_refused_entry_steers_nothing(steering: str) -> None:
    good = {"pipeline": "p", "question": "q", "documents": ["d"], "response": "r"}
    for fields in (
        {**good, f"{steering}field": 1},
        {**good, "documents": [{"text": "x", f"{steering}bad": 1}]},
        {**good, "pipeline": steering},
        {**good, "schema_version": steering},
    ):
        with pytest.raises(InvalidEntryError) as caught:
            RagInteraction.decode(json.dumps(fields).encode())
        assert not any(map(steers, str(caught.value)))
        assert not any(map(steers, caught.value.detail))


def test_a_name_that_steers_is_refused_in_words() -> None:
    with pytest.raises(InvalidEntryError) as caught:
        RagInteraction.decode(json.dumps({"pipeline": "\x9bp", "question": "q", "response": "r"}).encode())
    assert "pipeline has a control character, a bidirectional control or a line separator: take it out" in str(
        caught.value
    )
