"""The criteria of a deployment, each with its state and its present numbers. No clock, no I/O."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_runtime.stored_criteria import CriterionState, StoredCriteria, states_of
from ragtide_schemas import Estimate
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.metrics import Direction

NUMBERS_MAX: Final = 100
"""Most rows of numbers of a criterion."""


@dataclass(frozen=True, slots=True)
class CriterionNumber:
    """The present estimate of a criterion in one pipeline, by one labeler."""

    pipeline: str
    labeler: str
    version: str
    """Version of the question that was asked."""
    is_present: bool
    """Whether it is the present question; an older version has numbers of its own."""
    asked: int
    answered: int
    cannot_tell: int
    """Answers of the judge that the texts do not decide it."""
    estimate: float | None
    lower: float | None
    upper: float | None

    @property
    def other_absent(self) -> int:
        """Answers that failed for another reason."""
        return self.asked - self.answered - self.cannot_tell


@dataclass(frozen=True, slots=True)
class CriterionRow:
    """A criterion."""

    criterion: Criterion
    pipelines: Sequence[str]
    """Patterns of pipelines that the viewer may see."""
    source: str
    """`settings` or `store`."""
    state: CriterionState
    by: str
    """Person who wrote or changed it last; empty for one of the settings."""
    at: datetime | None
    numbers: Sequence[CriterionNumber]
    rule: str
    """A rule that watches it, in TOML."""

    def as_dict(self) -> dict[str, Any]:
        """Return the criterion with its numbers, for programs."""
        return {
            "name": self.criterion.name,
            "metric": self.criterion.metric,
            "version": self.criterion.version,
            "criterion": self.criterion.model_dump(mode="json"),
            "source": self.source,
            "state": self.state,
            "by": self.by or None,
            "at": None if self.at is None else self.at.isoformat(),
            "numbers": [asdict(number) for number in self.numbers],
        }


def criterion_rows(
    of_settings: Sequence[Criterion],
    stored: StoredCriteria,
    estimates: Iterable[Estimate],
    may_use: Callable[[str], bool],
) -> list[CriterionRow]:
    """Return the criteria of the settings and of the store, each with its numbers.

    Args:
        of_settings: criteria of the settings, which come first.
        stored: criteria of the store.
        estimates: of whole pipelines over all time.
        may_use: whether the viewer may see a pipeline. A criterion of other pipelines alone is left out.
    """
    by_metric: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        if estimate.estimator == "mean" and may_use(estimate.pipeline):
            by_metric.setdefault(estimate.metric, []).append(estimate)

    def row(criterion: Criterion, source: str, state: CriterionState, by: str, at: datetime | None) -> CriterionRow:
        found = [_number(estimate, criterion) for estimate in by_metric.get(criterion.metric, ())]
        found.sort(key=lambda number: (not number.is_present, number.pipeline, number.labeler))
        pipelines = [pattern for pattern in criterion.pipelines if pattern == "*" or may_use(pattern)]
        return CriterionRow(criterion, pipelines, source, state, by, at, found[:NUMBERS_MAX], rule_for(criterion))

    states = states_of(of_settings, stored)
    rows = [
        *(row(criterion, "settings", "asked", "", None) for criterion in of_settings),
        *(
            row(each.criterion, "store", states[each.criterion.name], each.by, each.at)
            for each in stored.criteria
        ),
    ]  # fmt: skip
    return [shown for shown in rows if shown.pipelines or shown.numbers]


def _number(estimate: Estimate, criterion: Criterion) -> CriterionNumber:
    version = estimate.metric_version or ""
    return CriterionNumber(
        pipeline=estimate.pipeline,
        labeler=estimate.labeler,
        version=version,
        is_present=version == criterion.version,
        asked=estimate.n + estimate.n_absent,
        answered=estimate.n,
        cannot_tell=estimate.absent.get(AbsentReason.JUDGE_CANNOT_TELL, 0),
        estimate=estimate.estimate,
        lower=estimate.lower,
        upper=estimate.upper,
    )


def rule_for(criterion: Criterion) -> str:
    """Return an alert rule that watches the level of a criterion, in TOML.

    >>> print(rule_for(Criterion(name="asks_back", question="Does it ask back?", scale="yes_no")))
    [[alerts]]
    name = "asks-back-drift"
    metric = "criteria.asks_back"
    kind = "drift"
    min_effect = 0.05
    """
    name = re.sub(r"[^a-z0-9]+", "-", criterion.name).strip("-")
    effect = round((criterion.upper - criterion.lower) / 20, 6)
    direction = '\ndirection = "both"' if criterion.direction is Direction.NEITHER else ""
    return (
        f'[[alerts]]\nname = "{name}-drift"\nmetric = {json.dumps(criterion.metric)}\nkind = "drift"'
        f"{direction}\nmin_effect = {effect:g}"
    )
