"""Splits a JSON list into its items, so that never more than one of them is parsed at a time."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import Final

from ..errors import ItemsTooLargeError

ITEM_BYTES: Final = 12 * 1024 * 1024
"""Most bytes of one item of a list: three times those of an entry, because JSON may escape its letters."""

QUOTE, COMMA, LIST, LIST_END = b'",[]'
BLANKS: Final = b" \t\r\n"

_STRUCTURE: Final = re.compile(rb'["{}\[\]]')
_STRUCTURE_OF_LIST: Final = re.compile(rb'["{}\[\],]')


def split_items(parts: Iterable[bytes], most: int, remedy: str = "") -> Iterator[bytes]:
    """Yield the bytes of each item of a JSON list, or of the one JSON object.

    Only the structure is looked at, and only one item is in memory: the caller parses the items.

    Args:
        most: most items.
        remedy: ends the message about too many items.

    Raises:
        ValueError: the body is neither an object nor a list, or ends before its end.
        ItemsTooLargeError: there are too many items, or one is too large.
    """
    splitter, count = _Splitter(), 0
    for part in _strip_mark(parts):
        for item in splitter.items(part):
            count += 1
            if count > most:
                raise ItemsTooLargeError(f"the list has more than {most:,} items{remedy}")
            yield item
    splitter.end()


def _strip_mark(parts: Iterable[bytes]) -> Iterator[bytes]:
    parts, first = iter(parts), b""
    while len(first) < len(BOM_UTF8) and (part := next(parts, None)) is not None:
        first += part
    yield first.removeprefix(BOM_UTF8)
    yield from parts


class _Splitter:
    """Where a body stands between two of its parts."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._masked = bytearray()
        """The same bytes without escaped quotes: each quote in it begins or ends a text."""
        self._escape = b""
        self._at = self._start = self._depth = 0
        self._base = 0
        """Depth at which an item begins: 1 in a list."""
        self._in_text = self._begun = self._ended = self._has_items = False

    def items(self, part: bytes) -> Iterator[bytes]:
        """Yield the items that end in this part."""
        part = self._escape + part
        escapes = len(part) - len(part.rstrip(b"\\"))
        # A backslash at the end belongs to the next letter.
        self._escape = b"\\" if escapes % 2 else b""
        part = part[: len(part) - len(self._escape)]
        del self._buffer[: self._start]
        del self._masked[: self._start]
        self._at, self._start = self._at - self._start, 0
        self._buffer += part
        self._masked += part.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        while self._at < len(self._masked):
            if self._in_text:
                quote = self._masked.find(b'"', self._at)
                self._at = quote + 1 or len(self._masked)
                self._in_text = quote < 0
            elif not self._begun or self._ended:
                self._skip_blanks()
            elif (byte := self._next_structure()) == QUOTE:
                self._in_text = True
            elif byte is not None and self._ends_item(byte):
                item = bytes(self._buffer[self._start : self._at - self._base]).strip(BLANKS)
                self._start = self._at
                if item or self._has_items or not self._ended:  # an empty list has none
                    self._has_items = True
                    yield item
        if self._at - self._start > ITEM_BYTES:
            raise ItemsTooLargeError(f"an item has more than {ITEM_BYTES:,} bytes")

    def end(self) -> None:
        """Check that the body has its end."""
        if not self._ended or self._escape:
            raise ValueError("it ends before its end" if self._begun else "it is empty")

    def _skip_blanks(self) -> None:
        rest = bytes(self._buffer[self._at :]).lstrip(BLANKS)
        self._at = self._start = len(self._buffer) - len(rest)
        if not rest:
            return
        if self._ended:
            raise ValueError("there is more after its end")
        if rest[0] not in b"[{":
            raise ValueError(f"it begins with {rest[:4]!r}, and not as an object or a list of objects in UTF-8")
        self._begun = True
        if rest[0] == LIST:
            self._base = self._depth = 1
            self._at = self._start = self._at + 1

    def _next_structure(self) -> int | None:
        pattern = _STRUCTURE_OF_LIST if self._depth == 1 == self._base else _STRUCTURE
        match = pattern.search(self._masked, self._at)
        if match is None:
            self._at = len(self._masked)
            return None
        self._at = match.end()
        return self._masked[match.start()]

    def _ends_item(self, byte: int) -> bool:
        if byte == COMMA:
            return True
        if byte in b"[{":
            self._depth += 1
            return False
        self._depth -= 1
        self._ended = self._depth == 0
        if self._ended and self._base and byte != LIST_END:
            raise ValueError("its list ends with }")
        return self._ended
