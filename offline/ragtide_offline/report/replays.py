"""The report of a replay: its estimates, the diagnoses that they suggest, and its alerts. No I/O."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ragtide_aggregator.estimates.estimates import chosen
from ragtide_aggregator.estimates.view import View
from ragtide_aggregator.events.keys import HIDDEN, UNBOUNDED
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.means.moments import Moments
from ragtide_schemas import METRICS, Alert, Estimate, Workspace, utc_now

from ..score.summary import diagnoses
from .measured_metric import MeasuredMetric
from .pages import Format, page


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The report of a replay."""

    info: Workspace
    made_at: datetime
    estimates: Sequence[Estimate]
    diagnoses: Sequence[str]
    """One sentence for each diagnosis of the means of a pipeline or segment."""
    alerts: Sequence[Alert]


def replay_report(info: Workspace, estimates: Iterable[Estimate], alerts: Iterable[Alert]) -> ReplayReport:
    """Return the report of a replay.

    Args:
        info: its workspace.
        estimates: all estimates of its checkpoint.
        alerts: its alerts.
    """
    registered = {name: index for index, name in enumerate(METRICS)}
    found = sorted(
        chosen(estimates),
        key=lambda e: (e.pipeline, e.segment or "", registered.get(e.metric, len(registered)), e.metric),
    )
    said = [f"{where}: {diagnosis.sentence()}" for where, diagnosis in diagnoses(found)]
    return ReplayReport(info, utc_now(), found, said, sorted(alerts, key=lambda alert: alert.fired_at))


def replay_page(report: ReplayReport, layout: Format) -> str:
    """Return the report of a replay as a page."""
    return page("replay", layout, {"report": report, "made_at": report.made_at})


def moments_of(states: Iterable[AggregatorState]) -> dict[str, dict[MeasuredMetric, Moments]]:
    """Return for every pipeline the moments of each measured metric."""
    found: defaultdict[str, dict[MeasuredMetric, Moments]] = defaultdict(dict)
    for state in states:
        view = View(state)
        for row, key in enumerate(state.keys):
            if key.segment is None and not key.metric.startswith(HIDDEN) and key.metric not in UNBOUNDED:
                moments = view.moments([row])
                if moments.n[0]:
                    by = MeasuredMetric(key.metric, key.measure, key.profile, key.labeler, key.labeler_version)
                    found[key.pipeline][by] = moments
    return dict(found)
