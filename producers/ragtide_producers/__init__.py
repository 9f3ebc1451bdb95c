"""Producers: put interactions on the streams."""

from ragtide_schemas import Dropped

from .client import InteractionProducer
from .counts import ProducerCounts
from .errors import QueueFullError, StreamFullError, UnreadableFileError
from .files import FORMATS, FileOptions, Row, count_rows, read_rows
from .publication import Publication

__all__ = [
    "FORMATS",
    "Dropped",
    "FileOptions",
    "InteractionProducer",
    "ProducerCounts",
    "Publication",
    "QueueFullError",
    "Row",
    "StreamFullError",
    "UnreadableFileError",
    "count_rows",
    "read_rows",
]
