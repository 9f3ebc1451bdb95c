"""The lists of specimens, and the decision for which of them an interaction qualifies. No I/O.

A worker knows only its own interactions, so it proposes more specimens than stay: the script that stores one decides.
The proposals are bounded, so that ordinary traffic is not slowed down by specimens that give way at once.
"""

from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf
from time import monotonic
from typing import Final

from ragtide_runtime.draws import draw_number
from ragtide_runtime.redis.keys import SPECIMEN_JUDGED, SPECIMEN_NEWEST, SPECIMEN_SAMPLE, beyond_list, worst_list
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_schemas import AlertRule, Direction, MetricEvent, Movement, alarm_line, definition_of

JUDGED_MAX: Final = 200
"""Most specimens of a pipeline from the random sample of a cascade's judge; the latest stay."""

BEYOND_MAX: Final = 50
"""Most specimens of a pipeline on the wrong side of a rule's `target` or `baseline`; the latest stay."""

SOURCES_MOST: Final = 2_000
"""Pairs of a pipeline and a labeler whose worst interactions a worker remembers; the longest unused is forgotten."""

BEYOND_BURST: Final = 10
"""Most proposals at once of one worker for one rule and pipeline."""

BEYOND_EVERY_S: Final = 6.0
"""Seconds after which one more may follow."""

NEWEST_EVERY_S: Final = 1.0
"""Seconds after which one more of the newest interactions of a pipeline may follow, beyond `newest_n` at once."""

NEWEST_PER_S: Final = 10
"""Most of these in a second of one worker with many pipelines: each costs it about a millisecond."""

_PURPOSE: Final = b"ragtide specimen"
"""Makes this draw independent of the draws for a producer's sample and for a judge."""

WINDOW_S: Final = 3600.0
"""Seconds for which a value is among the worst lately; so a new fall is noticed beside older, worse values."""

AGAIN_S: Final = 6.0
"""Seconds after which a value that equals the least bad of the worst takes its place: recent ones are better."""


class WorstLately:
    """The worst values of the last hour of one metric.

    Of n values in a random order it proposes about `most * log(n / most)` an hour, and ten a minute of equal values.

    Args:
        most: number of the worst values.

    >>> lately = WorstLately(1)
    >>> [lately.proposes(value, 0.0) for value in (0.5, 0.4, 0.5, 0.6)]
    [True, False, False, True]
    """

    __slots__ = ("_kept", "_most", "_oldest", "again", "floor", "until")

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[float, float]] = []
        """Value and time, the least bad and oldest first."""
        self._oldest = inf
        self.floor = -inf
        """A lower value is not proposed before `until`, and an equal value not before `again`."""
        self.until = inf
        """Time at which the first of the worst is an hour old."""
        self.again = -inf
        """Time from which an equal value takes the place of the least bad of the worst."""

    def proposes(self, value: float, now: float) -> bool:
        """Return whether a value is among the worst; then it is one of them.

        Args:
            value: larger is worse.
            now: seconds that only grow.
        """
        if now - self._oldest >= WINDOW_S:
            self._kept = [(kept, at) for kept, at in self._kept if now - at < WINDOW_S]
            self._oldest = min((time for _, time in self._kept), default=inf)
            self.until = self._oldest + WINDOW_S
        if len(self._kept) >= self._most:
            least, at = self._kept[0]
            if value < least or (value == least and now - at < AGAIN_S):
                return False
            del self._kept[0]
        insort(self._kept, (value, now))
        self._oldest = min(self._oldest, now)
        self.until = self._oldest + WINDOW_S
        if len(self._kept) >= self._most:
            self.floor, self.again = self._kept[0][0], min(self._kept[0][1] + AGAIN_S, self.until)
        else:
            self.floor = self.again = -inf
        return True


class ProposalLimit:
    """A number of proposals at once, and then one more after each stretch of time.

    Args:
        burst: number of proposals at once.

    >>> two = ProposalLimit(2)
    >>> [two.proposes(now, 6.0) for now in (0.0, 1.0, 2.0, 6.0, 7.0)]
    [True, True, False, True, False]
    """

    __slots__ = ("_at", "_burst", "_left")

    def __init__(self, burst: int) -> None:
        self._burst = burst
        self._left = float(burst)
        self._at = 0.0

    def proposes(self, now: float, every_s: float) -> bool:
        """Return whether a proposal is allowed; then it counts.

        Args:
            now: seconds that only grow.
            every_s: seconds after which one more is allowed.
        """
        self._left = min(self._left + (now - self._at) / every_s, self._burst)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


@dataclass(frozen=True, slots=True)
class ListPlace:
    """The place of a specimen in a list."""

    name: str
    """Name of the list in its pipeline."""
    most: int
    """Most specimens of the list."""
    score: float | None = None
    """How bad the specimen is, for the worst; None for a list by time."""


@dataclass(frozen=True, slots=True)
class _WorstOf:
    """A metric with a direction, and its worst values lately."""

    sign: float
    """1 if a high value is bad, and -1 if a low value is bad."""
    best: float
    """The end of the range that is never among the worst, times the sign."""
    lately: WorstLately


@dataclass(slots=True)
class _Source:
    """The proposals for one pipeline and labeler."""

    worst: dict[str, _WorstOf] = field(default_factory=dict)
    without_direction: set[str] = field(default_factory=set)


class SpecimenLists:
    """Decides for which lists interactions qualify.

    Args:
        rules: alert rules; an interaction beyond the line of a rule qualifies for the rule's list.
        clock: seconds that only grow.
    """

    def __init__(
        self, settings: SpecimenSettings, rules: Sequence[AlertRule], clock: Callable[[], float] = monotonic
    ) -> None:
        self._settings = settings
        self.take_rules(rules)
        self._clock = clock
        self._sources: OrderedDict[tuple[str, str], _Source] = OrderedDict()
        self._beyond: OrderedDict[tuple[str, ...], ProposalLimit] = OrderedDict()
        self._newest: OrderedDict[tuple[str, ...], ProposalLimit] = OrderedDict()

    def take_rules(self, rules: Sequence[AlertRule]) -> None:
        """Take other alert rules."""
        self._rules = [
            rule
            for rule in rules
            if rule.kind not in ("rmse", "agreement")
            and (rule.target is not None or rule.given_baseline is not None or rule.baselines is not None)
        ]

    def sampled(self, event: MetricEvent) -> bool:
        """Return whether an interaction is in the uniform sample."""
        share = self._settings.sample
        return share > 0 and draw_number(f"{event.pipeline}\0{event.interaction_id}", purpose=_PURPOSE) < share

    def places(self, event: MetricEvent) -> list[ListPlace]:
        """Return the places for which the interaction of an event qualifies; in much traffic most have none."""
        now = self._clock()
        if event.is_session:  # it is no interaction of the samples, so it is only among the worst, and beyond lines
            places = [place for scored in event.by_evaluator() for place in self._labeler_places(scored, now)]
            return [place for place in places if place.name != SPECIMEN_JUDGED]
        places = [ListPlace(SPECIMEN_SAMPLE, self._settings.sample_n)] if self.sampled(event) else []
        if self._settings.newest_n and self._is_newest(event.pipeline, now):
            places.append(ListPlace(SPECIMEN_NEWEST, self._settings.newest_n))
        if not event.beside:
            return [*places, *self._labeler_places(event, now)]
        for scored in event.by_evaluator():
            places += self._labeler_places(scored, now)
        # Two evaluators may propose it for one list.
        return list({place.name: place for place in reversed(places)}.values())[::-1]

    def _labeler_places(self, event: MetricEvent, now: float) -> list[ListPlace]:
        places = self._worst_places(event, event.labeler, event.scores, now)
        if event.judged is not None:
            if event.judged.uniform and event.judged.scores:
                places.append(ListPlace(SPECIMEN_JUDGED, JUDGED_MAX))
            places += self._worst_places(event, event.judged.labeler, event.judged.scores, now)
        if self._rules:
            places += self._places_beyond_lines(event, now)
        return places

    def _worst_places(
        self, event: MetricEvent, labeler: str, scores: Mapping[str, float], now: float
    ) -> list[ListPlace]:
        places: list[ListPlace] = []
        key = event.pipeline, labeler
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = _Source()
            if len(self._sources) > SOURCES_MOST:
                self._sources.popitem(last=False)
        else:
            self._sources.move_to_end(key)
        for metric, value in scores.items():
            known = source.worst.get(metric)
            if known is None:
                if metric in source.without_direction:
                    continue
                known = self._begin_metric(source, metric, event)
                if known is None:
                    continue
            badness, lately = known.sign * value, known.lately
            if badness <= known.best or (badness < lately.floor and now < lately.until):  # most scores
                continue
            if badness == lately.floor and now < lately.again:
                continue
            if lately.proposes(badness, now):
                places.append(ListPlace(worst_list(metric, labeler), self._settings.worst_n, badness))
        return places

    def _begin_metric(self, source: _Source, metric: str, event: MetricEvent) -> _WorstOf | None:
        definition = definition_of(metric, event.declared)
        if definition is None or definition.direction is Direction.NEITHER:
            source.without_direction.add(metric)
            return None
        higher = definition.direction is Direction.HIGHER
        lately = WorstLately(self._settings.worst_n)
        known = _WorstOf(-1.0, -definition.upper, lately) if higher else _WorstOf(1.0, definition.lower, lately)
        source.worst[metric] = known
        return known

    def _places_beyond_lines(self, event: MetricEvent, now: float) -> Iterator[ListPlace]:
        tables = [event.scores] if event.judged is None else [event.scores, event.judged.scores]
        for rule in self._rules:
            if not fnmatchcase(event.pipeline, rule.pipeline):
                continue
            beyond = any(
                _is_beyond(rule, event, metric, scores[metric])
                for scores in tables
                for metric in rule.watched_in(scores)
            )
            allowance = _limit(self._beyond, (event.pipeline, rule.name), BEYOND_BURST) if beyond else None
            if allowance is not None and allowance.proposes(now, BEYOND_EVERY_S):
                yield ListPlace(beyond_list(rule.name), BEYOND_MAX)

    def _is_newest(self, pipeline: str, now: float) -> bool:
        allowance = _limit(self._newest, (pipeline,), self._settings.newest_n)
        return allowance.proposes(now, max(NEWEST_EVERY_S, len(self._newest) / NEWEST_PER_S))


def _limit(limits: OrderedDict[tuple[str, ...], ProposalLimit], key: tuple[str, ...], burst: int) -> ProposalLimit:
    limit = limits.get(key)
    if limit is None:
        limit = limits[key] = ProposalLimit(burst)
        if len(limits) > SOURCES_MOST:
            limits.popitem(last=False)
    return limit


def _is_beyond(rule: AlertRule, event: MetricEvent, metric: str, value: float) -> bool:
    if rule.segment is not None and rule.segment not in event.segments:
        return False
    reference = rule.target if rule.target is not None else rule.given_baseline
    if reference is None and rule.baselines is not None and rule.adjust is not None:
        reference = rule.baselines.get(event.segments.get(rule.adjust, ""))
    if reference is None:
        return False
    definition = definition_of(metric, event.declared)
    movements: Sequence[Movement] = rule.movements_of(None if definition is None else definition.direction)
    lines = {movement: alarm_line(reference, movement, rule.min_effect) for movement in movements}
    return any(value < line if movement == "fall" else value > line for movement, line in lines.items())
