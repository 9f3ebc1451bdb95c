"""The outbox: what is told, when, in which order, and what is never told."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.consumers.notify.outboxes import (
    GIVE_UP_MS,
    NOW,
    REPEAT_MS,
    WAIT_MS,
    change,
    channel,
    due,
    machine,
    outbox,
    reloaded,
    send,
    write,
)

from ragtide_consumers.notify.grouping import PendingChange
from ragtide_consumers.notify.outbox import WithheldBy
from ragtide_consumers.notify.silences import MutedAlerts, Silence
from ragtide_schemas import Alert

pytestmark = pytest.mark.pure


def test_a_machine_is_told_each_change_alone_and_at_once() -> None:
    one = outbox(machine())
    for alert_id in ("a", "b"):
        one.take(change(alert_id, "firing"), 1000)
    assert send(one, 1000) == [("hook", "firing", ("a",)), ("hook", "firing", ("b",))]
    one.take(change("a", "resolved"), 2000)
    assert send(one, 2000) == [("hook", "resolved", ("a",))]
    assert send(one, 3000) == []


def test_people_are_told_the_alerts_of_a_pipeline_together_after_the_wait() -> None:
    one = outbox(channel())
    one.take(change("a", "firing"), 1000)
    one.take(change("b", "firing"), 1000 + WAIT_MS // 2)
    one.take(change("c", "firing", pipeline="other"), 1000 + WAIT_MS // 2)
    assert send(one, 999 + WAIT_MS) == []
    assert send(one, 1000 + WAIT_MS) == [("people", "firing", ("a", "b"))]
    assert send(one, 1000 + 2 * WAIT_MS) == [("people", "firing", ("c",))]
    one.take(change("a", "resolved"), 10 * WAIT_MS)
    (message,) = due(one, 11 * WAIT_MS)
    told = one.notification(message)
    assert (told.status, told.n_still_firing, told.key, told.sent_as) == ("resolved", 1, "group-a", "ts")
    assert told.url == "https://ragtide.example.com/a/a"


def test_an_alert_that_resolves_before_it_was_told_is_not_told() -> None:
    one = outbox(channel())
    one.take(change("a", "firing"), 1000)
    one.take(change("a", "resolved"), 2000)
    assert send(one, 10 * REPEAT_MS) == []
    assert one.withheld["people", "resolved_first"] == 2


def test_a_resolution_waits_for_a_firing_that_was_tried() -> None:
    one = outbox(machine())
    one.take(change("a", "firing"), 1000)
    (message,) = due(one, 1000)
    one.take(change("a", "resolved"), 1100)
    assert due(one, 1200) == []
    one.record_failure(message, "no answer", 2000)
    assert send(one, 2500) == []
    assert send(one, 60_000) == [("hook", "firing", ("a",)), ("hook", "resolved", ("a",))]


def test_a_resolution_without_its_firing_is_not_told() -> None:
    one = outbox(machine())
    one.take(change("a", "resolved"), 1000)
    assert send(one, 2000) == []
    assert one.withheld["hook", "never_sent"] == 1


def test_only_the_changes_of_on_are_told() -> None:
    one = outbox(machine("ends", on=["resolved"]), machine("begins", on=["firing"]), machine("why", on=["explained"]))
    one.take(change("a", "firing"), 1000)
    assert send(one, 1000) == [("begins", "firing", ("a",))]
    one.take(change("a", "explained"), 2000)
    assert send(one, 2000) == [("why", "explained", ("a",))]
    one.take(change("a", "resolved"), 3000)
    assert send(one, 3000) == [("ends", "resolved", ("a",))]
    assert send(one, 10 * REPEAT_MS) == []


def test_a_firing_alert_is_told_again_unless_it_is_acknowledged() -> None:
    one = outbox(machine())
    one.take(change("a", "firing"), 0)
    send(one, 0)
    assert send(one, REPEAT_MS - 1) == []
    (message,) = due(one, REPEAT_MS)
    assert one.notification(message).repeat == 1
    one.record_sent(message, "", REPEAT_MS)
    acknowledged = WithheldBy(acknowledged=lambda alert_id: alert_id == "a")
    assert send(one, 2 * REPEAT_MS, acknowledged) == []
    assert send(one, 2 * REPEAT_MS + 5000) == [("hook", "firing", ("a",))]
    one.take(change("a", "resolved"), 3 * REPEAT_MS)
    assert send(one, 3 * REPEAT_MS, acknowledged) == [("hook", "resolved", ("a",))]


def test_an_alertmanager_is_sent_a_firing_alert_again_and_again_whatever_people_say() -> None:
    one = outbox(machine(resend_ms=60_000))
    one.take(change("a", "firing"), 0)
    send(one, 0)
    quiet = WithheldBy(silenced=lambda _: True, acknowledged=lambda _: True)
    assert send(one, 59_999, quiet) == []
    assert send(one, 60_000, quiet) == [("hook", "firing", ("a",))]


def test_a_silenced_alert_is_told_when_the_silence_ends_and_its_end_is_told() -> None:
    one = outbox(machine())
    silence = Silence(id="s", pipeline="sh*", until=NOW + timedelta(hours=1), by="ann", created_at=NOW)
    muted = MutedAlerts([silence])
    during = WithheldBy(silenced=lambda alert: muted.silenced_until(alert, NOW) is not None)
    after = WithheldBy(silenced=lambda alert: muted.silenced_until(alert, NOW + timedelta(hours=1)) is not None)
    one.take(change("a", "firing"), 0)
    one.take(change("b", "firing", pipeline="other"), 0)
    assert send(one, 0, during) == [("hook", "firing", ("b",))]
    assert send(one, 3_600_000, after) == [("hook", "firing", ("a",))]
    one.take(change("a", "resolved"), 3_700_000)
    assert send(one, 3_700_000, during) == [("hook", "resolved", ("a",))]


HOUR_MS = 3_600_000
NIGHT = {"hours": "22:00-07:00"}
"""In UTC; time 0 is midnight."""


def test_in_quiet_hours_news_waits_until_they_end_but_for_the_severities_that_are_told() -> None:
    one = outbox(machine(quiet=NIGHT), channel(quiet=NIGHT | {"except_severity": []}))
    one.take(change("a", "firing"), 0)
    one.take(change("b", "firing", severity="page"), 0)
    one.take(change("c", "firing"), 0)
    assert send(one, HOUR_MS) == [("hook", "firing", ("b",))]
    one.take(change("c", "resolved"), 2 * HOUR_MS)
    one.take(change("b", "resolved", severity="page"), 2 * HOUR_MS)
    assert send(one, 2 * HOUR_MS) == [("hook", "resolved", ("b",))]
    assert send(one, 7 * HOUR_MS - 1) == []
    assert (one.next_ms(7 * HOUR_MS - 1) or 0) <= 7 * HOUR_MS + 1000
    # The alerts that are over by then were told nowhere.
    assert sorted(send(one, 7 * HOUR_MS + 1000)) == [("hook", "firing", ("a",)), ("people", "firing", ("a",))]


def test_the_end_of_an_alert_and_a_repetition_wait_too_and_a_message_that_was_tried_does_not() -> None:
    one = outbox(machine(quiet=NIGHT))
    one.take(change("a", "firing"), 21 * HOUR_MS)
    assert send(one, 21 * HOUR_MS) == [("hook", "firing", ("a",))]
    assert send(one, 21 * HOUR_MS + REPEAT_MS) == []
    one.take(change("b", "firing"), 22 * HOUR_MS - 1)
    (message,) = due(one, 22 * HOUR_MS - 1)
    one.record_failure(message, "no answer", 22 * HOUR_MS - 1)
    one.take(change("a", "resolved"), 23 * HOUR_MS)
    assert send(one, 26 * HOUR_MS) == [("hook", "firing", ("b",))]
    assert send(one, 31 * HOUR_MS + 1000) == [("hook", "resolved", ("a",)), ("hook", "firing", ("b",))]


def test_a_summary_of_a_storm_waits_in_quiet_hours() -> None:
    one = outbox(channel(quiet=NIGHT), storm_messages=1)
    for n in range(3):
        one.take(change(f"a{n}", "firing", pipeline=f"p{n}"), 22 * HOUR_MS - 60_000)
    assert len(send(one, 22 * HOUR_MS - 20_000)) == 1
    assert send(one, 22 * HOUR_MS + 700_000) == []
    (summary,) = [told for told in send(one, 31 * HOUR_MS + 1000) if told[1] == "summary"]
    assert summary[2] == ("a1", "a2")


def test_a_message_is_given_up_and_the_other_destinations_are_told() -> None:
    one = outbox(machine("dead"), machine("other", match={"pipeline": "elsewhere"}))
    one.take(change("a", "firing"), 0)
    (message,) = due(one, 0)
    one.record_failure(message, "it does not answer", 1000)
    (message,) = due(one, GIVE_UP_MS)
    one.record_failure(message, "it does not answer", GIVE_UP_MS)
    changes = one.take_changes()
    (letter,) = changes.dead_letters
    assert (letter.reason, letter.entry_id) == ("undeliverable", "1000-0")
    assert "dead" in letter.detail
    (failing,) = changes.alerts
    assert (failing.status, failing.kind, failing.rule) == ("firing", "stall", "notify-dead")
    one.take(change(failing.alert_id, "firing", rule=failing.rule), GIVE_UP_MS)
    assert send(one, GIVE_UP_MS) == [("other", "firing", (failing.alert_id,))]
    # The end of an alert whose firing was given up is not told. The next message ends the alert of the destination.
    one.take(change("a", "resolved"), GIVE_UP_MS)
    one.take(change("b", "firing"), GIVE_UP_MS)
    assert send(one, GIVE_UP_MS) == [("dead", "firing", ("b",))]
    (ended,) = one.take_changes().alerts
    assert (ended.alert_id, ended.status) == (failing.alert_id, "resolved")


@pytest.mark.parametrize("at_once", [True, False])
def test_destinations_that_all_fail_lose_one_message_each_and_the_first_that_works_again_hears_of_the_others(
    at_once: bool,
) -> None:
    names = ("one", "two", "three")
    box = outbox(*map(machine, names))
    box.take(change("a", "firing"), 0)
    letters, alerts = [], list[Alert]()

    def take() -> None:
        changes = box.take_changes()
        letters.extend(changes.dead_letters)
        alerts.extend(changes.alerts)
        for raised in changes.alerts:
            box.take(PendingChange(status=raised.status, alert=raised, entry_id="5-0"), 5)

    messages = due(box, 0)
    for message in messages:
        box.record_failure(message, "404", 0, refused=True)
        if at_once:  # the alert that it fails comes before the others have failed, or after that
            take()
    for now_ms in range(1, 30):
        take()
        for message in due(box, now_ms):
            box.record_failure(message, "404", now_ms, refused=True)
    take()
    assert [letter.detail.split()[1] for letter in letters] == [*names]
    assert sorted(raised.rule for raised in alerts) == ["notify-one", "notify-three", "notify-two"]
    box.take(change("b", "firing"), 50)
    (message,) = [message for message in due(box, 50) if message.destination == "two"]
    box.record_sent(message, "", 50)
    told = [message for message in due(box, 51) if message.destination == "two"]
    assert [box.notification(message).alerts[0].rule for message in told] == ["notify-one"]
    box.record_sent(told[0], "", 51)
    told = [message for message in due(box, 52) if message.destination == "two"]
    assert [box.notification(message).alerts[0].rule for message in told] == ["notify-three"]


def test_a_refused_message_is_given_up_at_once() -> None:
    one = outbox(machine())
    one.take(change("a", "firing"), 0)
    (message,) = due(one, 0)
    one.record_failure(message, "404", 0, refused=True)
    changes = one.take_changes()
    assert (len(changes.dead_letters), len(changes.alerts)) == (1, 1)
    assert send(one, 10 * REPEAT_MS) == []


def test_a_destination_that_asks_to_wait_is_not_called_and_delays_no_other() -> None:
    one = outbox(machine("slow"), machine("fast"))
    one.take(change("a", "firing"), 0)
    slow = next(message for message in due(one, 0) if message.destination == "slow")
    one.record_failure(slow, "429", 0, retry_after_s=120)
    one.take(change("b", "firing"), 1000)
    assert due(one, 119_999) == []  # "fast" is still busy with its first message
    assert [message.destination for message in due(one, 120_000)] == ["slow"]


def test_a_destination_that_may_not_be_tried_keeps_its_messages() -> None:
    one = outbox(machine("broken"), machine("fine"))
    for alert_id in ("a", "b"):
        one.take(change(alert_id, "firing"), 0)
    found = one.due(0, WithheldBy(), may_try=lambda name: name == "fine")
    assert [message.destination for message in found] == ["fine"]
    assert due(one, 999) == []
    assert one.next_ms(500) == 1000
    assert [message.destination for message in due(one, 1000)] == ["broken"]


def test_a_storm_becomes_one_summary() -> None:
    one = outbox(channel(), storm_messages=3)
    for n in range(10):
        one.take(change(f"a{n}", "firing", pipeline=f"p{n}"), 0)
    sent = send(one, WAIT_MS)
    assert [(status, len(ids)) for _, status, ids in sent] == [("firing", 1)] * 3
    assert one.withheld["people", "storm"] == 7
    (message,) = due(one, 2 * WAIT_MS)
    told = one.notification(message)
    assert (told.status, told.n_withheld, len(told.alerts)) == ("summary", 7, 7)
    one.record_sent(message, "", 2 * WAIT_MS)
    assert send(one, 3 * WAIT_MS) == []
    one.take(change("a9", "resolved", pipeline="p9"), 2_000_000)
    assert send(one, 2_000_000 + WAIT_MS) == [("people", "resolved", ("a9",))]


def test_a_destination_that_was_removed_leaves_nothing_behind() -> None:
    stored: dict[str, bytes] = {}
    one = outbox(machine("old"), machine("new"))
    one.take(change("a", "firing"), 0)
    for message in due(one, 0):
        one.record_failure(message, "no", 0, refused=message.destination == "old")
    write(one, stored)
    after = reloaded(one, stored, machine("new"))
    ended = write(after, stored)
    assert [alert.status for alert in ended] == ["resolved"]
    assert not [name for name in stored if "old" in name]
    assert send(after, 60_000) == [("new", "firing", ("a",))]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["firing", "explained", "resolved"]), st.integers(0, 2)),
        st.tuples(st.sampled_from(["ok", "fail", "refuse", "lose", "crash"]), st.integers(0, 1)),
        st.tuples(st.just("pass"), st.integers(1, 40)),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(ACTIONS)
def test_nothing_is_lost_nothing_is_told_twice_and_the_order_holds(  # noqa: PLR0912 - a branch for each action
    actions: list[tuple[str, int]],
) -> None:
    """Whatever happens, in which order: each alert is told as firing and then as resolved, once, unless it was refused
    or resolved before it was told. A crash after a delivery repeats that delivery, and only that."""
    places = (machine(), channel())
    one, stored, now = outbox(*places), dict[str, bytes](), 0
    status: dict[str, str] = {}
    received: dict[tuple[str, str], list[str]] = {}
    doubtful: set[tuple[str, str]] = set()
    refused: set[tuple[str, str]] = set()
    in_flight = list(due(one, now))

    def arrive(number: int) -> None:
        message = in_flight[number]
        for alert in one.notification(message).alerts:
            received.setdefault((message.destination, alert.alert_id), []).append(message.status)

    for action, number in actions:
        in_flight += due(one, now)
        if action in ("firing", "explained", "resolved"):
            alert_id = f"a{number}"
            allowed = {"firing": (None,), "explained": ("firing",), "resolved": ("firing", "explained")}[action]
            if status.get(alert_id) in allowed:
                status[alert_id] = action
                one.take(change(alert_id, action, pipeline=f"p{number % 2}"), now)
        elif action == "pass":
            now += number * 1000
            in_flight += due(one, now)
        elif action == "crash":
            one, in_flight = reloaded(one, stored, *places), []
        elif number < len(in_flight):
            message = in_flight[number]
            ids = {(message.destination, alert_id) for alert_id in message.alert_ids}
            if action == "ok":
                arrive(number)
                one.record_sent(message, "ts", now)
            elif action == "refuse":
                one.record_failure(message, "no", now, refused=True)
                refused |= ids
            else:
                if action == "lose":
                    arrive(number)
                    doubtful |= ids
                one.record_failure(message, "no answer", now)
            del in_flight[number]
    for number in reversed(range(len(in_flight))):
        arrive(number)
        one.record_sent(in_flight[number], "ts", now)
        del in_flight[number]
    for _ in range(4):
        now += 60_000
        while messages := due(one, now):
            in_flight[:] = messages
            for number, message in enumerate(messages):
                arrive(number)
                one.record_sent(message, "ts", now)
            in_flight.clear()
    for alert_id, last in status.items():
        for place in ("hook", "people"):
            told = [s for s in received.get((place, alert_id), []) if s != "explained"]
            if (place, alert_id) not in doubtful:
                assert told.count("firing") <= 1
                assert told.count("resolved") <= 1
            if (place, alert_id) in refused:
                continue
            assert told == sorted(told, key=["firing", "resolved"].index)
            if last != "resolved":
                assert "firing" in told
            else:
                assert not told or {"firing", "resolved"} == set(told)
    assert all(one.waiting(place)[0] == 0 for place in ("hook", "people"))
