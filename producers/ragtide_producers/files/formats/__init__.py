"""File formats: each turns a file into records, whose fields are then read in one way (`files.py`)."""

from .record import Record, RecordError

__all__ = ["Record", "RecordError"]
