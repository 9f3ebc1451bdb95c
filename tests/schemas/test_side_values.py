"""One bad side value never costs the answer: it is converted where its meaning is plain, or left out and counted."""

import json
import math
import uuid
from collections import OrderedDict, UserDict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from unittest.mock import AsyncMock, MagicMock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from ragtide import Feedback, InvalidEntryError, RagInteraction
from ragtide_schemas.limits import COVARIATES_MAX, METADATA_MAX_BYTES, NAME_MAX_CHARS, SEGMENTS_MAX
from ragtide_schemas.plain_values import plain_value

pd: Any = import_module("pandas")  # of the dev extra's datasets; it has no types

GOOD: dict[str, Any] = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}
WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = uuid.UUID(int=7)


class Color(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Language(StrEnum):
    GERMAN = "de"


@dataclass
class Trace:
    span: str = "s"
    _role: str = "user"
    parts: list[Any] = field(default_factory=lambda: [Color.RED, 1])


class Model(BaseModel):
    when: datetime = WHEN
    trace: Any = Trace()


class Point(NamedTuple):
    x: int
    y: float


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def tower(levels: int) -> Any:
    found: Any = "top"
    for _ in range(levels):
        found = [found]
    return found


def waiting() -> Any:
    raise AssertionError("no generator may run")
    yield


GONE = object()
PLAIN = [
    (WHEN, "2026-01-02T03:04:05Z"),
    (date(2026, 1, 2), "2026-01-02"),
    (time(3, 4), "03:04:00"),
    (timedelta(seconds=90), "PT1M30S"),
    (ID, str(ID)),
    (Decimal("0.10"), 0.1),
    (Decimal(7), 7),
    (Decimal("0.1234567890123456789"), "0.1234567890123456789"),
    (Fraction(1, 4), 0.25),
    (Fraction(1, 3), "1/3"),
    (np.int64(3), 3),
    (np.float32(0.5), 0.5),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    (np.array(["a", WHEN], dtype=object), ["a", "2026-01-02T03:04:05Z"]),
    (np.datetime64("2026-01-02T03:04"), "2026-01-02T03:04"),
    (np.array(["2026-01-02"], dtype="datetime64[ns]"), ["2026-01-02T00:00:00.000000000"]),
    (pd.Timestamp(WHEN), "2026-01-02T03:04:05Z"),
    (pd.Timedelta(seconds=90), "PT1M30S"),
    (pd.NaT, None),
    (pd.NA, None),
    (pd.Series([1, 2]), [1, 2]),
    (b"text", "text"),
    (bytearray(b"text"), "text"),
    (True, True),
    ({"b", "a"}, ["a", "b"]),
    (frozenset((2, 1)), [1, 2]),
    ((1, "a"), [1, "a"]),
    (range(3), [0, 1, 2]),
    (deque([1]), [1]),
    ({"a": 1}.keys(), ["a"]),
    (Color.RED, "red"),
    (Level.HIGH, 3),
    (Language.GERMAN, "de"),
    (PurePosixPath("/a/b"), "/a/b"),
    (Trace(), {"span": "s", "role": "user", "parts": ["red", 1]}),
    (Model(), {"when": "2026-01-02T03:04:05Z", "trace": {"span": "s", "role": "user", "parts": ["red", 1]}}),
    (Point(1, 0.5), {"x": 1, "y": 0.5}),
    (UserDict(a=WHEN), {"a": "2026-01-02T03:04:05Z"}),
    (OrderedDict(a=ID), {"a": str(ID)}),
    ({1: {True: "a"}}, {"1": {"true": "a"}}),
    ("cut \ud83d", "cut �"),
    ("\ud83d\ude00", "😀"),
    ({"k\ud83d": 1}, {"k�": 1}),
    (10**30, 10**30),
    (None, None),
]
WITHOUT_JSON: list[Any] = [
    float("nan"),
    float("-inf"),
    Decimal("NaN"),
    np.float64("nan"),
    b"\xff",
    object(),
    circle(),
    tower(500),
    waiting(),
    MagicMock(),
    AsyncMock(),
    print,
    Color,
    iter([1]),
    list(range(1_000_000)),
    10**4_400,
    "x" * METADATA_MAX_BYTES,
    pd.DataFrame({"a": [1]}),
    np.zeros(1_000_000),
]


@pytest.mark.parametrize(("value", "plain"), PLAIN, ids=lambda value: type(value).__name__)
def test_a_value_with_a_plain_meaning_is_that_in_metadata(value: Any, plain: Any) -> None:
    found = RagInteraction.from_fields({**GOOD, "metadata": {"own": value, "wrong": object()}})
    assert found.metadata == {"own": plain}
    assert found.left_out == {"metadata.wrong": 1}
    inner = RagInteraction.from_fields({**GOOD, "documents": [{"text": "d", "metadata": {"a": [{"b": value}, ID]}}]})
    assert inner.documents[0].metadata == {"a": [{"b": plain}, str(ID)]}
    assert RagInteraction.decode(inner.encode()) == inner


@pytest.mark.parametrize("value", WITHOUT_JSON, ids=lambda value: type(value).__name__)
def test_a_value_without_a_plain_meaning_is_left_out_and_counted(value: Any) -> None:
    found = RagInteraction.from_fields({**GOOD, "metadata": {"bad": value, "good": 1}})
    assert (found.metadata, found.left_out) == ({"good": 1}, {"metadata.bad": 1})
    assert (found.question, found.documents[0].text, found.response) == ("q", "d", "r")


@pytest.mark.parametrize(
    "place",
    [
        "metadata", "segments", "segments.a", "interaction_id", "session_id", "user_id", "cluster", "source", "turn",
        "usage", "usage.latency_s", "usage.prompt_tokens", "gold_scores", "gold_scores.trace.adherence", "covariates",
        "covariates.a", "documents.metadata", "documents.score", "documents.id", "documents.sentences",
        "response_sentences",
    ],
)  # fmt: skip
def test_no_side_value_costs_the_answer_on_any_way_in(place: str) -> None:
    name, _, key = place.partition(".")
    ways = (RagInteraction.from_fields, RagInteraction.model_validate, lambda fields: RagInteraction(**fields))
    for value in [*WITHOUT_JSON, *(value for value, _ in PLAIN)]:
        given: Any = {key: value} if key else value
        if name == "documents":
            given = [{"text": "d", **given}]
        for way in ways:
            found = way({**GOOD, name: given})
            assert (found.question, [d.text for d in found.documents], found.response) == ("q", ["d"], "r")
            assert all(left == place or left.startswith(f"{place}.") for left in found.left_out), found.left_out
            assert RagInteraction.decode(found.encode()) == found


def test_ids_segments_and_numbers_have_the_plain_text_or_number_of_their_values() -> None:
    found = RagInteraction.from_fields(
        {
            **GOOD,
            "interaction_id": ID,
            "session_id": 4711,
            "user_id": 4711.0,
            "segments": {"beta": True, "level": Level.HIGH, "share": 0.5, "place": " north \n sea ", 7: WHEN.date()},
            "usage": {"latency_s": timedelta(seconds=2), "prompt_tokens": Decimal(9), "cost_usd": np.float64(0.5)},
            "gold_scores": {"trace.adherence": Fraction(1, 3)},
            "covariates": {"a": Decimal("0.5"), "b": np.int64(3), "c": np.True_},
            "turn": np.int64(2),
        }
    )
    assert (found.interaction_id, found.session_id, found.user_id) == (str(ID), "4711", "4711")
    assert found.segments == {"beta": "true", "level": "3", "share": "0.5", "place": "north sea", "7": "2026-01-02"}
    assert found.usage is not None
    assert (found.usage.latency_s, found.usage.prompt_tokens, found.usage.cost_usd) == (2.0, 9, 0.5)
    assert found.gold_scores == {"trace.adherence": pytest.approx(1 / 3)}
    assert (found.covariates, found.turn, found.left_out) == ({"a": 0.5, "b": 3.0, "c": 1.0}, 2, {})


@example(first="0\n", second="0")  # Python's `$` also matches before a line feed at the end
@given(st.text(min_size=1) | st.binary(min_size=1), st.text(min_size=1) | st.binary(min_size=1))
def test_ids_of_any_form_stay_themselves_and_apart_and_feedback_finds_them(first: Any, second: Any) -> None:
    made = [RagInteraction.from_fields({**GOOD, "session_id": value}) for value in (first, first, second)]
    blank = {value for value in (first, second) if isinstance(value, str) and not value.strip()}
    if not blank and not isinstance(first, bytes) and not isinstance(second, bytes):
        assert made[0].session_id == made[1].session_id
        assert (made[0].session_id == made[2].session_id) is (first == second)
        feedback = Feedback.from_fields(
            {"pipeline": "p", "interaction_id": first, "gold_scores": {"trace.adherence": 1}}
        )
        assert feedback.interaction_id == made[0].session_id
    for found in made:
        assert found.session_id is None or 0 < len(found.session_id) <= NAME_MAX_CHARS


def test_too_many_values_are_left_out_and_the_first_stay() -> None:
    many = {f"n{number:02}": number for number in range(40)}
    found = RagInteraction.from_fields({**GOOD, "segments": many, "covariates": many})
    assert list(found.segments) == list(many)[:SEGMENTS_MAX]
    assert list(found.covariates or ()) == list(many)[:COVARIATES_MAX]
    assert found.left_out.total() == 80 - SEGMENTS_MAX - COVARIATES_MAX


def test_of_metadata_that_are_too_large_the_largest_value_goes() -> None:
    found = RagInteraction.from_fields({**GOOD, "metadata": {"a": "x" * 40_000, "b": "y" * 40_001, "c": 1}})
    assert (set(found.metadata), found.left_out) == ({"a", "c"}, {"metadata.b": 1})


@pytest.mark.parametrize("score", [1.5, -0.1, math.nan, "high", [1]])
def test_a_gold_score_outside_its_range_is_left_out_of_an_interaction_and_refused_as_feedback(score: Any) -> None:
    scores = {"trace.adherence": score, "trace.completeness": 0.5}
    found = RagInteraction.from_fields({**GOOD, "gold_scores": scores})
    assert (found.gold_scores, found.left_out) == ({"trace.completeness": 0.5}, {"gold_scores.trace.adherence": 1})
    with pytest.raises(InvalidEntryError, match=r"gold_scores\.trace\.adherence"):
        Feedback.from_fields({"pipeline": "p", "interaction_id": "i", "gold_scores": scores})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (42, "42"),
        (4.0, "4"),
        (True, "true"),
        (b"yes", "yes"),
        (Language.GERMAN, "de"),
        ("a\ud83d", "a�"),
        (ID, str(ID)),
    ],
)
def test_the_answers_own_texts_are_converted(value: Any, text: str) -> None:
    found = RagInteraction.from_fields({**GOOD, "question": value, "response": value, "reference_answer": value})
    assert (found.question, found.response, found.reference_answer, found.left_out) == (text, text, text, {})
    given = {**GOOD, "documents": [{"text": value}], "history": [{"question": value, "response": value}]}
    assert RagInteraction.from_fields(given).documents[0].text == text


async def later() -> str:
    raise AssertionError("it is never awaited")


@pytest.mark.parametrize("field", ["question", "response", "reference_answer", "documents"])
def test_objects_that_are_no_text_are_refused_by_name_and_never_run(field: str) -> None:
    promised = later()
    for value, words in (
        (waiting(), "generator"),
        (promised, "await it"),
        (MagicMock(), ""),
        (object(), ""),
        (print, ""),
        (math.nan, ""),
        (b"\xff", ""),
        ("<generator object stream at 0x7f7a9a8b3890>", "an object that is no text"),
    ):
        given = [value] if field == "documents" else value
        with pytest.raises(InvalidEntryError, match=field) as caught:
            RagInteraction.from_fields({**GOOD, field: given})
        assert words in caught.value.detail or field == "documents"
        assert len(caught.value.detail) < 400
    promised.close()


@pytest.mark.parametrize("documents", [{"a", "b"}, waiting(), [1, 2], '["a"]', {"text": "a"}, [object()], [None]])
def test_documents_whose_order_or_texts_are_not_known_are_refused(documents: Any) -> None:
    with pytest.raises(InvalidEntryError, match="documents"):
        RagInteraction.from_fields({**GOOD, "documents": documents})


@pytest.mark.parametrize("documents", ["d", ["d"], ("d",), np.array(["d"]), pd.Series(["d"]), deque(["d"]), [b"d"]])
def test_a_text_is_one_document_and_any_list_is_a_list(documents: Any) -> None:
    found = RagInteraction.from_fields({**GOOD, "documents": documents})
    assert [document.text for document in found.documents] == ["d"]


def test_an_entry_of_json_with_nan_and_half_a_surrogate_keeps_its_answer() -> None:
    fields = {
        **GOOD,
        "response": "ok \ud83d",
        "metadata": {"a": math.nan, "b": "\ud83d"},
        "usage": {"cost_usd": math.inf},
    }
    found = RagInteraction.from_entry("1700000000123-0", json.dumps(fields).encode())
    assert (found.response, found.metadata) == ("ok �", {"b": "�"})
    assert found.left_out == {"metadata.a": 1, "usage.cost_usd": 1}
    assert RagInteraction.model_validate_json(json.dumps(fields)).metadata == {"b": "�"}


@pytest.mark.parametrize("value", [True, math.nan, math.inf])
def test_an_entry_whose_id_is_no_id_has_that_of_the_stream(value: Any) -> None:
    payload = json.dumps({**GOOD, "interaction_id": value}).encode()
    first, again = (RagInteraction.from_entry("1700000000123-0", payload) for _ in range(2))
    assert first == again
    assert (first.interaction_id, first.left_out) == ("entry-1700000000123-0", {"interaction_id": 1})


def test_names_of_what_is_left_out_are_bounded() -> None:
    wrong = {f"{'k' * 500}\x1b{number}": object() for number in range(3000)}
    found = RagInteraction.from_fields({**GOOD, "metadata": wrong})
    assert found.left_out.total() == 3000
    assert len(found.left_out) <= 101
    assert all(len(name) < 200 and name.isprintable() for name in found.left_out)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    )
)
def test_what_is_json_already_comes_out_as_it_is(value: Any) -> None:
    left_out: Any = RagInteraction.from_fields(GOOD).left_out
    try:
        found = plain_value(value, "x", left_out)
    except ValueError:
        assert isinstance(value, float)
        return
    assert left_out or found == value
    json.dumps(found, allow_nan=False)
