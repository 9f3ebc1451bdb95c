"""Simulated pipelines whose answers get worse: rows of labeled sets, their local scores, and verdicts of judges."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf, log
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ragtide import LocalLabeler, RagInteraction
from ragtide_aggregator.alerts.evaluator import RuleEvaluator
from ragtide_aggregator.alerts.rule_state import DEFAULT_RUN_LENGTH
from ragtide_aggregator.alerts.rule_values import Arrived, RuleValues
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.service.suspected import is_suspicious
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_offline.benchmark.formats import ADHERENCE, read_labeled
from ragtide_offline.corruptions.interactions import CORRUPTIONS, spoil, without_own_sentences
from ragtide_runtime.settings.alerting import DEFAULT_RULES
from ragtide_schemas import MetricEvent, utc_now

Floats = NDArray[np.float64]

AGREED_ON: Final = 0.87
"""Share of supported answers with which a kappa is reached."""
SUPPORTED: Final = 0.9
"""Share of supported answers before the fall."""
METRICS: Final = ("trace.context_relevance", "trace.context_utilization", ADHERENCE, "retrieval.match")
"""Metrics of the local labeler that default rules may watch."""
FEWEST: Final = 8
"""Rows with a fault that a set needs."""
LOCAL_BEFORE: Final = 2_000
"""Answers before the fall of the runs on local scores."""
WITHIN: Final = (500, 2_000, 10_000)
BEFORE: Final = 5_000
"""Answers before the fall."""
NATURAL: Final = "unsupported answers"
FAULTS: Final = (NATURAL, *(name for name, corruption in CORRUPTIONS.items() if not corruption.harmless))
UNSUPPORTED: Final = frozenset({NATURAL, *(name for name in FAULTS[1:] if ADHERENCE in CORRUPTIONS[name].expected)})
"""Faults after which no document supports the answer."""
QUIET: Final = 100_000
"""Answers without a fall in which false alarms are counted."""
AT_ONCE: Final = 500
"""Answers that are drawn together."""
LOOK: Final = 20
"""Answers between two looks at the evidence, as between two commits."""


class _NoEvents:
    """Stands for the events of simulated values, which have no content."""

    def event(self, place: int) -> MetricEvent:
        """Return an event."""
        time = utc_now()
        return MetricEvent(
            interaction_id=self.interaction_id(place), pipeline="any", occurred_at=time, labeled_at=time,
            labeler="simulated", labeler_version="1", profile="ragbench", scores={},
        )  # fmt: skip

    def interaction_id(self, place: int) -> str:
        """Return the id of an event."""
        return f"any-{place}"

    def covariate(self, name: str) -> Floats:
        """Return no covariate."""
        return np.full(1, np.nan)


_SOURCE: Final = _NoEvents()


@dataclass(frozen=True, slots=True)
class LabeledSet:
    """The rows of one set, with the local labeler's scores."""

    name: str
    labels: Floats
    """Whether the answer of each row is supported."""
    supported: Floats
    """Scores of supported answers, one row each, one column a metric, NaN for an absent one."""
    unsupported: Floats
    """The same of unsupported answers; empty if the set has none."""
    spoilt: dict[str, Floats]
    """The same of supported answers that were spoilt, by fault."""
    interactions: list[RagInteraction]

    def draw(self, rng: np.random.Generator, shape: tuple[int, int], fault: str, share: float) -> Floats:
        """Return the scores of answers, on a further axis.

        Args:
            fault: that a part of the supported answers has.
            share: of these answers among all.
        """
        place = rng.random(shape)
        scores = self.supported[rng.integers(len(self.supported), size=shape)]
        for part, chosen in ((self.unsupported, place >= SUPPORTED), (self.faulty(fault), place < share)):
            if len(part):
                scores[chosen] = part[rng.integers(len(part), size=int(chosen.sum()))]
        return scores

    def faulty(self, fault: str) -> Floats:
        """Return the scores of answers with a fault."""
        return self.unsupported if fault == NATURAL else self.spoilt[fault]


def key_of(run: str, metric: str, labeler: str) -> EstimateKey:
    """Return the key of the values of a run."""
    return EstimateKey(run, None, None, metric, "ragbench", labeler, "1")


def read_sets(paths: Iterable[Path], per_set: int, seed: int = 0) -> list[LabeledSet]:
    """Return the sets of files, of each set at most so many supported and so many unsupported rows, drawn evenly."""
    rows: dict[str, list[tuple[RagInteraction, float]]] = {}
    for path in paths:
        for row, _ in read_labeled(path):
            given = row.interaction
            if given is None or not given.documents or not given.response.strip():
                continue
            # Answers that annotators wrote from the documents have no label of their own.
            label = given.gold_scores.get(ADHERENCE, 1.0)
            rows.setdefault(given.segments.get("dataset", path.stem), []).append((given, label))
    rng, labeler = np.random.default_rng(seed), LocalLabeler()
    return [_scored_set(name, of_set, per_set, rng, labeler) for name, of_set in rows.items()]


def _scored_set(
    name: str,
    rows: Sequence[tuple[RagInteraction, float]],
    per_set: int,
    rng: np.random.Generator,
    labeler: LocalLabeler,
) -> LabeledSet:
    by = labeler_id(labeler)

    def scores_of(interactions: Iterable[RagInteraction]) -> Floats:
        found = []
        for interaction in interactions:
            event = metric_event(interaction, by, labeler.label_now(interaction), labeled_at=utc_now(), latency_s=0.0)
            found.append([event.scores.get(metric, np.nan) for metric in METRICS])
        return np.array(found, dtype=np.float64).reshape(-1, len(METRICS))

    def drawn(label: float) -> list[RagInteraction]:
        of_label = [without_own_sentences(row) for row, known in rows if known == label]
        return [of_label[place] for place in rng.permutation(len(of_label))[:per_set]]

    supported, others = drawn(1.0), [row for row, _ in rows]
    spoilt = {
        fault: scores_of(after for row in supported if (after := spoil(CORRUPTIONS[fault], row, others)) is not None)
        for fault in FAULTS[1:]
    }
    labels = np.array([label for _, label in rows])
    return LabeledSet(name, labels, scores_of(supported), scores_of(drawn(0.0)), spoilt, supported)


class Pipelines:
    """Simulated pipelines with the default rules, each with the scores of one labeler."""

    def __init__(self, runs: int, metrics: Sequence[str], labeler: str) -> None:
        self._evaluator = RuleEvaluator(DEFAULT_RULES)
        keys = [[key_of(f"run-{run}", metric, labeler) for metric in metrics] for run in range(runs)]
        self._rows = np.array([[self._evaluator.add_row(key) for key in of_run] for of_run in keys], dtype=np.intp)
        self._counts = np.zeros(self._rows.size, dtype=np.intp)
        self._is_sampled = labeler != "local"
        self.alarms = 0

    def take(self, values: Floats, going: NDArray[np.intp]) -> dict[int, int]:
        """Take scores; return the place of the first alert of each run that has one.

        Args:
            values: shape (answers, runs that go on, metrics); NaN for what has no score.
            going: numbers of these runs.
        """
        there = ~np.isnan(values)
        places = np.broadcast_to(np.arange(len(values))[:, None, None], values.shape)[there]
        rows = np.broadcast_to(self._rows[going], values.shape)[there]
        if not rows.size:
            return {}
        numbers = self._counts[rows] + _occurrences(rows) + 1
        self._counts += np.bincount(rows, minlength=self._counts.size)
        nothing = np.zeros(rows.size, dtype=np.intp)
        taken = RuleValues(rows, values[there], nothing, numbers, nothing, _SOURCE, nothing)
        first: dict[int, int] = {}
        for raised in self._evaluator.evaluate([Arrived(taken, np.arange(rows.size))]):
            if raised.alert.status == "firing":
                self.alarms += 1
                first.setdefault(raised.row // self._rows.shape[1], int(places[raised.position]))
        return first

    def suspected(self, going: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which runs the aggregator would write as suspected."""
        return np.array(
            [
                any(
                    (evidence := state.evidence()) is not None
                    and is_suspicious(evidence.once_in / evidence.run_length, is_sampled=self._is_sampled)
                    for row in self._rows[run].tolist()
                    for state in self._evaluator.of(row)
                )
                for run in going.tolist()
            ],
            dtype=bool,
        )


def _occurrences(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many of the elements before each are equal to it.

    >>> _occurrences(np.array([3, 5, 3, 3, 5])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(rows, kind="stable")
    begins = np.flatnonzero(np.diff(rows[order], prepend=-1))
    within = np.empty(rows.size, dtype=np.intp)
    within[order] = np.arange(rows.size) - np.repeat(begins, np.diff(begins, append=rows.size))
    return within


@dataclass
class Found:
    """When each run has its first alert after a fall."""

    delays: Floats
    """Answers from the fall to the alert, infinity without one, of runs without an alert before."""
    judged: Floats
    """The same in judged answers."""
    calls: float = 0.0
    """Judged answers of a run in 10,000 answers before the fall, on average."""

    def within(self, answers: int) -> float:
        """Return the share of the runs with an alert by then."""
        return float(np.mean(self.delays <= answers)) if self.delays.size else np.nan

    def quantile(self, share: float) -> float:
        """Return the answers by which a share of the runs has an alert."""
        return float(np.quantile(self.delays, share, method="higher"))


@dataclass(frozen=True, slots=True)
class Judge:
    """Who says of a share of the answers whether they are supported."""

    share: float
    flipped: float
    """Probability with which a verdict is the wrong one."""
    boost: float = 1.0
    metric: str = ADHERENCE
    labeler: str = "judge"

    def mean(self, supported: float) -> float:
        """Return the mean of the verdicts, given the share of supported answers."""
        return supported * (1 - self.flipped) + (1 - supported) * self.flipped


def flipped_for(kappa: float, supported: float = AGREED_ON) -> float:
    """Return the probability of a wrong verdict with which labels and verdicts agree to a kappa.

    >>> round(flipped_for(0.6, 0.5), 3), round(flipped_for(1.0, 0.9), 3)
    (0.2, 0.0)
    """
    low, high = 0.0, 0.5
    for _ in range(60):
        flipped = (low + high) / 2
        yes = Judge(1.0, flipped).mean(supported)
        chance = supported * yes + (1 - supported) * (1 - yes)
        low, high = (flipped, high) if (1 - flipped - chance) / (1 - chance) > kappa else (low, flipped)
    return low


def judged_falls(
    judge: Judge, fall: float, runs: int, *, before: int = BEFORE, within: int = WITHIN[-1], seed: int = 0
) -> Found:
    """Return when falls are found by the rules on verdicts.

    Args:
        fall: of the share of supported answers; 0 for none.
        runs: number of runs.
        before: answers before it.
        within: answers after it.
        seed: of the verdicts.
    """
    rng, pipelines = np.random.default_rng(seed), Pipelines(runs, [judge.metric], judge.labeler)
    rates, judged_before = np.full(runs, judge.share), np.zeros(runs)
    delays, judged = np.full(runs, inf), np.zeros(runs)
    going, at_once = np.arange(runs), LOOK if judge.boost > 1 else AT_ONCE
    for start in range(-before, within, at_once):
        n = min(at_once, -start if start < 0 else within - start)
        mean = judge.mean(SUPPORTED - (fall if start >= 0 else 0.0))
        verdicts = (rng.random((n, going.size)) < mean).astype(float)
        chosen = rng.random(verdicts.shape) < rates[going]
        verdicts[~chosen] = np.nan
        first = pipelines.take(verdicts[:, :, None], going)
        (judged_before if start < 0 else judged)[going] += chosen.sum(axis=0)
        for run, place in first.items():
            delays[run] = start + place + 1
            if start >= 0:
                judged[run] -= chosen[place + 1 :, going == run].sum()
        going = going[np.isinf(delays[going])]
        if judge.boost > 1:
            rates[going] = np.where(pipelines.suspected(going), min(judge.boost * judge.share, 1.0), judge.share)
    calm = delays > 0
    return Found(delays[calm], judged[calm], float(judged_before[calm].mean()) * 10_000 / max(before, 1))


def local_falls(sets: Sequence[LabeledSet], fault: str, fall: float, each: int, *, seed: int = 0) -> Found:
    """Return when falls are found by the rules on the local labeler's scores, in so many runs of each set."""
    able = [given for given in sets if len(given.faulty(fault)) >= FEWEST]
    rng, pipelines = np.random.default_rng(seed), Pipelines(each * len(able), METRICS, "local")
    delays = np.full(each * len(able), inf)
    going = np.arange(delays.size)
    for start in range(-LOCAL_BEFORE, WITHIN[-1], AT_ONCE):
        share = fall if start >= 0 else 0.0
        values = np.concatenate(
            [
                given.draw(rng, (AT_ONCE, int(np.sum(going // each == number))), fault, share)
                for number, given in enumerate(able)
            ],
            axis=1,
        )
        for run, place in pipelines.take(values, going).items():
            delays[run] = start + place + 1
        going = going[np.isinf(delays[going])]
        if not going.size:
            break
    calm = delays > 0
    return Found(delays[calm], np.zeros(int(calm.sum())))


def both(first: Found, second: Found, rng: np.random.Generator, n: int = 4_000) -> Found:
    """Return when either finds a fall, for runs of both that are drawn apart."""
    delays = [rng.choice(found.delays, n) for found in (first, second)]
    return Found(np.minimum(*delays), np.zeros(n))


def limit(judge: Judge, fall: float) -> float:
    """Return the mean delay of the best rule as false alarms get rare: log(run length) / KL(after || before)."""
    before, after = judge.mean(SUPPORTED), judge.mean(SUPPORTED - fall)
    divergence = after * log(after / before) + (1 - after) * log((1 - after) / (1 - before))
    return log(DEFAULT_RUN_LENGTH) / divergence


def false_alarms(pipelines: Pipelines, draw: Callable[[int], Floats], runs: int) -> tuple[float, float]:
    """Return the false alarms of a pipeline in `QUIET` answers, and the share of answers at which it is suspected."""
    going, suspected = np.arange(runs), 0.0
    for _ in range(0, QUIET, AT_ONCE):
        pipelines.take(draw(AT_ONCE), going)
        suspected += pipelines.suspected(going).mean()
    return pipelines.alarms / runs, suspected / (QUIET / AT_ONCE)


def quiet_local(sets: Sequence[LabeledSet], each: int, seed: int = 0) -> tuple[float, float]:
    """Return false alarms and suspicions of the rules on local scores, in so many runs of each set."""
    rng, runs = np.random.default_rng(seed), each * len(sets)

    def draw(n: int) -> Floats:
        return np.concatenate([given.draw(rng, (n, each), FAULTS[1], 0.0) for given in sets], axis=1)

    return false_alarms(Pipelines(runs, METRICS, "local"), draw, runs)


def quiet_judged(judge: Judge, runs: int, seed: int = 0) -> tuple[float, float]:
    """Return false alarms and suspicions of the rules on verdicts."""
    rng = np.random.default_rng(seed)

    def draw(n: int) -> Floats:
        verdicts = (rng.random((n, runs, 1)) < judge.mean(SUPPORTED)).astype(float)
        verdicts[rng.random(verdicts.shape) >= judge.share] = np.nan
        return verdicts

    return false_alarms(Pipelines(runs, [judge.metric], judge.labeler), draw, runs)


def saved_by_score(sets: Sequence[LabeledSet]) -> float:
    """Return the share of calls that is saved if each fifth of the local scores is judged as its labels need.

    It is the mean over sets with both labels, of Neyman's allocation beside a proportional one, with the mean of each
    fifth known. The spreads are those of the same rows, so it is more than could be saved.
    """
    place, saved = METRICS.index(ADHERENCE), []
    for given in sets:
        parts = [part[~np.isnan(part[:, place]), place] for part in (given.supported, given.unsupported)]
        if min(map(len, parts)) < FEWEST:
            continue
        shares = [given.labels.mean(), 1 - given.labels.mean()]
        scores = np.concatenate(parts)
        weights = np.concatenate(
            [np.full(len(part), share / len(part)) for part, share in zip(parts, shares, strict=True)]
        )
        labels = np.arange(len(scores)) < len(parts[0])
        order = np.argsort(scores, kind="stable")
        fifth = np.empty(len(scores), dtype=np.intp)
        fifth[order] = np.minimum(5 * (np.cumsum(weights[order]) - weights[order] / 2), 4)
        size, yes = np.bincount(fifth, weights, 5), np.bincount(fifth, weights * labels, 5)
        supported = np.clip(yes / np.maximum(size, 1e-12), 0, 1)
        variance = supported * (1 - supported)
        saved.append(1 - (size @ np.sqrt(variance)) ** 2 / (size @ variance))
    return float(np.mean(saved))
