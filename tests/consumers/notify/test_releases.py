"""Alerts about releases: what each destination gets, and which events are sent to whom."""

import json
from typing import Any

import pytest
from tests.consumers.notify.outboxes import REPEAT_MS, channel, due, machine, outbox, send
from tests.support.receiver import destination
from tests.support.releases import release, release_alert
from tests.support.told import told_of

from ragtide_consumers.notify.grouping import PendingChange
from ragtide_schemas import Alert
from ragtide_schemas.release import ReleaseEvent

EVENTS: tuple[ReleaseEvent, ...] = ("release.opened", "release.worse", "release.not_worse", "release.ended")
PLACES: dict[str, dict[str, Any]] = {
    "webhook": {"url": "https://hook.example"},
    "slack": {"url": "https://hook.example"},
    "teams": {"url": "https://hook.example"},
    "email": {"host": "mail.example", "sender": "a@mail.example", "to": ["b@mail.example"]},
    "alertmanager": {"url": "https://hook.example"},
    "pagerduty": {"token": "k" * 32},
    "apprise": {"url": "json://hook.example"},
}
ENDS_ALONE = {"pagerduty"}  # the end of an incident has no words
apprise_warns = pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")


async def body_of(kind: str, alert: Alert) -> str:
    async with destination(kind, **PLACES[kind]) as place:
        (preview,) = place.preview(told_of(alert))
    told = preview.body if isinstance(preview.body, str) else json.dumps(preview.body)
    return f"{json.dumps(preview.headers)}\n{told}".replace("\\\\", "\\").replace("&gt;", ">")


@apprise_warns
@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("event", EVENTS)
async def test_every_destination_gets_the_event_and_both_numbers_with_their_intervals(
    kind: str, event: ReleaseEvent
) -> None:
    alert = release_alert(event)
    body = await body_of(kind, alert)
    if kind in ENDS_ALONE and alert.status == "resolved":
        assert json.loads(body.partition("\n")[2])["event_action"] == "resolve"
        return
    both = ("0.813", "0.804", "0.821", "3,420", "0.711", "0.677", "0.746", "180")
    difference = ("-0.099", "-0.151", "-0.060")
    for fact in (event, "shop", "v1", "v2", "trace.adherence", *both, *difference, "1,520", "https://ragtide.example"):
        assert fact in body, fact
    assert "None" not in body


async def test_a_webhook_names_the_event_in_its_type() -> None:
    for event in EVENTS:
        told = json.loads((await body_of("webhook", release_alert(event))).partition("\n")[2])
        assert (told["type"], told["event"]) == (f"io.ragtide.{event}", event)
        assert Alert.model_validate(told["data"]) == release_alert(event)


async def test_a_worse_version_triggers_and_its_end_resolves_the_same_incident() -> None:
    worse, ended = (release_alert(event) for event in ("release.worse", "release.ended"))
    trigger, resolve = [json.loads((await body_of("pagerduty", alert)).partition("\n")[2]) for alert in (worse, ended)]
    assert (trigger["event_action"], trigger["payload"]["severity"]) == ("trigger", "critical")
    assert (resolve["event_action"], resolve["dedup_key"]) == ("resolve", trigger["dedup_key"])
    fires, ends = [json.loads((await body_of("alertmanager", alert)).partition("\n")[2])[0] for alert in (worse, ended)]
    assert fires["labels"] == ends["labels"]
    assert ends["endsAt"] < fires["endsAt"]


async def test_two_releases_of_a_pipeline_are_two_alerts_of_alertmanager() -> None:
    bodies = [
        json.loads((await body_of("alertmanager", release_alert("release.worse", about))).partition("\n")[2])
        for about in (release(), release(to_version="v3"))
    ]
    assert bodies[0][0]["labels"] != bodies[1][0]["labels"]


def changed(event: ReleaseEvent, at_ms: int = 1000, **fields: Any) -> PendingChange:
    alert = release_alert(event, **fields)
    return PendingChange(status=alert.status, alert=alert, entry_id=f"{at_ms}-0")


@pytest.mark.pure
@pytest.mark.parametrize(
    ("on", "sent"),
    [
        (None, ["release.worse", "release.ended"]),
        (["firing"], ["release.worse"]),
        (["release.worse"], ["release.worse"]),
        (["release.not_worse"], ["release.not_worse"]),
        (["firing", "resolved", "release.opened"], ["release.opened", "release.worse", "release.ended"]),
        (["release.opened", "release.not_worse"], ["release.opened", "release.not_worse"]),
        (["explained"], []),
    ],
)
@pytest.mark.parametrize("place", [machine, channel])
def test_a_destination_gets_what_it_asks_for_and_by_default_only_what_is_worse(
    place: Any, on: list[str] | None, sent: list[str]
) -> None:
    one = outbox(place("hook") if on is None else place("hook", on=on))
    got: list[str | None] = []
    for event in EVENTS:
        one.take(changed(event), 1000)
        while messages := due(one, 1000):
            for message in messages:
                got += [alert.event for alert in one.notification(message).alerts]
                one.record_sent(message, "ts", 1000)
    assert got == sent


@pytest.mark.pure
def test_a_release_is_a_message_of_its_own_and_ends_no_group() -> None:
    one = outbox(channel(on=["firing", "resolved", "release.opened"]))
    one.take(changed("release.opened"), 1000)
    one.take(changed("release.worse"), 1000)
    assert send(one, 1000) == [("people", "firing", ("release-7",)), ("people", "firing", ("release_worse-7",))]
    one.take(changed("release.ended"), 2000)
    (message,) = due(one, 2000)
    assert one.notification(message).n_still_firing == 0


@pytest.mark.pure
def test_an_open_release_is_not_repeated_and_a_worse_version_is() -> None:
    one = outbox(channel(on=["firing", "release.opened"]), machine("am", resend_ms=60_000, on=["release.opened"]))
    one.take(changed("release.opened"), 1000)
    one.take(changed("release.worse"), 1000)
    assert len(send(one, 1000)) == 3
    again = send(one, 2000 + REPEAT_MS)
    assert ("people", "firing", ("release_worse-7",)) in again
    assert ("people", "firing", ("release-7",)) not in again
    assert ("am", "firing", ("release-7",)) in again  # a receiver that would end it otherwise
