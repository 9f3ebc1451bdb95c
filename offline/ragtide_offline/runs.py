"""Runs of a labeler over rows, such as benchmarks and checks of a judge: their loop, their result and their cost."""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import asdict, dataclass, field, is_dataclass
from hashlib import blake2b
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from ragtide_consumers.labelers.judge.costs import PlannedCalls
from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.file_cache import NAME as ANSWERS
from ragtide_producers import Row
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.known_labelers import KNOWN

from .score.scored_file import labeling_of
from .score.scoring import Label, Outcome, score_rows

PROBLEMS_KEPT: Final = 20
"""Most problems of rows that are reported one by one."""

Asked = TypeVar("Asked")


@dataclass(frozen=True, slots=True)
class CostPlan:
    """The calls that a run would make, by estimate."""

    labeler: str
    rows: int
    calls: PlannedCalls
    has_price: bool
    """Whether the price is known; without one the dollars are 0."""

    def as_dict(self) -> dict[str, Any]:
        """Return the plan, for programs."""
        return {
            "labeler": self.labeler,
            "rows": self.rows,
            **asdict(self.calls),
            "cost_usd": self.calls.cost_usd if self.has_price else None,
        }


async def planned_cost(settings: Settings, rows: Iterable[Row], *, keeps_answers: bool = True) -> CostPlan:
    """Return the cost of labeling rows with the labeler of the settings, and label nothing.

    Args:
        settings: labeler and endpoints.
        rows: of files; rows with problems are passed over.
        keeps_answers: whether the labeler finds the answers of earlier runs in the data directory.

    Raises:
        ConfigurationError: the labeler's calls cannot be foreseen, or a setting is missing.
    """
    free = sorted(name for name, known in KNOWN.items() if known.is_free)
    if settings.one_labeler not in ("judge", *free):
        raise ConfigurationError(
            f"--dry-run cannot foresee the calls of {settings.labeler}: it knows those of judge, and that "
            f"{' and '.join(free)} make none"
        )
    # Metrics of users make no calls that are known here.
    plain = settings.model_copy(update={"metrics": ()})
    answers = settings.data_dir / ANSWERS if keeps_answers else None
    async with labeler_of(plain, None, patient=False, answers=answers) as labeler:
        judge: Any = labeler if settings.labeler == "judge" else None
        count, calls = 0, PlannedCalls()
        for row in rows:
            if row.interaction is not None:
                count += 1
                calls += PlannedCalls() if judge is None else await judge.planned_calls(row.interaction)
        has_price = judge is None or judge.has_price
        return CostPlan(f"{labeler.name} {labeler.version}", count, calls, has_price)


@dataclass(slots=True)
class RunResult:
    """What a run of a labeler over rows has found so far. It has no text of a row that could be labeled."""

    seed: int = 0
    """Of drawn rows and of the bootstrap."""
    labeler: LabelerId = LabelerId("", "", "")  # noqa: RUF009 - it is immutable
    counts: Counter[str] = field(default_factory=Counter)
    """Rows by what became of them: `labeled`, those with `problems`, and what else the run counts."""
    problems: list[str] = field(default_factory=list)
    """The first problems of rows: where, and the reason."""
    seconds: float = 0.0
    """Time of labeling."""
    cost_usd: float = 0.0
    tokens: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    """What else programs are told about the run, by name."""
    tables: dict[str, Any] = field(default_factory=dict)
    """Rows of the result by the name of their table."""

    def take(self, outcome: Outcome, where: str) -> bool:
        """Count a row, and return whether it was labeled.

        Args:
            where: place of the row, for its problem.
        """
        if outcome.labeling is None:
            self.note(f"{where}: {outcome.problem or outcome.row.problem}")
            return False
        self.counts["labeled"] += 1
        return True

    def note(self, problem: str) -> None:
        """Count a row with a problem."""
        self.counts["problems"] += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)

    def as_dict(self) -> dict[str, Any]:
        """Return the result, for programs."""
        return {
            "labeler": f"{self.labeler.name} {self.labeler.version}",
            **{name: self.counts[name] for name in dict.fromkeys(("rows", "labeled", *self.counts, "problems"))},
            "seed": self.seed,
            "seconds": self.seconds,
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
            **self.facts,
            **{name: _plain(rows) for name, rows in self.tables.items()},
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(row) for name, row in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(row) for row in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


class LabelerRun(ABC, Generic[Asked]):
    """A run of the labeler of the settings: the rows that it is asked for, and what is made of its answers.

    Args:
        settings: labeler, profiles and endpoints.
    """

    keeps_answers = True
    """Whether answers are kept in the data directory, so that they are paid for once."""

    def __init__(self, settings: Settings, seed: int = 0) -> None:
        self.settings = settings
        self.result = RunResult(seed)

    @abstractmethod
    def asked(self) -> Iterator[tuple[Asked, Row]]:
        """Yield every row that the labeler is asked for, and what `take` needs to know of it."""

    @abstractmethod
    def take(self, asked: Asked, outcome: Outcome) -> None:
        """Take the outcome of a row."""

    @abstractmethod
    def finish(self, confidence: float = 0.95) -> Iterator[None]:
        """Fill the tables of the result, and yield after every part of them.

        Args:
            confidence: level of the intervals.
        """

    def labeling(self) -> AbstractAsyncContextManager[tuple[Label, LabelerId, int]]:
        """Yield the function that labels a row, the labeler's id, and the number of rows in flight."""
        return labeling_of(self.settings, keep_answers=self.keeps_answers)

    async def run(self) -> AsyncGenerator[None]:
        """Label the rows, and yield after every one.

        Raises:
            RagtideError: a file cannot be read, a setting is missing, or nothing can be labeled now.
        """
        waiting: deque[Asked] = deque()
        result, started = self.result, perf_counter()

        def rows() -> Iterator[Row]:
            for asked, row in self.asked():
                waiting.append(asked)
                yield row

        async with self.labeling() as (label, labeler, at_once):
            result.labeler = labeler
            async with aclosing(score_rows(rows(), label, labeler, at_once=at_once)) as outcomes:
                async for outcome in outcomes:
                    if outcome.labeling is not None:
                        result.cost_usd += outcome.labeling.cost_usd
                        result.tokens += outcome.labeling.prompt_tokens + outcome.labeling.completion_tokens
                    self.take(waiting.popleft(), outcome)
                    result.seconds = perf_counter() - started
                    yield

    async def plan(self) -> CostPlan:
        """Return the cost of the run, and label nothing.

        Raises:
            RagtideError: a file cannot be read, a setting is missing, or the labeler's calls cannot be foreseen.
        """
        return await planned_cost(self.settings, (row for _, row in self.asked()), keeps_answers=self.keeps_answers)


def drawn_places(rows: Iterable[tuple[str, str]], count: int, seed: int) -> list[int]:
    """Return the places of rows drawn by their ids, as many of each subset as possible, in rising order.

    Args:
        rows: id and subset of each row.
        count: most rows to draw.
    """
    named = [(blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest(), subset) for name, subset in rows]
    taken: Counter[str] = Counter()
    ranks = []
    for digest, subset, place in sorted((digest, subset, place) for place, (digest, subset) in enumerate(named)):
        taken[subset] += 1
        ranks.append((taken[subset], digest, place))
    return sorted(place for _, _, place in sorted(ranks)[:count])
