"""An incoming webhook of Slack on this machine: it takes what Slack takes, and refuses what Slack refuses."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

LONGEST: Final = {"header": 150, "section": 3_000, "field": 2_000}
"""Most characters of a text, from Slack's reference of blocks."""


class SlackWebhook:
    """The messages that were posted, and the address to post them to."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/services/T000/B000/secret"
        self.messages: list[Any] = []
        self.refusals: list[str] = []
        """Answers to what was no message."""

    @property
    def texts(self) -> list[str]:
        """What a phone shows of each message."""
        return [message["text"] for message in self.messages]

    def answer(self, path: str, kind: str, body: bytes) -> tuple[int, str]:
        """Return status and body of the answer to a post, as Slack's page of incoming webhooks has them."""
        if not self.url.endswith(path):
            return 404, "no_service"
        try:
            message = json.loads(body)
        except ValueError:
            return 400, "invalid_payload"
        if not kind.startswith("application/json") or not isinstance(message, dict):
            return 400, "invalid_payload"
        if not (message.get("text") or message.get("blocks")):
            return 400, "no_text"
        if not _are_blocks(message.get("blocks", [])):
            return 400, "invalid_blocks"
        self.messages.append(message)
        return 200, "ok"


def _are_blocks(blocks: Any) -> bool:
    return isinstance(blocks, list) and len(blocks) <= 50 and all(_is_block(block) for block in blocks)


def _is_block(block: Any) -> bool:
    kind, fields = block.get("type"), block.get("fields", [])
    if kind == "header":
        return block["text"]["type"] == "plain_text" and _fits(block["text"], "header")
    if kind == "section":
        text = "text" not in block or _fits(block["text"], "section")
        return (
            text and bool("text" in block or fields) and len(fields) <= 10 and all(_fits(it, "field") for it in fields)
        )
    return kind == "context" and 0 < len(block["elements"]) <= 10


def _fits(text: Any, kind: str) -> bool:
    return text["type"] in {"plain_text", "mrkdwn"} and 0 < len(text["text"]) <= LONGEST[kind]


@contextmanager
def slack_webhook() -> Iterator[SlackWebhook]:
    """Serve an incoming webhook for the body of a `with`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, text = webhook.answer(self.path, self.headers["Content-Type"] or "", body)
            if status != 200:
                webhook.refusals.append(text)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        webhook = SlackWebhook(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield webhook
        finally:
            server.shutdown()
            thread.join()
