"""Users leave after a bad deploy: the alert and the intervals come from what was said, without one more answer."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support.conditions import wait_until
from tests.support.roles import STREAMS, command, metric_events, running
from tests.support.story import users_leave

from ragtide import Alert, InteractionProducer
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas import utc_now

SESSIONS, TURNS = 40, 5
CONFIG = """
[clusters]
quiet_s = 3

[[alerts]]
name = "adherence"
kind = "drift"
metric = "trace.adherence"
baseline = 0.85
"""


def shown(url: str, *arguments: str) -> list[Any]:
    done = command(url, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    found: list[Any] = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    return found


def adherence(url: str, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        one
        for one in shown(url, "estimates", *arguments)
        if one["metric"] == "trace.adherence" and one["window"] == "all" and one["segment"] is None
    )
    return found


def clusters(redis: Any, streams: Streams) -> dict[str, bytes]:
    """Return the sums over closed clusters, and the clusters that are open."""
    fields = {name.decode(): data for name, data in redis.hgetall(streams.checkpoint).items()}
    return {name: data for name, data in fields.items() if name.startswith(("clusters:", "cluster_scope:", "open_"))}


def alerts(url: str, *arguments: str) -> list[Any]:
    return [{**alert, "run": None} for alert in shown(url, "alerts", *arguments) if alert["rule"] == "adherence"]


def test_users_leave_after_a_bad_deploy(redis: Any, redis_url: str, tmp_path: Path) -> None:
    Path("ragtide.toml").write_text(CONFIG)
    place = tmp_path / "recording"
    extra = {"RAGTIDE_RECORDER_URL": str(place), "RAGTIDE_RECORDER_ROLL_S": "0.2", "RAGTIDE_SPECIMENS_ENABLED": "false"}
    rows = users_leave(SESSIONS, TURNS, until=utc_now(), over=timedelta(seconds=1))
    with running("up", redis_url, tmp_path / "up.log", extra):
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(rows)
        wait_until(lambda: any(b'"adherence"' in fields[DATA_FIELD] for _, fields in redis.xrange(STREAMS.alerts)))
        wait_until(lambda: any(event.is_tick for event in metric_events(redis)))
        wait_until(lambda: adherence(redis_url)["n_waiting"] == 0)
        wait_until(lambda: Recording.open(str(place)).count(EntryKind.METRICS) == redis.xlen(STREAMS.metrics))
        wait_until(lambda: Recording.open(str(place)).count(EntryKind.ALERTS) == redis.xlen(STREAMS.alerts))
    events = metric_events(redis)
    answers = [event for event in events if not event.is_tick]
    assert len(answers) == len(rows) == SESSIONS * TURNS
    raised = [(entry_id, Alert.decode(fields[DATA_FIELD])) for entry_id, fields in redis.xrange(STREAMS.alerts)]
    alert_id, alert = next((entry_id, alert) for entry_id, alert in raised if alert.rule == "adherence")
    assert alert.status == "firing"
    # It was decided by a tick: no session was over before, by the times of its answers.
    assert alert.fired_at in {event.occurred_at for event in events if event.is_tick}
    times = [order(entry_id.decode())[0] for entry_id, _ in redis.xrange(STREAMS.metrics)]
    last_ms = max(time for time, event in zip(times, events, strict=True) if not event.is_tick)
    assert order(alert_id.decode())[0] > last_ms
    # The mean of the answers, from the raw events, is in the interval that the sessions have now.
    scores = [score for event in answers if (score := event.scores.get("trace.adherence")) is not None]
    mean = sum(scores) / len(scores)
    found = adherence(redis_url)
    assert found["n"] == len(scores) > 0.9 * len(rows)
    assert abs(found["estimate"] - mean) < 1e-9
    assert 0 < found["lower"] <= mean <= found["upper"] < 0.85
    # A replay has the same clusters and alerts, to the bit, and counts no tick.
    replay = command(redis_url, "replay", str(place), "--workspace", "again", "--json")
    assert replay.returncode == 0, replay.stderr
    assert json.loads(replay.stdout)["n"] == len(rows)
    assert adherence(redis_url, "--workspace", "again")["estimate"] == found["estimate"]
    assert clusters(redis, Streams("ragtide.run.again", 0)) == clusters(redis, STREAMS) != {}
    assert alerts(redis_url) == alerts(redis_url, "--workspace", "again") != []
    tested = command(redis_url, "rules", "test", "ragtide.toml", "--recording", str(place), "--json")
    assert tested.returncode == 0, tested.stderr
    assert alert.alert_id in tested.stdout
