"""Decides the headline of each metric: labeler, estimator, range, and how it stands. No clock, no I/O.

Rules, in this order:

- **Labeler.** It is chosen once for a metric of a pipeline, and its segment values follow. Where a judge scores a
  sample of what another labeler scores, its prediction-powered mean counts. Until that has an interval over all time,
  the headline shows the other labeler's number, names it, and has no state but how far the judge is. Of several such
  judges the one with the most authority counts, in its newest version. Elsewhere the labeler with the most values in
  the range counts, in its newest version. Scores that people gave count only where no labeler scores the metric.
- **Range.** The last 24 hours unless a reader chooses another range. If the level changed within them, or a version
  began, only the values since then count, once their interval is narrow enough, and in whole panes of the history that
  hold no value from before. Until then the number of a mean that fires is what the rule saw since the change. All
  values count without a value in the last hours or days, and where the default range has too few judged answers for an
  interval; without a value since a given time there is no number.
- **State.** The worst of `HEADLINE_STATES` that holds.
- **Band.** Only where the whole interval lies in one band, the labeler has a level, and nothing fires.
- **What it would see.** Of a whole pipeline: the delay of a rule on the values of the labeler, at the traffic of now.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from math import ceil
from typing import Final, NamedTuple

from ragtide_schemas import METRICS, Alert, AlertRule, Direction, Headline
from ragtide_schemas.alert_kinds import kind_of_rule
from ragtide_schemas.headline import HeadlineState, JudgeProgress, MeanOfAll, StopReason
from ragtide_schemas.known_labelers import authority, certain_band
from ragtide_schemas.metric_definitions import PEOPLES_METRICS, PER_ANSWER
from ragtide_schemas.slopes import SlopesByMetric, shipped_slopes, steady_for

from ..events.keys import GOLD_LABELER, UNBOUNDED, EstimateKey, PairKey
from ..state.level_rows import WatchedLevel
from ..statistics.intervals.intervals import Interval
from .means import MetricMean
from .over_time import HistoryPoint
from .ranges import DEFAULT_RANGE, RANGES, HeadlineRange
from .would_see import Watched, would_see

NARROW: Final = 0.2
"""Width of an interval, as a share of the metric's range, below which its metric has enough values."""

CHANGED: Final = 0.4
"""The same for the values since a change of the level: how bad it is now matters before it is known precisely."""

SILENT: Final = timedelta(days=1)
"""Age of the newest value of a metric from which it is silent."""

ENDED: Final = timedelta(days=7)
"""A judge that scored nothing for so long, while its proxy did, is no longer asked: the number is another labeler's."""

SUSPICIOUS_PART: Final = 10
"""A metric is suspicious from this part of a rule's run length on: evidence that chance alone gives ten times as often
as an alarm."""

Group = tuple[str, str | None, str]
"""Pipeline, segment value and metric."""


class Beginning(NamedTuple):
    """A moment from which on the values of a metric are about now."""

    at: datetime
    version: str | None = None
    """The version that began; None for a change of the level."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What else is known about the metrics of a deployment."""

    now: datetime
    firing: Mapping[Group, Sequence[Alert]] = field(default_factory=dict)
    """Alerts that fire about each metric."""
    suspected: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By pipeline and metric: the evidence of a rule that does not fire, as a part of what it fires at."""
    watches: Mapping[tuple[str, str, str], Sequence[WatchedLevel]] = field(default_factory=dict)
    """By pipeline, metric and labeler."""
    rules: Sequence[AlertRule] = ()
    versions: Mapping[str, tuple[str, datetime]] = field(default_factory=dict)
    """By pipeline the newest version and its first interaction."""
    stops: Mapping[tuple[str, str, str], "JudgeStop"] = field(default_factory=dict)
    """Labelers that have stopped, by pipeline, name and version."""
    traffic: Mapping[str, float] = field(default_factory=dict)
    """By pipeline the answers an hour, as they come now; of a pipeline that is left out it is not known."""
    slopes: Mapping[tuple[str, str], SlopesByMetric] = field(default_factory=dict)
    """Slopes that this deployment measured, by labeler and version; those that ship with ragtide count besides."""

    def slopes_of(self, key: EstimateKey) -> SlopesByMetric:
        """Return the slopes of the labeler of a key, by metric; empty if nothing was measured."""
        return self.slopes.get((key.labeler, key.labeler_version)) or shipped_slopes(key.labeler)


class JudgeStop(NamedTuple):
    """A labeler has stopped: answers come, and it scores none."""

    last_at: datetime | None
    """About the time of the last answer that it scored; None if that is not known."""
    reason: StopReason | None = None
    """Why, as its endpoint reports it."""


def firing_alerts(alerts: Iterable[Alert]) -> dict[Group, list[Alert]]:
    """Return the live alerts that fire, by the metric that they are about, without those of open releases."""
    by_metric: defaultdict[Group, list[Alert]] = defaultdict(list)
    for alert in alerts:
        if alert.status != "resolved" and alert.run is None and not alert.is_news:
            by_metric[alert.pipeline, alert.segment, alert.metric].append(alert)
    return by_metric


OVER_ALL: Final = HeadlineRange("all", None)


class HeadlineNumber(NamedTuple):
    """The number of one labeler in a range."""

    mean: MetricMean
    """The mean over the range; values that wait, time and need are those over all time."""
    range: HeadlineRange

    @property
    def width(self) -> float | None:
        """Width of the interval as a share of the metric's range; None without one of its ends."""
        interval, (lowest, highest) = self.mean.interval, self.mean.value_range
        if interval.lower is None or interval.upper is None:
            return None
        return (interval.upper - interval.lower) / ((highest - lowest) or 1.0)

    @classmethod
    def unknown(cls, mean: MetricMean, span: HeadlineRange) -> "HeadlineNumber":
        """Return the number of a range without a value, of the labeler of a mean."""
        return cls(mean._replace(n=0, interval=Interval(None, None, None), n_absent=0, coverage=None), span)


def number_since_change(mean: MetricMean, around: Circumstances) -> HeadlineNumber | None:
    """Return what the rule of the newest alert that fires about a mean saw since its change; None without one."""
    alerts = [
        alert
        for alert in _firing(mean.key, around)
        if not mean.is_powered and is_of_mean(alert) and measures(alert, mean.key) and alert.observed_of == "answers"
    ]
    if not alerts:
        return None
    alert = max(alerts, key=lambda firing: firing.fired_at)
    interval = Interval(alert.observed, alert.observed_lower, alert.observed_upper)
    span = HeadlineRange("since change", alert.began_at or alert.fired_at)
    number = mean._replace(n=alert.observed_n or 0, interval=interval, n_absent=0, coverage=None)
    return HeadlineNumber(number, span)


def is_of_mean(alert: Alert) -> bool:
    """Return whether an alert is about the mean of a metric, and says what it is since the change."""
    return alert.observed is not None and alert.observed_n is not None and alert.quantity == "mean"


def measures(alert: Alert, key: EstimateKey) -> bool:
    """Return whether the values of an alert are those of a key."""
    return (alert.profile, alert.labeler, alert.labeler_version, alert.metric_version) == (
        key.profile, key.labeler, key.labeler_version, key.version,
    )  # fmt: skip


def number_of_point(
    mean: MetricMean, point: HistoryPoint, chosen: HeadlineRange, answers: "AnswerCounts"
) -> HeadlineNumber:
    """Return the number of a point of the history of a mean.

    Args:
        answers: in the range. A missing thumb is no event, so of a metric of people all other answers have no value.
    """
    span = HeadlineRange(chosen.name, point.start, None if chosen.end is None else point.end, version=chosen.version)
    number = mean._replace(n=point.n, interval=point, n_absent=point.n_absent, coverage=point.coverage)
    in_scope = answers.get((mean.key.pipeline, mean.key.segment), 0)
    if mean.key.metric in PEOPLES_METRICS and mean.coverage is not None and in_scope >= point.n:
        number = number._replace(n_absent=in_scope - point.n, coverage=point.n / in_scope)
    return HeadlineNumber(number, span)


AnswerCounts = Mapping[tuple[str, str | None], int]
"""Number of answers in a range by pipeline and segment value, where something counts them."""


def answer_counts(means: Iterable[MetricMean], points: Mapping[EstimateKey | PairKey, HistoryPoint]) -> AnswerCounts:
    """Return the number of answers in a range.

    Args:
        means: means over all time, among them those that count answers.
        points: by series the number in the range.
    """
    counts: defaultdict[tuple[str, str | None], int] = defaultdict(int)
    for mean in means:
        point = points.get(mean.series) if mean.key.metric == PER_ANSWER and not mean.is_powered else None
        # Answers that were kept with different probabilities are not those of the traffic.
        if point is not None and point.coverage is not None:
            counts[mean.key.pipeline, mean.key.segment] += point.n
    return counts


def by_group(means: Iterable[MetricMean]) -> dict[Group, list[MetricMean]]:
    """Return the means of each pipeline, segment value and metric; time and cost of labeling are no scores."""
    groups: defaultdict[Group, list[MetricMean]] = defaultdict(list)
    for mean in means:
        if mean.key.metric not in UNBOUNDED:
            groups[mean.key.pipeline, mean.key.segment, mean.key.metric].append(mean)
    return groups


class MeasuredBy(NamedTuple):
    """What measured a mean: means are comparable where it is equal."""

    key: EstimateKey
    """Metric and labeler, without a segment value."""
    proxy: EstimateKey | None = None
    """The same of the proxy of a prediction-powered mean."""

    @classmethod
    def of(cls, mean: MetricMean) -> "MeasuredBy":
        """Return what measured a mean."""
        key, proxy = mean.key, mean.proxy
        return cls(key._replace(segment=None), None if proxy is None else proxy._replace(segment=None))

    @property
    def by_proxy(self) -> "MeasuredBy | None":
        """What measured the plain mean of the proxy; None of a plain mean."""
        return None if self.proxy is None else MeasuredBy(self.proxy)

    @property
    def alone(self) -> "MeasuredBy":
        """What measured the plain mean of the same labeler."""
        return MeasuredBy(self.key)

    def place(self, means: Sequence[MetricMean]) -> int | None:
        """Return the place of the mean that was measured so; None without one."""
        return next((place for place, mean in enumerate(means) if MeasuredBy.of(mean) == self), None)


class Choice(NamedTuple):
    """The mean that a headline shows."""

    place: int
    """Its place among the means of its metric."""
    awaited: MeasuredBy | None = None
    """What is to measure the number, and has no interval yet; None where that measured the mean at `place`."""


def chosen_mean(
    means: Sequence[MetricMean], numbers: Mapping[int, HeadlineNumber], labeler: str | None = None
) -> Choice | None:
    """Return the choice for a whole pipeline; None without a mean of the labeler.

    Args:
        numbers: by place the number in the range, of those that have a value in it.
        labeler: name of a labeler that a reader chose; None for the recommended one.
    """
    if len(means) == 1 and labeler in (None, means[0].key.labeler) and not means[0].is_powered:
        return Choice(0)
    places = [place for place, mean in enumerate(means) if labeler in (None, mean.key.labeler)]
    powered = sorted(
        (
            place
            for place in places
            if means[place].is_powered and (labeler is not None or not _has_ended(means, place))
        ),
        key=lambda place: (
            authority(means[place].key.labeler),
            *(-newness for newness in _newness_of_judge(means, place)),
        ),
    )
    if powered:
        newest = means[powered[0]]
        with_interval = next((place for place in powered if means[place].has_interval), None)
        if with_interval is not None:
            return Choice(with_interval, None if means[with_interval] == newest else MeasuredBy.of(newest))
        instead = None if labeler is not None else _instead(means, MeasuredBy.of(newest))
        if instead is not None:
            return instead
    plain = _most_values(means, numbers, places)
    return None if plain is None else Choice(plain)


class WholeChoice(NamedTuple):
    """The choice for a whole pipeline, which its segment values follow."""

    by: MeasuredBy
    """What measured its headline."""
    awaited: MeasuredBy | None = None
    """What is to measure it; None where `by` is that."""


def chosen_part(
    means: Sequence[MetricMean],
    numbers: Mapping[int, HeadlineNumber],
    whole: WholeChoice,
    labeler: str | None = None,
) -> Choice | None:
    """Return the choice for a segment value: that of its pipeline, so that parts and whole are comparable.

    A part without a number of this labeler shows that of the proxy, or the judge's own mean where the proxy cannot
    score any answer, or else the number with the most values.

    Args:
        numbers: by place the number in the range, of those that have a value in it.
        whole: the choice for its pipeline.
        labeler: name of a labeler that a reader chose; None for the recommended one.
    """
    same = whole.by.place(means)
    if same is not None and (whole.by.proxy is None or means[same].has_interval):
        return Choice(same, whole.awaited)
    instead = _instead(means, whole.by) if labeler is None and whole.by.proxy is not None else None
    if instead is not None:
        return instead if instead.awaited is None else instead._replace(awaited=whole.awaited or whole.by)
    places = [place for place, mean in enumerate(means) if labeler in (None, mean.key.labeler)]
    place = _most_values(means, numbers, places)
    return None if place is None else Choice(place, whole.awaited or whole.by)


def _instead(means: Sequence[MetricMean], by: MeasuredBy) -> Choice | None:
    # The judge's own mean stands where the proxy has no score at all, as in a language that it cannot score.
    proxy, own = None if by.by_proxy is None else by.by_proxy.place(means), by.alone.place(means)
    if own is not None and means[own].n and (proxy is None or not means[proxy].n):
        return Choice(own)
    return None if proxy is None else Choice(proxy, by)


def _most_values(
    means: Sequence[MetricMean], numbers: Mapping[int, HeadlineNumber], places: Sequence[int]
) -> int | None:
    plain = [place for place in places if not means[place].is_powered]
    scored = [place for place in plain if means[place].key.labeler != GOLD_LABELER] or plain
    # Labelers and their versions are never mixed. A labeler that is new has fewer values of all time.
    count: defaultdict[str, int] = defaultdict(int)
    for place in scored:
        count[means[place].key.labeler] += numbers[place].mean.n if place in numbers else 0
    if not any(count.values()):
        for place in scored:
            count[means[place].key.labeler] += means[place].n
    most = max(count.values(), default=0)
    return max(
        (place for place in scored if count[means[place].key.labeler] == most),
        key=lambda place: _newness(means[place]),
        default=None,
    )


def _has_ended(means: Sequence[MetricMean], place: int) -> bool:
    own, newest = MeasuredBy.of(means[place]).alone.place(means), means[place].updated_at
    last = None if own is None else means[own].updated_at
    return last is not None and newest is not None and newest - last > ENDED


def _newness_of_judge(means: Sequence[MetricMean], place: int) -> tuple[float, float, int]:
    own = MeasuredBy.of(means[place]).alone.place(means)
    return (0.0 if own is None else _newness(means[own])[0], *_newness(means[place]))


def _newness(mean: MetricMean) -> tuple[float, int]:
    return (0.0 if mean.updated_at is None else mean.updated_at.timestamp(), mean.n)


def judge_progress(means: Sequence[MetricMean], choice: Choice, around: "Circumstances") -> JudgeProgress | None:
    """Return how far the labeler is that has no number here yet, or that has stopped; None if neither is so.

    Args:
        means: of one metric of a pipeline or of a segment value.
        choice: the shown one.
        around: what else is known, among it who has stopped.
    """
    if choice.awaited is None and not around.stops:
        return None
    by = choice.awaited or MeasuredBy.of(means[choice.place])
    stop = around.stops.get((by.key.pipeline, by.key.labeler, by.key.labeler_version))
    if choice.awaited is None and stop is None:
        return None
    place = by.place(means)
    if place is None:
        place = by.alone.place(means)
    return JudgeProgress(
        labeler=by.key.labeler,
        labeler_version=by.key.labeler_version,
        n=0 if place is None else means[place].n,
        needed=None if choice.awaited is None or place is None else means[place].needed,
        pending=choice.awaited is not None,
        stopped=stop is not None,
        last_at=None if stop is None else stop.last_at,
        reason=None if stop is None else stop.reason,
    )


def is_narrow(
    interval: Interval[float | None, float | None], value_range: tuple[float, float], widest: float = NARROW
) -> bool:
    """Return whether an interval is narrow enough, by default for its metric to have enough values.

    Args:
        widest: width that is narrow enough, as a share of the range.
    """
    if interval.lower is None or interval.upper is None:
        return False
    return interval.upper - interval.lower <= widest * ((value_range[1] - value_range[0]) or 1.0)


def more_needed(n: int, width: float) -> int | None:
    """Return about how many more values make an interval as narrow as `NARROW`; None if it is.

    An interval narrows at least as fast as the square root of n grows, while the values keep their spread.

    Args:
        n: number of values so far.
        width: of the interval, as a share of the metric's range.

    >>> more_needed(100, 0.1), more_needed(100, 0.4), more_needed(1, 1.0)
    (None, 300, 24)
    """
    return None if width <= NARROW else max(ceil(n * ((width / NARROW) ** 2 - 1)), 1)


def beginning_of(mean: MetricMean, around: Circumstances) -> Beginning | None:
    """Return the last moment from which on the values are about now: a change of the level, or a new version."""
    beginnings: list[Beginning] = []
    watch, key = watch_of(mean, around), mean.key
    if watch is not None and watch.move is not None:
        beginnings.append(Beginning(watch.move.began_at))
    beginnings += [Beginning(alert.began_at) for alert in _firing(key, around) if alert.began_at is not None]
    if key.segment is None and key.pipeline in around.versions:
        version, at = around.versions[key.pipeline]
        beginnings.append(Beginning(at, version))
    return max(beginnings, default=None, key=lambda beginning: beginning.at)


def pipelines_with_beginnings(around: Circumstances) -> set[str]:
    """Return the pipelines of which a mean may have a `beginning_of`."""
    moved = {name for (name, *_), levels in around.watches.items() if any(watch.move is not None for watch in levels)}
    return moved | {name for name, *_ in around.firing} | {*around.versions}


def watch_of(mean: MetricMean, around: Circumstances) -> WatchedLevel | None:
    """Return the watch of a mean's level: by its labeler, or by the proxy of a prediction-powered mean."""
    key = mean.key
    if key.segment is not None:
        return None
    levels = around.watches.get((key.pipeline, key.metric, (mean.proxy or key).labeler), ())
    if len(levels) == 1:
        return levels[0]
    exact = [watch for watch in levels if watch.key.labeler_version == key.labeler_version]
    return max(exact or levels, default=None, key=lambda watch: 0.0 if watch.since is None else watch.since.timestamp())


def _firing(key: EstimateKey, around: Circumstances) -> Sequence[Alert]:
    return around.firing.get((key.pipeline, key.segment, key.metric), ())


@dataclass(frozen=True)
class MetricStanding:
    """How a metric of a pipeline or of a segment value stands. Its headline takes longer, and only some are shown."""

    means: Sequence[MetricMean]
    """Of the metric."""
    choice: Choice
    """The shown one."""
    number: HeadlineNumber
    """Of the shown one in the range."""
    around: Circumstances

    @cached_property
    def state(self) -> HeadlineState:
        """The worst state that holds; computed at the first look, because a screen looks at few metrics of many."""
        mean, around = self.number.mean, self.around
        if around.firing and _firing(mean.key, around):
            return "firing"
        judge, watch = judge_progress(self.means, self.choice, around), watch_of(mean, around)
        return next(_quiet_states(self.number, around, watch, judge))

    def _needed(self, state: HeadlineState, watch: WatchedLevel | None) -> int | None:
        mean, width = self.number.mean, self.number.width
        if state == "too few":
            # While all values wait in open sessions, the interval says nothing about how many are needed.
            counted = mean.n - mean.n_waiting
            return None if width is None or counted <= 0 else more_needed(counted, width)
        return watch.needed if state == "learning" and watch is not None else None

    @property
    def key(self) -> EstimateKey:
        """Key of the shown mean."""
        return self.number.mean.key

    @property
    def interval(self) -> Interval[float | None, float | None]:
        """The number with its interval."""
        return self.number.mean.interval

    @property
    def has_ends(self) -> bool:
        """Whether the number is known with both ends of its interval."""
        interval = self.interval
        return interval.estimate is not None and interval.lower is not None and interval.upper is not None

    def headline(self, confidence: float) -> Headline:
        """Return the headline.

        Args:
            confidence: level of the intervals.
        """
        all_time, around, (mean, span) = self.means[self.choice.place], self.around, self.number
        key, interval, state = mean.key, mean.interval, self.state
        watch = watch_of(mean, around)
        firing = _firing(key, around)
        since = max((alert.began_at for alert in firing if alert.began_at is not None), default=None)
        if since is None and watch is not None:
            since = watch.since
        lowest, highest = mean.value_range
        names = key.names
        del names["run"]
        band = None
        if self.choice.awaited is None and not firing:
            definition = METRICS.get(key.metric) if key.measure is None else None
            band = certain_band(definition, key.labeler, (interval.lower, interval.estimate, interval.upper))
        return Headline(
            **names,
            lowest=lowest,
            highest=highest,
            direction=mean.direction,
            estimator="mean" if mean.proxy is None else "prediction_powered",
            proxy=None if mean.proxy is None else mean.proxy.labeler,
            judge=judge_progress(self.means, self.choice, around),
            other_labelers=tuple(sorted({other.key.labeler for other in self.means} - {key.labeler})),
            range=span.name,
            start=span.start,
            end=span.end,
            version=span.version,
            n=mean.n,
            n_waiting=mean.n_waiting,
            estimate=interval.estimate,
            lower=interval.lower,
            upper=interval.upper,
            n_absent=mean.n_absent,
            coverage=mean.coverage,
            confidence=confidence,
            would_see=_would_see(self.means, self.choice, around),
            steady_for=steady_for(around.slopes_of(_watched_key(all_time, around)), key.metric)
            if state == "steady"
            else None,
            band=band,
            state=state,
            since=since,
            move=None if watch is None else watch.move,
            needed=self._needed(state, watch),
            rules=tuple(
                rule.name
                for rule in around.rules
                if watches(rule, key) or (all_time.proxy is not None and watches(rule, all_time.proxy))
            ),
            all_time=MeanOfAll(
                n=all_time.n,
                estimate=all_time.interval.estimate,
                lower=all_time.interval.lower,
                upper=all_time.interval.upper,
            ),
            updated_at=mean.updated_at,
        )


def headline(
    means: Sequence[MetricMean],
    choice: Choice,
    number: HeadlineNumber,
    around: Circumstances,
    *,
    confidence: float,
) -> Headline:
    """Return the headline of a metric.

    Args:
        choice: the shown one.
        number: of the chosen one in the range.
        around: what else is known.
        confidence: level of the intervals.
    """
    return MetricStanding(means, choice, number, around).headline(confidence)


def _would_see(means: Sequence[MetricMean], choice: Choice, around: Circumstances) -> str | None:
    shown = means[choice.place]
    if shown.key.segment is not None or shown.interval.estimate is None:
        return None
    mean, rate = shown, 1.0 if shown.coverage is None else shown.coverage
    if shown.proxy is not None:
        # A rule watches the judge's own values, which are of a sample of what the proxy scored.
        own, proxy = (by and by.place(means) for by in (MeasuredBy.of(shown).alone, MeasuredBy.of(shown).by_proxy))
        if own is None or proxy is None:
            return None
        mean = means[own]
        scored = means[proxy].n + means[proxy].n_absent
        rate = min(mean.n / scored, 1.0) if scored else 0.0
    (lowest, highest), estimate = mean.value_range, mean.interval.estimate
    width = highest - lowest
    if estimate is None or not width > 0:
        return None
    place, deviation = (estimate - lowest) / width, mean.standard_deviation
    rules = [rule for rule in around.rules if kind_of_rule(rule).watches_level and watches(rule, mean.key)]
    watched = Watched(
        mean=1 - place if mean.direction is Direction.LOWER else place,
        deviation=None if deviation is None else deviation / width,
        rate=rate,
        an_hour=around.traffic.get(mean.key.pipeline),
        run_length=min((rule.run_length for rule in rules if rule.run_length), default=None),
        min_effect=min((rule.min_effect / width for rule in rules), default=None),
        ruled=bool(rules),
        awaited=None if choice.awaited is None else choice.awaited.key.labeler,
    )
    return would_see(mean.key.labeler, mean.key.metric, watched, around.slopes_of(mean.key))


def _watched_key(mean: MetricMean, around: Circumstances) -> EstimateKey:
    """Return the key of the watched values: of the judge if a rule watches them, else of the proxy."""
    if mean.proxy is None or any(kind_of_rule(rule).watches_level and watches(rule, mean.key) for rule in around.rules):
        return mean.key
    return mean.proxy


def watches(rule: AlertRule, key: EstimateKey) -> bool:
    """Return whether an alert rule watches the level of a metric, by the labeler and in the scope of a key."""
    name = None if key.segment is None else key.segment.partition("=")[0]
    in_scope = rule.watches_metric(key.metric) and rule.segment == name and fnmatchcase(key.pipeline, rule.pipeline)
    return in_scope and rule.watches_labeler(key.labeler)


def _quiet_states(
    number: HeadlineNumber,
    around: Circumstances,
    watch: WatchedLevel | None,
    judge: JudgeProgress | None,
) -> Iterator[HeadlineState]:
    """Yield the states that hold where nothing fires, the worst first as in `HEADLINE_STATES`."""
    mean, span = number
    name, width = (mean.key.pipeline, mean.key.metric), number.width
    if mean.key.segment is None and around.suspected.get(name, 0.0) * SUSPICIOUS_PART >= 1:
        yield "suspicious"
    if watch is not None and watch.move is not None:
        start = span.start or around.now - RANGES[DEFAULT_RANGE]
        # The panes since a change begin after it, and may begin after it was found.
        if watch.move.found_at >= start or span.name == "since change":
            yield "moved"
    if mean.updated_at is not None and around.now - mean.updated_at > SILENT:
        yield "silent"
    if judge is not None and judge.stopped:
        yield "judge stopped"
    if judge is not None and judge.pending:
        yield "being measured"
    if width is None or width > NARROW:
        yield "too few"
    if watch is not None:
        yield "learning" if watch.needed > 0 else "steady"
    elif any(kind_of_rule(rule).watches_level and watches(rule, mean.key) for rule in around.rules):
        # A rule on a whole pipeline has evidence once it has learned its baseline.
        yield "learning" if mean.key.segment is None and name not in around.suspected else "steady"
    yield "unwatched"
