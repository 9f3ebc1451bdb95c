"""Scores files and interactions without Redis."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .interface import estimates, load, score
    from .summary import Summary

__all__ = ["Summary", "estimates", "load", "score"]

__getattr__ = late(
    __name__, {"Summary": ".summary", "estimates": ".interface", "load": ".interface", "score": ".interface"}
)
