"""Producers: publish interactions and feedback to the streams."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from ragtide_schemas import Dropped as Dropped

    from .client import InteractionProducer as InteractionProducer
    from .errors import (
        QueueFullError as QueueFullError,
        StreamFullError as StreamFullError,
        UnreadableFileError as UnreadableFileError,
    )
    from .files.formats import FORMATS as FORMATS
    from .files.interactions import (
        FileOptions as FileOptions,
        Row as Row,
        count_rows as count_rows,
        read_rows as read_rows,
    )
    from .files.items import Item as Item, items_of as items_of, read_items as read_items
    from .publishing.outbox import ProducerCounts as ProducerCounts
    from .publishing.routes import Publication as Publication

__getattr__ = late(
    __name__,
    {
        "ragtide_schemas": "Dropped",
        ".client": "InteractionProducer",
        ".errors": "QueueFullError StreamFullError UnreadableFileError",
        ".files.formats": "FORMATS",
        ".files.interactions": "FileOptions Row count_rows read_rows",
        ".files.items": "Item items_of read_items",
        ".publishing.outbox": "ProducerCounts",
        ".publishing.routes": "Publication",
    },
)
