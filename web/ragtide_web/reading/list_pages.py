"""A page of a list: every screen with a list has one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A page of a list."""

    rows: Sequence[T]
    page: int
    """From 1."""
    pages: int
    total: int
    """Rows of the whole list."""

    @classmethod
    def of(cls, rows: Sequence[T], page: int, size: int) -> "ListPage[T]":
        """Return a page of some rows; of a page beyond the last, the last."""
        pages = max(1, -(-len(rows) // size))
        page = min(max(page, 1), pages)
        return cls(rows[(page - 1) * size : page * size], page, pages, len(rows))
