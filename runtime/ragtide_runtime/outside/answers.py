"""Reads what other servers answer, within limits of bytes and values that hold before anything is decoded.

Every client goes through this module: a few kilobytes of an answer may unpack to gigabytes, and a few megabytes of JSON
may take gigabytes and minutes once they are objects. A large answer is unpacked and decoded in a thread, so that the
event loop continues. The caller limits the time, of reading and decoding together.
"""

import asyncio
import zlib
from collections.abc import AsyncIterable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from .json_values import has_more_values

T = TypeVar("T")

INLINE_BYTES: Final = 16_384
"""Most bytes of an answer that is decoded in the event loop: a thread would take longer."""
PACKINGS_MAX: Final = 2
"""Most packings of an answer, one inside the other."""
ELEMENT_PARTS: Final = 5_000
"""Most objects and lists of an answer that is validated; of a list, of each element."""
ELEMENT_COMMAS: Final = 20_000
"""Most commas between its values."""
ERROR_BYTES: Final = 65_536
"""Most bytes of an error that are read; the rest says nothing more."""


class AnswerLimits(NamedTuple):
    """Limits of one answer."""

    bytes: int = 8 * 1024 * 1024
    """Most bytes, packed and unpacked."""
    parts: int = 100_000
    """Most objects and lists of its JSON."""
    commas: int = 1_000_000
    """Most commas between the values of its JSON, such as the numbers of a vector."""


USUAL: Final = AnswerLimits()


class ForeignAnswerError(ValueError):
    """An answer cannot be used: it is larger than its limit, or not packed as it says."""


class AnswerTooLargeError(ForeignAnswerError):
    """An answer has more bytes or values than its limit."""


async def collect(
    pieces: AsyncIterable[bytes], most: int, *, cut: bool = False, into: bytearray | None = None
) -> bytes:
    """Return the bytes of an answer as they came.

    Args:
        pieces: of the body, not unpacked.
        most: most bytes.
        cut: whether to return the first bytes of a longer answer.
        into: gets the bytes, too; it has the first ones if the rest does not come.

    Raises:
        AnswerTooLargeError: there are more bytes, and `cut` is false.
    """
    body = bytearray() if into is None else into
    async for piece in pieces:
        body += piece
        if len(body) > most:
            if cut:
                del body[most:]
                break
            raise too_large(most)
    return bytes(body)


async def decode(body: bytes, packings: str | None, read: Callable[[bytes], T], limits: AnswerLimits = USUAL) -> T:
    """Return what `read` makes of an answer; a large or packed one is unpacked, counted and read in a thread.

    Args:
        body: as `collect` returned it.
        packings: the header Content-Encoding.
        read: makes a value of the unpacked bytes.

    Raises:
        ForeignAnswerError: the answer is larger than its limits, or not packed as it says.
        Exception: any error of `read`.
    """

    def work() -> T:
        plain = unpack(body, packings, limits.bytes)
        if has_more_values(plain, limits.parts, limits.commas):
            raise AnswerTooLargeError(
                f"the answer has more than {limits.parts:,} objects and lists, or {limits.commas:,} values: "
                "check the address"
            )
        return read(plain)

    return work() if len(body) <= INLINE_BYTES and not packings else await asyncio.to_thread(work)


def unpack(body: bytes, packings: str | None, most: int) -> bytes:
    """Return the bytes of an answer, unpacked.

    Args:
        body: as it came.
        packings: the header Content-Encoding: names of packings, the last one outside.
        most: most bytes.

    Raises:
        ForeignAnswerError: there are more bytes, or the answer is not packed as the header says.

    >>> unpack(zlib.compress(zlib.compress(b"{}")), "deflate, deflate", 100)
    b'{}'
    """
    names = [name.strip() for name in (packings or "").lower().split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if len(names) > PACKINGS_MAX:
        raise ForeignAnswerError(f"the answer is packed {len(names)} times, one inside the other: send it plain")
    plain = body
    for name in reversed(names):
        if name not in ("gzip", "x-gzip", "deflate"):
            raise ForeignAnswerError(f"the answer is packed as {name[:40]!r}: send it plain, or packed with gzip")
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            plain = unpacking.decompress(plain, most + 1)
        except zlib.error as error:
            raise ForeignAnswerError(f"the answer is not packed as {name}: {error}") from None
        if len(plain) > most:
            raise too_large(most)
        if not unpacking.eof:
            raise ForeignAnswerError(f"the answer ends in the middle, packed as {name}")
    return plain


def validate(adapter: TypeAdapter[T], body: bytes, **options: Any) -> T:
    """Return the value of JSON as a type; of a list each element by itself, so that other threads have their turn.

    An error for each of a million values takes minutes and gigabytes. So the first wrong element of a list ends it,
    and an element has a most of values.

    Args:
        body: JSON.
        options: of `adapter.validate_json`.

    Raises:
        AnswerTooLargeError: the value, or an element of the list, has more than `ELEMENT_PARTS` or `ELEMENT_COMMAS`.
        ValidationError: the JSON is no value of the type.
        ValueError: it is no JSON.
    """
    value = from_json(body)
    if not isinstance(value, list):
        return adapter.validate_json(_small(body), **options)
    values: Any = adapter.validate_json(b"[]")
    for element in value:
        values += adapter.validate_json(_small(to_json([element])), **options)
    return values  # type: ignore[no-any-return]  # as the adapter says


def _small(element: bytes) -> bytes:
    if has_more_values(element, ELEMENT_PARTS, ELEMENT_COMMAS):
        raise AnswerTooLargeError(f"a part of the answer has more than {ELEMENT_COMMAS:,} values: check the address")
    return element


def too_large(most: int) -> AnswerTooLargeError:
    """Return the error about an answer with more bytes than its limit."""
    return AnswerTooLargeError(
        f"the answer is larger than {most / 2**20:,.3g} MB after decompression: check the address of the endpoint"
    )
