"""The criteria of a deployment, each with its state and its present numbers. No clock, no I/O."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_runtime.stored_criteria import StoredCriteria, StoredCriterion, states_of
from ragtide_schemas import Estimate
from ragtide_schemas.criterion import Criterion, CriterionNumber, ListedCriterion
from ragtide_schemas.metrics import Direction

NUMBERS_MAX: Final = 100
"""Most rows of numbers of a criterion."""


def criterion_rows(
    of_settings: Sequence[Criterion],
    stored: StoredCriteria,
    estimates: Iterable[Estimate],
    may_use: Callable[[str], bool],
) -> list[ListedCriterion]:
    """Return the criteria of the settings and of the store, each with its numbers.

    Args:
        of_settings: criteria of the settings, which come first.
        stored: criteria of the store.
        may_use: whether the viewer may see a pipeline. A criterion of other pipelines alone is left out.
    """
    by_metric: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        if estimate.estimator == "mean" and may_use(estimate.pipeline):
            by_metric.setdefault(estimate.metric, []).append(estimate)

    def row(criterion: Criterion, source: str, stored: StoredCriterion | None) -> ListedCriterion:
        numbers = [_number(estimate, criterion) for estimate in by_metric.get(criterion.metric, ())]
        numbers.sort(key=lambda number: (not number.is_present, number.pipeline, number.labeler))
        pipelines = tuple(pattern for pattern in criterion.pipelines if pattern == "*" or may_use(pattern))
        return ListedCriterion(
            criterion=criterion.model_copy(update={"pipelines": pipelines}),
            metric=criterion.metric,
            version=criterion.version,
            source=source,
            state="asked" if stored is None else states[criterion.name],
            by=None if stored is None else stored.by,
            at=None if stored is None else stored.at,
            numbers=tuple(numbers[:NUMBERS_MAX]),
            rule=rule_for(criterion),
        )

    states = states_of(of_settings, stored)
    rows = [
        *(row(criterion, "settings", None) for criterion in of_settings),
        *(row(entry.criterion, "store", entry) for entry in stored.criteria),
    ]
    return [listed for listed in rows if listed.criterion.pipelines or listed.numbers]


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
