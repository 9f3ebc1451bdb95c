"""Rows as a data frame of pandas or Polars, of the first of them that is installed."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, get_args

from .errors import ConfigurationError

Library = Literal["pandas", "polars"]


def frame_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], library: Library | None = None) -> Any:
    """Return rows as a data frame.

    Args:
        rows: values by column.
        columns: names of the columns, in order; they exist without rows too.
        library: `pandas` or `polars`; by default pandas if it is installed, else Polars.

    Raises:
        ConfigurationError: the library is not installed, or is neither of the two.
    """
    if library not in (None, *get_args(Library)):
        raise ConfigurationError(f"to_frame has no library {library!r}: give pandas or polars")
    for name in ("pandas", "polars") if library is None else (library,):
        try:
            module = import_module(name)
        except ModuleNotFoundError:
            continue
        return module.DataFrame({column: [row.get(column) for row in rows] for column in columns})
    wanted = "pandas or Polars" if library is None else library
    raise ConfigurationError(f"to_frame needs {wanted}: pip install {library or 'pandas'}")
