"""The options of a state, and the changes that a commit writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ragtide_runtime.settings.alerting import BudgetSettings, ClusterSettings
from ragtide_schemas import Alert, AlertRule

from ..alerts.watched_release import ReleaseOptions
from ..events.keys import HIDDEN, EstimateKey
from ..statistics.drift.levels import LEARNED
from ..statistics.tables.panes import Panes

NO_WINDOWS: Final = Panes((), 0)

OTHER: Final = "other"
"""The shared segment value or run. A value that is literally `other` counts in it as well."""


BUCKET_PANES: Final = 12
"""Recent panes in a bucket of arrival."""


def further_pipelines(partition: int) -> str:
    """Return the name of the pipeline in which further pipelines of a partition count.

    >>> further_pipelines(3)
    'other:3'
    """
    return f"{OTHER}:{partition}"


@dataclass(frozen=True, slots=True)
class KeyCaps:
    """Most keys of one pipeline and of one partition; a single interaction may exceed them by its own keys."""

    pipeline: int
    partition: int
    further: str = further_pipelines(0)
    """Pipeline in which further pipelines count."""

    def of_partition(self, partition: int) -> "KeyCaps":
        """Return the caps for a partition."""
        return replace(self, further=further_pipelines(partition))


@dataclass(frozen=True)
class HistoryOptions:
    """Lengths of the panes, how many closed panes stay, and which keys have a series."""

    fine_ms: int
    coarse_ms: int
    """A whole number of fine panes."""
    fine_kept: int
    """Closed fine panes of a series that stay in Redis."""
    coarse_kept: int
    expire_ms: int
    """Milliseconds after its last closed pane for which a series stays in Redis."""
    series_max: int
    """Most series of a partition."""
    segments: frozenset[str] = frozenset()
    """Names of the segments whose values have series, too."""
    watched: frozenset[tuple[str, str]] = frozenset()
    """Name of the segment and metric of each alert rule on a segment. They have series, so that alerts have a chart."""
    recent_ms: int = 0
    """Length of the recent panes, which divides `fine_ms`; 0 for none."""
    recent_kept: int = 0
    """Closed recent panes of a series that stay in Redis."""

    @property
    def bucket_ms(self) -> int:
        """Milliseconds of arrival after which recent panes close."""
        return BUCKET_PANES * self.recent_ms

    def may_have_series(self, key: EstimateKey) -> bool:
        """Return whether a key may have a series: of a whole pipeline, or of a named or watched segment; of no run."""
        if key.run is not None or key.metric.startswith(HIDDEN):
            return False
        if key.segment is None:
            return True
        name = key.segment.partition("=")[0]
        return name in self.segments or (name, key.metric) in self.watched

    def kept(self, length_ms: int) -> int:
        """Return how many closed panes of a length stay."""
        if length_ms == self.recent_ms:
            return self.recent_kept
        return self.fine_kept if length_ms == self.fine_ms else self.coarse_kept


@dataclass(frozen=True, slots=True)
class LevelOptions:
    """How the levels of metrics are watched."""

    false_moves: float
    """Most false marks in a period, on average, over all levels of the partition."""
    period_ms: int
    learn: int = LEARNED
    """Number of values from which a level is first learned."""


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Alert rules with their budget; whether segments, windows and quantiles have estimates; caps on keys."""

    rules: tuple[AlertRule, ...] = ()
    segments: bool = True
    panes: Panes = NO_WINDOWS
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    partitions: int = 1
    """Partitions that share the budget: each is aggregated alone."""
    quantiles: bool = True
    exact: bool = False
    """Whether the state has sums that do not depend on the order of values at all, so that it is merged exactly."""
    origin: str = ""
    """Makes alert ids of a split pipeline different in each partition."""
    clusters: ClusterSettings | None = None
    """Which interactions depend on each other; None takes each by itself."""
    history: HistoryOptions | None = None
    """Which keys have a history; None for no history."""
    levels: LevelOptions | None = None
    """How the levels of metrics are watched; None watches none."""
    releases: ReleaseOptions | None = None
    """How versions that serve at the same time are compared; None watches no releases."""
    dependence: bool = True
    """Whether the dependence of neighbouring values is measured where interactions may depend on each other; False only
    for a reader of means without design effects."""
    caps: KeyCaps | None = None
    """Caps on keys; None for no caps, for few events or for states that are only read."""

    def of_partition(self, partition: int, *, split: bool) -> "StateOptions":
        """Return the options of a partition; `split` is whether pipelines are split over partitions."""
        caps = None if self.caps is None else self.caps.of_partition(partition)
        return replace(self, caps=caps, origin=f"{partition} " if split else self.origin)


@dataclass(frozen=True, slots=True)
class ClosedPanes:
    """Panes of one series and length that closed, for the end of its list in Redis."""

    series: str
    """The end of the name of the list: `series_name` of `history`."""
    kept: int
    """Records that the list keeps."""
    expire_ms: int
    """Milliseconds after which the list expires."""
    records: list[bytes] = field(default_factory=list)
    """In order of their panes."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a state since the last commit."""

    keys: Sequence[EstimateKey] = ()
    rows: Mapping[str, bytes] = field(default_factory=dict)
    gone: Sequence[str] = ()
    alerts: Sequence[Alert] = ()
    capped: int = 0
    """Number of scopes that counted in `other`."""
    closed: Sequence[ClosedPanes] = ()
    """Panes of the history that closed."""
    sizes: Sequence[int] = ()
    """Numbers of keys, pairs, declarations, series, and of pipelines and keys with clusters: where a field is new that
    stays, one of them grows."""
    without_history: int = 0
    """Number of keys that have no history because their partition has its most series."""
