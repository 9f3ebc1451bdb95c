"""The alert groups of all destinations: found by alert, and in the order in which something is due in them."""

from collections import defaultdict
from dataclasses import dataclass
from heapq import heappop, heappush

from ragtide_runtime.settings.notify import DestinationSettings
from ragtide_schemas import Alert

from .grouping import MEMBERS_MAX, DeliveryTimes, NotificationGroup, wake_ms


@dataclass(frozen=True, slots=True)
class KnownDestination:
    """A destination as the outbox knows it."""

    settings: DestinationSettings
    grouped: bool
    """Whether several alerts of a pipeline are told together."""
    times: DeliveryTimes


class NotificationGroups:
    """The alert groups of all destinations.

    Args:
        destinations: by name.
    """

    def __init__(self, destinations: dict[str, KnownDestination]) -> None:
        self._destinations = destinations
        self._groups: dict[str, dict[str, NotificationGroup]] = {name: {} for name in destinations}
        self._newest: dict[tuple[str, str, str | None], str] = {}
        self._key_of: dict[tuple[str, str], str] = {}
        self._wakes: dict[tuple[str, str], int] = {}
        self._heaps: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)

    def get(self, name: str, key: str) -> NotificationGroup:
        """Return a group of a destination."""
        return self._groups[name][key]

    def of(self, name: str, alert_id: str) -> NotificationGroup | None:
        """Return the group of a destination that has an alert; None if it has no such group."""
        key = self._key_of.get((name, alert_id))
        return None if key is None else self._groups[name][key]

    def joined_by(self, name: str, alert: Alert) -> NotificationGroup:
        """Return the group that a new alert joins, or an empty one."""
        if not self._destinations[name].grouped:
            return NotificationGroup(destination=name, key=alert.alert_id, pipeline=alert.pipeline, run=alert.run)
        newest = self._newest.get((name, alert.pipeline, alert.run))
        if newest is not None and len(self._groups[name][newest].members) < MEMBERS_MAX:
            return self._groups[name][newest]
        return NotificationGroup(
            destination=name, key=f"group-{alert.alert_id}", pipeline=alert.pipeline, run=alert.run
        )

    def put(self, group: NotificationGroup) -> None:
        """Keep a group; drop it if it has no alert left."""
        name, key = group.destination, group.key
        before = self._groups[name].pop(key, None)
        for alert_id in before.members if before is not None else ():
            del self._key_of[name, alert_id]
        scope = (name, group.pipeline, group.run)
        if not group.members:
            self._wakes.pop((name, key), None)
            if self._newest.get(scope) == key:
                del self._newest[scope]
            return
        self._groups[name][key] = group
        if before is None:
            self._newest[scope] = key
        self._key_of |= {(name, alert_id): key for alert_id in group.members}
        at_ms = wake_ms(group, self._destinations[name].times)
        if at_ms is None:
            self._wakes.pop((name, key), None)
        else:
            self.wake(name, key, at_ms)

    def wake(self, name: str, key: str, at_ms: int) -> None:
        """Look at a group again at a time, and not before."""
        if self._wakes.get((name, key)) != at_ms:
            self._wakes[name, key] = at_ms
            heappush(self._heaps[name], (at_ms, key))

    def pop_due(self, name: str, now_ms: int) -> NotificationGroup | None:
        """Return a group in which something may be due, the longest due first; `wake` or `put` makes it due again."""
        heap = self._heaps[name]
        while heap and heap[0][0] <= now_ms:
            at_ms, key = heappop(heap)
            if self._wakes.get((name, key)) == at_ms:
                del self._wakes[name, key]
                return self._groups[name][key]
        return None

    def next_ms(self, name: str) -> int | None:
        """Return the time at which something may be due for a destination next."""
        heap = self._heaps[name]
        return heap[0][0] if heap else None

    def waiting(self, name: str) -> tuple[int, int | None]:
        """Return the number of changes that a destination is still to be told, and the time of the oldest."""
        changes = [
            int(change.entry_id.partition("-")[0])
            for group in self._groups[name].values()
            for member in group.members.values()
            for change in member.pending
        ]
        return len(changes), min(changes, default=None)
