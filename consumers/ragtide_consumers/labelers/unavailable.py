"""The error of a labeler that cannot label now, so that its interactions wait."""

from math import isfinite
from typing import Final

from ragtide_runtime.errors import RagtideError

USUAL_WAIT_S: Final = 30.0
"""Seconds to wait for a labeler that does not name a time."""

LONGEST_WAIT_S: Final = 300.0
"""Most seconds until a labeler is called again."""


class LabelerUnavailable(RagtideError):  # noqa: N818  # reads as the state it names
    """A labeler cannot label now, and the interaction is not the cause.

    A worker keeps the interaction and calls the labeler again after `resume_in_s`; the try does not count as a
    delivery. In a cascade only the interactions that were chosen for the labeler wait, or its metrics are
    absent (`cascade.when_unavailable`).

    Args:
        resume_in_s: seconds until the next call; 30 unless it is a finite positive number.
        because: the reason, for the log and for /readyz.

    >>> LabelerUnavailable(5, "the model is being loaded").resume_in_s
    5.0
    """

    def __init__(self, resume_in_s: float = USUAL_WAIT_S, because: str = "") -> None:
        super().__init__(because or "the labeler is unavailable: it gave no reason")
        usable = isinstance(resume_in_s, int | float) and isfinite(resume_in_s) and resume_in_s > 0
        self.resume_in_s = float(resume_in_s) if usable else USUAL_WAIT_S


class SampleUnavailable(LabelerUnavailable):
    """The labeler of a cascade's sample cannot label now: the interaction waits without holding up others."""
