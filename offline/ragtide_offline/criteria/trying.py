"""Asks the judge one criterion about a few interactions of a file, without Redis."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from ragtide_consumers.labelers.event import labeler_id
from ragtide_consumers.labelers.judge.costs import PlannedCalls
from ragtide_consumers.labelers.protocol import Labeling, scores_of
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_producers import Row
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.specimen import REASON_CHARS

from ..score.scoring import score_rows

if TYPE_CHECKING:
    from ragtide_consumers.labelers.judge.labeler import JudgeLabeler

AT_ONCE: Final = 16
"""Most interactions that are judged at once."""


@dataclass(frozen=True, slots=True)
class CriterionVerdict:
    """The judge's answer about one interaction."""

    interaction: RagInteraction | None
    """None for a row that is no interaction."""
    answer: str
    """One of the possible answers; empty if there is none."""
    value: float | None
    absent: str
    """Why there is no value; `judge_cannot_tell` if the texts do not decide it; empty if there is one."""
    reason: str
    """The judge's reason; empty if it gave none."""
    cost_usd: float = 0.0
    tokens: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict, for programs."""
        interaction = self.interaction
        return {
            "interaction_id": None if interaction is None else interaction.interaction_id,
            "question": None if interaction is None else interaction.question,
            "response": None if interaction is None else interaction.response,
            "answer": self.answer or None,
            "value": self.value,
            "absent": self.absent or None,
            "reason": self.reason or None,
            "cost_usd": self.cost_usd,
            "tokens": self.tokens,
        }


@dataclass(frozen=True, slots=True)
class CriterionTrial:
    """What a trial found."""

    criterion: Criterion
    verdicts: Sequence[CriterionVerdict]

    @property
    def counts(self) -> Counter[str]:
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

    @property
    def cost_usd(self) -> float:
        """Dollars of all calls."""
        return sum(verdict.cost_usd for verdict in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """Return the trial, for programs."""
        return {
            "metric": self.criterion.metric,
            "version": self.criterion.version,
            "n": len(self.verdicts),
            "mean": self.mean,
            "counts": dict(self.counts),
            "cannot_tell_share": self.cannot_tell_share,
            "cost_usd": self.cost_usd,
            "verdicts": [verdict.as_dict() for verdict in self.verdicts],
        }


def settings_of_trial(settings: Settings, criterion: Criterion) -> Settings:
    """Return settings whose judge answers one criterion about every interaction, with reasons, and nothing else."""
    changes = {
        "families": (),
        "criteria": (criterion.asked_of_all(),),
        "reasons": "kept" if settings.judge.reasons == "none" else settings.judge.reasons,
        "over_budget": "wait",
    }
    judge = settings.judge.model_copy(update=changes)
    return settings.with_labeler("judge").model_copy(update={"metrics": (), "judge": judge})


async def planned_trial(settings: Settings, rows: Sequence[Row]) -> tuple[PlannedCalls, bool]:
    """Return the calls of a trial by estimate, and whether the price of the model is known.

    Args:
        settings: of the trial (`settings_of_trial`).
        rows: of a file.

    Raises:
        ConfigurationError: a setting of the judge is missing or wrong.
    """
    async with labeler_of(settings, None, patient=False) as labeler:
        asking, found = cast("JudgeLabeler", labeler), PlannedCalls()
        for row in rows:
            if row.interaction is not None:
                found += await asking.planned_calls(row.interaction)
        return found, asking.has_price


async def verdicts_of(settings: Settings, criterion: Criterion, rows: Sequence[Row]) -> AsyncIterator[CriterionVerdict]:
    """Yield the verdict about each row, in order.

    Args:
        settings: of the trial (`settings_of_trial`).
        criterion: that is asked.
        rows: of a file.

    Raises:
        ConfigurationError: a setting of the judge is missing or wrong.
        ScoringStopped: the judge cannot be called.
    """
    async with labeler_of(settings, None, patient=False) as labeler:

        async def label(row: Row) -> Labeling:
            return await scores_of(labeler, cast("RagInteraction", row.interaction))

        async with aclosing(score_rows(rows, label, labeler_id(labeler), at_once=AT_ONCE)) as outcomes:
            async for outcome in outcomes:
                if outcome.labeling is None:
                    yield CriterionVerdict(outcome.row.interaction, "", None, outcome.problem or "not labeled", "")
                else:
                    yield _verdict(criterion, outcome.row.interaction, outcome.labeling)


def _verdict(criterion: Criterion, interaction: RagInteraction | None, labeling: Labeling) -> CriterionVerdict:
    value = labeling.scores.get(criterion.metric)
    answers = {number: answer for answer, number in criterion.answers.items()}
    return CriterionVerdict(
        interaction=interaction,
        answer="" if value is None else answers.get(value, f"{value:g}"),
        value=value,
        absent="" if value is not None else labeling.absent.get(criterion.metric, "not asked"),
        reason=labeling.reasons.get(criterion.metric, "")[:REASON_CHARS],
        cost_usd=labeling.cost_usd,
        tokens=labeling.prompt_tokens + labeling.completion_tokens,
    )
