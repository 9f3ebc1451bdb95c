"""Options of a state, and its changes for a commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ragtide_schemas import Alert, AlertRule

from ..events.keys import EstimateKey
from ..statistics.windows import Panes
from .capping import KeyCaps

NO_WINDOWS: Final = Panes((), 0)


@dataclass(frozen=True, slots=True)
class AlertBudget:
    """At most so many false alarms in a period, over all rules and keys that have no run length of their own."""

    false_alarms: float
    period_ms: int


@dataclass(frozen=True, slots=True)
class StateOptions:
    """The alert rules with their budget, and whether segments, windows and quantiles have estimates."""

    rules: tuple[AlertRule, ...] = ()
    segments: bool = True
    panes: Panes = NO_WINDOWS
    budget: AlertBudget | None = None
    quantiles: bool = True
    origin: str = ""
    """Tells alerts of one rule and key apart where a pipeline is split over partitions."""
    caps: KeyCaps | None = None
    """Most keys; None for no bound, where the events are few or nothing is applied."""

    def of_partition(self, partition: int, *, split: bool) -> "StateOptions":
        """Return the options for a partition; `split` says whether pipelines are split over partitions."""
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
    """How often something counted in `other`."""
