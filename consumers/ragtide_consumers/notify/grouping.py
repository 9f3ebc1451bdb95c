"""An alert group: the alerts that one destination gets together, and what was sent to it about them.

A machine gets each alert alone, so its groups have one alert each. A channel of people gets the alerts of a pipeline
together: the first one waits `group_wait_s` for others, and the group lasts while any of them fires. An alert about a
release is alone in its group, and does not wait.

All functions of a group are pure: they return a changed group, given the time.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from pydantic import BaseModel, ConfigDict

from ragtide_runtime.settings.notify import DestinationSettings
from ragtide_schemas import Alert
from ragtide_schemas.alert_rule import AlertStatus
from ragtide_schemas.release import ReleaseEvent

from .routing import sends

MEMBERS_MAX: Final = 50
"""Most alerts of a group; further alerts of the pipeline begin another one."""

OnChange = AlertStatus | ReleaseEvent
"""A change of an alert that is sent to a destination."""

GROUPED: Final = "group-"
"""Beginning of the key of a group that other alerts may join."""

_ORDER: Final[tuple[AlertStatus, ...]] = ("firing", "explained", "resolved")


class PendingChange(BaseModel):
    """A change of an alert that is still to be sent to a destination."""

    model_config = ConfigDict(frozen=True)

    status: AlertStatus
    """The change."""
    alert: Alert
    """The alert after the change."""
    entry_id: str
    """Id of its entry in the alerts stream."""
    tried_ms: int | None = None
    """Time of the first try to send it; None before that."""


class GroupMember(BaseModel):
    """An alert in a group."""

    model_config = ConfigDict(frozen=True)

    alert: Alert
    """The alert as it was sent last, or as it fired."""
    raised_ms: int
    """Time at which it was added to the alerts stream, in milliseconds since 1970."""
    sent: bool = False
    """Whether its firing was sent."""
    resolved: bool = False
    """Whether it resolved; then it leaves the group when nothing of it is pending."""
    pending: tuple[PendingChange, ...] = ()
    """Changes to send, in their order."""

    @property
    def is_tried(self) -> bool:
        """Whether its firing was sent, or may have been sent by a try without an answer."""
        return self.sent or (bool(self.pending) and self.pending[0].tried_ms is not None)


class NotificationGroup(BaseModel):
    """The alerts that a destination gets together."""

    model_config = ConfigDict(frozen=True)

    destination: str
    """Name of the destination."""
    key: str
    """Id of the group: the alert's id for a machine."""
    pipeline: str
    """Pipeline of the alerts."""
    run: str | None = None
    """Offline run of the alerts."""
    members: dict[str, GroupMember] = {}
    """The alerts, by id."""
    due_ms: int | None = None
    """Time at which pending changes are sent; None if none is pending."""
    tries: int = 0
    """Failed tries of the present message."""
    retry_ms: int = 0
    """Time before which there is no further try."""
    answer: str = ""
    """Reason of the last failure."""
    last_sent_ms: int | None = None
    """Time at which a firing was sent last; None before the first."""
    repeat: int = 0
    """Number of repetitions since a firing was sent."""
    sent_as: str = ""
    """Id under which the destination knows the first message."""


@dataclass(frozen=True, slots=True)
class DeliveryTimes:
    """The times of one destination, in milliseconds."""

    wait_ms: int
    """Time that the first change of a group waits for others."""
    repeat_ms: int
    """Time after which a firing alert is sent again; 0 for never."""
    resend_ms: int | None
    """Time after which a firing alert must be sent again, however long it fires; None if once is enough."""


@dataclass(frozen=True, slots=True)
class DueMessage:
    """A message that is to be sent now."""

    destination: str
    key: str
    """Of the group; of the summary for a summary."""
    status: AlertStatus
    alert_ids: tuple[str, ...]
    is_repeat: bool = False
    is_summary: bool = False


def with_change(
    group: NotificationGroup, change: PendingChange, on: Sequence[OnChange], now_ms: int, wait_ms: int
) -> NotificationGroup:
    """Return a group after a change of one of its alerts, or with a new alert.

    A change that the group knows already changes nothing. An alert that resolves before its firing was tried leaves
    the group: neither is sent.

    Args:
        change: of an alert; its entry's time is the time at which the alert was raised.
        on: changes that are sent to the destination.
        now_ms: present time.
        wait_ms: time that a change waits for others.
    """
    alert_id = change.alert.alert_id
    member = group.members.get(alert_id)
    if change.status == "firing":
        if member is not None:
            return group
        sent = not sends(on, change.alert)
        member = GroupMember(alert=change.alert, raised_ms=int(change.entry_id.partition("-")[0]), sent=sent)
        return _with(group, alert_id, _pending(member, change, on), now_ms, wait_ms)
    if member is None or member.resolved:
        return group
    if change.status == "explained":
        return _with(group, alert_id, _explained(member, change, on), now_ms, wait_ms)
    if not member.is_tried:
        return _with(group, alert_id, None, now_ms, wait_ms)
    kept = tuple(waiting for waiting in member.pending if waiting.tried_ms is not None)
    member = member.model_copy(update={"resolved": True, "pending": kept})
    return _with(group, alert_id, _pending(member, change, on), now_ms, wait_ms)


def _pending(member: GroupMember, change: PendingChange, on: Sequence[OnChange]) -> GroupMember:
    if not sends(on, change.alert):
        return member
    return member.model_copy(update={"pending": (*member.pending, change)})


def _explained(member: GroupMember, change: PendingChange, on: Sequence[OnChange]) -> GroupMember:
    if member.pending and member.pending[0].status == "firing" and member.pending[0].tried_ms is None:
        # The firing was not sent yet, so it is sent with its cause, and once.
        firing = member.pending[0].model_copy(update={"alert": change.alert})
        return member.model_copy(update={"pending": (firing,)})
    if any(waiting.status == "explained" for waiting in member.pending):
        return member
    if "explained" not in on and not member.pending:
        return member.model_copy(update={"alert": change.alert})
    return _pending(member, change, on)


def _with(
    group: NotificationGroup, alert_id: str, member: GroupMember | None, now_ms: int, wait_ms: int
) -> NotificationGroup:
    members = dict(group.members)
    if member is None or (member.resolved and not member.pending):
        members.pop(alert_id, None)
    else:
        members[alert_id] = member
    pending = any(other.pending for other in members.values())
    due_ms = None if not pending else now_ms + wait_ms if group.due_ms is None else group.due_ms
    return group.model_copy(update={"members": members, "due_ms": due_ms})


def next_message(
    group: NotificationGroup,
    now_ms: int,
    times: DeliveryTimes,
    *,
    silenced: Callable[[Alert], bool],
    acknowledged: Callable[[str], bool],
    quiet: Callable[[Alert], bool] = lambda _: False,
) -> DueMessage | None:
    """Return the message of a group that is to be sent now; None if there is none.

    Changes come before repetitions, and firings before resolutions. An open release is repeated only where a receiver
    would end it otherwise. A silence withholds firings, explanations and
    repetitions, but never the end of an alert that was sent. An acknowledgement withholds repetitions. Quiet hours
    withhold everything but a change that was tried before.
    """
    if now_ms < group.retry_ms:
        return None
    if group.due_ms is not None and group.due_ms <= now_ms:
        for status in _ORDER:
            ids = tuple(
                alert_id
                for alert_id, member in group.members.items()
                if member.pending
                and member.pending[0].status == status
                and (status == "resolved" or member.resolved or not silenced(member.pending[0].alert))
                and (member.pending[0].tried_ms is not None or not quiet(member.pending[0].alert))
            )
            if ids:
                return DueMessage(group.destination, group.key, status, ids)
    repeat_ms = times.resend_ms if times.resend_ms is not None else times.repeat_ms
    if group.last_sent_ms is None or not repeat_ms or now_ms < group.last_sent_ms + repeat_ms:
        return None
    ids = tuple(
        alert_id
        for alert_id, member in _firing(group)
        if times.resend_ms is not None
        or not (
            member.alert.event == "release.opened"
            or acknowledged(alert_id)
            or silenced(member.alert)
            or quiet(member.alert)
        )
    )
    return DueMessage(group.destination, group.key, "firing", ids, is_repeat=True) if ids else None


def wake_ms(group: NotificationGroup, times: DeliveryTimes) -> int | None:
    """Return the earliest time at which a message of a group may be due; None if only a change makes one due."""
    times_ms = [] if group.due_ms is None else [group.due_ms]
    repeat_ms = times.resend_ms if times.resend_ms is not None else times.repeat_ms
    if repeat_ms and group.last_sent_ms is not None and any(True for _ in _firing(group)):
        times_ms.append(group.last_sent_ms + repeat_ms)
    return max(min(times_ms), group.retry_ms) if times_ms else None


def _firing(group: NotificationGroup) -> list[tuple[str, GroupMember]]:
    return [
        (name, member)
        for name, member in group.members.items()
        if member.sent and not member.resolved and not member.pending
    ]


def with_try(group: NotificationGroup, message: DueMessage, now_ms: int) -> NotificationGroup:
    """Return a group after the start of a try of its message."""
    if message.is_repeat:
        return group
    members = dict(group.members)
    for alert_id in message.alert_ids:
        first, *rest = members[alert_id].pending
        if first.tried_ms is None:
            first = first.model_copy(update={"tried_ms": now_ms})
            members[alert_id] = members[alert_id].model_copy(update={"pending": (first, *rest)})
    return group.model_copy(update={"members": members})


def with_sent(group: NotificationGroup, message: DueMessage, now_ms: int, sent_as: str) -> NotificationGroup:
    """Return a group after its message was sent."""
    update: dict[str, object] = {"tries": 0, "retry_ms": 0, "answer": "", "sent_as": group.sent_as or sent_as}
    if message.status == "firing":
        update |= {"last_sent_ms": now_ms, "repeat": group.repeat + 1 if message.is_repeat else 0}
    group = group.model_copy(update=update)
    return group if message.is_repeat else _drop_first(group, message, was_sent=True)


def without_message(group: NotificationGroup, message: DueMessage, now_ms: int) -> NotificationGroup:
    """Return a group without a message that is given up; its other messages stay."""
    group = group.model_copy(update={"tries": 0, "retry_ms": 0, "answer": ""})
    if message.is_repeat:
        return group.model_copy(update={"last_sent_ms": now_ms})
    return _drop_first(group, message, was_sent=False)


def _drop_first(group: NotificationGroup, message: DueMessage, *, was_sent: bool) -> NotificationGroup:
    members = dict(group.members)
    for alert_id in message.alert_ids:
        member = members.pop(alert_id, None)
        if member is None or not member.pending:
            continue
        change = member.pending[0]
        pending = member.pending[1:]
        if change.status == "firing" and not was_sent:
            # A resolution without its firing is not sent.
            continue
        member = member.model_copy(
            update={"alert": change.alert, "pending": pending, "sent": member.sent or change.status == "firing"}
        )
        if not (member.resolved and not pending):
            members[alert_id] = member
    due_ms = group.due_ms if any(other.pending for other in members.values()) else None
    return group.model_copy(update={"members": members, "due_ms": due_ms})


def with_failure(group: NotificationGroup, now_ms: int, pause_ms: int, answer: str) -> NotificationGroup:
    """Return a group whose message was not sent, and will be tried again after a pause."""
    return group.model_copy(update={"tries": group.tries + 1, "retry_ms": now_ms + pause_ms, "answer": answer[:1000]})


@dataclass(frozen=True, slots=True)
class KnownDestination:
    """A destination as the outbox knows it."""

    settings: DestinationSettings
    grouped: bool
    """Whether several alerts of a pipeline are sent together."""
    times: DeliveryTimes


class NotificationGroups:
    """The alert groups of all destinations."""

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

    def group_to_join(self, name: str, alert: Alert) -> NotificationGroup:
        """Return the group that a new alert joins, or an empty one."""
        if not self._destinations[name].grouped or alert.release is not None:
            return NotificationGroup(destination=name, key=alert.alert_id, pipeline=alert.pipeline, run=alert.run)
        newest = self._newest.get((name, alert.pipeline, alert.run))
        if newest is not None and len(self._groups[name][newest].members) < MEMBERS_MAX:
            return self._groups[name][newest]
        return NotificationGroup(
            destination=name, key=f"{GROUPED}{alert.alert_id}", pipeline=alert.pipeline, run=alert.run
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
        if before is None and key.startswith(GROUPED):
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
        """Return the number of changes that are still to be sent to a destination, and the time of the oldest."""
        changes = [
            int(change.entry_id.partition("-")[0])
            for group in self._groups[name].values()
            for member in group.members.values()
            for change in member.pending
        ]
        return len(changes), min(changes, default=None)
