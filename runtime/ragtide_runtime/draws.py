"""Draws by a hash: every process, worker and replay draws the same number for the same name."""

from hashlib import blake2b


def draw_number(name: str, *, purpose: bytes = b"") -> float:
    """Return a number in [0, 1): uniform over names, and always the same for one of them.

    It is the first 8 bytes of BLAKE2b, big-endian, divided by 2^64.

    Args:
        name: of the thing that is drawn.
        purpose: at most 16 bytes; draws of two purposes are independent.

    >>> draw_number("shop", purpose=b"a") == draw_number("shop", purpose=b"a") != draw_number("shop", purpose=b"b")
    True
    """
    digest = blake2b(name.encode(), digest_size=8, person=purpose).digest()
    # A float holds 53 of the 64 bits: with all 64, the result could round up to 1.
    return (int.from_bytes(digest, "big") >> 11) / 2**53
