"""Scores files and interactions without Redis."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .batches import score_batches as score_batches
    from .interface import estimates as estimates, load as load, score as score
    from .summary import Summary as Summary

__getattr__ = late(
    __name__,
    {
        ".batches": "score_batches",
        ".interface": "estimates load score",
        ".summary": "Summary",
    },
)
