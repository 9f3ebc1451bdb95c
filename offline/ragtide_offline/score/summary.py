"""The summary of a scored file: means with intervals, diagnoses, and published results beside them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragtide_aggregator.estimates.estimates import chosen, estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_offline.score.reference_results import ReferenceResult
from ragtide_runtime.data_frames import Library, frame_of
from ragtide_schemas import Estimate, Headline, InvalidEntryError, MetricEvent
from ragtide_schemas.diagnosis import DIAGNOSED_N, Diagnosis, Score, diagnose
from ragtide_schemas.html_tables import html_table

_PREFERRED: Final = ("prediction_powered", "mean", "weighted")


COLUMNS: Final = (
    "pipeline", "run", "segment", "labeler", "profile", "metric", "estimate", "lower", "upper", "n", "n_absent", "band",
    "estimator", "strategy", "confidence",
)  # fmt: skip
"""Columns of a summary as a data frame."""

MOST_LINES: Final = 12
"""Most estimates in the text of a summary."""

MOST_NAME_CHARS: Final = 40
"""Most characters of a name in the text of a summary."""

_SCOPE: Final = ("pipeline", "run", "segment", "labeler", "labeler_version", "profile", "estimator")
"""Fields that distinguish the estimates of one metric."""


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """Estimates of a scored file, with their diagnoses."""

    estimates: Sequence[Estimate]
    diagnoses: Sequence[tuple[str, Diagnosis]]
    """Diagnoses by pipeline."""
    problems: Sequence[str] = ()
    """Rows that could not be scored, and events that could not be counted."""
    events: Sequence[MetricEvent] = ()
    """The scores of the interactions, if they were asked for."""

    def to_frame(self, library: Library | None = None) -> Any:
        """Return the estimates as a data frame of pandas, or of Polars if only that is installed.

        Raises:
            ConfigurationError: neither is installed.
        """
        return frame_of([estimate.model_dump(mode="json") for estimate in self.estimates], COLUMNS, library)

    def __repr__(self) -> str:
        """Return the first means with their intervals, as text of bounded length."""
        distinguishing = self._distinguishing(_SCOPE)
        lines = [
            f"  {_scope_name(estimate, distinguishing)}{estimate.metric_name}: {estimate.estimate:.3f}"
            + (
                f" ({estimate.lower:.3f} to {estimate.upper:.3f})"
                if estimate.lower is not None and estimate.upper is not None
                else ""
            )
            + f", n {estimate.n:,}"
            for estimate in self.estimates
            if estimate.estimate is not None
        ]
        more = [f"  and {len(lines) - MOST_LINES:,} more"] if len(lines) > MOST_LINES else []
        bad = [f"  {len(self.problems):,} problems: see .problems"] if self.problems else []
        return "\n".join([f"Summary of {len(self.estimates):,} estimates", *lines[:MOST_LINES], *more, *bad])

    def _repr_html_(self) -> str:
        """Return the estimates as a table, for notebooks."""
        always = ("pipeline", "segment", "labeler")
        scope = [name for name in _SCOPE if name in (*always, *self._distinguishing(_SCOPE))]
        columns = (*scope, "metric", "mean", "lower", "upper", "n", "absent", "band")
        rows = [
            (
                *(getattr(estimate, name) for name in scope),
                estimate.metric_name, estimate.estimate, estimate.lower, estimate.upper, estimate.n, estimate.n_absent,
                estimate.band,
            )
            for estimate in self.estimates
        ]  # fmt: skip
        caption = f"{len(self.problems):,} problems" if self.problems else ""
        return html_table(columns, rows, caption=caption)

    def _distinguishing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if len({getattr(estimate, name) for estimate in self.estimates}) > 1]

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as values that JSON can hold."""
        return {
            "estimates": [estimate.model_dump(mode="json") for estimate in self.estimates],
            "diagnoses": [
                {"scope": scope, "pattern": diagnosis.pattern.name, "sentence": diagnosis.sentence()}
                for scope, diagnosis in self.diagnoses
            ],
            "not_counted": list(self.problems),
        }


def _scope_name(estimate: Estimate, fields: Iterable[str]) -> str:
    """Return the fields of an estimate before its metric; empty without a field that has a value."""
    names = [str(value) for value in (getattr(estimate, name) for name in fields) if value is not None]
    shown = [name if len(name) <= MOST_NAME_CHARS else f"{name[:MOST_NAME_CHARS]}…" for name in names]
    return f"{' · '.join(shown)} · " if shown else ""


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
    for e in sorted(found, key=lambda estimate: _PREFERRED.index(estimate.estimator)):
        if e.estimate is not None and e.n >= DIAGNOSED_N and e.has_interval:
            scope = (e.pipeline, e.run, e.segment, e.labeler, e.labeler_version, e.profile)
            scopes.setdefault(scope, {}).setdefault(e.metric, Score(e.estimate, e.lower, e.upper, e.n))
    return _diagnosed(scopes)


def headline_diagnoses(found: Sequence[Headline]) -> list[tuple[str, Diagnosis]]:
    """Return the diagnoses of the headlines of each pipeline and segment value; values count as in `diagnoses`."""
    scopes: dict[tuple[object, ...], dict[str, Score]] = {}
    for each in found:
        lowest, highest = each.value_range
        narrower = (each.lower or lowest) > lowest or (highest if each.upper is None else each.upper) < highest
        if each.estimate is not None and each.n >= DIAGNOSED_N and narrower:
            scores = scopes.setdefault((each.pipeline, None, each.segment), {})
            scores[each.metric] = Score(each.estimate, each.lower, each.upper, each.n)
    return _diagnosed(scopes)


def _diagnosed(scopes: Mapping[tuple[object, ...], Mapping[str, Score]]) -> list[tuple[str, Diagnosis]]:
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
