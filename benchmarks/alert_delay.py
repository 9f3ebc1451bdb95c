"""How soon an alert arrives: from the first swapped answer of the demo to the body that a webhook receives.

    python benchmarks/alert_delay.py [--rounds 20]

`ragtide up` runs with the demo's rule on drift and a webhook. Each round has a pipeline of its own: 240 real answers
are published and scored, then 240 answers of other questions, at once. Measured is the time from just before the first
of these is published until the webhook has the alert. In the end `ragtide item` shows the worst item of each alert;
counted are the items with an unsupported sentence.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from processes import role, until

from ragtide import Alert, InteractionProducer, RagInteraction
from ragtide_offline.demo import HALF, RULES, traffic
from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.server.embedded import EmbeddedRedis

STREAMS = Streams("ragtide", 0)
RECEIVED: dict[str, tuple[float, Alert]] = {}
"""The first firing alert of each pipeline, and when its body was there."""


class Webhook(BaseHTTPRequestHandler):
    """Notes when an alert arrives."""

    def do_POST(self) -> None:
        """Take one notification."""
        body = self.rfile.read(int(self.headers["content-length"]))
        now = time.perf_counter()
        alert = Alert.model_validate(json.loads(body)["data"])
        RECEIVED.setdefault(alert.pipeline, (now, alert))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing for each request."""


def round_of(number: int, redis: Any, producer: InteractionProducer) -> float:
    """Run a round, and return the seconds until its alert arrived."""
    pipeline = f"demo-{number}"
    rows: list[RagInteraction] = [interaction.model_copy(update={"pipeline": pipeline}) for interaction in traffic()]
    before = redis.xinfo_stream(STREAMS.metrics)["entries-added"] if redis.exists(STREAMS.metrics) else 0
    producer.publish_many(rows[:HALF])
    until(lambda: redis.exists(STREAMS.metrics))
    until(lambda: redis.xinfo_stream(STREAMS.metrics)["entries-added"] >= before + HALF)
    until(lambda: redis.hget(STREAMS.checkpoint, "position") == redis.xrevrange(STREAMS.metrics, count=1)[0][0])
    started = time.perf_counter()
    producer.publish_many(rows[HALF:])
    until(lambda: pipeline in RECEIVED)
    return RECEIVED[pipeline][0] - started


def item_of(alert: Alert, settings: dict[str, str]) -> dict[str, Any]:
    """Return the worst item of an alert, as `ragtide item --json` shows it."""
    command = [sys.executable, "-m", "ragtide", "item", alert.worst_interaction_ids[0], "--pipeline", alert.pipeline]
    done = subprocess.run(
        [*command, "--json"], env={**os.environ, **settings}, check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    return dict(found[0] if isinstance(found, list) else found)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    webhook = ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
    Thread(target=webhook.serve_forever, daemon=True).start()
    destination = {"name": "hook", "kind": "webhook", "url": f"http://127.0.0.1:{webhook.server_port}"}
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server, connect(server.url) as redis:
        settings = {
            "RAGTIDE_REDIS_URL": server.url,
            "RAGTIDE_ALERTS": json.dumps([RULES[0].model_dump(mode="json", exclude_none=True)]),
            "RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true",
            "RAGTIDE_NOTIFY_DESTINATIONS": json.dumps([destination]),
        }
        with role("up", settings, Path(name) / "up.log"), InteractionProducer(server.url) as producer:
            delays = [round_of(number, redis, producer) for number in range(options.rounds)]
        shown = [item_of(alert, settings) for _, alert in RECEIVED.values()]
    result = {
        "rounds": len(delays),
        "seconds_median": round(statistics.median(delays), 3),
        "seconds_least": round(min(delays), 3),
        "seconds_most": round(max(delays), 3),
        "worst_items_with_an_unsupported_sentence": sum(map(has_unsupported, shown)),
    }
    print(json.dumps(result, indent=2))


def has_unsupported(item: dict[str, Any]) -> bool:
    """Return whether a shown item has a sentence that the documents rather do not support: no, or below one half."""
    return any(
        sentence["supported"] is not None and sentence["supported"] < 0.5 for sentence in item["marks"]["response"]
    )


if __name__ == "__main__":
    main()
