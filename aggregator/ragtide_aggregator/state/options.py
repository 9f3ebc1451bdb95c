"""The options of a state, and the changes that a commit writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ragtide_schemas import Alert, AlertRule
from ragtide_schemas.fitness import Stated

from ..alerts.levels import FalseDiscovery
from ..events.batch import ClusterOptions
from ..events.keys import EstimateKey
from ..statistics.tables.windows import Panes
from .capping import KeyCaps
from .history import ClosedPanes, HistoryOptions

NO_WINDOWS: Final = Panes((), 0)


@dataclass(frozen=True, slots=True)
class AlertBudget:
    """At most `false_alarms` in a period, over all rules and keys without a run length of their own."""

    false_alarms: float
    period_ms: int


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Alert rules with their budget; whether segments, windows and quantiles have estimates; caps on keys."""

    rules: tuple[AlertRule, ...] = ()
    segments: bool = True
    panes: Panes = NO_WINDOWS
    budget: AlertBudget | None = None
    false_discovery: FalseDiscovery | None = None
    """The bound on the share of false alarms, in place of the budget; None for no bound."""
    quantiles: bool = True
    origin: str = ""
    """Makes alert ids of a split pipeline different in each partition."""
    clusters: ClusterOptions | None = None
    """Which interactions depend on each other; None takes each by itself."""
    history: HistoryOptions | None = None
    """Which keys have a history; None for no history."""
    caps: KeyCaps | None = None
    """Caps on keys; None for no caps, for few events or for states that are only read."""
    fit_for: Stated = field(default_factory=dict)
    """Purposes of labelers that the settings state."""

    def of_partition(self, partition: int, *, split: bool) -> "StateOptions":
        """Return the options of a partition; `split` is whether pipelines are split over partitions."""
        caps = None if self.caps is None else self.caps.of_partition(partition)
        return replace(self, caps=caps, origin=f"{partition} " if split else self.origin)


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
    without_history: int = 0
    """Number of keys that have no history because their partition has its most series."""
