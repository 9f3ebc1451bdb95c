"""Producers: publish interactions and feedback to the streams."""

from ragtide_schemas import Dropped

from .client import InteractionProducer
from .errors import QueueFullError, StreamFullError, UnreadableFileError
from .files.interactions import FORMATS, FileOptions, Row, count_rows, read_rows
from .files.items import Item, items_of, read_items
from .publishing.counts import ProducerCounts
from .publishing.publish_command import Publication

__all__ = [
    "FORMATS",
    "Dropped",
    "FileOptions",
    "InteractionProducer",
    "Item",
    "ProducerCounts",
    "Publication",
    "QueueFullError",
    "Row",
    "StreamFullError",
    "UnreadableFileError",
    "count_rows",
    "items_of",
    "read_items",
    "read_rows",
]
