"""The summary of a scored file: means with intervals, diagnoses, and published results beside them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragtide_aggregator.estimates.estimates import chosen, estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_schemas import Estimate, InvalidEntryError, MetricEvent
from ragtide_schemas.diagnosis import DIAGNOSED_N, Diagnosis, Score, diagnose
from ragtide_schemas.reference_results import ReferenceResult

_PREFERRED: Final = ("prediction_powered", "mean", "weighted")


@dataclass(frozen=True, slots=True)
class Summary:
    """Estimates of a scored file, with their diagnoses."""

    estimates: Sequence[Estimate]
    diagnoses: Sequence[tuple[str, Diagnosis]]
    """Diagnoses by pipeline."""
    problems: Sequence[str] = ()
    """Events that could not be counted."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as values that JSON can hold."""
        return {
            "estimates": [one.model_dump(mode="json") for one in self.estimates],
            "diagnoses": [
                {"scope": scope, "pattern": one.pattern.name, "sentence": one.sentence()}
                for scope, one in self.diagnoses
            ],
            "not_counted": list(self.problems),
        }


def summarize(events: Iterable[MetricEvent], *, strategy: str, confidence: float) -> Summary:
    """Return the estimates of events, computed as for live traffic."""
    state = AggregatorState(StateOptions(segments=False, quantiles=False))
    problems: list[str] = []
    for event in events:
        try:
            state.apply(event)
        except InvalidEntryError as error:
            problems.append(f"{event.interaction_id}: {error.detail}")
    found = chosen(estimates(state, strategy=strategy, confidence=confidence))
    return Summary(found, diagnoses(found), problems)


def diagnoses(found: Sequence[Estimate]) -> list[tuple[str, Diagnosis]]:
    """Return the diagnoses of the means of each scope and labeler, with the name of the scope.

    An estimate counts from 30 values on, and when its interval is narrower than the metric's whole range. Of several
    estimators of a metric the prediction-powered mean counts, then the plain mean.
    """
    scopes: dict[tuple[object, ...], dict[str, Score]] = {}
    for e in sorted(found, key=lambda one: _PREFERRED.index(one.estimator)):
        if e.estimate is not None and e.n >= DIAGNOSED_N and e.has_interval:
            scope = (e.pipeline, e.run, e.segment, e.labeler, e.labeler_version, e.profile)
            scopes.setdefault(scope, {}).setdefault(e.metric, Score(e.estimate, e.lower, e.upper, e.n))
    several = Counter(scope[:3] for scope in scopes)
    return [
        (" · ".join(str(part) for part in scope[: 4 if several[scope[:3]] > 1 else 3] if part is not None), diagnosis)
        for scope, scores in scopes.items()
        for diagnosis in diagnose(scores)
    ]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric beside a published mean, in percent and percentage points."""

    metric: str
    ours_percent: float
    theirs_percent: float

    @property
    def points(self) -> float:
        """Ours minus theirs, in percentage points."""
        return self.ours_percent - self.theirs_percent


def compare(found: Sequence[Estimate], published: ReferenceResult) -> list[Comparison]:
    """Return our means beside the published means, for the metrics that both have."""
    return [
        Comparison(e.metric, 100 * e.estimate, 100 * published.means[e.metric])
        for e in found
        if e.metric in published.means and e.estimate is not None
    ]
