"""The firing alerts that follow from conditions, without statistics. No clock, no I/O.

A check looks at numbers and sets conditions; the book makes alerts of their changes. Each alert fires once, is stored
while it fires, and resolves once, also when another process continues.
"""

from collections.abc import Callable, Collection
from typing import Final

from ragtide_schemas import Alert, InvalidEntryError, from_milliseconds
from ragtide_schemas.release import Release

from .redis.keys import CheckpointField

STORED: Final = CheckpointField.FIRING_ALERT
"""Beginning of the stored fields, in a checkpoint and in an outbox; the name of the alert follows."""


class AlertBook:
    """Alerts by name: the rule, and after a colon what it is about where a rule has several alerts."""

    def __init__(self) -> None:
        self._firing: dict[str, Alert] = {}
        self._written: dict[str, bytes] = {}
        self._gone: list[str] = []
        self._changes: list[Alert] = []

    @property
    def firing(self) -> tuple[Alert, ...]:
        """The alerts that fire now."""
        return tuple(self._firing.values())

    @property
    def changed(self) -> bool:
        """Whether an alert fired or resolved since the changes were last taken."""
        return bool(self._changes)

    def __contains__(self, name: str) -> bool:
        return name in self._firing

    def set(self, name: str, condition: bool | None, at_ms: int, alert: Callable[[], Alert], resolved: str) -> None:
        """Set the condition of an alert.

        Args:
            condition: True fires the alert, False resolves it, and None leaves it as it is: a value between the limit
                at which it fires and the limit at which it resolves.
            at_ms: time of the change, in milliseconds.
            alert: makes the alert, if it fires now.
            resolved: message at its end.
        """
        if condition:
            self.fire(name, alert)
        elif condition is False:
            self.end(name, at_ms, resolved)

    def fire(self, name: str, alert: Callable[[], Alert]) -> None:
        """Fire an alert unless it fires already."""
        if name not in self._firing:
            fired = self._firing[name] = alert()
            self._written[STORED + name] = fired.encode()
            self._changes.append(fired)

    def end(self, name: str, at_ms: int, resolved: str, release: Release | None = None) -> None:
        """Resolve an alert if it fires, with a message at its end; of a release also with the release at its end."""
        if name in self._firing:
            self._written.pop(STORED + name, None)
            self._gone.append(STORED + name)
            self._changes.append(self._firing.pop(name).resolve(from_milliseconds(at_ms), resolved, release))

    def end_others(self, rule: str, names: Collection[str], at_ms: int, resolved: Callable[[Alert], str]) -> None:
        """Resolve the alerts of a rule that have none of these names, each with a message made from the alert."""
        for name, fired in list(self._firing.items()):
            if name.partition(":")[0] == rule and name not in names:
                self.end(name, at_ms, resolved(fired))

    def take_changes(self) -> tuple[dict[str, bytes], list[str], list[Alert]]:
        """Return fields to write, fields to remove, and alerts that fired or resolved since the last call."""
        changes = self._written, self._gone, self._changes
        self._written, self._gone, self._changes = {}, [], []
        return changes

    def load(self, name: str, data: bytes) -> None:
        """Set a stored alert. One that cannot be read is removed: if its condition still holds, it fires again."""
        try:
            self._firing[name] = Alert.decode(data)
        except InvalidEntryError:
            self._gone.append(STORED + name)
