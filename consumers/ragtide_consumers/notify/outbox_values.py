"""What an outbox is given and what it returns: limits, wishes of people, and changes to write."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ragtide_schemas import Alert, DeadLetter


@dataclass(frozen=True, slots=True)
class OutboxLimits:
    """Limits of all destinations."""

    give_up_ms: int
    """Time after the first try of a message after which it is given up."""
    storm_messages: int
    """Most messages to a channel of people in `storm_ms`."""
    storm_ms: int
    public_url: str | None = None
    """Address of the page, for links."""


@dataclass(frozen=True, slots=True)
class WithheldBy:
    """What people asked not to be told."""

    silenced: Callable[[Alert], bool] = lambda _: False
    """Whether a silence holds for an alert."""
    acknowledged: Callable[[str], bool] = lambda _: False
    """Whether an alert, by its id, is acknowledged."""


@dataclass(slots=True)
class OutboxChanges:
    """What is to be written to Redis in one step."""

    fields: dict[str, bytes] = field(default_factory=dict)
    """Fields of the outbox to set."""
    gone: list[str] = field(default_factory=list)
    """Fields to delete."""
    dead_letters: list[DeadLetter] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    """Alerts to raise or to end."""

    def __bool__(self) -> bool:
        """Return whether there is anything to write."""
        return bool(self.fields or self.gone or self.dead_letters or self.alerts)
