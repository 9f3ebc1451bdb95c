from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_schemas import DeadLetter, Reason
from ragtide_schemas.dead_letter import beginning_of
from ragtide_schemas.limits import ENTRY_MAX_BYTES, KEPT_BYTES

FIELDS: Any = {
    "stream": "ragtide:{0}:interactions",
    "entry_id": "1-0",
    "reason": Reason.TOO_LARGE,
    "detail": "why",
    "component": "test",
}


@pytest.mark.parametrize("payload", [b"", b"{}", "ж".encode() * 1000, b"\xff" * 100, b"x" * ENTRY_MAX_BYTES])
def test_what_an_entry_may_hold_is_kept_whole(payload: bytes) -> None:
    letter = DeadLetter.of(payload, **FIELDS)
    assert (letter.payload_bytes(), letter.truncated, letter.size_bytes, letter.sha256) == (payload, False, None, None)


@pytest.mark.parametrize("unit", [b"x", b"\xff", "ж".encode(), "x€".encode(), b"\0"])
def test_of_a_larger_payload_the_beginning_the_size_and_the_digest_are_kept(unit: bytes) -> None:
    payload = unit * (ENTRY_MAX_BYTES // len(unit) + 1)
    letter = DeadLetter.decode(DeadLetter.of(payload, **FIELDS).encode())
    assert letter.truncated
    assert (letter.size_bytes, letter.sha256) == (len(payload), sha256(payload).hexdigest())
    assert payload.startswith(letter.payload_bytes())
    assert KEPT_BYTES - 4 < len(letter.payload_bytes()) <= KEPT_BYTES
    assert letter.payload_encoding == ("base64" if unit == b"\xff" else "utf-8")
    assert len(letter.encode()) < 7 * KEPT_BYTES


@given(st.text(min_size=1), st.integers(0, 3))
def test_a_beginning_of_text_is_text(text: str, shift: int) -> None:
    payload = (b"x" * shift + text.encode()) * (KEPT_BYTES // len(text.encode()) + 1)
    beginning_of(payload).decode()


def test_a_reason_of_many_pages_is_cut() -> None:
    letter = DeadLetter.of(b"{}", **{**FIELDS, "detail": "labeling failed: " + "x" * 1_000_000})
    assert letter.detail.startswith("labeling failed: x")
    assert len(letter.detail) == 4000
