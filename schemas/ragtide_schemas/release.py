"""A release: two versions of a pipeline that serve at the same time, and the verdict on the newer one.

One record for the alert stream, `GET /v1/verdict`, the page and the terminal.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from .base import AnswerModel, Count, Name, PartOfOne, UtcTime, WireInterval
from .headline import MeanOfAll
from .metric_names import MetricName
from .metrics import Direction

Verdict = Literal["worse", "not_worse", "undecided", "not_comparable"]
"""`worse`: a metric is certainly worse. `not_worse`: each metric is certainly at most its margin worse. `undecided`:
neither is certain yet. `not_comparable`: `reason` says why."""

ReleaseEnd = Literal["traffic", "time"]
"""What ended a release: one of the versions has no traffic any more, or the longest time has passed."""

ReleaseEvent = Literal["release.opened", "release.worse", "release.not_worse", "release.ended"]
"""What an alert about a release reports."""

RELEASE_RULE: Final = "release"
"""Rule of the alert that says that a release is open."""

WORSE_RULE: Final = "release_worse"
"""Rule of the alert that says that the new version is worse."""

SLOTS: Final = (*[0.12] * 6, *[0.28 / 6] * 6)
"""Parts of the budget of a release for its metrics, each by one labeler, in the order in which they come. They are
fixed, so that the budget holds for metrics that come later; further metrics are not compared."""


class ReleasePoint(AnswerModel):
    """A metric of a release at one moment, for a chart."""

    at: UtcTime
    """Time of the answer."""
    n: Count
    """Number of values of the new version so far."""
    before: MeanOfAll
    """The mean of the old version since the release opened."""
    after: MeanOfAll
    """The mean of the new version."""
    lower: float | None = None
    """Lower end of the interval of the difference."""
    upper: float | None = None
    """Upper end of this interval."""


class MetricVerdict(WireInterval[float | None], AnswerModel):
    """One metric by one labeler in a release. Its interval is that of `difference`, valid at every look."""

    metric: MetricName
    """Qualified metric name."""
    metric_version: Name | None = None
    """Version of the metric's formula; None for ragtide's own metrics."""
    profile: Name
    """Variant of the formulas."""
    labeler: Name
    """Name of the labeler."""
    labeler_version: Name
    """Version of the labeler."""
    direction: Direction | None = None
    """Direction in which the metric gets better."""
    verdict: Verdict
    """The verdict on this metric."""
    reason: str | None = None
    """For `not_comparable`: why."""
    before: MeanOfAll | None = None
    """The mean of all values of the old version since the release opened; None without a value."""
    after: MeanOfAll | None = None
    """The mean of all values of the new version."""
    difference: float | None = None
    """The new version minus the old one, within the same time and at the same shares of the other segments; None while
    nothing was compared."""
    plain_difference: float | None = None
    """The difference of the two means, `after` minus `before`: time and mix are not taken out of it."""
    n_compared: tuple[Count, Count] = (0, 0)
    """Values of the old and of the new version that were compared within the same time and mix."""
    margin: Annotated[float, Field(ge=0)]
    """Largest loss that `not_worse` allows, in the metric's unit."""
    highest_counted: float | None = None
    """Higher values count as this one, such as a very long latency; None if all count as they are."""
    alpha: Annotated[float, Field(gt=0, lt=1)]
    """Probability of a wrong `worse` on this metric, over all looks."""
    answers_to_go: Count | None = None
    """Scored answers of the new version until a verdict, if the difference stays as it is; None if not known."""
    would_see: Annotated[float, Field(ge=0)] | None = None
    """The loss that is found in the next hour with a probability of 90%, at the traffic of now; None if that is not
    known."""
    points: tuple[ReleasePoint, ...] = ()
    """The metric over time, the oldest first."""
    lower: float | None = None
    """Lower end of the interval; None while nothing was compared."""
    upper: float | None = None
    """Upper end of the interval."""


class Release(AnswerModel):
    """Two versions of a pipeline that serve at the same time."""

    pipeline: Name
    """The pipeline."""
    from_version: Name
    """The version that served before."""
    to_version: Name
    """The new version."""
    verdict: Verdict
    """The verdict: on all metrics, or on those that were asked for."""
    reason: str | None = None
    """For `not_comparable`: why."""
    sentence: str
    """The verdict in a sentence, with both numbers."""
    alpha: Annotated[float, Field(gt=0, lt=1)]
    """Budget: the probability that an equally good version is ever called `worse`, over all metrics and looks; and that
    a worse one than the margins allow is ever called `not_worse`."""
    opened_at: UtcTime | None = None
    """Time of the answer at which the release opened; None if it never did."""
    decided_at: UtcTime | None = None
    """Time of the answer at which the verdict of all metrics was first reached; None while it is not."""
    decided_by: MetricName | None = None
    """For `worse`: the metric that was certain first."""
    ended_at: UtcTime | None = None
    """Time of the answer at which the release ended; None while both versions serve."""
    end: ReleaseEnd | None = None
    """What ended it."""
    n: tuple[Count, Count] = (0, 0)
    """Answers of the old and of the new version since it opened."""
    share: PartOfOne | None = None
    """Share of the new version in the answers of both, at present."""
    an_hour: Annotated[float, Field(ge=0)] | None = None
    """Answers of the new version an hour, at present."""
    last_at: UtcTime | None = None
    """Time of the last answer of the new version."""
    metrics: tuple[MetricVerdict, ...] = ()
    """The metrics, the worst verdict first."""

    @property
    def is_open(self) -> bool:
        """Whether both versions still serve."""
        return self.ended_at is None
