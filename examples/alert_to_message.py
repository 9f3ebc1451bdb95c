"""Each alert as a message in a chat, by code of your own.

    CHAT_URL=https://hooks.slack.com/services/... python examples/alert_to_message.py

The address is that of an incoming webhook of Slack, or of a chat with the same protocol. `alert_to_message.toml` needs
no code, and has retries, quiet hours and a limit on messages: prefer it, unless your service speaks another protocol.
"""

import json
import os
import sys
from urllib.request import Request, urlopen

from ragtide import Alert, AlertSubscriber

SYMBOLS = {"firing": ":red_circle:", "explained": ":mag:", "resolved": ":large_green_circle:"}


def text_of(alert: Alert) -> str:
    """Return the message about a change of an alert; `&`, `<` and `>` are control characters of Slack."""
    text = alert.message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"{SYMBOLS[alert.status]} *{alert.status}* {text}"


def post(url: str, text: str) -> None:
    """Post a message. An answer other than 2xx raises, so that the alert is not acknowledged and comes again."""
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps({"text": text}).encode(), headers), timeout=10):
        pass


def main() -> None:
    """Post every alert until Ctrl-C. Redis keeps the place of the group, so no alert is lost between two runs."""
    url = os.environ.get("CHAT_URL", "")
    if not url.startswith(("http://", "https://")):
        sys.exit("CHAT_URL is no address: set it to the address of an incoming webhook, which begins with https://")
    with AlertSubscriber(group="chat", from_start=True) as alerts:
        for alert in alerts:
            post(url, text_of(alert))


if __name__ == "__main__":
    main()
