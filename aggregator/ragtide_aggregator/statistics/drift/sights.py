"""What a labeler sees if it scores a share of the answers: which falls in which time, and at what price. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Final

from .power import answers_to_find

DAY_HOURS: Final = 24


def lasting(hours: float) -> str:
    """Return a length of time in the largest unit that has two of it.

    >>> lasting(0.5), lasting(6.2), lasting(60), lasting(0.001)
    ('30 minutes', '6 hours', '2 days', '1 minute')
    """
    for unit, size in (("days", 24.0), ("hours", 1.0)):
        if hours >= 2 * size:
            return f"{hours / size:,.0f} {unit}"
    minutes = max(round(hours * 60), 1)
    return f"{minutes} minute{'' if minutes == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class SeenFall:
    """How soon a drift rule finds a fall of the true mean."""

    fall: float
    """Share of the metric's range by which the true mean gets worse."""
    answers: float | None
    """Answers of the traffic until the rule fires, in the median; None if it is not known that it ever does."""
    hours: float | None
    """The same at the traffic that is given; None without one."""

    @property
    def within(self) -> str:
        """The time, or else the number of answers to two digits, in words.

        >>> SeenFall(0.2, 90.0, 1.5).within, SeenFall(0.2, 1234.5, None).within, SeenFall(0.2, None, None).within
        ('within 90 minutes', 'within 1,200 answers', 'never')
        """
        if self.answers is None:
            return "never"
        if self.hours is None:
            return f"within {float(f'{self.answers:.2g}'):,.0f} answers"
        return f"within {lasting(self.hours)}"


@dataclass(frozen=True, slots=True)
class Sight:
    """What a labeler sees if it scores a share of the answers, and what that costs."""

    rate: float
    """Share of the answers that it scores."""
    falls: tuple[SeenFall, ...]
    usd_per_1000: float | None
    """US dollars for 1,000 answers of the traffic; None if the price is not known."""
    usd_a_day: float | None
    """US dollars a day at the traffic that is given; None without one, or without a price."""

    @property
    def sentence(self) -> str:
        """Rate, price and falls in words.

        >>> Sight(0.05, (SeenFall(0.2, 900.0, 6.0), SeenFall(0.4, 225.0, 1.5)), 0.02, 1.1).sentence
        '5%: $1.10 a day, a fall of .20 within 6 hours, of .40 within 90 minutes'
        """
        usd, per = self.usd_a_day, "a day"
        if usd is None:
            usd, per = self.usd_per_1000, "for 1,000 answers"
        price = "price not known" if usd is None else f"${usd:,.2f} {per}" if usd >= 0.1 else f"${usd:.2g} {per}"
        falls = ", ".join(f"of {seen.fall:.2f} {seen.within}".replace("0.", ".", 1) for seen in self.falls)
        return f"{100 * self.rate:g}%: {price}, a fall {falls}"


def sight(
    rate: float,
    falls: Iterable[float],
    *,
    mean: float,
    slope: float | None,
    sd: float | None = None,
    usd_per_score: float | None = None,
    answers_a_day: float | None = None,
    priced_a_day: float | None = None,
) -> Sight:
    """Return what a labeler sees at a rate.

    Args:
        rate: share of the answers that it scores, in (0, 1].
        falls: of the true mean, as shares of the metric's range.
        mean: of its scores before a fall, scaled to [0, 1] with 1 as the best.
        slope: change of this mean per unit of a fall; None if it is not known to move.
        sd: standard deviation of the scores, scaled in the same way; None for scores of 0 and 1.
        usd_per_score: US dollars for one score; None if the price is not known.
        answers_a_day: of the pipeline that is watched; None if they are not known.
        priced_a_day: answers of a day that are paid for; None for those of the pipeline.
    """
    usd = None if usd_per_score is None else 1000 * rate * usd_per_score
    paid = answers_a_day if priced_a_day is None else priced_a_day

    def seen(fall: float) -> SeenFall:
        answers = None if slope is None else answers_to_find(fall, mean=mean, sd=sd, slope=slope, rate=rate)
        if answers is None or not isfinite(answers):
            return SeenFall(fall, None, None)
        return SeenFall(fall, answers, None if answers_a_day is None else answers / answers_a_day * DAY_HOURS)

    return Sight(rate, tuple(map(seen, falls)), usd, None if usd is None or paid is None else usd * paid / 1000)
