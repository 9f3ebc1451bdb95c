"""File formats: each module turns a file into records, which `interactions.py` and `items.py` interpret."""

from collections.abc import Mapping
from typing import Final

from .csv import Csv
from .json import Json, JsonLines
from .parquet import Parquet
from .record import Format, Record, RecordError

FORMATS: Final[Mapping[str, Format]] = {"jsonl": JsonLines(), "csv": Csv(), "parquet": Parquet(), "json": Json()}
"""Formats of files by name. A file whose name has none of their endings is of the first."""

__all__ = ["FORMATS", "Format", "Record", "RecordError"]
