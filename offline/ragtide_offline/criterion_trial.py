"""Asks the judge one criterion about a few interactions of a file, without Redis."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_producers import Row
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.specimen import REASON_CHARS

from .runs import LabelerRun
from .score.scoring import Outcome


@dataclass(frozen=True, slots=True)
class CriterionVerdict:
    """The judge's answer about one interaction."""

    interaction_id: str | None
    """None for a row that is no interaction."""
    question: str | None
    response: str | None
    answer: str | None
    """One of the possible answers."""
    value: float | None
    absent: str | None
    """Why there is no value; `judge_cannot_tell` if the texts do not decide it."""
    reason: str | None
    """The judge's reason."""
    cost_usd: float
    tokens: int


class CriterionTrial(LabelerRun[None]):
    """A run over rows, about each of which the judge is asked one criterion.

    Args:
        settings: of the process; the judge answers the criterion about every interaction, with reasons, and nothing
            else.
        criterion: that is asked.
    """

    keeps_answers = False

    def __init__(self, settings: Settings, criterion: Criterion, rows: Sequence[Row]) -> None:
        changes = {
            "families": (),
            "criteria": (criterion.asked_of_all(),),
            "reasons": "kept" if settings.judge.reasons == "none" else settings.judge.reasons,
            "over_budget": "wait",
        }
        judge = settings.judge.model_copy(update=changes)
        super().__init__(settings.with_labeler("judge").model_copy(update={"metrics": (), "judge": judge}))
        self.criterion = criterion
        self.verdicts: list[CriterionVerdict] = []
        self._rows = rows
        self._answers = {number: answer for answer, number in criterion.answers.items()}

    @property
    def counts(self) -> Counter[str | None]:
        """Number of verdicts by answer; those without one by their reason of absence."""
        return Counter(verdict.answer or verdict.absent for verdict in self.verdicts)

    @property
    def cannot_tell_share(self) -> float | None:
        """Share of the interactions that the texts do not decide; None without interactions."""
        return self.counts[str(AbsentReason.JUDGE_CANNOT_TELL)] / len(self.verdicts) if self.verdicts else None

    @property
    def mean(self) -> float | None:
        """Mean of the values; None without values."""
        values = [verdict.value for verdict in self.verdicts if verdict.value is not None]
        return sum(values) / len(values) if values else None

    def asked(self) -> Iterator[tuple[None, Row]]:
        """Yield the rows."""
        return ((None, row) for row in self._rows)

    def take(self, asked: None, outcome: Outcome) -> None:
        """Take the judge's answer about a row."""
        row, labeling, metric = outcome.row.interaction, outcome.labeling, self.criterion.metric
        self.result.counts["rows"] += 1
        self.result.take(outcome, f"row {outcome.row.line}")
        value = None if labeling is None else labeling.scores.get(metric)
        absent = outcome.problem or "not labeled" if labeling is None else labeling.absent.get(metric, "not asked")
        self.verdicts.append(
            CriterionVerdict(
                interaction_id=None if row is None else row.interaction_id,
                question=None if row is None else row.question,
                response=None if row is None else row.response,
                answer=None if value is None else self._answers.get(value, f"{value:g}"),
                value=value,
                absent=absent if value is None else None,
                reason=None if labeling is None else labeling.reasons.get(metric, "")[:REASON_CHARS] or None,
                cost_usd=0.0 if labeling is None else labeling.cost_usd,
                tokens=0 if labeling is None else labeling.prompt_tokens + labeling.completion_tokens,
            )
        )

    def finish(self, confidence: float = 0.95) -> Iterator[None]:
        """Sum up the verdicts."""
        self.result.facts = {
            "metric": self.criterion.metric,
            "version": self.criterion.version,
            "n": len(self.verdicts),
            "mean": self.mean,
            "counts": dict(self.counts),
            "cannot_tell_share": self.cannot_tell_share,
        }
        self.result.tables = {"verdicts": self.verdicts}
        yield
