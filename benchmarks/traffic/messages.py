"""The cause that the message of an alert names, mix or system, compared with the true cause."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ragtide_aggregator.statistics.causes.mix_shift import DesignEffects
from ragtide_aggregator.statistics.causes.mix_verdict import mix_verdict
from ragtide_aggregator.statistics.means.segment_moments import SegmentMoments, stretches

from .measures import Mean, Sizes, groups
from .rules import found_by_cluster
from .scenarios import CAMPAIGN
from .scores import MEAN, SEGMENT, Change
from .stream import Codes, Floats, Traffic

SIZE: Final = 5
"""Interactions of a session of the traffic, and of a cluster."""
EFFECTS: Final = DesignEffects(scores=1 + (SIZE - 1) * CAMPAIGN.quality.icc, segments=SIZE)
"""Of sessions of one segment value: those that such traffic has."""
LATER: Final = (0, 1_000, 5_000)
"""Answers after the alert at which its cause is asked for."""


@dataclass(frozen=True)
class Cause:
    """A change of known cause."""

    name: str
    right: tuple[str, ...]
    """The names that are right: with two causes, both, or the larger alone."""
    shares: tuple[float, ...] | None = None
    system: float = MEAN


CAUSES: Final = (
    Cause("campaign, 12% to 31% of the third language", ("mix",), (0.4, 0.29, 0.31)),
    Cause("campaign, 12% to 56%", ("mix",), (0.25, 0.19, 0.56)),
    Cause("all segments fall, 0.85 to 0.75", ("within",), system=0.75),
    Cause("all segments fall, 0.85 to 0.65", ("within",), system=0.65),
    Cause("campaign to 56% and a fall to 0.65", ("both", "within"), (0.25, 0.19, 0.56), 0.65),
)


@dataclass(frozen=True)
class Told:
    """The verdicts at one look, as shares of the alerts."""

    right: float
    wrong: float
    """Named, and another cause."""
    unresolved: float
    """Left open for want of data."""


@dataclass(frozen=True)
class Messages:
    """Results for one cause."""

    cause: Cause
    delay: Mean
    told: dict[int, Told]
    """By the number of answers after the alert."""


def messages(cause: Cause, sizes: Sizes, seed: int) -> Messages:
    """Return what alerts say of a cause: of runs without an alert before it, at the alert and later.

    The stretch since the change begins at the detector's estimate of the change point; the reference stretch is
    everything before it.
    """
    change = Change(sizes.reference + sizes.before, system=cause.system, shares=cause.shares)
    n = sizes.before + max(left for _, left in sizes.falls) + max(LATER)
    delays: list[int] = []
    verdicts: dict[int, list[str]] = {later: [] for later in LATER}
    for traffic in groups(CAMPAIGN, sizes, n, change, seed):
        watched = traffic.columns(slice(sizes.reference, None))
        found = found_by_cluster(watched, "session", size=SIZE, quiet_s=120.0, limit=MEAN, run_length=sizes.run_length)
        for run, (alarm, begin) in enumerate(zip(found.column, found.change, strict=True)):
            if alarm < sizes.before:
                continue
            delays.append(int(alarm) + 1 - sizes.before)
            for later in LATER:
                # Of a late alert, the last look is at the end of the run.
                until = min(sizes.reference + int(alarm) + 1 + later, traffic.n)
                since = slice(sizes.reference + int(begin), until)
                verdicts[later].append(_verdict(traffic, run, since))
    told = {
        later: Told(
            _share(names, cause.right),
            1 - _share(names, (*cause.right, "unresolved")),
            _share(names, ("unresolved",)),
        )
        for later, names in verdicts.items()
    }
    return Messages(cause, Mean.of(delays), told)


def _share(names: list[str], wanted: tuple[str, ...]) -> float:
    return sum(name in wanted for name in names) / max(len(names), 1)


def _verdict(traffic: Traffic, run: int, since: slice) -> str:
    """Return the name of the cause of the change between what was before and a stretch."""
    segments = traffic.segments[SEGMENT][run]
    before, after = (_moments(traffic.value[run, part], segments[part]) for part in (slice(0, since.start), since))
    return mix_verdict(stretches(before, after), effects=EFFECTS).verdict


def _moments(values: Floats, segments: Codes) -> SegmentMoments:
    codes = len(CAMPAIGN.quality.shares)
    n = np.bincount(segments, minlength=codes)
    mean = np.bincount(segments, values, minlength=codes) / np.maximum(n, 1)
    m2 = np.bincount(segments, (values - mean[segments]) ** 2, minlength=codes)
    return SegmentMoments.of(n, mean, m2)
