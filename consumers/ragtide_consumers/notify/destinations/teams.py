"""Microsoft Teams: an Adaptive Card to a channel, by a workflow with a webhook trigger.

All texts are in `RichTextBlock` elements, in which Teams reads no Markdown, so no name from outside becomes a link.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Final

from ..messages import NotificationText, message_text
from ..notification import Notification, Tone
from .http import HttpDestination, HttpRequest

LARGEST_TEXT: Final = 12_000
"""Most characters of all sentences of a card; Teams takes messages up to 28 KB."""


_COLOURS: Final[Mapping[Tone, str]] = {"problem": "attention", "news": "default", "end": "good"}


class Teams(HttpDestination):
    """A channel or a chat of Microsoft Teams."""

    grouped: ClassVar[bool] = True

    def requests(self, notification: Notification, now: datetime) -> list[HttpRequest]:
        """Return one message with a card."""
        card = {
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": None,
            "content": card_of(message_text(notification), notification.tone),
        }
        url = self._settings.url.get_secret_value() if self._settings.url else ""
        return [HttpRequest(url, {"type": "message", "attachments": [card]})]


def card_of(text: NotificationText, tone: Tone = "problem") -> dict[str, Any]:
    """Return a message as an Adaptive Card.

    Args:
        tone: of the notification; it colours the title.
    """
    title = _run(text.title, weight="bolder", size="large", color=_COLOURS[tone])
    body = [_block(title)]
    left = LARGEST_TEXT
    for sentence in text.sentences:
        left -= len(sentence.encode())
        if left < 0:
            body.append(_block(_run("The rest is on the page.")))
            break
        body.append(_block(_run(sentence)))
    for answer in text.answers:
        words = f"{answer.label}{answer.because}"
        left -= len(words.encode())
        if left < 0:
            break
        opens = {"selectAction": {"type": "Action.OpenUrl", "url": answer.link}}
        body.append(_block({**_run(words), **opens}))
    body += [_block(_run(f"{name}: ", weight="bolder"), _run(value)) for name, value in text.facts]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": body,
    }
    if text.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": text.link_name, "url": text.link}]
    return card


def _block(*runs: dict[str, Any]) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": list(runs)}


def _run(text: str, **style: str) -> dict[str, Any]:
    return {"type": "TextRun", "text": text, **style}
