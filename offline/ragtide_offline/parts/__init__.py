"""Scores large inputs in parts, on several processes or machines, and merges the parts."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .results import summarize_batches as summarize_batches

__getattr__ = late(__name__, {".results": "summarize_batches"})
