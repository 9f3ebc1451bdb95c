"""Two runs compared, an A/B of versions: item by item where both have the same items, else mean by mean. No I/O."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import isnan
from typing import Final, Literal, NamedTuple

import numpy as np

from ragtide_aggregator.statistics.comparing import Difference, difference
from ragtide_aggregator.statistics.moments import Moments, MomentTable
from ragtide_schemas import Direction, Kind, MetricDefinition, Workspace
from ragtide_schemas.experiments import OWN

from ..experiments.projections import mean_differences
from ..experiments.state import ExperimentState
from .cautions import instruments_of
from .labelings import Paired
from .measured_metric import MeasuredMetric
from .reader import ReportedExperiment

PAIRED: Final = "paired"
UNPAIRED: Final = "unpaired"


@dataclass(frozen=True, slots=True)
class Gap:
    """One metric of a config (or pipeline) of the first run minus that of one of the second."""

    first: str
    second: str
    metric: str
    method: Literal["paired", "unpaired"]
    """`paired` item by item; `unpaired` where the runs share no items."""
    n: tuple[int, int]
    """Items in each; paired, those on which both have a score."""
    means: tuple[float, float]
    """On these items."""
    difference: Difference
    verdict: Literal["better", "worse", "different", "undecided"]
    """The verdict on the first; `different` for a metric that is neither better high nor better low."""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Everything that is said of two runs."""

    first: Workspace
    second: Workspace
    made_at: datetime
    metric: str | None
    """The subject of both experiments; None for replays, or if the subjects differ."""
    confidence: float
    """Level at which, for any one metric, the intervals of all pairs of configs hold together."""
    confidence_each: float
    gaps: Sequence[Gap]
    cautions: Sequence[str]


class _What(NamedTuple):
    first: str
    second: str
    metric: str
    definition: MetricDefinition | None
    """Of the metric; None for one between 0 and 1 that nothing defines."""

    @property
    def value_range(self) -> tuple[float, float]:
        return (0.0, 1.0) if self.definition is None else (self.definition.lower, self.definition.upper)


class _ItemScore(NamedTuple):
    item_id: str
    position: int
    score: float


class _Together(NamedTuple):
    """Scores of two configs: of the items both have, and all."""

    what: _What
    pairs: list[tuple[float, float]]
    mine: list[_ItemScore]
    theirs: list[_ItemScore]


Names = Sequence[tuple[str, str]]
"""Which config or pipeline of the first run is compared with which of the second."""


def names_in_both(first: Iterable[str], second: Collection[str]) -> Names:
    """Return the pairs of the same name."""
    return [(name, name) for name in first if name in second]


def names_given(text: str, first: Collection[str], second: Collection[str]) -> tuple[str, str]:
    """Return the pair that `A=B` means; names may hold `=` themselves.

    Raises: ValueError if it means none, or more than one.

    >>> names_given("top_k=2=top_k=4", ["top_k=2"], ["top_k=4"])
    ('top_k=2', 'top_k=4')
    """
    cuts = [place for place, letter in enumerate(text) if letter == "="]
    found = [(text[:cut], text[cut + 1 :]) for cut in cuts if text[:cut] in first and text[cut + 1 :] in second]
    if len(found) != 1:
        raise ValueError(
            f"{text!r} names no pair: give A=B with A one of {', '.join(first)} and B one of {', '.join(second)}"
        )
    return found[0]


def compare_experiments(
    first: ReportedExperiment, second: ReportedExperiment, names: Names, *, confidence: float, made_at: datetime
) -> RunComparison:
    """Return the differences of configs of two experiments, in every metric both measured with one instrument.

    Paired by item id where they share items: a betting sequence, without replacement if how many items they share is
    known. Else the difference of two running means.

    Args:
        first: an experiment.
        second: another one.
        names: which config is compared with which.
        confidence: level at which, for any one metric, all pairs hold together.
        made_at: time of the report.
    """
    each = confidence_each(confidence, names)
    mine, theirs = first.state, second.state
    metrics, cautions = _metrics(mine, theirs)
    raced = mine.plan.metric
    metrics.sort(key=lambda metric: metric != raced)
    gaps = []
    for metric in metrics:
        definition = mine.results.definition(mine.plan, metric)
        together = [_together(mine, theirs, _What(*pair, metric, definition)) for pair in names]
        paired = [one for one in together if one.pairs]
        ends = mean_differences(
            [[a - b for a, b in one.pairs] for one in paired],
            together[0].what.value_range,
            sizes=[_shared_size(mine, theirs, one.what, len(one.pairs)) for one in paired],
            confidence=each,
        )
        found = {one.what: end for one, end in zip(paired, ends, strict=True)}
        for one in together:
            if one.pairs:
                gaps.append(_paired(one, found[one.what]))
            elif one.mine and one.theirs:
                moments = (_moments(items, one.what.value_range) for items in (one.mine, one.theirs))
                gaps.append(_unpaired(one.what, *moments, confidence=each))
    if mine.plan.data_digest != theirs.plan.data_digest and any(g.method == PAIRED for g in gaps):
        cautions.append("The data of the two differ: items are paired by id, so an id must mean one question in both.")
    for side in (first, second):
        if not side.state.completed:
            cautions.append(f"{side.info.run} is not complete: the numbers may change.")
    same = raced == theirs.plan.metric
    return RunComparison(
        first.info, second.info, made_at, raced if same else None, confidence, each, gaps, cautions
    )  # fmt: skip


def compare_replays(
    first: tuple[Workspace, Mapping[str, Mapping[MeasuredMetric, Moments]]],
    second: tuple[Workspace, Mapping[str, Mapping[MeasuredMetric, Moments]]],
    names: Names,
    *,
    pairs: Mapping[tuple[str, str], Sequence[Paired]],
    confidence: float,
    made_at: datetime,
) -> RunComparison:
    """Return the differences of pipelines of two replays.

    Interaction by interaction where that is known; else by means, in every metric both measured with one instrument.

    Args:
        first: a replay, and the moments of each pipeline by metric and how it was measured.
        second: another one.
        names: which pipeline is compared with which.
        pairs: for these the differences interaction by interaction, made at `confidence_each`.
        confidence: level at which, for any one metric, all pairs hold together.
        made_at: time of the report.
    """
    each = confidence_each(confidence, names)
    gaps: list[Gap] = []
    cautions: dict[str, None] = {}
    for one, other in names:
        known = set()
        for pair in pairs.get((one, other), ()):
            if pair.segment is not None:
                continue
            known.add(pair.first.comparable)
            what = _What(one, other, pair.first.metric, pair.first.definition)
            count, ends = pair.found.n, pair.found.difference
            gaps.append(Gap(*what[:3], PAIRED, (count, count), pair.found.means, ends, _verdict(what.definition, ends)))
            if pair.first != pair.second:
                labelers = (f"{by.labeler} {by.labeler_version}" for by in (pair.first, pair.second))
                cautions[f"Scored by another labeler in each run: {' and '.join(labelers)}."] = None
        gaps += [
            _unpaired(_What(one, other, by.metric, by.definition), mine, second[1][other][by], confidence=each)
            for by, mine in first[1][one].items()
            if by in second[1][other] and (by.metric, by.measure, by.profile) not in known
        ]
    return RunComparison(first[0], second[0], made_at, None, confidence, each, gaps, list(cautions))


def confidence_each(confidence: float, names: Names) -> float:
    """Return the level of each pair, so that for any one metric all of them hold together (Bonferroni)."""
    return 1 - (1 - confidence) / max(len(names), 1)


def _metrics(first: ExperimentState, second: ExperimentState) -> tuple[list[str], list[str]]:
    """Return the metrics that both have by one instrument, and what is left out with why."""
    names = [
        dict.fromkeys(
            metric
            for results in state.results.by_config.values()
            for result in results.values()
            if result.event is not None
            for metric in result.event.scores
        )
        for state in (first, second)
    ]
    common, left_out = [], []
    for metric in names[0]:
        if metric not in names[1]:
            continue
        instruments = [set(instruments_of(state, metric)) for state in (first, second)]
        # Scores that an experiment measures itself do not depend on the labeler.
        alike = metric.startswith(f"{OWN}.") or (instruments[0] == instruments[1] and len(instruments[0]) == 1)
        if alike and first.results.measures.get(metric) == second.results.measures.get(metric):
            common.append(metric)
        else:
            left_out.append(metric)
    said = []
    if left_out:
        by = " and ".join(", ".join(instruments_of(state)) for state in (first, second))
        said.append(f"{', '.join(left_out)} is left out: scored by {by}, which are different measurements.")
    return common, said


def _later(mine: Mapping[str, _ItemScore], theirs: Mapping[str, _ItemScore], item_id: str) -> int:
    """Return after how many items both had had an item."""
    return max(mine[item_id].position, theirs[item_id].position)


def _scores(state: ExperimentState, config: str, metric: str) -> dict[str, _ItemScore]:
    return {
        result.execution.item_id: _ItemScore(result.execution.item_id, index, score)
        for index, result in state.counted(config)
        if result.execution is not None and not isnan(score := result.score(metric))
    }


def _shared_size(first: ExperimentState, second: ExperimentState, what: _What, pairs: int) -> int | None:
    """Return how many pairs there would be if both were run on all items; None if that is not known."""
    if first.plan.data_digest != second.plan.data_digest:
        return None
    lost: set[str] = set()
    for state, name in ((first, what.first), (second, what.second)):
        for _, result in state.counted(name):
            if result.execution is not None and isnan(result.score(what.metric)):
                lost.add(result.execution.item_id)
    return max(first.plan.population_size - len(lost), pairs)


def _together(first: ExperimentState, second: ExperimentState, what: _What) -> _Together:
    mine, theirs = _scores(first, what.first, what.metric), _scores(second, what.second, what.metric)
    shared = sorted(mine.keys() & theirs.keys(), key=partial(_later, mine, theirs))
    pairs = [(mine[item].score, theirs[item].score) for item in shared]
    return _Together(what, pairs, list(mine.values()), list(theirs.values()))


def _paired(one: _Together, ends: Difference) -> Gap:
    count = len(one.pairs)
    means = (sum(a for a, _ in one.pairs) / count, sum(b for _, b in one.pairs) / count)
    return Gap(*one.what[:3], PAIRED, (count, count), means, ends, _verdict(one.what.definition, ends))


def _unpaired(what: _What, mine: Moments, theirs: Moments, *, confidence: float) -> Gap:
    lowest, highest = what.value_range
    width = highest - lowest
    of_counts = what.definition is not None and what.definition.kind is Kind.DISTRIBUTIVE
    ends = difference(mine, theirs, confidence=confidence, width=width, counts=of_counts)
    means = (lowest + width * float(mine.mean[0]), lowest + width * float(theirs.mean[0]))
    counts = (int(mine.n[0]), int(theirs.n[0]))
    return Gap(*what[:3], UNPAIRED, counts, means, ends, _verdict(what.definition, ends))


def _moments(items: Iterable[_ItemScore], value_range: tuple[float, float]) -> Moments:
    lowest, highest = value_range
    ordered = sorted(items, key=lambda item: item.position)
    table = MomentTable()
    row = table.add_row()
    values = (np.array([item.score for item in ordered]) - lowest) / (highest - lowest)
    table.update(np.full(len(values), row, dtype=np.intp), values)
    return table.read([row])


def _verdict(
    definition: MetricDefinition | None, ends: Difference
) -> Literal["better", "worse", "different", "undecided"]:
    if ends.verdict == "undecided":
        return "undecided"
    direction = Direction.HIGHER if definition is None else definition.direction
    if direction is Direction.NEITHER:
        return "different"
    return "better" if (ends.verdict == "higher") == (direction is Direction.HIGHER) else "worse"
