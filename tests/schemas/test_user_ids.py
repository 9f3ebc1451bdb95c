"""The pseudonym of a user: keyed, always the same, and no other after hashing twice."""

import re
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st
from tests.support.models import NAME

from ragtide import RagInteraction, hashed_user_id
from ragtide_schemas.user_ids import SALT_MAX_BYTES

SALT = st.binary(max_size=SALT_MAX_BYTES)


@given(NAME, SALT)
def test_it_has_a_fixed_form_and_hashing_twice_changes_nothing(user_id: str, salt: bytes) -> None:
    found = hashed_user_id(user_id, salt)
    assert re.fullmatch("h:[0-9a-f]{32}", found)
    assert hashed_user_id(found, salt) == hashed_user_id(found, b"another salt") == found
    fields = {"pipeline": "p", "question": "q", "documents": [], "response": "r"}
    assert RagInteraction.from_fields({**fields, "user_id": found}).user_id == found


@given(NAME, SALT)
def test_it_is_blake2b_of_the_id_keyed_with_the_salt(user_id: str, salt: bytes) -> None:
    assert hashed_user_id(user_id, salt) == "h:" + blake2b(user_id.encode(), key=salt, digest_size=16).hexdigest()


@given(st.lists(NAME, min_size=2, max_size=2, unique=True), st.lists(SALT.filter(any), min_size=2, max_size=2))
def test_other_users_and_other_salts_have_other_pseudonyms(users: list[str], salts: list[bytes]) -> None:
    assert hashed_user_id(users[0]) != hashed_user_id(users[1])
    assert hashed_user_id(users[0], salts[0]) != hashed_user_id(users[0])
    # BLAKE2b pads its key with zeros to a block, and counts its length beside.
    same_salt = salts[0] == salts[1]
    assert (hashed_user_id(users[0], salts[0]) == hashed_user_id(users[0], salts[1])) == same_salt


def test_an_id_that_only_resembles_a_pseudonym_is_hashed() -> None:
    digits = "0123456789abcdef" * 2
    for user_id in (digits, f"h:{digits}0", f"h:{digits.upper()}", f" h:{digits}", "h:", f"x:{digits}"):
        assert hashed_user_id(user_id) != user_id
    assert hashed_user_id(f"h:{digits}") == f"h:{digits}"
