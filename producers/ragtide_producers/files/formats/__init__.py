"""File formats: each module turns a file into records, which `interactions.py` and `items.py` interpret."""

from .record import Record, RecordError

__all__ = ["Record", "RecordError"]
