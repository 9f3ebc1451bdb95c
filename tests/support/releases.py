"""Releases for tests: two versions of a pipeline, and the alerts about them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.metric_events import beta, event

from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Alert, Direction, MetricEvent, utc_now
from ragtide_schemas.headline import MeanOfAll
from ragtide_schemas.release import RELEASE_RULE, WORSE_RULE, MetricVerdict, Release, ReleaseEvent, ReleasePoint

OPENED = datetime(2026, 11, 23, 2, 40, tzinfo=UTC)
BEFORE = MeanOfAll(n=3420, estimate=0.8127, lower=0.8043, upper=0.8211)
AFTER = MeanOfAll(n=180, estimate=0.7114, lower=0.6771, upper=0.7457)


def metric_verdict(metric: str = "trace.adherence", **changes: Any) -> MetricVerdict:
    """Return a metric that fell."""
    points = tuple(
        ReleasePoint(
            at=OPENED + timedelta(minutes=10 * place),
            n=60 * place,
            before=MeanOfAll(n=1140 * place, estimate=0.81, lower=0.80 - 0.02 / place, upper=0.82 + 0.02 / place),
            after=MeanOfAll(n=60 * place, estimate=0.71, lower=0.69 - 0.1 / place, upper=0.73 + 0.1 / place),
            lower=-0.1 - 0.2 / place,
            upper=-0.1 + 0.2 / place,
        )
        for place in (1, 2, 3)
    )
    fields: dict[str, Any] = {
        "metric": metric, "profile": "ragbench", "labeler": "judge", "labeler_version": "v1",
        "direction": Direction.HIGHER, "verdict": "worse", "before": BEFORE, "after": AFTER, "difference": -0.0987,
        "lower": -0.1512, "upper": -0.0604, "plain_difference": -0.1013, "n_compared": (3000, 176), "margin": 0.05,
        "alpha": 0.005, "would_see": 0.061, "points": points,
    }  # fmt: skip
    return MetricVerdict(**fields | changes)


def undecided(metric: str = "trace.completeness", **changes: Any) -> MetricVerdict:
    """Return a metric without a verdict yet."""
    fields: dict[str, Any] = {
        "verdict": "undecided", "difference": -0.011, "lower": -0.071, "upper": 0.049, "answers_to_go": 1520,
    }  # fmt: skip
    return metric_verdict(metric, **fields | changes)


def release(**changes: Any) -> Release:
    """Return a release whose new version is worse."""
    fields: dict[str, Any] = {
        "pipeline": "shop", "from_version": "v1", "to_version": "v2", "verdict": "worse",
        "sentence": "v2 is worse than v1: trace.adherence is 0.711, and was 0.813.", "alpha": 0.05,
        "opened_at": OPENED, "decided_at": OPENED + timedelta(minutes=30), "decided_by": "trace.adherence",
        "n": (3420, 180), "share": 0.05, "an_hour": 360.0, "last_at": OPENED + timedelta(minutes=30),
        "metrics": (metric_verdict(), undecided()),
    }  # fmt: skip
    return Release(**fields | changes)


def release_alert(event: ReleaseEvent, about: Release | None = None, **changes: Any) -> Alert:
    """Return the alert that reports an event; of `release.ended` the end of the alert that the version is worse."""
    about = release() if about is None else about
    if event == "release.opened":
        about = about.model_copy(update={"verdict": "undecided", "decided_by": None, "decided_at": None})
    if event == "release.not_worse":
        about = about.model_copy(update={"verdict": "not_worse", "decided_by": None})
    rule = RELEASE_RULE if event in ("release.opened", "release.not_worse") else WORSE_RULE
    ends = event in ("release.not_worse", "release.ended")
    fields: dict[str, Any] = {
        "alert_id": f"{rule}-7", "status": "resolved" if ends else "firing", "rule": rule, "kind": "release",
        "severity": "info" if rule == RELEASE_RULE else "page", "pipeline": about.pipeline, "metric": "trace.adherence",
        "direction": "fall", "fired_at": OPENED, "resolved_at": OPENED + timedelta(hours=1) if ends else None,
        "release": about, "message": about.sentence,
    }  # fmt: skip
    return Alert(**fields | changes)


def canary(
    n: int = 2000, *, mean: float = 0.8, second: float = 0.6, versions: tuple[str, str] = ("v1", "v2"), first: int = 0,
    pipeline: str = "shop", until: datetime | None = None, **changes: Any,
) -> list[MetricEvent]:  # fmt: skip
    """Return answers, six seconds apart, of two versions: the second serves a fifth of all but the first 100.

    Args:
        n: number of answers.
        mean: of the adherence of the first version.
        second: the same of the second version.
        until: time of the last answer; now unless given.
    """
    end = until or utc_now()
    scores = {0: beta(mean, n, first + 1), 1: beta(second, n, first + 2)}
    events = []
    for number in range(n):
        is_second = number >= 100 and number % 5 == 0
        at = end - timedelta(seconds=6 * (n - 1 - number))
        fields = {
            "interaction_id": f"{pipeline[:20]}-{first + number}", "pipeline": pipeline, "occurred_at": at,
            "labeled_at": at, "segments": {"lang": "de" if number % 3 else "en", "version": versions[is_second]},
        }  # fmt: skip
        values = {
            "trace.adherence": float(scores[is_second][number]),
            "trace.context_relevance": float(scores[0][number]),
            "answer.latency_s": 1.0 + float(scores[0][-number]),
        }
        events.append(event(first + number, values, **fields | changes))
    return events


def alerts_of(settings: Settings, events: Sequence[MetricEvent]) -> tuple[Alert, ...]:
    """Return the alerts about releases that events raise."""
    state = AggregatorState(state_options(settings))
    for answer in events:
        state.apply(answer)
    return tuple(alert for alert in state.take_changes().alerts if alert.release is not None)
