"""The pseudonym that is stored in place of a user's id. Pure."""

import re
from hashlib import blake2b
from typing import Final

MARK: Final = "h:"
"""Beginning of every pseudonym."""

SALT_MIN_BYTES: Final = 16
"""Bytes of the shortest salt: as many as the pseudonym has, so that it is no easier to guess."""

SALT_MAX_BYTES: Final = blake2b.MAX_KEY_SIZE
"""Bytes of the longest salt: it is the key of BLAKE2b."""

_PSEUDONYM: Final = re.compile(rf"{MARK}[0-9a-f]{{32}}")


def hashed_user_id(user_id: str, salt: bytes = b"") -> str:
    """Return the pseudonym of a user: `h:` and 32 hexadecimal digits, the same for the same id and salt.

    An id that already has this form is returned as it is, so hashing twice changes nothing. Without a salt
    every reader can compute the pseudonym of a guessed id.

    >>> hashed_user_id("alice")
    'h:69b5957599f918e276a3d2428acdc997'
    >>> hashed_user_id(hashed_user_id("alice")) == hashed_user_id("alice")
    True

    Args:
        user_id: id of the user, in the application's own words.
        salt: secret of the deployment, at most 64 bytes; empty for none.

    Source: BLAKE2b with 16 bytes of digest, keyed with the salt (RFC 7693, section 2.9).
    """
    if _PSEUDONYM.fullmatch(user_id):
        return user_id
    return MARK + blake2b(user_id.encode(), digest_size=16, key=salt).hexdigest()
