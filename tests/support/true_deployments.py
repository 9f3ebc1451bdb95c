"""Drawn deployments, with what is true of them: of each answer the probabilities that its scores were drawn with.

Nothing here calls the product but for the models of events. A truth is numpy arithmetic over the answers that a label
names: `Drawn.truth`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from tests.support.metric_events import event

from ragtide_schemas import JudgedScores, MetricEvent
from ragtide_schemas.declared import MetricDeclaration

METRIC: Final = "trace.adherence"
CRITERION: Final = "criteria.polite"
PIPELINES: Final = ("shop", "desk", "chat")
VERSIONS: Final = ("1", "2")
HOURS: Final = 28.0
"""Length of the traffic, up to now."""

Incident = Literal["none", "ended", "ongoing"]


@dataclass(frozen=True, slots=True)
class World:
    """What a pipeline is like; the numbers are shares of the answers, and probabilities, unless they say otherwise."""

    dutch: float
    """Answers in a language that the proxy cannot score."""
    yes: tuple[float, float]
    """Yes to `METRIC` among the English answers, and among the Dutch ones."""
    polite: float
    """Yes to `CRITERION`."""
    rates: tuple[float, float]
    """Rate of the judge in the first half and in the second."""
    dutch_factor: float
    """Part of the rate at which Dutch answers are judged."""
    cannot_tell: tuple[float, float]
    """Of the yes, and of the no."""
    away: float
    """Of the chosen answers those that the judge is never asked about."""
    session: int
    """Answers of a session; 1 for none."""
    alike: float
    """Probability that an answer of a session is as its first one."""
    incident: Incident
    bad: float
    """What the incident makes of a probability of yes: this part."""


INCIDENTS: Final[dict[Incident, tuple[float, float]]] = {"none": (2.0, 2.0), "ended": (0.55, 0.7), "ongoing": (0.65, 2)}
"""Begin and end of each incident, as shares of the traffic."""


def world(rng: np.random.Generator) -> World:
    """Draw one."""
    session = int(rng.choice([1, 1, 4]))
    return World(
        dutch=float(rng.choice([0.0, 0.35, 0.5, 0.6])),
        yes=(float(rng.uniform(0.7, 0.9)), float(rng.uniform(0.1, 0.3))),
        polite=float(rng.uniform(0.3, 0.8)),
        rates=((0.5, 0.5), (0.3, 0.7), (0.6, 0.35))[rng.integers(3)],
        dutch_factor=float(rng.choice([1.0, 0.5])),
        cannot_tell=((0.0, 0.0), (0.3, 0.05), (0.5, 0.1))[rng.integers(3)],
        away=float(rng.choice([0.0, 0.25])),
        session=session,
        alike=0.5 if session > 1 else 0.0,
        incident=(("none", "ended", "ongoing")[rng.integers(3)]),
        bad=float(rng.uniform(0.1, 0.4)),
    )


@dataclass(frozen=True)
class Drawn:
    """The answers of one pipeline, in their order; arrays have shape (n,)."""

    pipeline: str
    world: World
    events: Sequence[MetricEvent]
    at_s: NDArray[np.float64]
    """Time of each answer, in seconds since 1970."""
    dutch: NDArray[np.bool_]
    version: NDArray[np.int_]
    """Place in `VERSIONS`."""
    yes: NDArray[np.float64]
    """Probability of yes to `METRIC`."""
    change: datetime | None
    """When the incident began."""

    @property
    def english(self) -> "Drawn":
        """The answers that the proxy can score, alone."""
        return self._part(~self.dutch)

    @property
    def before(self) -> "Drawn":
        """The answers from before the incident, alone; all without one."""
        return self if self.change is None else self._part(self.at_s < self.change.timestamp())

    def _part(self, kept: NDArray[np.bool_]) -> "Drawn":
        fields = {name: getattr(self, name)[kept] for name in ("at_s", "dutch", "version", "yes")}
        return replace(self, **fields)

    @property
    def tells(self) -> NDArray[np.float64]:
        """Probability of each answer that the judge can tell."""
        of_yes, of_no = self.world.cannot_tell
        return self.yes * (1 - of_yes) + (1 - self.yes) * (1 - of_no)

    def truth(
        self,
        metric: str,
        labeler: str,
        *,
        segment: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> float:
        """Return the true mean of what a label names: by a labeler, of the answers with a score by it, in a range.

        Returns: NaN if there are no such answers.
        """
        inside = np.ones(len(self.at_s), dtype=bool)
        if start is not None:
            inside &= self.at_s >= start.timestamp()
        if end is not None:
            inside &= self.at_s < end.timestamp()
        if segment is not None:
            name, value = segment.split("=")
            own = self.dutch == (value == "nl") if name == "lang" else self.version == VERSIONS.index(value)
            inside &= own
        if metric == CRITERION:
            return self.world.polite if labeler == "judge" else proxy_mean(self.world.polite)
        if labeler == "judge":
            told_yes = self.yes * (1 - self.world.cannot_tell[0])
            return float(told_yes[inside].sum() / self.tells[inside].sum()) if inside.any() else float("nan")
        scored = inside & ~self.dutch
        return float(proxy_mean(self.yes[scored]).mean()) if scored.any() else float("nan")


def proxy_mean(yes: Any) -> Any:
    """Return the mean of the proxy's scores, given the probability of yes."""
    return 0.1 + 0.8 * yes


def drawn(seed: int, *, now: datetime, n: int, pipeline: str) -> Drawn:
    """Return the drawn answers of a pipeline."""
    rng = np.random.default_rng([seed, PIPELINES.index(pipeline)])
    own = world(rng)
    session = np.arange(n) // own.session
    dutch = (rng.random(n) < own.dutch)[session]
    share = np.arange(n) / n
    begin, end = INCIDENTS[own.incident]
    yes = np.where(dutch, own.yes[1], own.yes[0]) * np.where((share >= begin) & (share < end), own.bad, 1.0)
    # A session has one number that its answers share with a probability, so that the mean of each stays its own.
    luck = np.where(rng.random(n) < own.alike, rng.random(n)[session], rng.random(n))
    good = (luck < yes).astype(float)
    polite = (rng.random(n) < own.polite).astype(float)
    tells = rng.random(n) >= np.where(good > 0, own.cannot_tell[0], own.cannot_tell[1])
    rate = np.where(share < 0.5, *own.rates) * np.where(dutch, own.dutch_factor, 1.0)
    judged, asked = rng.random(n) < rate, rng.random(n) >= own.away
    noise = rng.uniform(-0.1, 0.1, (2, n))
    version = (share >= 0.4).astype(int)
    first = now - timedelta(hours=HOURS)
    times = [first + timedelta(hours=HOURS) * float(part) for part in share]
    declared = {CRITERION: MetricDeclaration(version="1", lower=0.0, upper=1.0)}
    events = []
    for i in range(n):
        even = own.dutch_factor == 1.0
        scores = {METRIC: good[i], CRITERION: polite[i]} if tells[i] else {CRITERION: polite[i]}
        absent = {} if tells[i] else {METRIC: "judge_cannot_tell"}
        if not asked[i]:
            scores, absent = {}, {METRIC: "over_budget", CRITERION: "over_budget"}
        by_judge = JudgedScores(
            labeler="judge", labeler_version="m", profile="ragbench", scores=scores, absent=absent,
            inclusion_probability=float(rate[i]), uniform=even, uniform_probability=float(rate[i]) if even else None,
        )  # fmt: skip
        proxy = {METRIC: proxy_mean(good[i]) + noise[0, i], CRITERION: proxy_mean(polite[i]) + noise[1, i]}
        missing = {METRIC: "language_not_supported"} if dutch[i] else {}
        events.append(
            event(
                i,
                {name: float(value) for name, value in proxy.items() if name not in missing},
                absent=missing,
                interaction_id=f"{pipeline}-{i}",
                pipeline=pipeline,
                occurred_at=times[i],
                labeled_at=times[i],
                labeler="local",
                segments={"lang": "nl" if dutch[i] else "en", "version": VERSIONS[version[i]]},
                session_id=f"{pipeline}-{session[i]}" if own.session > 1 else None,
                judged=by_judge if judged[i] else None,
                declared=declared,
            )
        )
    at_s = np.array([time.timestamp() for time in times])
    change = times[int(np.argmax(share >= begin))] if begin < 1 else None
    return Drawn(pipeline, own, events, at_s, dutch, version, yes, change)
