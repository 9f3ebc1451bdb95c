"""Slack: a message to a channel, by an incoming webhook or as a bot.

A bot keeps one message for each alert or group. Later changes are replies in its thread. The message itself is updated
when the cause becomes known and when everything is resolved. An incoming webhook can only post.

All texts are plain text in Slack's sense, so that no name from outside is read as markup, a mention or an emoji.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar, Final
from urllib.parse import quote

from ragtide_schemas import utc_now
from ragtide_schemas.alert_text import LONGEST_TITLE

from ..messages import LinkedAnswer, NotificationText, message_text
from ..notification import Notification
from .http import HttpAnswer, HttpDestination, HttpRequest, bearer
from .protocol import Refused, TryLater

API: Final = "https://slack.com/api"

LONGEST_SECTION: Final = 3000
"""Most characters of a section; this and the next are limits of Slack."""

LONGEST_FIELD: Final = 500
"""Most characters of one field of a section; Slack takes 2,000."""

MOST_FIELDS: Final = 10

PASSING_ERRORS: Final = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
)
"""Errors of Slack's API that may pass by themselves."""

GONE_ERRORS: Final = frozenset({"message_not_found", "thread_not_found", "cant_update_message", "edit_window_closed"})
"""Errors that say that the first message can no longer be changed or answered."""


class _GoneError(Exception):
    """The first message can no longer be changed or answered."""


class Slack(HttpDestination):
    """A channel of Slack."""

    grouped: ClassVar[bool] = True

    def requests(self, notification: Notification, now: datetime) -> list[HttpRequest]:
        """Return one post; of a bot that has posted the alert before, an update of its message and a reply."""
        if self._settings.token is None:
            return [
                HttpRequest(
                    self._settings.url.get_secret_value() if self._settings.url else "", message_of(notification)
                )
            ]
        channel, _, ts = notification.sent_as.partition(":")
        if not ts:
            return [self._api_call("chat.postMessage", {"channel": self._settings.channel, **message_of(notification)})]
        calls = []
        if notification.status == "explained" or (
            notification.status == "resolved" and not notification.n_still_firing
        ):
            calls.append(self._api_call("chat.update", {"channel": channel, "ts": ts, **message_of(notification)}))
        # A repetition is shown in the channel, too: a repetition means that no one has reacted yet.
        reply = {
            "channel": channel,
            "thread_ts": ts,
            "reply_broadcast": notification.status == "firing",
            **message_of(notification),
        }
        calls.append(self._api_call("chat.postMessage", reply))
        return calls

    async def deliver(self, notification: Notification) -> str:
        """Post, and return channel and time stamp of the first message; empty with an incoming webhook.

        Raises:
            TryLater: it failed, and may succeed later.
            Refused: it would fail again.
        """
        requests = self.requests(notification, utc_now())
        if self._settings.token is None:
            for request in requests:
                await self.post(request)
            return ""
        posted = ""
        try:
            for request in requests:
                posted = self._read(await self.post(request)) or posted
        except _GoneError:
            # The first message was deleted in Slack, so the update starts a new thread.
            new_thread = replace(notification, sent_as="")
            try:
                return self._read(await self.post(self.requests(new_thread, utc_now())[0]))
            except _GoneError as error:
                raise Refused(f"{self.name} answered {error}") from None
        return notification.sent_as or posted

    def _api_call(self, method: str, body: dict[str, Any]) -> HttpRequest:
        quiet = {} if method == "chat.update" else {"unfurl_links": False, "unfurl_media": False}
        return HttpRequest(
            f"{API}/{method}",
            {**body, **quiet},
            bearer(self._settings.token),
            "application/json; charset=utf-8",
        )

    def _read(self, answer: HttpAnswer) -> str:
        reply = answer.json()
        if not isinstance(reply, dict):
            raise TryLater(f"{self.name} answered without JSON")
        if reply.get("ok") is not True:
            error = self.clean(str(reply.get("error", "without a reason")))
            if error in GONE_ERRORS:
                raise _GoneError(error)
            if error in PASSING_ERRORS:
                raise TryLater(f"{self.name} answered {error}")
            raise Refused(f"{self.name} answered {error}: check token, scopes and channel of the destination")
        return f"{reply.get('channel', self._settings.channel)}:{reply.get('ts', '')}"


def message_of(notification: Notification) -> dict[str, Any]:
    """Return text and blocks of a message; a phone shows the text, which has no markup and no links."""
    text = message_text(notification)
    return {
        "text": _fit(text.title, LONGEST_SECTION),
        "mrkdwn": False,
        "parse": "none",
        "link_names": False,
        "blocks": blocks_of(text),
    }


def blocks_of(text: NotificationText) -> list[dict[str, Any]]:
    """Return a message as blocks of Slack's Block Kit, within its limits."""
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(text.title, LONGEST_TITLE)}]
    if text.sentences:
        blocks.append({"type": "section", "text": _plain("\n".join(text.sentences), LONGEST_SECTION)})
    if text.answers:
        blocks.append({"type": "rich_text", "elements": [_answer_element(answer) for answer in text.answers]})
    if text.facts:
        fields = [_plain(f"{name}\n{value}", LONGEST_FIELD) for name, value in text.facts[:MOST_FIELDS]]
        blocks.append({"type": "section", "fields": fields})
    if text.link:
        link = f"<{quote(text.link, safe=_SAFE_IN_LINK)}|{text.link_name}>"
        blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": link}]})
    return blocks


def _answer_element(answer: LinkedAnswer) -> dict[str, Any]:
    elements = [{"type": "link", "url": answer.link, "text": answer.label}]
    elements += [{"type": "text", "text": answer.because}] if answer.because else []
    return {"type": "rich_text_section", "elements": [*elements, {"type": "text", "text": "\n"}]}


_SAFE_IN_LINK: Final = ":/?#[]@!$&'()*+,;=%~"
"""Characters of an address that do not end a link of Slack."""


def escape(text: str) -> str:
    """Return a text in which Slack finds no control sequence.

    >>> escape("<!channel> a & b")
    '&lt;!channel&gt; a &amp; b'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str, most: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": _fit(text, most), "emoji": False}


def _fit(text: str, most: int, escape: Callable[[str], str] = escape) -> str:
    escaped = escape(text)
    while len(escaped) > most:
        text = text[: max(len(text) - max((len(escaped) - most) // 5, 1) - 3, 0)] + "..."
        escaped = escape(text)
    return escaped
