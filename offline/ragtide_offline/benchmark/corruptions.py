"""Measures which failures a labeler's numbers follow: each row is spoilt in known ways and compared with itself."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.comparisons.agreement import auroc, bias
from ragtide_aggregator.statistics.comparisons.bootstrap import Measured
from ragtide_producers import Row
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, Direction, MetricDeclaration, RagInteraction
from ragtide_schemas.declared import definition_of
from ragtide_schemas.slopes import Slope
from ragtide_schemas.suggestions import unknown

from ..corruptions.interactions import CORRUPTIONS, Corruption, Expected, random_of, spoil, without_own_sentences
from ..runs import LabelerRun, drawn_places
from ..score.scoring import Outcome
from .delays import Delay, simulated_delay
from .figures import FEWEST, SLOPE, Floats, SubsetScores, figures_of, measured_slope, question_digest
from .formats import read_labeled

SEES: Final = 0.7
"""A metric sees a failure if the interval of its AUROC is not below this."""

MISSES: Final = 0.6
"""A metric does not see a failure if the interval of its AUROC is below this."""

OTHERS: Final = "others"
"""Name of the subset of all rows whose own subsets are too small."""

Verdict = Literal["sees", "partly", "does not see", "absent", "stays", "moves"]
"""How a metric follows a failure; of harmless changes, whether it stays where it is or moves."""

EXPECTED: Final = frozenset(metric for corruption in CORRUPTIONS.values() for metric in corruption.expected)
"""Metrics of ragtide's own that a corruption should move or leave."""


@dataclass(frozen=True, slots=True)
class CorruptionFigures:
    """How one metric follows one corruption. Means and figures are means over subsets."""

    corruption: str
    metric: str
    expected: Expected | None
    """What the metric should do; None if it may do either."""
    n: int
    """Number of rows with a score before and after."""
    applied: float
    """Share of the rows that could be spoilt in this way."""
    absent: float
    """Share of the spoilt rows without a score, of those whose clean row has one."""
    auroc: Measured
    """Probability that a clean row has a better score than a spoilt one; 0.5 if the metric does not move."""
    before: float | None
    """Mean of the clean rows."""
    after: float | None
    """Mean of the spoilt rows."""
    change: Measured
    """Mean of spoilt minus clean."""
    slope: Slope | None
    """How far the mean gets worse per unit of the share of answers that are spoilt; None without a score."""
    delay: Delay | None
    """How soon the default drift rule fires; None with too few rows."""
    verdict: Verdict | None
    """None if the metric may do either, or with too few rows."""


def verdict_of(expected: Expected | None, measured: Measured) -> Verdict | None:
    """Return how a metric follows a failure, by the interval of its AUROC.

    >>> verdict_of("worse", Measured(0.9, 0.8, 1.0)), verdict_of("worse", Measured(0.52, 0.48, 0.56))
    ('sees', 'does not see')
    >>> verdict_of("same", Measured(0.52, 0.48, 0.56)), verdict_of("same", Measured(0.3, 0.25, 0.35))
    ('stays', 'moves')
    """
    lower, upper = measured.lower, measured.upper
    if expected is None or lower is None or upper is None:
        return None
    if expected == "same":
        return "moves" if lower > MISSES or upper < 1 - MISSES else "stays"
    return "sees" if lower >= SEES else "does not see" if upper < MISSES else "partly"


class SpoiltRows(LabelerRun[tuple[int, str | None]]):
    """A run over clean rows and the same rows spoilt in known ways. It is asked for places of rows and corruptions.

    Args:
        settings: labeler, profiles and endpoints.
        paths: files of interactions; gold scores are not needed.
        only: names of corruptions; empty for all.
        limit: most rows of each file; None for all.
        sample: number of rows that are drawn from all, evenly from their subsets; None for all.
        seed: of the corruptions, of the drawn rows, of the bootstrap and of the simulated streams.

    Raises:
        RagtideError: a corruption is unknown, or a file cannot be read.
    """

    def __init__(
        self,
        settings: Settings,
        paths: Sequence[Path],
        *,
        only: Sequence[str] = (),
        limit: int | None = None,
        sample: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(settings, seed)
        for name in only:
            if name not in CORRUPTIONS:
                raise ConfigurationError(f"--only: {unknown('corruption', name, CORRUPTIONS)}")
        self.corruptions = [corruption for name, corruption in CORRUPTIONS.items() if not only or name in only]
        self.figures: list[CorruptionFigures] = []
        """Of every metric of the labeler and every corruption, metric by metric."""
        self._rows: list[tuple[RagInteraction, str]] = []
        """Clean interactions, each with the name of its subset."""
        self._others: dict[str, list[RagInteraction]] = {}
        """By subset: the interactions from which other questions are drawn, whether or not they are labeled."""
        self._spoilt: Counter[str] = Counter()
        self._scores: dict[str | None, dict[int, Mapping[str, float]]] = {}
        """By corruption, None for clean rows: the scores of each labeled row."""
        self._declared: dict[str, MetricDeclaration] = {}
        self._read(paths, limit, sample)

    def _read(self, paths: Sequence[Path], limit: int | None, sample: int | None) -> None:
        counts = self.result.counts
        counts["nothing_to_spoil"] = 0
        for path in paths:
            for row, _ in islice(read_labeled(path), limit):
                clean = row.interaction
                if clean is None:
                    self.result.note(f"{path}:{row.line}: {row.problem}")
                elif not (clean.documents and clean.response.strip()):
                    counts["nothing_to_spoil"] += 1
                else:
                    subset = clean.segments.get("dataset", path.stem)
                    self._rows.append((clean, subset))
                    self._others.setdefault(subset, []).append(clean)
        if sample is not None:
            names = ((clean.interaction_id, subset) for clean, subset in self._rows)
            self._rows = [self._rows[place] for place in drawn_places(names, sample, self.result.seed)]
        counts["rows"] = len(self._rows)

    def asked(self) -> Iterator[tuple[tuple[int, str | None], Row]]:
        """Yield each row clean, then spoilt in every way that applies."""
        self._spoilt.clear()
        for number, (clean, subset) in enumerate(self._rows):
            yield (number, None), Row(number, without_own_sentences(clean))
            for corruption in self.corruptions:
                spoilt = spoil(corruption, clean, self._others[subset], seed=self.result.seed)
                if spoilt is not None:
                    self._spoilt[corruption.name] += 1
                    yield (number, corruption.name), Row(number, spoilt)

    def take(self, asked: tuple[int, str | None], outcome: Outcome) -> None:
        """Take the scores of a row, clean or spoilt."""
        number, corruption = asked
        name = self._rows[number][0].interaction_id
        if self.result.take(outcome, f"{name}, {corruption or 'clean'}") and outcome.event and outcome.labeling:
            self._declared |= outcome.labeling.declared
            self._scores.setdefault(corruption, {})[number] = outcome.event.scores

    @property
    def metrics(self) -> list[str]:
        """The metrics of the labeler that are compared: those that a corruption should move, and custom metrics."""
        scored = dict.fromkeys(metric for scores in self._scores.get(None, {}).values() for metric in scores)
        return [metric for metric in scored if metric in EXPECTED or metric not in METRICS]

    def finish(self, confidence: float = 0.95) -> Iterator[None]:
        """Compute the figures, and yield after those of each metric and corruption."""
        for metric in self.metrics:
            for corruption in self.corruptions:
                self.figures.append(self._figures(corruption, metric, confidence))
                yield
        self.result.tables = {
            "corruptions": [
                {"corruption": corruption.name, "meaning": corruption.meaning, "harmless": corruption.harmless}
                for corruption in self.corruptions
            ],
            "figures": self.figures,
        }

    def _figures(self, corruption: Corruption, metric: str, confidence: float) -> CorruptionFigures:
        subsets, pairs = self._pairs(corruption.name, metric)
        there = ~np.isnan(pairs.predicted)
        both = _compared(subsets, pairs)
        lower_is_better = self._is_better_lower(metric)
        better = _clean_is_lower if lower_is_better else _clean_is_higher
        statistics = {"AUROC": better, "change": bias, SLOPE: bias if lower_is_better else _fall}
        figures = figures_of(statistics, both, confidence, self.result.seed)
        distinguished, change, _ = (figure.mean for figure in figures)
        expected = corruption.expected.get(metric)
        n, tried = int(there.sum()), len(there)
        return CorruptionFigures(
            corruption=corruption.name,
            metric=metric,
            expected=expected,
            n=n,
            applied=self._spoilt[corruption.name] / max(len(self._rows), 1),
            absent=1 - n / tried if tried else 0.0,
            auroc=distinguished,
            before=_mean([float(part.truth.mean()) for part in both.values()]),
            after=_mean([float(part.predicted.mean()) for part in both.values()]),
            change=change,
            slope=measured_slope(corruption.name, figures[-1], n),
            delay=self._delay(corruption.name, subsets, pairs, metric) if tried >= FEWEST else None,
            verdict="absent" if expected == "worse" and tried and not n else verdict_of(expected, distinguished),
        )

    def slopes(self, confidence: float = 0.95) -> dict[str, tuple[Slope, ...]]:
        """Return by metric how far its mean gets worse with each corruption: `figures` have more, and take longer."""
        slopes: dict[str, tuple[Slope, ...]] = {}
        for metric in self.metrics:
            fall = {SLOPE: bias if self._is_better_lower(metric) else _fall}
            measured = []
            for corruption in self.corruptions:
                both = _compared(*self._pairs(corruption.name, metric))
                (figure,) = figures_of(fall, both, confidence, self.result.seed)
                measured.append(measured_slope(corruption.name, figure, sum(len(part.truth) for part in both.values())))
            slopes[metric] = tuple(slope for slope in measured if slope is not None)
        return slopes

    def _is_better_lower(self, metric: str) -> bool:
        definition = definition_of(metric, self._declared)
        return definition is not None and definition.direction is Direction.LOWER

    def _pairs(self, corruption: str, metric: str) -> tuple[NDArray[np.str_], SubsetScores]:
        """Return the spoilt scores, NaN for an absent one, with the clean ones as the truth, and the subset of each.

        Resampling keeps each pair, and each question.
        """
        clean, after = self._scores.get(None, {}), self._scores.get(corruption, {})
        rows = [row for row in sorted(clean.keys() & after.keys()) if metric in clean[row]]
        names = [self._rows[row][1] for row in rows]
        sizes = Counter(names)
        scores = SubsetScores(
            np.array([after[row].get(metric, np.nan) for row in rows], np.float64),
            np.array([clean[row][metric] for row in rows], np.float64),
            np.array([question_digest(self._rows[row][0].question) for row in rows], np.str_),
            {},
        )
        return np.array([name if sizes[name] >= FEWEST else OTHERS for name in names], np.str_), scores

    def _delay(self, corruption: str, subsets: NDArray[np.str_], pairs: SubsetScores, metric: str) -> Delay:
        declaration, by = self._declared.get(metric), self.result.labeler
        measure = None if declaration is None else declaration.measure
        key = EstimateKey("benchmark", None, None, metric, by.profile, by.name, by.version, measure)
        _, place, sizes = np.unique(subsets, return_inverse=True, return_counts=True)
        weights = 1 / (sizes[place] * len(sizes))
        seed = random_of(metric, corruption, self.result.seed).getrandbits(63)
        return simulated_delay(pairs.truth, pairs.predicted, weights, key, seed=seed)


def _compared(subsets: NDArray[np.str_], pairs: SubsetScores) -> dict[str, SubsetScores]:
    there = ~np.isnan(pairs.predicted)
    both = {name: pairs.part(there & (subsets == name)) for name in dict.fromkeys(subsets.tolist())}
    return {name: part for name, part in both.items() if len(part.truth) >= FEWEST}


def _fall(after: Floats, clean: Floats) -> float:
    return -bias(after, clean)


def _clean_is_higher(after: Floats, clean: Floats) -> float:
    return auroc(np.concatenate([clean, after]), np.arange(2 * len(clean)) < len(clean))


def _clean_is_lower(after: Floats, clean: Floats) -> float:
    return 1 - _clean_is_higher(after, clean)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
