"""Producers: publish interactions and feedback to the streams."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
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

__getattr__ = late(
    __name__,
    {
        "FORMATS": ".files.interactions",
        "Dropped": "ragtide_schemas",
        "FileOptions": ".files.interactions",
        "InteractionProducer": ".client",
        "Item": ".files.items",
        "ProducerCounts": ".publishing.counts",
        "Publication": ".publishing.publish_command",
        "QueueFullError": ".errors",
        "Row": ".files.interactions",
        "StreamFullError": ".errors",
        "UnreadableFileError": ".errors",
        "count_rows": ".files.interactions",
        "items_of": ".files.items",
        "read_items": ".files.items",
        "read_rows": ".files.interactions",
    },
)
