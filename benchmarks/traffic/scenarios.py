"""Named kinds of traffic: every row of the table of issue 14, and realistic ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from .habits import Habits, habitual
from .schedules import alone, batches, sessions
from .scores import Change, Quality, scored
from .stream import Schedule, Traffic

Plan = Callable[[np.random.Generator, int, int], Schedule]
"""From a source of randomness, the number of runs and their length to a schedule."""


@dataclass(frozen=True)
class Clusters:
    """Settings `[clusters]`, with their defaults."""

    size: int = 10
    """Most interactions of a cluster."""
    quiet_s: float = 120.0
    """Time without an interaction of a cluster after which it is closed. The default of ragtide is 600 seconds; with an
    answer a second all sessions would wait for it."""
    blocks: bool = False
    """Whether neighbours in time are clusters, as where no cluster is known; else those of the traffic."""

    def __str__(self) -> str:
        if self.blocks:
            return f"blocks of {self.size}"
        return f"clusters, size {self.size}, quiet {self.quiet_s:g} s"


BLOCKS: Final = (Clusters(size=10, blocks=True), Clusters(size=100, blocks=True))
"""Settings that are compared on every traffic."""


@dataclass(frozen=True)
class Scenario:
    """One kind of traffic."""

    name: str
    plan: Plan
    quality: Quality
    from_issue: bool = False
    """Whether it is a row of the issue's table."""
    min_effect: float = 0.0
    """The least movement on which its rules shall fire."""
    settings: tuple[Clusters, ...] = (Clusters(),)
    """Settings of clusters that are compared on it."""

    @property
    def cluster(self) -> str:
        """The cluster that a user would name in the settings."""
        return self.quality.cluster

    def draw(self, rng: np.random.Generator, runs: int, n: int, change: Change | None = None) -> Traffic:
        """Return runs of n interactions, with a change if one is given."""
        return scored(rng, self.plan(rng, runs, n), self.quality, change)


_CHAT: Final = (Clusters(), Clusters(quiet_s=600.0))


def _issue(name: str, plan: Plan, quality: Quality, *settings: Clusters) -> Scenario:
    return Scenario(name, plan, quality, from_issue=True, settings=settings or (Clusters(),))


def _chat(name: str, quality: Quality, min_effect: float = 0.0, **habits: Any) -> Scenario:
    """Return a chat: turns are a minute apart, so two minutes of quiet cut sessions, and ten, the default, do not."""
    return Scenario(name, partial(habitual, habits=Habits(**habits)), quality, min_effect=min_effect, settings=_CHAT)


_DAYS: Final = _issue("day and night, 0.85 +- 0.05", alone, Quality(swing=0.05))
_OF_FIVE: Final = (Clusters(), Clusters(size=5))
"""The default, and the size of the sessions, at which each is closed by its last interaction."""
_OPEN, _LATE = Quality(icc=0.2), Clusters(quiet_s=600.0)
"""Sessions that are shorter than `size` wait for the quiet time: 600 answers, with an answer a second."""
_USERS: Final = Quality(icc=0.2, user_icc=0.05)
"""Luck of sessions and users: assumed, between rows of the issue's table."""
_DAILY: Final = replace(_USERS, swing=0.02, swing_from=0.25)
"""Swing of the mean over a day: assumed, and uncorrelated with the rate, so that the mean over interactions is 0.85."""
_LOOPS: Final = replace(_DAILY, loop_icc=0.8, delay_s=30.0)
_API: Final = Habits(
    turns=20.0, sessions_per_user=50.0, user_spread=2.0, gap_s=1.0, arrival_cv=3.4, as_batches=True, day_swing=0.6
)
"""Customers who send batches: ServeGen's skew of clients and burstiness; batches of 20 and their gaps are assumed."""
_BATCH: Final = Quality(cluster="batch", icc=0.1)
_LANGUAGES: Final = {"shares": (0.5, 0.38, 0.12), "offsets": (0.04, 0.0, -1 / 6)}
"""Mix of segments: assumed; the third is the one of which a campaign brings more."""

INDEPENDENT: Final = _issue("independent", alone, Quality())

SCENARIOS: Final = (
    INDEPENDENT,
    _issue("sessions of 3, icc 0.1", partial(sessions, size=3), Quality(icc=0.1), Clusters(), Clusters(size=3)),
    _issue("sessions of 5, icc 0.2", partial(sessions, size=5), Quality(icc=0.2), *_OF_FIVE),
    _issue("sessions of 5, icc 0.2, 20 at once", partial(sessions, size=5, at_once=20), Quality(icc=0.2), *_OF_FIVE),
    _issue("sessions of 5, icc 0.5, 20 at once", partial(sessions, size=5, at_once=20), Quality(icc=0.5), *_OF_FIVE),
    _issue("sessions of 3 that stay open, icc 0.2, 20 at once", partial(sessions, size=3, at_once=20), _OPEN, _LATE),
    _issue("sessions of 5 that stay open, icc 0.2, 20 at once", partial(sessions, size=5, at_once=20), _OPEN, _LATE),
    _issue(
        "batches of 50, icc 0.1",
        partial(batches, size=50),
        Quality(cluster="batch", icc=0.1),
        Clusters(),
        Clusters(size=50),
    ),
    _issue("day and night, 0.85 +- 0.02", alone, Quality(swing=0.02)),
    _DAYS,
    replace(_DAYS, name="the same, min_effect 0.03", min_effect=0.03),
    _chat("chat", _USERS),
    _chat("chat with loops, swing and late scores", _LOOPS, min_effect=0.02, loops=0.01),
    _chat("chat with swing and outages", _DAILY, min_effect=0.02, outage_every_s=5.5 * 86_400.0),
    _chat("chat, a judge with 15% mistakes", replace(_USERS, mistakes=0.15)),
    _chat("chat, shares of 5 statements", replace(_USERS, statements=5)),
    Scenario(
        "customers with batches of 20",
        partial(habitual, habits=_API),
        _BATCH,
        settings=(Clusters(), Clusters(size=100)),
    ),
)

CAMPAIGN: Final = Scenario(
    "sessions of 5, icc 0.2, 20 at once, three languages",
    partial(sessions, size=5, at_once=20),
    Quality(icc=0.2, **_LANGUAGES),  # type: ignore[arg-type]
)
"""Traffic with segments, for changes of the mix."""


def named(name: str) -> Scenario:
    """Return a scenario by its name.

    Raises:
        KeyError: no scenario has the name.
    """
    return {scenario.name: scenario for scenario in (*SCENARIOS, CAMPAIGN)}[name]
