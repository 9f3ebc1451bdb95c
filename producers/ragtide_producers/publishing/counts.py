"""The counts of submitted items and their outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass

from ragtide_schemas import Dropped


@dataclass(frozen=True, slots=True)
class ProducerCounts:
    """Counts of the items of `submit`, or of `submit_feedback`, at one moment.

    `submitted` is always the sum of `published`, `duplicates`, the counts in `dropped`, `sampled_out` and `queued`.
    """

    submitted: int
    """Calls."""
    published: int
    """Items added to their stream."""
    duplicates: int
    """Items that were in their stream already."""
    dropped: Mapping[Dropped, int]
    """Items that are not evaluated, by reason."""
    queued: int
    """Items in the process: waiting, or sent without a reply yet."""
    resent: int
    """Published items that Redis lost and that were sent again; they count once in `published`."""
    sampled_out: int = 0
    """Interactions that the producer's `sample` leaves out; they are not dropped, because others stand for them."""
