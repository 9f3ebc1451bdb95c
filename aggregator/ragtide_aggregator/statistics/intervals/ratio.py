"""The ratio of two means, such as quality per dollar, with an interval from those of the means. Pure."""

from typing import NamedTuple


class RatioEnds(NamedTuple):
    """A mean of 0 or more with the ends of its interval."""

    estimate: float
    lower: float
    upper: float


class Ratio(NamedTuple):
    """The ratio of two means."""

    estimate: float | None
    """None if the mean below the line is 0."""
    lower: float
    upper: float | None
    """None without an upper end: the interval below the line reaches 0."""


def ratio(above: RatioEnds, below: RatioEnds) -> Ratio:
    """Return the ratio of two means of 0 or more, with the interval that holds whenever both of theirs do.

    If each interval holds with probability c, the ratio is inside its interval with probability 2 c - 1 at least
    (Bonferroni). That needs no assumption about the dependence of the two, and holds at every look if theirs do.

    >>> ratio(RatioEnds(0.75, 0.5, 1.0), RatioEnds(0.25, 0.125, 0.5))
    Ratio(estimate=3.0, lower=1.0, upper=8.0)

    Raises: ValueError if an end below 0 makes a ratio of ends no bound.
    """
    if above.lower < 0 or below.lower < 0:
        raise ValueError(f"an interval begins at {min(above.lower, below.lower):g}: a ratio needs means of 0 or more")
    return Ratio(
        above.estimate / below.estimate if below.estimate > 0 else None,
        above.lower / below.upper if below.upper > 0 else 0.0,
        above.upper / below.lower if below.lower > 0 else None,
    )
