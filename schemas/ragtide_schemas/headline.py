"""The headline of a metric: the one number that every screen shows for it, with its range and its state."""

from datetime import UTC, datetime
from typing import Annotated, Final, Literal, get_args

from pydantic import Field, StringConstraints

from .base import AnswerModel, Count, Name, SegmentValue, UtcTime, WindowTime, WireInterval
from .declared import range_of
from .estimate import rated_text
from .metric_definitions import PEOPLES_METRICS
from .metric_names import MetricName
from .metrics import Direction
from .slopes import UNSUPPORTED
from .step_metrics import ToolMetric

HeadlineState = Literal[
    "firing",
    "suspicious",
    "moved",
    "silent",
    "judge stopped",
    "being measured",
    "too few",
    "learning",
    "steady",
    "unwatched",
]
"""How a metric stands: `firing`, an alert about it fires; `suspicious`, the evidence of a rule is near its line;
`moved`, its level changed within the range, and no alert fires; `silent`, it has had no value for a day; `judge
stopped`, answers come, and the judge of its number scores none; `being measured`, the labeler whose number counts has
too few values for one, and the number is by another labeler; `too few`, its interval is too wide; `learning`, its
normal level is not known yet; `steady`, its level was watched, by a quiet detector or a rule, and has not
moved; `unwatched`, neither watches its level."""

HEADLINE_STATES: Final[tuple[HeadlineState, ...]] = get_args(HeadlineState)
"""All states, the worst first."""


StopReason = Literal[
    "its endpoint does not answer", "the spend limit of the hour is reached", "the spend limit of the day is reached"
]
"""Why a labeler scores nothing, as its endpoint reports it."""

ALMOST_ALL: Final = 0.995
"""Share of the interactions from which no text says that the others have no score."""


def clock(moment: datetime) -> str:
    """Return a time to the minute (UTC), with its day unless that is today.

    >>> clock(datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    '2026-01-02 03:04'
    """
    at = moment.astimezone(UTC)
    return f"{at:%H:%M}" if at.date() == datetime.now(UTC).date() else f"{at:%Y-%m-%d %H:%M}"


class MeanOfAll(WireInterval[float | None], AnswerModel):
    """A mean over all time, as the context of a headline; it has no interval for a metric without a range."""

    n: Count
    """Number of values."""
    estimate: float | None
    """The mean."""


def labeler_phrase(labeler: str) -> str:
    """Return a labeler in a sentence.

    >>> labeler_phrase("judge"), labeler_phrase("nli")
    ('the judge', 'nli')
    """
    return "the judge" if labeler == "judge" else labeler


class JudgeProgress(AnswerModel):
    """How far the labeler is whose number a headline is to show: a judge of a sample, or the labeler of the pipeline.

    The events decide which labeler that is: one of whose scores there are pairs with scores of another labeler.
    """

    labeler: Name
    """Name of the labeler."""
    labeler_version: Name
    """Version of the labeler."""
    n: Count
    """Number of its scores here, over all time."""
    needed: Count | None = None
    """About how many of its scores carry a number; None if they do, or if that is not known."""
    pending: bool = False
    """Whether it has no number here yet, so that the number is by another labeler, or another version."""
    stopped: bool = False
    """Whether it has stopped: answers come, and it scores none."""
    last_at: UtcTime | None = None
    """Where it has stopped, about the time of the last answer that it scored; None if that is not known."""
    reason: StopReason | None = None
    """Where it has stopped, why, as its endpoint reports it; None if that is not known."""

    @property
    def count_text(self) -> str:
        """The number of scores, and about how many are needed."""
        return f"{self.n:,} of about {self.needed:,} answers" if self.needed else f"{self.n:,} answers"


class Move(AnswerModel):
    """A change of a metric's level that a quiet detector found."""

    began_at: UtcTime
    """Probable beginning of the change: time of the first interaction since the estimated change point."""
    found_at: UtcTime
    """Time of the interaction at which it was found."""
    direction: Literal["fall", "rise"]
    """Direction of the change."""
    before: float
    """Mean before the change, as it was learned."""
    after: float
    """Mean of the values since the change, up to `found_at`."""
    n_after: Count
    """Number of these values."""


def is_folded(metric: str, estimate: float | None) -> bool:
    """Return whether a screen shows a metric only where it is asked for.

    It is made of other metrics, counts sentences or documents, counts empty parts while there are none, or is a detail
    of the calls of a tool.
    """
    name = metric.rpartition(".")[2]
    repeats = name in {"average", "rmse_aggregation"} or metric.startswith(("consistency_score", "sentences."))
    tool = ToolMetric.read(metric)
    if tool is not None:  # nine numbers of each tool: those by which it is judged stand for all
        return tool.quantity not in {"used", "failed", "wasted"}
    # The number of documents is in every event, and seldom news; shares of sentences are metrics of their own.
    return repeats or metric == "retrieval.documents" or (name == "empty" and not estimate)


class Headline(AnswerModel):
    """The headline of one metric of a pipeline, or of one segment value of it.

    One function decides labeler, estimator and range, so every screen, gate and gauge shows the same number.
    """

    pipeline: Name
    """The pipeline."""
    segment: SegmentValue | None = None
    """One segment value such as `lang=de`; None for the whole pipeline."""
    metric: MetricName
    """Qualified metric name."""
    metric_version: Name | None = None
    """Version of the metric's formula; None for ragtide's own metrics."""
    lowest: float | None = None
    """Lowest possible value of the metric; None for a number without a range."""
    highest: float | None = None
    """Highest possible value of the metric."""
    direction: Direction | None = None
    """Direction in which the metric gets better; None if unknown."""
    profile: Name
    """Variant of the formulas."""
    labeler: Name
    """Name of the labeler."""
    labeler_version: Name
    """Version of the labeler."""
    estimator: Literal["mean", "weighted", "prediction_powered"] = "mean"
    """`prediction_powered` where a judge scores a sample of what another labeler scores; otherwise `mean`."""
    proxy: Name | None = None
    """For `prediction_powered`: the labeler that scored all interactions."""
    judge: JudgeProgress | None = None
    """The labeler that has no number here yet, so that the number is by another one, or that has stopped; None where
    the number is by the labeler that it is to be by, and that goes on."""
    other_labelers: tuple[Name, ...] = ()
    """Other labelers that score this metric here, each with a number of its own."""
    range: Annotated[str, StringConstraints(pattern="^([1-9][0-9]*[mhd]|since|since change|since version|all)$")]
    """The counted interactions: of a length up to now such as `24h`; `since` a given time, `since change`, the last one
    of the level, or `since version`, the first interaction of the newest version; or `all`."""
    start: WindowTime | None = None
    """Start of the first pane of the range; None for `all`."""
    end: WindowTime | None = None
    """End of a range that ends before now, exclusive; None for a range that reaches until now."""
    version: Name | None = None
    """For `since version`: the version."""
    n: Count
    """Number of values in the range."""
    n_waiting: Count = 0
    """Number of values in open sessions, on which the interval does not rest yet."""
    estimate: float | None
    """The number; None without values."""
    lower: float | None
    """Lower end of its interval, valid at every look; None for a count of which too little is known."""
    upper: float | None
    """Upper end of its interval."""
    n_absent: Count = 0
    """Number of interactions in the range without a score; where a judge scores a sample, of those that it was asked
    about."""
    coverage: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the interactions in the range that have a score, whose mean the number is; estimated for all where a
    judge scores a sample. None if it is not known."""
    confidence: Annotated[float, Field(gt=0, lt=1)]
    """Confidence level of the interval."""
    would_see: str | None = None
    """How many answers it takes to find a fall, by the labeler in use and at the traffic of now, and what is not seen;
    None of a metric of a segment value, and of one that does not come from labels."""
    steady_for: str | None = None
    """Failures with which the watched number falls, where it does not see unsupported claims; None without a limit."""
    band: str | None = None
    """Quality band, if the whole interval lies in one band, the level of the labeler's numbers is right, and no alert
    fires."""
    state: HeadlineState
    """How the metric stands."""
    since: UtcTime | None = None
    """Time since which the level is as it is: the beginning of its last change, or its first value."""
    move: Move | None = None
    """The last change of the level; None if none was found."""
    needed: Count | None = None
    """For `too few` and `learning`: about how many more values are needed."""
    rules: tuple[Name, ...] = ()
    """Names of the alert rules that watch the metric here."""
    all_time: MeanOfAll | None = None
    """The number of the same labeler and estimator over all time."""
    updated_at: UtcTime | None = None
    """Time of the latest interaction with this metric."""

    @property
    def is_measured(self) -> bool:
        """Whether the number is by the labeler that it is to be by: another labeler's number has no state."""
        return self.judge is None or not self.judge.pending

    @property
    def judge_text(self) -> str:
        """What is to be known about the judge: that it has no number here yet, or has stopped; empty without that."""
        judge = self.judge
        if judge is None:
            return ""
        name = labeler_phrase(judge.labeler)
        if judge.labeler == self.labeler and not self.is_measured:
            name += f" in version {judge.labeler_version}"
        parts = []
        if judge.stopped:
            at = "" if judge.last_at is None else f" since {clock(judge.last_at)}"
            parts.append(f"{name} has scored no answer{at}{f' ({judge.reason})' if judge.reason else ''}")
        if not self.is_measured:
            begin = f"not yet by {name}" if self.segment is not None or not judge.n else f"being measured by {name}"
            parts.append(f"{begin}, {judge.count_text}" if judge.n else begin)
        return "; ".join(parts)

    @property
    def state_text(self) -> str:
        """The state in words, with its numbers."""
        if self.state in ("judge stopped", "being measured"):
            return self.judge_text
        if self.state == "moved" and self.move is not None:
            watched = "" if self.rules else " (no rule watches it)"
            by = f" by {self.proxy}" if self.proxy else ""
            move = self.move
            return f"moved since {clock(move.began_at)}: {move.before:.2f} to {move.after:.2f}{by}{watched}"
        if self.state in ("too few", "learning") and self.needed:
            return f"{self.state} ({self.needed:,} more)"
        if self.state in ("firing", "steady"):
            since = "" if self.since is None else f" since {clock(self.since)}"
            limit = self.steady_limit
            return f"{self.state}{since}{f' {limit}' if limit else ''}"
        if self.state == "silent" and self.updated_at is not None:
            return f"silent since {clock(self.updated_at)}"
        return self.state

    @property
    def steady_limit(self) -> str:
        """For what a steady number is steady, and what is not seen; empty of another state and without a limit."""
        if self.state != "steady" or self.steady_for is None:
            return ""
        return f"for {self.steady_for}; {UNSUPPORTED} are not seen without a judge"

    @property
    def range_text(self) -> str:
        """The range in words."""
        if self.range == "all":
            return "all time"
        if self.range == "since version":
            return f"since version {self.version}"
        if self.start is not None and self.range.startswith("since"):
            return f"{self.range} {clock(self.start)}"
        units = {"m": "min", "h": "h", "d": "days"}
        return f"last {self.range[:-1]} {units[self.range[-1]]}"

    @property
    def labeler_text(self) -> str:
        """The labeler; `corrected` where it scores a sample of what a proxy scores."""
        return f"{self.labeler}, corrected" if self.proxy else self.labeler

    @property
    def has_interval(self) -> bool:
        """Whether the interval is narrower than the metric's whole range."""
        lowest, highest = self.value_range
        return (self.lower is not None and self.lower > lowest) or (self.upper is not None and self.upper < highest)

    @property
    def coverage_text(self) -> str | None:
        """Which interactions the number is of, if it is not of almost all: the others have no score.

        Of thumbs it is always stated: how many there are, and of how many answers.
        """
        if self.metric in PEOPLES_METRICS:
            return rated_text(self.n, self.n_absent, self.coverage)
        if self.coverage is None or self.coverage >= ALMOST_ALL:
            return None
        return f"of the {self.coverage:.0%} with a score"

    @property
    def is_news(self) -> bool:
        """Whether the metric fires, is suspicious or moved."""
        return self.state in ("firing", "suspicious", "moved")

    @property
    def is_small(self) -> bool:
        """Whether a screen folds the metric away; never one that fires or moved."""
        return not self.is_news and is_folded(self.metric, self.estimate)

    @property
    def value_range(self) -> tuple[float, float]:
        """Lowest and highest possible value of the metric."""
        if self.lowest is not None and self.highest is not None:
            return self.lowest, self.highest
        return range_of(self.metric.removeprefix("rmse."), None)
