"""Producers: put interactions on the streams."""

from .client import InteractionProducer
from .errors import UnreadableFileError
from .files import FileOptions, Row, read_rows
from .publication import Publication

__all__ = ["FileOptions", "InteractionProducer", "Publication", "Row", "UnreadableFileError", "read_rows"]
