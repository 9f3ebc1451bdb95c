"""Scores of a schedule: means that move, luck of clusters, segments, the judge's mistakes and delay."""

from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from .luck import beta_luck, firsts, moved
from .schedules import DAY_S
from .stream import Codes, Floats, Schedule, Traffic

MEAN: Final = 0.85
"""Mean of a score without a change: the issue's."""

SEGMENT: Final = "lang"

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Quality:
    """How answers come out. The defaults are independent yes-or-no scores."""

    cluster: Literal["session", "user", "batch"] = "session"
    """The clusters with luck."""
    icc: float = 0.0
    """Intraclass correlation within a cluster."""
    user_icc: float = 0.0
    """Intraclass correlation within a user, on top: the luck of a cluster is drawn about that of its user."""
    loop_icc: float | None = None
    """Intraclass correlation of clusters that have at least `loop_size` interactions; None for the same."""
    loop_size: int = 20
    swing: float = 0.0
    """Amplitude of the mean over a day."""
    swing_from: float = 0.0
    """Part of a day by which the mean's swing follows that of the rate; at 0.25 the two are uncorrelated."""
    statements: int = 1
    """A score is the share of so many statements that are supported; 1 for yes or no."""
    shares: tuple[float, ...] = (1.0,)
    """Shares of the segment's values among clusters."""
    offsets: tuple[float, ...] = (0.0,)
    """Mean of each segment value less the overall mean; with the shares they sum to 0."""
    mistakes: float = 0.0
    """Share of yes-or-no scores that the judge turns round; 0.15 agrees with people in 85%, as GPT-4 does
    (Zheng et al. 2023, "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena", NeurIPS, arXiv:2306.05685)."""
    delay_s: float = 0.0
    """Median time from the answer to its score. Lognormal with 1.0: assumed."""

    @property
    def baseline(self) -> float:
        """Mean of the scores without a change, over whole days."""
        return MEAN * (1 - self.mistakes) + (1 - MEAN) * self.mistakes


@dataclass(frozen=True)
class Change:
    """A change of the mean from one interaction on."""

    at: int
    """Number of the interaction."""
    system: float = MEAN
    """Mean over all segments from then on, with the old mix: every segment falls in proportion."""
    shares: tuple[float, ...] | None = None
    """Shares of the segment's values among clusters that begin from then on; None for the old ones."""


def scored(rng: np.random.Generator, schedule: Schedule, quality: Quality, change: Change | None = None) -> Traffic:
    """Return the traffic of a schedule.

    Args:
        rng: source of randomness.
        schedule: the times and clusters, in the order of the answers.
        quality: how answers come out.
        change: the change; None for none.

    Raises:
        ValueError: the judge makes mistakes on scores that are not yes or no.
    """
    if quality.mistakes and quality.statements > 1:
        raise ValueError("a judge's mistakes are simulated for yes-or-no scores only: set statements to 1")
    segment, shares = _segments(rng, schedule, quality, change)
    course = _course(schedule.time_s, quality, change)
    usual = MEAN + np.asarray(quality.offsets)
    own = moved(usual[segment], MEAN, course)
    mean = moved(shares @ usual, MEAN, course)
    p = _probabilities(rng, schedule, own, quality)
    truth = rng.binomial(quality.statements, p) / quality.statements
    value = truth
    if quality.mistakes:
        value = np.where(rng.random(truth.shape) < quality.mistakes, 1 - truth, truth)
        mean = mean * (1 - quality.mistakes) + (1 - mean) * quality.mistakes
    late = np.zeros_like(schedule.time_s)
    if quality.delay_s:
        late = quality.delay_s * np.exp(rng.standard_normal(truth.shape))
    traffic = Traffic(
        schedule.time_s, schedule.time_s + late, value, truth, mean,
        schedule.session, schedule.turn, schedule.user, schedule.batch, {SEGMENT: segment},
    )  # fmt: skip
    return traffic.columns(np.argsort(traffic.labeled_s, axis=1, kind="stable")) if quality.delay_s else traffic


def _course(time_s: Floats, quality: Quality, change: Change | None) -> Floats:
    """Return the mean of each interaction with the old mix."""
    course = MEAN + quality.swing * np.sin(2 * np.pi * (time_s / DAY_S - quality.swing_from))
    if change is not None and change.system != MEAN:
        later = np.arange(time_s.shape[1]) >= change.at
        course = np.where(later, moved(course, MEAN, change.system), course)
    return course


def _segments(
    rng: np.random.Generator, schedule: Schedule, quality: Quality, change: Change | None
) -> tuple[Codes, Floats]:
    """Return each interaction's code of the segment, and the shares that its cluster was drawn with."""
    apart, first = firsts(getattr(schedule, quality.cluster))
    shares = np.broadcast_to(np.asarray(quality.shares), (first.size, len(quality.shares)))
    if change is not None and change.shares is not None:
        shares = np.where((first >= change.at)[:, None], np.asarray(change.shares), shares)
    drawn = rng.random(first.size)[:, None] >= np.cumsum(shares, axis=1)[:, :-1]
    return np.sum(drawn, axis=1)[apart], shares[apart]


def _probabilities(rng: np.random.Generator, schedule: Schedule, own: Floats, quality: Quality) -> Floats:
    """Return the probability of success of each interaction, given its cluster's luck."""
    if not (quality.icc or quality.user_icc):
        return own
    apart, first = firsts(getattr(schedule, quality.cluster))
    begin = _begun(own, apart, first)
    about = begin
    if quality.user_icc:
        users, user_first = firsts(schedule.user)
        at_first = _begun(own, users, user_first)
        luck = beta_luck(rng, at_first, quality.user_icc)
        of = _begun(users, apart, first)
        about = moved(luck[of], at_first[of], begin)
    iccs = np.full(first.size, quality.icc)
    if quality.loop_icc is not None:
        iccs[np.bincount(apart.ravel(), minlength=first.size) >= quality.loop_size] = quality.loop_icc
    return np.clip(moved(beta_luck(rng, about, iccs)[apart], begin[apart], own), 0.0, 1.0)


def _begun(array: NDArray[Number], apart: Codes, first: Codes) -> NDArray[Number]:
    """Return an array's element at the beginning of each cluster; any for a code that does not occur."""
    run = np.zeros(first.size, dtype=np.int64)
    run[apart] = np.arange(array.shape[0])[:, None]
    return array[run, first]
