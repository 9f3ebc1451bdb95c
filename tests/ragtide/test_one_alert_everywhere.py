"""One alert has the same facts in every channel: terminal, mail, chats, pager, webhook and Alertmanager."""

import html
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import Any, Final, cast, get_args

import pytest
from rich.console import Console
from tests.support.http_service import http_service
from tests.support.receiver import destination
from tests.support.releases import release, release_alert
from tests.support.told import BEGAN, FIRED, RESOLVED, drift, mix_cause, told_of
from tests.web.page.test_page import page

from ragtide.cli.printing.live import alert_panel
from ragtide_consumers.notify.destinations.alertmanager import posted_alert
from ragtide_consumers.notify.destinations.pagerduty import event_of
from ragtide_consumers.notify.destinations.slack import message_of
from ragtide_consumers.notify.destinations.teams import card_of
from ragtide_consumers.notify.destinations.webhook import cloud_event
from ragtide_consumers.notify.messages import message_text
from ragtide_consumers.notify.notification import Notification
from ragtide_consumers.notify.silences import acknowledge
from ragtide_runtime.redis.keys import Streams
from ragtide_schemas import Alert
from ragtide_schemas.alert import StepCause, StepChange, StepName, ValueShare
from ragtide_schemas.alert_text import AlertText, WorstAnswer, alert_text
from ragtide_schemas.alert_text import message_of as message
from ragtide_schemas.release import ReleaseEvent

TARGET = {"kind": "threshold", "baseline_source": "target", "baseline": 0.8, "normal": None, "normal_n": None}
WITHIN = mix_cause(verdict="within", carriers=("lang=de",), spread="few", text="within lang=de (0.9 to 0.1)")
BM25 = StepChange(step="bm25", metric="retrieval.step.bm25.used_recall", before=0.7, since=0.3, lower=-0.5, upper=-0.3)
STEPS = tuple(
    StepName(step=step, kind=kind)
    for step, kind in (("bm25", "retriever"), ("rerank", "reranker"), ("generator", "generator"))
)
OF_STEPS: dict[str, Any] = {"n_before": 900, "n_since": 400, "confidence": 0.95}
UNRESOLVED = StepCause(verdict="unresolved", possible=STEPS[:2], unmoved=STEPS[2:], **OF_STEPS)
MOVED = StepCause(verdict="moved", moved=STEPS[::2], unmoved=STEPS[1:2], changes=(BM25,), **OF_STEPS)
PARTLY = StepCause(verdict="partly", moved=STEPS[:1], possible=STEPS[1:], changes=(BM25,), **OF_STEPS)
SENTINEL: dict[str, Any] = {
    "kind": "sentinel", "pipeline": "ragtide-sentinels", "metric": "judge.sentinel_unlike", "direction": "rise",
    "labeler_version": "gpt-5-mini/short-trace.1", "baseline": 0.1, "baseline_source": "given", "normal": 0.1,
    "normal_n": None, "limit": 0.15, "observed": 0.5, "observed_n": 28, "observed_lower": 0.3, "observed_upper": 0.7,
    "worst_interaction_ids": ("row-3#151", "row-4#152"), "diagnosis": (),
}  # fmt: skip
LENGTHS: dict[str, Any] = {
    "kind": "distribution", "metric": "covariate.question_length", "covariate": "question_length", "quantity": "share",
    "direction": "rise", "values": "above 400", "distance": 0.4, "baseline": 0.12, "normal": 0.1, "limit": 0.14,
    "observed": 0.5, "observed_lower": 0.4, "observed_upper": 0.6, "diagnosis": (),
    "shares": tuple(
        ValueShare(values=values, before=before, since=since)
        for values, before, since in (("at most 400", 0.9, 0.5), ("above 400", 0.1, 0.5))
    ),
}  # fmt: skip
REASON = (
    '<!channel> **bold** [see](https://evil.example)\n<script>alert("x")</script> \u202eevil @here =1+1 '
    + "word " * 2_000
)
"""A judge's reason, as hostile as a text can be."""
PLAIN = {"observed": None, "began_at": None, "run_length": None, "diagnosis": (), "worst_interaction_ids": ()}
KINDS: dict[str, dict[str, Any]] = {
    "learned": {"segment": "lang=de", "status": "explained", "cause": WITHIN, "explained_at": RESOLVED},
    "sought": {"cause_sought": True, "notes": ("Meaning: <b>1</b> if supported & true.",)},
    "mix": {"status": "explained", "cause": mix_cause(), "explained_at": RESOLVED},
    "target": TARGET,
    "window": {"baseline_source": "window", "normal_of": "the 1d before"},
    "rmse": {"kind": "rmse", "quantity": "rmse", "direction": "rise", "normal": 0.1, "baseline": 0.12, "limit": 0.14},
    "kappa": {"kind": "agreement", "quantity": "kappa", "notes": ("A score of 0.5 or better is good.",)},
    "seasonal": {"baseline_source": "seasonal", "normal_of": "Mondays 09:00 to 10:00 UTC"},
    "dependent": {"design_effect": 9.3, "dependence": "ignored"},
    "long": {"design_effect": 4.0, "dependence": "long"},
    "false discovery": {"false_discovery_rate": 0.1},
    "few": {"observed_n": 14},
    "stall": {**PLAIN, "kind": "stall", "message": "Labeling is behind: <5> entries wait & more come."},
    "budget": {**PLAIN, "kind": "budget", "pipeline": "*", "message": "The judge's spend limit is reached."},
    "step": {"status": "explained", "moved_step": MOVED, "explained_at": RESOLVED},
    "step in part": {"status": "explained", "moved_step": PARTLY, "explained_at": RESOLVED},
    "step sought": {"step_sought": True},
    "step unresolved": {"status": "explained", "moved_step": UNRESOLVED, "explained_at": RESOLVED},
    "distribution": LENGTHS,
    "quantile": {"quantity": "share", "direction": "rise", "edge": 2.0, "edge_side": "above"},
    "sentinel": SENTINEL,
    "sentinel resolved": {
        **SENTINEL,
        "status": "resolved",
        "resolved_at": RESOLVED,
        "observed": 0.1,
        "fired_observed": 0.5,
    },
    "resolved": {"status": "resolved", "resolved_at": RESOLVED, "observed": 0.88, "fired_observed": 0.712},
}


EVENTS: Final = get_args(ReleaseEvent)
HOSTILE_VERSION: Final = '<!channel> **bold** <script>alert("x")</script> @here'


def of_kind(name: str) -> Alert:
    if name in EVENTS:
        return release_alert(cast("ReleaseEvent", name), release(to_version=HOSTILE_VERSION))
    alert = drift(**KINDS[name])
    return alert if alert.kind in ("stall", "budget") else alert.model_copy(update={"message": message(alert)})


def in_a_line(text: str) -> str:
    return " ".join(text.split())


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts of a JSON value in their order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from texts_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts_in(part)


def terminal(text: AlertText) -> str:
    screen = io.StringIO()
    Console(width=80, file=screen).print(alert_panel(text))
    assert re.search(rf"Id +{re.escape(text.alert.alert_id)} ", screen.getvalue())  # `ragtide alerts ack` takes it
    return in_a_line(re.sub(r"[│╭╮╰╯─]", " ", screen.getvalue()))


async def mail(notification: Notification) -> EmailMessage:
    fields: dict[str, Any] = {"host": "localhost", "sender": "a@example.org", "to": ["b@example.org"]}
    async with destination("email", **fields) as found:
        sent: EmailMessage = found.message(notification, datetime.now(UTC))  # type: ignore[attr-defined]
    return sent


def body(sent: EmailMessage, kind: str) -> str:
    part = sent.get_body((kind,))
    assert part is not None
    return str(part.get_content())


async def channels(alert: Alert, notification: Notification, text: AlertText) -> dict[str, str]:
    """Return an alert as each channel has it, in a line of plain text."""
    sent, now = await mail(notification), FIRED + timedelta(minutes=1)
    slack = json.loads(json.dumps(message_of(notification)))
    found = {
        "terminal": terminal(text),
        "mail": f"{sent['Subject']} {body(sent, 'plain')}",
        "mail in html": html.unescape(re.sub(r"<[^>]*>", " ", body(sent, "html"))),
        "slack": html.unescape(" ".join(texts_in(slack))),
        "teams": " ".join(texts_in(card_of(message_text(notification)))),
        "alertmanager": " ".join(texts_in(posted_alert(alert, notification, now)["annotations"])),
        "webhook": " ".join(texts_in(cloud_event(alert, notification, "/ragtide"))),
    }
    if alert.status != "resolved":  # it only ends the incident then
        found["pagerduty"] = " ".join(texts_in(event_of(alert, notification, now)))
    return {name: in_a_line(channel) for name, channel in found.items()}


def test_no_version_is_a_link_in_a_text() -> None:
    alert = release_alert("release.worse", release(to_version="https://evil.example", from_version="www.evil.example"))
    text = alert_text(alert)
    for sentence in (text.title, *text.sentences, *(value for _, value in text.facts)):
        assert not re.search(r"https?://|\bwww\.", sentence), sentence


@pytest.mark.parametrize("name", [*KINDS, *EVENTS])
async def test_every_channel_has_every_fact(name: str) -> None:
    alert = of_kind(name)
    worst = (WorstAnswer("q-17", "What does <it> cost & why?", 0.1, REASON),) if alert.worst_interaction_ids else ()
    until = RESOLVED + timedelta(days=1)
    given: dict[str, Any] = {"acknowledged": {alert.alert_id: "ann"}, "silenced_until": {alert.alert_id: until}}
    notification = told_of(alert, worst={alert.alert_id: worst}, **given)
    text = alert_text(alert, worst=worst, acknowledged="ann", silenced_until=until, link=notification.url)
    assert "acknowledged by ann; silenced until" in text.status
    for channel, shown in (await channels(alert, notification, text)).items():
        for fact in (text.title, *text.sentences):
            bare = re.sub("^(Worst answer|Example|Sentinel|Diagnosis): ", "", fact) if channel == "terminal" else fact
            assert in_a_line(bare) in shown, f"{channel} lacks: {fact}"
        for never in ("https://evil", "\u202e", "word " * 100, "None"):
            assert never not in shown, channel
    raw = json.dumps(message_of(notification)), body(await mail(notification), "html")
    assert "<!channel>" not in raw[0]
    assert "<script>" not in raw[1]


@pytest.mark.parametrize("name", KINDS)
def test_an_alert_begins_before_it_fires_and_fires_before_it_resolves(name: str) -> None:
    late = of_kind(name).model_copy(update={"began_at": RESOLVED, "resolved_at": BEGAN})
    text = alert_text(late)
    assert text.resolved_at is not None
    assert text.began_at <= text.fired_at <= text.resolved_at


def test_a_target_is_called_target_everywhere_and_normal_nowhere() -> None:
    alert = of_kind("target")
    assert "normal" not in " ".join((alert.message, terminal(alert_text(alert)))).lower()
    assert "normal" not in message_text(told_of(alert)).plain.lower()
    assert alert.kind == "threshold"


def test_the_message_of_an_alert_has_the_facts_of_its_record() -> None:
    for name in KINDS:
        alert = of_kind(name)
        text = alert_text(alert)
        if text.change is not None:
            assert text.title in alert.message
            assert text.change in alert.message
            assert text.normal is not None
            assert text.normal in alert.message
            assert (text.sure or "") in alert.message


def test_an_alert_about_sentinels_has_counts_the_share_by_chance_and_the_sentinels() -> None:
    text = alert_text(of_kind("sentinel"))
    assert text.title == (
        "the judge gpt-5-mini changed: 14 of 28 answers to sentinels are unlike earlier ones, 10% by chance"
    )
    assert "50% (30% to 70%), 14 of 28 answers since the change" in text.alert.message
    assert text.worst_answers == (
        "Sentinel: row-3, in answer 152 to sentinels",
        "Sentinel: row-4, in answer 153 to sentinels",
    )
    assert (text.from_words, text.to_words) == ("10%", "50%")
    over = "3 of 28 answers since it came back. It was 50% when the alert fired"
    assert over in alert_text(of_kind("sentinel resolved")).alert.message


def without_tags(page: str) -> str:
    return in_a_line(html.unescape(re.sub(r"<[^>]*>", "", page)))


@pytest.mark.redis
async def test_the_page_has_every_fact(async_redis: Any, redis_url: str) -> None:
    alerts = [of_kind(name).model_copy(update={"alert_id": f"A-{place}"}) for place, name in enumerate(KINDS)]
    for alert in alerts:
        await async_redis.xadd(Streams("ragtide", 0).alerts, {"data": alert.encode()})
    await acknowledge(async_redis, "ragtide", "A-0", "ann")
    async with http_service(redis_url) as service:
        listed = without_tags((await page(service, "/a"))[1])
        for alert in alerts:
            text = alert_text(alert)
            shown = without_tags((await page(service, f"/a/{alert.alert_id}"))[1])
            facts = (
                text.title, text.change, text.normal, text.values, text.where, *text.cause, *text.step, text.sure,
                *text.notes, *text.diagnosis, text.first,
            )  # fmt: skip
            for fact in filter(None, facts):
                assert in_a_line(fact) in shown, f"the page of {alert.alert_id} lacks: {fact}"
            assert in_a_line(text.title) in listed
            assert ("acknowledged by ann" in shown) == (alert.alert_id == "A-0")
        assert "acknowledged by ann" in listed
