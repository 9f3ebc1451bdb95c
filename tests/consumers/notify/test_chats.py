"""Slack and Teams: the messages, and that no name from outside becomes markup."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.names import NAME_CHARACTERS
from tests.support.receiver import Receiver, ScriptedAnswer, destination, receiver
from tests.support.told import RESOLVED, drift, told_of

from ragtide_consumers.notify.destinations import slack as slack_module
from ragtide_consumers.notify.destinations.protocol import Refused, TryLater
from ragtide_consumers.notify.destinations.slack import blocks_of, message_of
from ragtide_consumers.notify.destinations.teams import card_of
from ragtide_consumers.notify.messages import message_text

POSTED = ScriptedAnswer(200, b'{"ok": true, "channel": "C1", "ts": "17.5"}')
HOSTILE = "lang=<!channel> *bold* [link](https://evil.example) &amp; <https://evil.example|x>"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    async with receiver() as found:
        monkeypatch.setattr(slack_module, "API", f"{found.url}/api")
        yield found


async def test_an_incoming_webhook_gets_blocks(server: Receiver) -> None:
    server.usual = ScriptedAnswer(200, b"ok")
    async with destination("slack", url=f"{server.url}/services/T0/B0/key") as slack:
        assert slack.grouped
        assert await slack.deliver(told_of()) == ""
    body = server.received[0].json
    assert body["text"] == "trace.adherence of shop fell from 0.910 to 0.712"
    # The text is shown where blocks are not, and is no markup there.
    assert (body["mrkdwn"], body["parse"], body["link_names"]) == (False, "none", False)
    assert [block["type"] for block in body["blocks"]] == ["header", "section", "section", "context"]
    assert "authorization" not in server.received[0].headers


async def test_a_bot_updates_its_message_and_answers_in_the_thread(server: Receiver) -> None:
    server.usual = POSTED
    async with destination("slack", token="xoxb-secret", channel="C1") as slack:
        sent = await slack.deliver(told_of())
        assert await slack.deliver(told_of(repeat=1, sent_as=sent)) == sent
        resolved = drift(status="resolved", resolved_at=RESOLVED, observed=0.85, fired_observed=0.712)
        assert await slack.deliver(told_of(resolved, sent_as=sent, n_still_firing=1)) == sent
        assert await slack.deliver(told_of(resolved, sent_as=sent)) == sent
    assert sent == "C1:17.5"
    calls = [(one.path.removeprefix("/api/"), one.json) for one in server.received]
    assert {one.headers["authorization"] for one in server.received} == {"Bearer xoxb-secret"}
    assert [name for name, _ in calls] == [
        "chat.postMessage", "chat.postMessage", "chat.postMessage", "chat.update", "chat.postMessage",
    ]  # fmt: skip
    first, repeat, some, update, last = (body for _, body in calls)
    assert first["channel"] == "C1"
    assert "thread_ts" not in first
    assert (repeat["thread_ts"], repeat["reply_broadcast"]) == ("17.5", True)
    assert (some["thread_ts"], some["reply_broadcast"]) == ("17.5", False)
    assert "1 other alert of this group still fires." in json.dumps(some)
    assert update["ts"] == "17.5"
    assert update["text"] == "Resolved: trace.adherence of shop is back at 0.850, after 0.712"
    assert last["thread_ts"] == "17.5"


async def test_a_deleted_message_begins_a_new_one(server: Receiver) -> None:
    server.answers = [ScriptedAnswer(200, b'{"ok": false, "error": "message_not_found"}'), POSTED]
    async with destination("slack", token="xoxb-secret", channel="C1") as slack:
        resolved = drift(status="resolved", resolved_at=RESOLVED, observed=0.85, fired_observed=0.712)
        assert await slack.deliver(told_of(resolved, sent_as="C1:1.1")) == "C1:17.5"
    assert "thread_ts" not in server.received[-1].json


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"ok": false, "error": "ratelimited"}', TryLater),
        (b'{"ok": false, "error": "internal_error"}', TryLater),
        (b"<html>", TryLater),
        (b'{"ok": false, "error": "invalid_auth"}', Refused),
        (b'{"ok": false, "error": "not_in_channel"}', Refused),
        (b'{"ok": false, "error": "xoxb-secret"}', Refused),
        (b'{"ok": false}', Refused),
    ],
)
async def test_an_answer_of_slack_has_a_meaning(server: Receiver, answer: bytes, expected: type[Exception]) -> None:
    server.usual = ScriptedAnswer(200, answer)
    async with destination("slack", token="xoxb-secret", channel="C1") as slack:
        with pytest.raises(expected) as failed:
            await slack.deliver(told_of())
    assert "xoxb-secret" not in str(failed.value)


def texts_of(value: Any) -> list[dict[str, Any]]:
    """Return the text objects of blocks."""
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    if not isinstance(value, dict):
        return []
    own = [value] if value.get("type") in {"plain_text", "mrkdwn"} else []
    return own + [text for item in value.values() for text in texts_of(item)]


def test_no_name_is_markup_in_slack() -> None:
    body = message_of(told_of(drift(segment=HOSTILE)))
    texts = texts_of(body["blocks"])
    assert [one["text"] for one in texts if one["type"] == "mrkdwn"] == [
        "<https://ragtide.example/a/adherence-3f2a9c|Open the alert>"
    ]
    for text in [body["text"], *(one["text"] for one in texts if one["type"] == "plain_text")]:
        assert "<" not in text
        assert ">" not in text


async def test_teams_gets_an_adaptive_card_without_markdown(server: Receiver) -> None:
    server.usual = ScriptedAnswer(202)
    async with destination("teams", url=f"{server.url}/workflows/abc?sig=key") as teams:
        assert teams.grouped
        await teams.deliver(told_of(drift(segment=HOSTILE)))
    body = server.received[0].json
    (attachment,) = body["attachments"]
    card = attachment["content"]
    assert body["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert card["actions"][0]["url"] == "https://ragtide.example/a/adherence-3f2a9c"


NAMES = st.text(NAME_CHARACTERS, min_size=1, max_size=200).filter(str.strip)


@settings(max_examples=40)
@given(pipeline=NAMES, segment=NAMES, ids=st.lists(NAMES, max_size=20), n=st.integers(1, 40))
def test_every_message_stays_within_the_limits(pipeline: str, segment: str, ids: list[str], n: int) -> None:
    alerts = [
        drift(alert_id=f"a{place}", pipeline=pipeline, segment=segment, worst_interaction_ids=ids) for place in range(n)
    ]
    text = message_text(told_of(*alerts))
    assert len(text.title) <= 150
    assert "\n" not in text.title
    blocks = blocks_of(text)
    assert len(blocks) <= 50
    assert len(blocks[0]["text"]["text"]) <= 150
    for block in blocks[1:]:
        assert len(block.get("fields", [])) <= 10
        assert all(1 <= len(one["text"]) <= 3000 for one in texts_of(block))
    assert len(json.dumps(card_of(text), ensure_ascii=False).encode()) < 28_000
