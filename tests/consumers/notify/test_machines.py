"""Webhook, Alertmanager and PagerDuty: the payloads, checked as the real services would."""

import base64
import hashlib
import hmac
import unittest.mock
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.receiver import Receiver, ScriptedAnswer, destination, receiver
from tests.support.told import FIRED, RESOLVED, drift, mix_cause, told_of

from ragtide_consumers.notify import notification
from ragtide_consumers.notify.destinations.pagerduty import event_of
from ragtide_schemas import Alert

KEY = b"thirty-two bytes of a secret key"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
LINK = "https://ragtide.example/a/adherence-3f2a9c"


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


async def test_a_webhook_gets_a_cloud_event_of_the_whole_alert(server: Receiver) -> None:
    async with destination("webhook", url=f"{server.url}/hook?a=b", token="t0ken", prefix="rt") as webhook:
        await webhook.deliver(told_of())
    (request,) = server.received
    event = request.json
    assert request.path == "/hook?a=b"
    assert request.headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert request.headers["authorization"] == "Bearer t0ken"
    assert {name: event[name] for name in ("specversion", "type", "source", "id", "subject", "link")} == {
        "specversion": "1.0",
        "type": "io.ragtide.alert.firing",
        "source": "/ragtide/rt",
        "id": "adherence-3f2a9c:firing",
        "subject": "shop",
        "link": LINK,
    }
    assert datetime.fromisoformat(event["time"]) == FIRED
    assert Alert.model_validate(event["data"]) == drift()


def verified(request_headers: dict[str, str], body: bytes, key: bytes) -> bool:
    """Verify as the specification of Standard Webhooks says, apart from the code under test."""
    content = f"{request_headers['webhook-id']}.{request_headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    recent = abs(datetime.now(UTC).timestamp() - int(request_headers["webhook-timestamp"])) < 300
    return recent and any(
        hmac.compare_digest(part, f"v1,{expected}") for part in request_headers["webhook-signature"].split(" ")
    )


async def test_a_webhook_is_signed(server: Receiver) -> None:
    async with destination("webhook", url=server.url, secret=SECRET) as webhook:
        await webhook.deliver(told_of())
    (request,) = server.received
    headers = dict(request.headers)
    assert headers["webhook-id"] == request.json["id"]
    assert verified(headers, request.body, KEY)
    assert not verified(headers, request.body + b" ", KEY)
    assert not verified(headers, request.body, KEY[::-1])


async def test_a_retry_has_the_same_event_and_a_repeat_another(server: Receiver) -> None:
    async with destination("webhook", url=server.url, secret=SECRET) as webhook:
        for told in (told_of(), told_of(), told_of(repeat=1), told_of(drift(status="resolved", resolved_at=RESOLVED))):
            await webhook.deliver(told)
    first, again, repeat, resolved = server.received
    assert first.body == again.body
    ids = [one.headers["webhook-id"] for one in (first, repeat, resolved)]
    assert ids == ["adherence-3f2a9c:firing", "adherence-3f2a9c:firing:1", "adherence-3f2a9c:resolved"]


@pytest.mark.parametrize("alert_id", ["rule.v2-3f2a", "größe-1", "with space", "x" * 200])
async def test_an_unusual_id_has_a_form_that_headers_and_signatures_carry(server: Receiver, alert_id: str) -> None:
    async with destination("webhook", url=server.url, secret=SECRET) as webhook:
        await webhook.deliver(told_of(drift(alert_id=alert_id)))
    (request,) = server.received
    sent = request.headers["webhook-id"]
    assert sent.isascii()
    assert "." not in sent
    assert sent == request.json["id"]
    assert request.json["data"]["alert_id"] == alert_id
    assert verified(dict(request.headers), request.body, KEY)


async def test_alertmanager_gets_labels_that_identify_the_alert(server: Receiver) -> None:
    before = datetime.now(UTC)
    async with destination("alertmanager", url=f"{server.url}/am/", user="me", password="pw") as manager:
        assert not manager.grouped
        assert 30 <= (manager.resend_s or 0) <= 180
        await manager.deliver(told_of(drift(segment="lang=de")))
    (request,) = server.received
    (posted,) = request.json
    assert request.path == "/am/api/v2/alerts"
    assert request.headers["authorization"] == "Basic " + base64.b64encode(b"me:pw").decode()
    assert posted["labels"] == {
        "alertname": "adherence",
        "pipeline": "shop",
        "metric": "trace.adherence",
        "segment": "lang=de",
        "labeler": "judge",
        "profile": "ragbench",
        "severity": "page",
    }
    assert posted["annotations"]["alert_id"] == "adherence-3f2a9c"
    assert posted["annotations"]["summary"] == "trace.adherence of shop, lang=de fell from 0.910 to 0.712"
    assert all(isinstance(label, str) for label in [*posted["labels"].values(), *posted["annotations"].values()])
    assert datetime.fromisoformat(posted["startsAt"]) == FIRED
    assert datetime.fromisoformat(posted["endsAt"]) >= before + timedelta(minutes=5)
    assert posted["generatorURL"] == LINK


async def test_labels_stay_the_same_while_numbers_move(server: Receiver) -> None:
    changed = drift(
        status="resolved", resolved_at=RESOLVED, observed=0.85, observed_n=900, alert_id="adherence-3f2a9c", n=9000
    )
    async with destination("alertmanager", url=server.url) as manager:
        await manager.deliver(told_of())
        await manager.deliver(told_of(changed, changed_at=RESOLVED))
    firing, resolved = (one.json[0] for one in server.received)
    assert firing["labels"] == resolved["labels"]
    assert datetime.fromisoformat(resolved["endsAt"]) == RESOLVED
    assert resolved["startsAt"] <= resolved["endsAt"]


async def test_an_alert_never_ends_before_it_starts(server: Receiver) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=9)
    resolved = drift(status="resolved", fired_at=ahead, resolved_at=ahead)
    async with destination("alertmanager", url=server.url) as manager:
        await manager.deliver(told_of(resolved, raised_at=None))
        await manager.deliver(told_of(drift(fired_at=ahead), raised_at=None))
    for request in server.received:
        posted = request.json[0]
        assert datetime.fromisoformat(posted["startsAt"]) <= datetime.fromisoformat(posted["endsAt"])


async def test_pagerduty_triggers_and_resolves_one_incident(server: Receiver) -> None:
    server.usual = ScriptedAnswer(202, b'{"status": "success"}')
    async with destination("pagerduty", url=f"{server.url}/v2/enqueue", token="k" * 32) as pagerduty:
        await pagerduty.deliver(told_of())
        await pagerduty.deliver(told_of(drift(status="resolved", resolved_at=RESOLVED)))
    trigger, resolve = (one.json for one in server.received)
    assert resolve == {"routing_key": "k" * 32, "event_action": "resolve", "dedup_key": "adherence-3f2a9c"}
    payload = trigger.pop("payload")
    assert trigger == {
        "routing_key": "k" * 32,
        "event_action": "trigger",
        "dedup_key": "adherence-3f2a9c",
        "client": "ragtide",
        "client_url": LINK,
        "links": [{"href": LINK, "text": "Open the alert"}],
    }
    assert payload["summary"] == "trace.adherence of shop fell from 0.910 to 0.712"
    assert payload["severity"] == "critical"
    assert payload["source"] == "shop"
    assert payload["custom_details"]["Normal"] == "0.910, learned from 500 answers"


def test_an_explained_alert_tells_its_cause_to_pagerduty() -> None:
    event = event_of(drift(status="explained", explained_at=RESOLVED, cause=mix_cause()), told_of(), datetime.now(UTC))
    assert event["event_action"] == "trigger"
    assert "lang=de (12% to 31%)" in str(event)


@pytest.mark.parametrize(("severity", "expected"), [("page", "critical"), ("ticket", "warning"), ("info", "info")])
def test_pagerduty_knows_the_severity(severity: str, expected: str) -> None:
    event = event_of(drift(severity=severity), told_of(), datetime.now(UTC))
    assert isinstance(event["payload"], dict)
    assert event["payload"]["severity"] == expected


@pytest.mark.parametrize(("kind", "n"), [("webhook", 1), ("alertmanager", 1), ("pagerduty", 2)])
async def test_a_test_leaves_nothing_that_fires(server: Receiver, kind: str, n: int) -> None:
    fields: dict[str, Any] = {"token": "k" * 32} if kind == "pagerduty" else {}
    async with destination(kind, url=server.url, **fields) as one:
        await one.deliver(told_of(status="test", alerts=()))
    found = [request.json for request in server.received]
    assert len(found) == n
    if kind == "webhook":
        assert found[0]["type"] == "io.ragtide.alert.test"
    elif kind == "alertmanager":
        assert datetime.fromisoformat(found[0][0]["endsAt"]) < datetime.now(UTC) + timedelta(seconds=90)
    else:
        assert [event["event_action"] for event in found] == ["trigger", "resolve"]


def test_two_tests_are_not_taken_for_one() -> None:
    now = datetime.now(UTC)
    with unittest.mock.patch.object(notification, "utc_now", side_effect=[now, now + timedelta(seconds=1)]):
        assert notification.sample_alert().alert_id != notification.sample_alert().alert_id


@pytest.mark.parametrize("kind", ["webhook", "pagerduty"])
async def test_each_alert_of_a_summary_is_told_as_it_is(server: Receiver, kind: str) -> None:
    alerts = (drift(), drift(alert_id="other-1", status="resolved", resolved_at=RESOLVED))
    fields: dict[str, Any] = {"token": "k" * 32} if kind == "pagerduty" else {}
    async with destination(kind, url=server.url, **fields) as one:
        await one.deliver(told_of(*alerts, status="summary", n_withheld=2))
    found = [request.json for request in server.received]
    if kind == "webhook":
        assert [event["type"].rpartition(".")[2] for event in found] == ["firing", "resolved"]
    else:
        assert [event["event_action"] for event in found] == ["trigger", "resolve"]
