"""Producers: put interactions on the streams."""

from .client import InteractionProducer
from .errors import UnreadableFileError
from .files import FORMATS, FileOptions, Row, count_rows, read_rows
from .publication import Publication

__all__ = [
    "FORMATS",
    "FileOptions",
    "InteractionProducer",
    "Publication",
    "Row",
    "UnreadableFileError",
    "count_rows",
    "read_rows",
]
