"""The outbox of a partition: the changes that are still to be sent to every destination. It decides, and sends nothing.

Every method takes the time; there is no clock and no I/O. `take_changes` returns what is to be written to Redis, so
that another process can continue with the same outbox.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

import structlog
from pydantic import BaseModel, ValidationError

from ragtide_runtime.alert_book import STORED, AlertBook
from ragtide_runtime.settings.notify import NotifySettings
from ragtide_schemas import Alert, DeadLetter

from .destination_state import DestinationState, StormSummary, dead_letter, failing_alert
from .grouping import (
    DueMessage,
    KnownDestination,
    NotificationGroup,
    NotificationGroups,
    PendingChange,
    next_message,
    wake_ms,
    with_change,
    with_failure,
    with_sent,
    with_try,
    without_message,
)
from .notification import Notification
from .routing import FAILING_RULE, is_about_destination, is_quiet, wants


@dataclass(frozen=True, slots=True)
class WithheldBy:
    """The alerts that people muted."""

    silenced: Callable[[Alert], bool] = lambda _: False
    """Whether a silence holds for an alert."""
    acknowledged: Callable[[str], bool] = lambda _: False
    """Whether an alert, by its id, is acknowledged."""


@dataclass(slots=True)
class OutboxChanges:
    """What is to be written to Redis in one step."""

    fields: dict[str, bytes] = field(default_factory=dict)
    """Fields of the outbox to set."""
    removed: list[str] = field(default_factory=list)
    """Fields to delete."""
    dead_letters: list[DeadLetter] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    """Alerts to raise or to end."""

    def __bool__(self) -> bool:
        """Return whether there is anything to write."""
        return bool(self.fields or self.removed or self.dead_letters or self.alerts)


RECHECK_MS: Final = 1000
"""Time after which a message that a silence withholds is looked at again."""

PAUSE_MS: Final = (1000, 60_000)
"""First and longest pause between two tries of a message; each pause is twice the one before it."""

STORM_MS: Final = 600_000
"""Time in which messages to a channel of people count: after ten quiet minutes the channel has room again."""

GROUP: Final = "group:"
STATE: Final = "destination:"
"""Beginnings of the stored fields."""

log = structlog.get_logger("ragtide.notify")


@dataclass(slots=True)
class _Channel:
    """A destination, and what was sent to it."""

    known: KnownDestination
    state: DestinationState
    """What is stored of it."""
    paused_until_ms: int = 0
    """Time before which it is not called."""
    is_busy: bool = False
    """Whether a message is on its way."""
    summary: StormSummary | None = None
    """That message, if it is a summary."""

    @property
    def not_before_ms(self) -> int:
        """Time before which no message is sent to it."""
        return max(self.state.not_before_ms, self.paused_until_ms)

    def end_try(self) -> StormSummary | None:
        """Return the summary that was on its way, if the message was one, and be free for the next message."""
        summary, self.summary, self.is_busy = self.summary, None, False
        return summary


class NotificationOutbox:
    """The outbox of a partition.

    Args:
        partition: its number.
        stream: name of its alerts stream, for dead letters.
    """

    def __init__(
        self,
        destinations: Sequence[KnownDestination],
        settings: NotifySettings,
        *,
        partition: int = 0,
        stream: str = "alerts",
    ) -> None:
        known = {destination.settings.name: destination for destination in destinations}
        self._channels = {
            name: _Channel(destination, DestinationState(name=name)) for name, destination in known.items()
        }
        self._give_up_ms = int(settings.give_up_s * 1000)
        self._public_url = settings.public_url
        self._storm_messages = settings.storm_messages
        self._partition = partition
        self._stream = stream
        self._table = NotificationGroups(known)
        self._dirty: dict[str, BaseModel | None] = {}
        self._dead_letters: list[DeadLetter] = []
        self._book = AlertBook()
        self.withheld: Counter[tuple[str, str]] = Counter()
        """Changes and messages that were not sent, by destination and reason; the reader clears it."""
        self.given_up: Counter[str] = Counter()
        """Changes that became dead letters, by destination; the reader clears it."""

    def load(self, stored: Mapping[bytes, bytes], now_ms: int) -> None:
        """Take over the fields that another outbox has written; drop those of destinations that are no longer there."""
        for name, data in stored.items():
            stored_as = name.decode(errors="replace")
            try:
                if stored_as.startswith(GROUP):
                    self._load_group(stored_as, NotificationGroup.model_validate_json(data))
                elif stored_as.startswith(STATE):
                    state = DestinationState.model_validate_json(data)
                    if state.name in self._channels:
                        self._channels[state.name].state = state
                    else:
                        self._dirty[stored_as] = None
                elif stored_as.startswith(STORED):
                    self._book.load(stored_as.removeprefix(STORED), data)
            except ValidationError:
                log.exception("a stored notification cannot be read and is dropped", entry=stored_as)
                self._dirty[stored_as] = None
        for alert in self._book.firing:
            destination = alert.rule.removeprefix(FAILING_RULE)
            if destination not in self._channels:
                self._book.end(alert.rule, now_ms, f"Destination {destination} was removed.")

    def _load_group(self, stored_as: str, group: NotificationGroup) -> None:
        if group.destination not in self._channels:
            log.warning("a destination is no longer in the settings: its pending changes are dropped", group=stored_as)
            self.withheld[group.destination, "removed"] += 1
            self._dirty[stored_as] = None
            return
        self._table.put(group)

    def _put(self, group: NotificationGroup) -> None:
        self._table.put(group)
        self._dirty[f"{GROUP}{group.destination}:{group.key}"] = group if group.members else None

    def _set_state(self, state: DestinationState) -> None:
        self._channels[state.name].state = self._dirty[f"{STATE}{state.name}"] = state

    def take(self, change: PendingChange, now_ms: int) -> None:
        """Take a change of an alert from the stream; a change that is known already changes nothing."""
        for name in self._channels:
            self._take_for(name, change, now_ms)

    def _take_for(self, name: str, change: PendingChange, now_ms: int) -> None:
        alert, destination = change.alert, self._channels[name].known
        group = self._table.of(name, alert.alert_id)
        if group is None:
            if not wants(destination.settings, alert):
                return
            if is_about_destination(alert) and self._fails(name):
                # It is offered when the destination takes notifications again, if it still fires then.
                self.withheld[name, "fails_itself"] += change.status == "firing"
                return
            if change.status != "firing":
                self.withheld[name, "never_sent"] += change.status == "resolved"
                return
            group = self._table.group_to_join(name, alert)
        wait_ms = destination.times.wait_ms if alert.release is None else 0  # no other alert joins it
        after = with_change(group, change, destination.settings.on, now_ms, wait_ms)
        if after is group:
            return
        if change.status == "resolved" and not group.members[alert.alert_id].is_tried:
            self.withheld[name, "resolved_first"] += 2
        self._put(after)

    def _fails(self, name: str) -> bool:
        return any(alert.rule == FAILING_RULE + name for alert in self._book.firing)

    def due(self, now_ms: int, withheld_by: WithheldBy, *, may_try: Callable[[str], bool]) -> list[DueMessage]:
        """Return the messages to send now, at most one for each destination, and mark them as tried.

        A destination gets its next message after `record_sent` or `record_failure` ended this one.

        Args:
            now_ms: present time.
            withheld_by: the alerts that people muted.
            may_try: whether a destination may be called now; asked only when there is a message for it.
        """
        messages = []
        for name, channel in self._channels.items():
            if channel.is_busy or now_ms < channel.not_before_ms:
                continue
            message = self._due_summary(name, now_ms) or self._next_message(name, now_ms, withheld_by)
            if message is None:
                continue
            if not may_try(name):
                channel.paused_until_ms = now_ms + PAUSE_MS[0]
                if not message.is_summary:
                    self._table.wake(name, message.key, now_ms)
                continue
            self._try(message, now_ms)
            messages.append(message)
        return messages

    def _due_summary(self, name: str, now_ms: int) -> DueMessage | None:
        channel = self._channels[name]
        state, settings = channel.state, channel.known.settings
        message = state.due_summary(now_ms)
        if message is None or state.summary is None or state.summary.tried_ms:
            return message
        if all(is_quiet(settings, alert, now_ms) for alert in state.summary.alerts.values()):
            later = state.summary.model_copy(update={"retry_ms": now_ms + RECHECK_MS})
            channel.state = state.model_copy(update={"summary": later})
            return None
        return message

    def _next_message(self, name: str, now_ms: int, withheld_by: WithheldBy) -> DueMessage | None:
        channel = self._channels[name]
        times, settings = channel.known.times, channel.known.settings
        while (group := self._table.pop_due(name, now_ms)) is not None:
            message = next_message(
                group,
                now_ms,
                times,
                silenced=withheld_by.silenced,
                acknowledged=withheld_by.acknowledged,
                quiet=lambda alert: is_quiet(settings, alert, now_ms),
            )
            if message is None:
                self._table.wake(name, group.key, max(wake_ms(group, times) or 0, now_ms + RECHECK_MS))
            elif channel.known.grouped and channel.state.in_storm(now_ms, self._storm_messages, STORM_MS):
                self._withhold(group, message, now_ms)
            else:
                return message
        return None

    def _withhold(self, group: NotificationGroup, message: DueMessage, now_ms: int) -> None:
        name, alerts = message.destination, self._alerts_of_message(group, message)
        wait_ms = self._channels[name].known.times.wait_ms
        self._set_state(self._channels[name].state.with_withheld(alerts, now_ms, wait_ms, STORM_MS))
        self.withheld[name, "storm"] += 1
        self._put(with_sent(group, message, now_ms, ""))

    def _try(self, message: DueMessage, now_ms: int) -> None:
        name = message.destination
        channel = self._channels[name]
        state, channel.is_busy = channel.state, True
        channel.summary = state.summary if message.is_summary else None
        if message.is_summary:
            assert state.summary is not None  # noqa: S101 - for the type checker: it is due
            tried = state.summary.tried_ms or now_ms
            self._set_state(state.model_copy(update={"summary": state.summary.model_copy(update={"tried_ms": tried})}))
            return
        if self._channels[name].known.grouped:
            self._set_state(state.with_message(now_ms, STORM_MS))
        self._put(with_try(self._table.get(name, message.key), message, now_ms))

    def _alerts_of_message(self, group: NotificationGroup, message: DueMessage) -> list[Alert]:
        members = [group.members[alert_id] for alert_id in message.alert_ids]
        return [member.alert if message.is_repeat else member.pending[0].alert for member in members]

    def notification(self, message: DueMessage) -> Notification:
        """Return the notification of a message that `due` returned."""
        name = message.destination
        if message.is_summary:
            summary = self._channels[name].summary
            assert summary is not None  # noqa: S101 - for the type checker: `due` returned it
            alerts = tuple(summary.alerts.values())
            return Notification(message.key, "summary", alerts, n_withheld=summary.n_withheld, url=self._public_url)
        group = self._table.get(name, message.key)
        alerts = tuple(self._alerts_of_message(group, message))
        members = [group.members[alert_id] for alert_id in message.alert_ids]
        others = (member for alert_id, member in group.members.items() if alert_id not in message.alert_ids)
        entries = [] if message.is_repeat else [member.pending[0].entry_id for member in members]
        changed_ms = max((int(entry_id.partition("-")[0]) for entry_id in entries), default=None)
        base = self._public_url
        return Notification(
            group.key,
            message.status,
            alerts,
            repeat=group.repeat + 1 if message.is_repeat else 0,
            n_still_firing=sum(member.sent and not member.resolved for member in others),
            sent_as=group.sent_as,
            # A slash of a rule's name stays: many proxies do not hand on an encoded one.
            url=None if base is None else f"{base.rstrip('/')}/a/{quote(alerts[0].alert_id)}",
            raised_at=_time(min(member.raised_ms for member in members)),
            changed_at=None if changed_ms is None else _time(changed_ms),
        )

    def record_sent(self, message: DueMessage, sent_as: str, now_ms: int) -> None:
        """Record that a message was sent."""
        name = message.destination
        channel = self._channels[name]
        summary, state = channel.end_try(), channel.state
        if self._fails(name):
            self._book.end(FAILING_RULE + name, now_ms, f"Destination {name} takes notifications again.")
            for alert in self._book.firing:
                self._take_for(name, PendingChange(status="firing", alert=alert, entry_id=f"{now_ms}-0"), now_ms)
        if summary is not None:
            state = state.without_summary(summary, now_ms, STORM_MS)
        if state is not channel.state:
            self._set_state(state)
        if summary is None:
            self._put(with_sent(self._table.get(name, message.key), message, now_ms, sent_as))

    def record_failure(
        self,
        message: DueMessage,
        reason: str,
        now_ms: int,
        *,
        refused: bool = False,
        retry_after_s: float | None = None,
        share: float = 1.0,
    ) -> None:
        """Record that a message was not sent: it is tried again, or given up.

        Args:
            message: that `due` returned.
            now_ms: present time.
            refused: whether it would be refused again.
            retry_after_s: seconds for which the destination asked not to be called.
            share: of the pause before the next try, from 0 to 1, drawn at random.
        """
        name = message.destination
        summary = self._channels[name].end_try()
        if retry_after_s is not None:
            wait_ms = min(int(1000 * retry_after_s), self._give_up_ms)
            state = self._channels[name].state
            self._set_state(state.model_copy(update={"not_before_ms": max(state.not_before_ms, now_ms + wait_ms)}))
        if summary is not None:
            self._summary_failed(name, summary, reason, now_ms, refused=refused, share=share)
            return
        group = self._table.get(name, message.key)
        over = tuple(
            alert_id for alert_id in message.alert_ids if refused or self._is_late(group, message, alert_id, now_ms)
        )
        remaining = set(message.alert_ids) - set(over)
        if over:
            lost = DueMessage(name, message.key, message.status, over, message.is_repeat)
            changes = [] if message.is_repeat else [group.members[alert_id].pending[0] for alert_id in over]
            self._give_up(name, changes, group.tries + 1, reason, now_ms)
            tries, group = group.tries, without_message(group, lost, now_ms)
            group = group.model_copy(update={"tries": tries}) if remaining else group
        if remaining:
            group = with_failure(group, now_ms, _pause_ms(group.tries, share), reason)
        self._put(group)

    def _is_late(self, group: NotificationGroup, message: DueMessage, alert_id: str, now_ms: int) -> bool:
        since_ms: int | None
        if message.is_repeat:
            since_ms = wake_ms(group.model_copy(update={"retry_ms": 0}), self._channels[group.destination].known.times)
        else:
            since_ms = group.members[alert_id].pending[0].tried_ms
        return since_ms is not None and now_ms - since_ms >= self._give_up_ms

    def _summary_failed(
        self, name: str, summary: StormSummary, reason: str, now_ms: int, *, refused: bool, share: float
    ) -> None:
        state = self._channels[name].state
        since_ms = now_ms if state.summary is None else state.summary.tried_ms or now_ms
        if refused or now_ms - since_ms >= self._give_up_ms:
            lost = [
                PendingChange(status=alert.status, alert=alert, entry_id="summary") for alert in summary.alerts.values()
            ]
            self._set_state(state.without_summary(summary, now_ms, STORM_MS))
            self._give_up(name, lost, summary.tries + 1, reason, now_ms)
        elif state.summary is not None:
            retry = {"tries": state.summary.tries + 1, "retry_ms": now_ms + _pause_ms(state.summary.tries, share)}
            self._set_state(state.model_copy(update={"summary": state.summary.model_copy(update=retry)}))

    def _give_up(self, name: str, lost: Sequence[PendingChange], tries: int, reason: str, now_ms: int) -> None:
        # That another destination fails is shown until it works; it is no alert that is lost.
        letters = [change for change in lost if not is_about_destination(change.alert)]
        self._dead_letters += [
            dead_letter(change, name, stream=self._stream, tries=tries, reason=reason, now_ms=now_ms)
            for change in letters
        ]
        self.given_up[name] += len(letters)
        self.withheld[name, "fails_itself"] += len(lost) - len(letters)
        self._book.fire(FAILING_RULE + name, lambda: failing_alert(name, self._partition, reason, now_ms))

    def take_changes(self) -> OutboxChanges:
        """Return what changed since the last call."""
        fields, gone, alerts = self._book.take_changes()
        changes = OutboxChanges(fields, gone, self._dead_letters, alerts)
        for name, value in self._dirty.items():
            if value is None:
                changes.removed.append(name)
            else:
                changes.fields[name] = value.model_dump_json(exclude_defaults=True).encode()
        self._dirty, self._dead_letters = {}, []
        return changes

    def next_ms(self, now_ms: int) -> int | None:
        """Return the time at which `due` may have a message next; None if only a change or an answer brings one."""
        next_times = []
        for name, channel in self._channels.items():
            if channel.is_busy:
                continue
            summary = channel.state.summary
            times = [] if (at_ms := self._table.next_ms(name)) is None else [at_ms]
            times += [max(summary.due_ms, summary.retry_ms)] if summary is not None else []
            next_times += [max(min(times), channel.not_before_ms, now_ms)] if times else []
        return min(next_times, default=None)

    def waiting(self, name: str) -> tuple[int, int | None]:
        """Return the number of changes that are still to be sent to a destination, and the time of the oldest."""
        return self._table.waiting(name)


def item_url(public_url: str | None, alert: Alert, interaction_id: str) -> str | None:
    """Return the address of the page of an answer that an alert names; None without the page's address."""
    if public_url is None:
        return None
    query = urlencode({"pipeline": alert.pipeline, "id": interaction_id, "alert": alert.alert_id})
    return f"{public_url.rstrip('/')}/i?{query}"


def _pause_ms(tries: int, share: float) -> int:
    first, longest = PAUSE_MS
    return int(min(first * 2 ** min(tries, 20), longest) * share)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
