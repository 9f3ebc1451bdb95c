"""Measures which failures a labeler's numbers follow: each row is spoilt in known ways and compared with itself."""

from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.statistics.comparisons.agreement import auroc, bias
from ragtide_aggregator.statistics.comparisons.bootstrap import Measured
from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_producers import Row
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import METRICS, Direction, MetricDeclaration, RagInteraction
from ragtide_schemas.declared import definition_of
from ragtide_schemas.fitness import Failures, Sight
from ragtide_schemas.suggestions import unknown

from ..corruptions.interactions import CORRUPTIONS, Corruption, Expected, random_of, spoil, without_own_sentences
from ..score.scored_file import labeling_of
from ..score.scoring import Outcome, score_rows
from .delays import Delay, simulated_delay
from .figures import FEWEST, Floats, SubsetScores, figures_of, question_digest
from .formats import read_labeled
from .running import PROBLEMS_KEPT, CostPlan, planned_cost

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
    delay: Delay | None
    """How soon the default drift rule fires; None with too few rows."""
    verdict: Verdict | None
    """None if the metric may do either, or with too few rows."""


def verdict_of(expected: Expected | None, found: Measured) -> Verdict | None:
    """Return how a metric follows a failure, by the interval of its AUROC.

    >>> verdict_of("worse", Measured(0.9, 0.8, 1.0)), verdict_of("worse", Measured(0.52, 0.48, 0.56))
    ('sees', 'does not see')
    >>> verdict_of("same", Measured(0.52, 0.48, 0.56)), verdict_of("same", Measured(0.3, 0.25, 0.35))
    ('stays', 'moves')
    """
    lower, upper = found.lower, found.upper
    if expected is None or lower is None or upper is None:
        return None
    if expected == "same":
        return "moves" if lower > MISSES or upper < 1 - MISSES else "stays"
    return "sees" if lower >= SEES else "does not see" if upper < MISSES else "partly"


_SIGHTS: Final[Mapping[Verdict | None, Sight]] = {
    "sees": "sees",
    "partly": "partly",
    "does not see": "does not see",
    "absent": "absent for",
    "moves": "moves with",
}


def seen_failures(figures: Sequence[CorruptionFigures]) -> dict[str, Failures]:
    """Return by metric which failures it sees, and with which harmless changes it moves."""
    found: dict[str, dict[Sight, list[str]]] = {}
    for figure in figures:
        sight = _SIGHTS.get(figure.verdict)
        if sight is not None:
            found.setdefault(figure.metric, {}).setdefault(sight, []).append(figure.corruption)
    return dict(found)


@dataclass(frozen=True, slots=True)
class _RequestedRow:
    """An interaction that the labeler is asked for."""

    row: int
    corruption: str | None
    """None for the clean row."""


@dataclass(frozen=True, slots=True)
class _CleanRow:
    interaction: RagInteraction
    subset: str
    question: str


@dataclass(slots=True)
class CorruptionRun:
    """The scores of a labeler on clean and spoilt rows so far.

    Args:
        only: names of corruptions; empty for all.
        seed: of the corruptions, of the bootstrap and of the simulated streams.

    Raises:
        ConfigurationError: a corruption is unknown.
    """

    only: Sequence[str] = ()
    seed: int = 0
    labeler: LabelerId = field(default_factory=lambda: LabelerId("", "", ""))
    seconds: float = 0.0
    """Time of labeling."""
    cost_usd: float = 0.0
    tokens: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """Rows: `rows` read, `labeled` clean and spoilt, and those with `problems`."""
    problems: list[str] = field(default_factory=list)
    """The first problems of rows: file, row and reason."""
    _rows: list[_CleanRow] = field(default_factory=list)
    _others: dict[str, list[RagInteraction]] = field(default_factory=dict)
    """By subset: the interactions from which other questions are drawn, whether or not they are labeled."""
    _spoilt: Counter[str] = field(default_factory=Counter)
    _scores: dict[str | None, dict[int, Mapping[str, float]]] = field(default_factory=dict)
    """By corruption, None for clean rows: the scores of each labeled row."""
    _declared: dict[str, MetricDeclaration] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the names."""
        for name in self.only:
            if name not in CORRUPTIONS:
                raise ConfigurationError(f"--only: {unknown('corruption', name, CORRUPTIONS)}")

    @property
    def corruptions(self) -> list[Corruption]:
        """The corruptions of this run."""
        return [corruption for name, corruption in CORRUPTIONS.items() if not self.only or name in self.only]

    async def run(
        self, settings: Settings, paths: Sequence[Path], *, limit: int | None = None, sample: int | None = None
    ) -> AsyncGenerator[None]:
        """Label the rows of the files, clean and spoilt, and yield after every one.

        Args:
            settings: labeler, profiles and endpoints.
            paths: files of interactions; gold scores are not needed.
            limit: most rows of each file; None for all.
            sample: number of rows that are drawn from all, evenly from their subsets; None for all.

        Raises:
            RagtideError: a file cannot be read, a setting is missing, or nothing can be labeled now.
        """
        self._read(paths, limit, sample)
        asked: deque[_RequestedRow] = deque()
        started = perf_counter()
        async with labeling_of(settings, keep_answers=True) as (label, labeler, at_once):
            self.labeler = labeler
            async with aclosing(score_rows(self._asked(asked), label, labeler, at_once=at_once)) as outcomes:
                async for outcome in outcomes:
                    self._take(asked.popleft(), outcome)
                    self.seconds = perf_counter() - started
                    yield

    async def plan(
        self, settings: Settings, paths: Sequence[Path], *, limit: int | None = None, sample: int | None = None
    ) -> CostPlan:
        """Return the cost of a run, and label nothing; arguments are those of `run`.

        Raises:
            RagtideError: a file cannot be read, a setting is missing, or the labeler's calls cannot be foreseen.
        """
        self._read(paths, limit, sample)
        return await planned_cost(settings, self._asked(deque()))

    def _read(self, paths: Sequence[Path], limit: int | None, sample: int | None) -> None:
        self._rows = []
        self.counts.clear()
        self.problems.clear()
        for path in paths:
            for row, _ in islice(read_labeled(path), limit):
                if row.interaction is None:
                    self._note(f"{path}:{row.line}: {row.problem}")
                    continue
                if not (row.interaction.documents and row.interaction.response.strip()):
                    self.counts["nothing_to_spoil"] += 1
                    continue
                clean = row.interaction
                subset = clean.segments.get("dataset", path.stem)
                self._rows.append(_CleanRow(clean, subset, question_digest(clean.question)))
        self._others = {}
        for clean_row in self._rows:
            self._others.setdefault(clean_row.subset, []).append(clean_row.interaction)
        if sample is not None:
            names = [(row.interaction.interaction_id, row.subset) for row in self._rows]
            self._rows = [self._rows[place] for place in drawn_places(names, sample, self.seed)]
        self.counts["rows"] = len(self._rows)
        self._spoilt.clear()

    def _note(self, problem: str) -> None:
        self.counts["problems"] += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)

    def _asked(self, asked: deque[_RequestedRow]) -> Iterator[Row]:
        """Yield each row clean, then spoilt in every way that applies."""
        for number, row in enumerate(self._rows):
            asked.append(_RequestedRow(number, None))
            yield Row(number, without_own_sentences(row.interaction))
            for corruption in self.corruptions:
                found = spoil(corruption, row.interaction, self._others[row.subset], seed=self.seed)
                if found is not None:
                    self._spoilt[corruption.name] += 1
                    asked.append(_RequestedRow(number, corruption.name))
                    yield Row(number, found)

    def _take(self, asked: _RequestedRow, outcome: Outcome) -> None:
        event = outcome.event
        if event is None:
            name = self._rows[asked.row].interaction.interaction_id
            self._note(f"{name}, {asked.corruption or 'clean'}: {outcome.problem or outcome.row.problem}")
            return
        self.counts["labeled"] += 1
        self.cost_usd += event.cost_usd
        self.tokens += event.prompt_tokens + event.completion_tokens
        if outcome.labeling is not None:
            self._declared |= outcome.labeling.declared
        self._scores.setdefault(asked.corruption, {})[asked.row] = event.scores

    @property
    def metrics(self) -> list[str]:
        """The metrics of the labeler that are compared: those that a corruption should move, and custom metrics."""
        found = dict.fromkeys(metric for scores in self._scores.get(None, {}).values() for metric in scores)
        return [metric for metric in found if metric in EXPECTED or metric not in METRICS]

    def figures(self, *, confidence: float = 0.95) -> Iterator[CorruptionFigures]:
        """Yield the figures of every metric of the labeler and every corruption, metric by metric.

        Args:
            confidence: level of the intervals.
        """
        for metric in self.metrics:
            for corruption in self.corruptions:
                yield self._figures(corruption, metric, confidence)

    def _figures(self, corruption: Corruption, metric: str, confidence: float) -> CorruptionFigures:
        pairs = self._pairs(corruption.name, metric)
        subsets = {name: pairs.part(pairs.subsets == name) for name in dict.fromkeys(pairs.subsets.tolist())}
        both = {name: part.part(~np.isnan(part.spoilt)).compared() for name, part in subsets.items()}
        both = {name: part for name, part in both.items() if len(part.truth) >= FEWEST}
        key = self._key(metric)
        lower_is_better = _direction(metric, self._declared) is Direction.LOWER
        better = _clean_is_lower if lower_is_better else _clean_is_higher
        measured = figures_of({"AUROC": better, "change": bias}, both, confidence, self.seed)
        found, change = (figure.mean for figure in measured)
        expected = corruption.expected.get(metric)
        n, tried = int((~np.isnan(pairs.spoilt)).sum()), len(pairs.clean)
        return CorruptionFigures(
            corruption=corruption.name,
            metric=metric,
            expected=expected,
            n=n,
            applied=self._spoilt[corruption.name] / max(len(self._rows), 1),
            absent=1 - n / tried if tried else 0.0,
            auroc=found,
            before=_mean([float(part.truth.mean()) for part in both.values()]),
            after=_mean([float(part.predicted.mean()) for part in both.values()]),
            change=change,
            delay=self._delay(corruption.name, pairs, key) if tried >= FEWEST else None,
            verdict="absent" if expected == "worse" and tried and not n else verdict_of(expected, found),
        )

    def _pairs(self, corruption: str, metric: str) -> "_ScoresOfPairs":
        """Return the scores of the rows that were labeled clean and spoilt, and have a clean score of a metric."""
        clean, after = self._scores.get(None, {}), self._scores.get(corruption, {})
        rows = [row for row in sorted(clean.keys() & after.keys()) if metric in clean[row]]
        sizes = Counter(self._rows[row].subset for row in rows)
        names = [self._rows[row].subset for row in rows]
        return _ScoresOfPairs(
            np.array([name if sizes[name] >= FEWEST else OTHERS for name in names], np.str_),
            np.array([self._rows[row].question for row in rows], np.str_),
            np.array([clean[row][metric] for row in rows], np.float64),
            np.array([after[row].get(metric, np.nan) for row in rows], np.float64),
        )

    def _key(self, metric: str) -> EstimateKey:
        declaration = self._declared.get(metric)
        measure = None if declaration is None else declaration.measure
        name, version, profile = self.labeler.name, self.labeler.version, self.labeler.profile
        return EstimateKey("benchmark", None, None, metric, profile, name, version, measure)

    def _delay(self, corruption: str, pairs: "_ScoresOfPairs", key: EstimateKey) -> Delay:
        _, place, sizes = np.unique(pairs.subsets, return_inverse=True, return_counts=True)
        weights = 1 / (sizes[place] * len(sizes))
        seed = random_of(key.metric, corruption, self.seed).getrandbits(63)
        return simulated_delay(pairs.clean, pairs.spoilt, weights, key, seed=seed)

    def as_dict(self, figures: Sequence[CorruptionFigures]) -> dict[str, Any]:
        """Return the run and its figures, for programs."""
        return {
            "labeler": f"{self.labeler.name} {self.labeler.version}",
            "rows": self.counts["rows"],
            "labeled": self.counts["labeled"],
            "nothing_to_spoil": self.counts["nothing_to_spoil"],
            "problems": self.counts["problems"],
            "seed": self.seed,
            "seconds": self.seconds,
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            "corruptions": [
                {"corruption": corruption.name, "meaning": corruption.meaning, "harmless": corruption.harmless}
                for corruption in self.corruptions
            ],
            "figures": [asdict(figure) for figure in figures],
        }


@dataclass(frozen=True, slots=True)
class _ScoresOfPairs:
    """Scores of n rows before and after they were spoilt."""

    subsets: NDArray[np.str_]
    questions: NDArray[np.str_]
    clean: Floats
    spoilt: Floats
    """NaN for an absent score."""

    def part(self, chosen: NDArray[np.bool_]) -> "_ScoresOfPairs":
        """Return the chosen rows."""
        return _ScoresOfPairs(self.subsets[chosen], self.questions[chosen], self.clean[chosen], self.spoilt[chosen])

    def compared(self) -> SubsetScores:
        """Return the spoilt scores, compared with the clean ones; resampling keeps each pair, and each question."""
        return SubsetScores(self.spoilt, self.clean, self.questions, {})


def drawn_places(rows: Sequence[tuple[str, str]], count: int, seed: int) -> list[int]:
    """Return the places of rows drawn by their ids, as many of each subset as possible, in rising order.

    Args:
        rows: id and subset of each row.
        count: most rows to draw.
        seed: of the draw.
    """
    digests = [blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest() for name, _ in rows]
    taken: Counter[str] = Counter()
    ranks = []
    for place in sorted(range(len(rows)), key=lambda place: digests[place]):
        _, subset = rows[place]
        taken[subset] += 1
        ranks.append((taken[subset], digests[place], place))
    return sorted(place for _, _, place in sorted(ranks)[:count])


def _direction(metric: str, declared: Mapping[str, MetricDeclaration]) -> Direction:
    definition = definition_of(metric, declared)
    return Direction.HIGHER if definition is None else definition.direction


def _clean_is_higher(after: Floats, clean: Floats) -> float:
    return auroc(np.concatenate([clean, after]), np.arange(2 * len(clean)) < len(clean))


def _clean_is_lower(after: Floats, clean: Floats) -> float:
    return 1 - _clean_is_higher(after, clean)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
