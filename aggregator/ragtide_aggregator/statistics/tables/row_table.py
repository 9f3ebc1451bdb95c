"""Tables of numbers with one row per key: growth, bytes of a row, merging, and the check for impossible numbers.

A table declares its columns; everything else follows from the declaration.

>>> class Sums(RowTable, version=1, what="sums"):
...     n = RowColumn(np.int64, merge=ADD)
...     total = RowColumn(np.float64, (2,), merge=ADD)
>>> table = Sums()
>>> row = table.add_row()
>>> table.n[row], table.total[:, row] = 3, (1.5, 2.5)
>>> table.merge(row, table, row)
>>> copy = Sums()
>>> copy.load(copy.add_row(), table.to_bytes(row))
>>> int(copy.n[0]), copy.total[:, 0].tolist()
(6, [3.0, 5.0])
"""

from collections.abc import Callable, Mapping
from math import prod
from struct import Struct
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import sums
from .batches import Rows

Scalar = TypeVar("Scalar", bound=np.generic)
Merge = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
"""Makes the numbers of two rows taken together from those of each."""

ADD: Final[Merge] = np.add
LEAST: Final[Merge] = np.minimum
MOST: Final[Merge] = np.maximum


def add_exactly(axis: int) -> Merge:
    """Return the addition of exact sums whose three parts are on an axis of a row's numbers."""

    def add(mine: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
        return np.moveaxis(sums.carried(np.moveaxis(mine + theirs, axis, 0)), 0, axis)

    return add


_VERSION: Final = "version "
"""Name of the version in the form of a row's bytes, which no column has."""


class RowColumn(Generic[Scalar]):
    """A number, or an array of numbers, of every row.

    Args:
        shape: of the numbers of one row; a text is the name of an attribute of the table, which is set before its
            columns are made.
        merge: how the numbers of two rows are taken together; None if the table merges them itself.
        least: smallest possible number, minus infinity for any finite number; None for any number.
        axis: of the rows in the array; -1 for the last.
        stored: whether the bytes of a row have these numbers.
    """

    def __init__(
        self,
        kind: type[Scalar],
        shape: tuple[int | str, ...] = (),
        *,
        fill: ArrayLike = 0,
        merge: Merge | None = None,
        least: float | None = None,
        axis: int = -1,
        stored: bool = True,
    ) -> None:
        self.kind, self.shape, self.fill = kind, shape, fill
        self.merge, self.least, self.axis, self.stored = merge, least, axis, stored
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, table: None, owner: type) -> Self: ...
    @overload
    def __get__(self, table: object, owner: type) -> NDArray[Scalar]: ...
    def __get__(self, table: object | None, owner: type) -> Self | NDArray[Scalar]:
        # A table has its array under the same name, which is found first.
        if table is None:
            return self
        raise AttributeError(f"{owner.__name__} has no column {self.name} yet: call __init__ of RowTable first")

    def rows(self, shape: tuple[int, ...], count: int) -> NDArray[Scalar]:
        """Return the array of new rows, given the shape of one. Rows of zeros take no memory before they are used."""
        axis = len(shape) if self.axis == -1 else self.axis
        rows = np.zeros((*shape[:axis], count, *shape[axis:]), dtype=self.kind)
        if np.any(self.fill):
            np.moveaxis(rows, axis, 0)[:] = self.fill
        return rows

    def at(self, rows: Any) -> tuple[Any, ...]:
        """Return the index of a row, or of rows, in the array."""
        return (..., rows) if self.axis == -1 else (*[slice(None)] * self.axis, rows)


class RowTable:
    """A table; its columns are declared in the class.

    A subclass gives the version of its bytes as `version`, how an error names a row as `what`, and the rows that a new
    table has room for as `capacity`.
    """

    _columns: ClassVar[tuple[RowColumn[Any], ...]] = ()
    _version: ClassVar[int | None] = None
    _what: ClassVar[str] = "a row"
    _capacity: ClassVar[int] = 64
    SIZE: ClassVar[int]
    """Bytes of a row, if the shapes of all columns are numbers; `size` is that of a table."""

    def __init_subclass__(
        cls, *, version: int | None = None, what: str | None = None, capacity: int | None = None, **others: Any
    ) -> None:
        super().__init_subclass__(**others)
        cls._columns += tuple(value for value in vars(cls).values() if isinstance(value, RowColumn))
        cls._version = cls._version if version is None else version
        cls._what = cls._what if what is None else what
        cls._capacity = cls._capacity if capacity is None else capacity
        numbers = [size for column in cls._columns for size in column.shape]
        if not any(isinstance(size, str) for size in numbers):
            cls.SIZE = _row_struct(cls._version, {column: column.shape for column in cls._columns}).size

    def __init__(self) -> None:
        self._used = 0
        self._room = self._capacity
        self._shapes = {
            column: tuple(getattr(self, size) if isinstance(size, str) else size for size in column.shape)
            for column in self._columns
        }
        for column, shape in self._shapes.items():
            self.__dict__[column.name] = column.rows(shape, self._room)
        self._stored = [(column, shape) for column, shape in self._shapes.items() if column.stored]
        self._struct = _row_struct(self._version, self._shapes)
        head = [] if self._version is None else [(_VERSION, "u1")]
        numbers = [(column.name, np.dtype(column.kind).newbyteorder("<"), shape) for column, shape in self._stored]
        self._bytes = np.dtype([*head, *numbers])
        self._checks = any(column.least is not None for column in self._columns)

    def __len__(self) -> int:
        return self._used

    @property
    def size(self) -> int:
        """Bytes of a row."""
        return self._struct.size

    def add_row(self) -> int:
        """Add a row and return its index."""
        if self._used == self._room:
            self._grow(self._room)
        self._used += 1
        return self._used - 1

    def add_rows(self, count: int) -> None:
        """Add rows; much faster than one by one."""
        if self._used + count > self._room:
            self._grow(max(self._room, self._used + count - self._room))
        self._used += count

    def _grow(self, more: int) -> None:
        for column, shape in self._shapes.items():
            array = column.rows(shape, self._room + more)
            array[column.at(slice(self._room))] = self.__dict__[column.name]
            self.__dict__[column.name] = array
        self._room += more

    def clear(self, row: int) -> None:
        """Set a row to what it was when it was added."""
        for column in self._columns:
            self.__dict__[column.name][column.at(row)] = column.fill

    def clear_rows(self, rows: Rows) -> None:
        """Set rows to what they were when they were added; much faster than one by one."""
        for column, shape in self._shapes.items():
            fill = np.expand_dims(np.broadcast_to(column.fill, shape), column.axis)
            self.__dict__[column.name][column.at(rows)] = fill

    def merge(self, row: int, other: Self, other_row: int) -> None:
        """Take the numbers of a row of another table, or of this one, together with those of a row."""
        for column in self._columns:
            if column.merge is not None:
                mine, theirs = self.__dict__[column.name], other.__dict__[column.name]
                mine[column.at(row)] = column.merge(mine[column.at(row)], theirs[column.at(other_row)])

    def impossible(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether a number is not finite, or below the least possible one; same shape."""
        wrong = np.zeros(rows.shape, dtype=bool)
        for column in self._columns:
            if column.least is not None:
                numbers = self.__dict__[column.name][column.at(rows)]
                if column.axis and numbers.ndim > 1:
                    numbers = np.moveaxis(numbers, column.axis, 0)
                numbers = numbers.reshape(rows.size, prod(self._shapes[column]))
                wrong |= ~((numbers >= column.least) & np.isfinite(numbers)).all(axis=1)
        return wrong

    def to_bytes(self, row: int) -> bytes:
        """Return a row as bytes, exactly."""
        numbers: list[Any] = [] if self._version is None else [self._version]
        for column, shape in self._stored:
            of_row = self.__dict__[column.name][column.at(row)]
            numbers += of_row.ravel().tolist() if shape else [of_row.item()]
        return self._struct.pack(*numbers)

    def bytes_of(self, rows: Rows) -> list[bytes]:
        """Return what `to_bytes` of a RowTable returns for each of rows; much faster than one by one."""
        records = np.empty(rows.size, dtype=self._bytes)
        if self._version is not None:
            records[_VERSION] = self._version
        for column, _ in self._stored:
            numbers = self.__dict__[column.name][column.at(rows)]
            # The rows of most columns are on the only axis, or on the first one already.
            records[column.name] = np.moveaxis(numbers, column.axis, 0) if column.axis and numbers.ndim > 1 else numbers
        data, size = records.tobytes(), self.size
        return [data[at : at + size] for at in range(0, len(data), size)]

    def load(self, row: int, data: bytes) -> None:
        """Set a row to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version, or hold an impossible number.
        """
        if len(data) != self.size or (self._version is not None and data[0] != self._version):
            version = "" if self._version is None else f"version {data[:1].hex() or 'none'} and "
            raise ValueError(f"a row of {self._what} has {version}{len(data)} bytes")
        numbers = self._struct.unpack(data)
        at = 0 if self._version is None else 1
        for column, shape in self._stored:
            count = prod(shape)
            array = np.array(numbers[at : at + count], dtype=column.kind).reshape(shape)
            self.__dict__[column.name][column.at(row)] = array
            at += count
        if self._checks and self.impossible(np.array([row], dtype=np.intp))[0]:
            raise ValueError(f"a row of {self._what} holds a number that is not finite, or below its least")

    def load_rows(self, rows: Rows, data: bytes) -> None:
        """Set rows to what `to_bytes` returned for each, joined; much faster than one by one.

        Raises: ValueError if the bytes were written by another version.
        """
        if len(data) != rows.size * self.size:
            raise ValueError(f"{rows.size:,} rows of {self._what} have {len(data):,} bytes")
        records = np.frombuffer(data, dtype=self._bytes)
        if self._version is not None and (records[_VERSION] != self._version).any():
            raise ValueError(f"a row of {self._what} has a version other than {self._version}")
        for column, _ in self._stored:
            self.__dict__[column.name][column.at(rows)] = np.moveaxis(records[column.name], 0, column.axis)


def _row_struct(version: int | None, shapes: Mapping[RowColumn[Any], tuple[Any, ...]]) -> Struct:
    codes = [f"{prod(shape)}{np.dtype(column.kind).char}" for column, shape in shapes.items() if column.stored]
    return Struct("<" + "B" * (version is not None) + "".join(codes).replace("l", "q"))
