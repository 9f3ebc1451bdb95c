"""How many interactions were submitted, and what became of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from ragtide_schemas import Dropped


@dataclass(frozen=True, slots=True)
class ProducerCounts:
    """Counts of what one producer was given by `submit`, at one moment.

    `submitted` is always the sum of `published`, `duplicates`, the counts in `dropped`, and `queued`.
    """

    submitted: int
    """Calls of `submit`."""
    published: int
    """Interactions added to their stream."""
    duplicates: int
    """Interactions whose id was there already."""
    dropped: Mapping[Dropped, int]
    """Interactions that are lost to the evaluation, by why."""
    queued: int
    """Interactions held in the process: waiting, or sent without a reply yet."""
    resent: int
    """Published interactions that Redis lost and got again; they count once in `published`."""
