"""Users leave after a bad deploy: the alert and the intervals come from what was said, without one more answer."""

import json
import signal
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.metric_events import event
from tests.support.roles import STREAMS, command, metric_events, running, start_doomed, wait_for_aggregation
from tests.support.story import users_leave

from ragtide import Alert, InteractionProducer
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.redis.entries import order
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent, utc_now

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


HEAVY = [("ticks", 1, "before"), ("aggregator", 2, "before")]


@pytest.mark.parametrize(
    "death", [("ticks", 1, "after"), *(pytest.param(one, marks=pytest.mark.heavy) for one in HEAVY)]
)
def test_an_aggregator_that_is_killed_around_a_tick_counts_it_once(
    redis: Any, redis_url: str, tmp_path: Path, death: tuple[str, int, str]
) -> None:
    role, calls, when = death
    Path("ragtide.toml").write_text(CONFIG)
    extra = {"RAGTIDE_CLUSTERS_QUIET_S": "1", "RAGTIDE_CLUSTERS_SIZE": "20"}
    with redis.pipeline() as pipe:
        for number in range(SESSIONS * TURNS):
            said = event(number, {"trace.adherence": float(number < SESSIONS)}, session_id=f"s{number % SESSIONS}")
            pipe.xadd(STREAMS.metrics, {DATA_FIELD: said.encode()})
        pipe.execute()
    options = "--calls", str(calls), "--when", when
    victim = start_doomed(role, redis_url, tmp_path / "victim.log", *options, extra=extra)
    assert victim.wait(120) == -signal.SIGKILL
    before = sum(event.is_tick for event in metric_events(redis))
    assert before == (when == "after") or role == "aggregator"
    with running("aggregator", redis_url, tmp_path / "log", extra):
        wait_until(lambda: any(b'"adherence"' in fields[DATA_FIELD] for _, fields in redis.xrange(STREAMS.alerts)))
        wait_until(lambda: adherence(redis_url)["n_waiting"] == 0)
        wait_for_aggregation(redis)
    # One tick was enough, unless the answers took more than a second to arrive.
    arrived = [order(entry_id.decode())[0] for entry_id, _ in redis.xrange(STREAMS.metrics, count=SESSIONS * TURNS)]
    ticks = [event for event in metric_events(redis) if event.is_tick]
    assert len(ticks) == 1 or max(arrived) - min(arrived) > 1000
    # The checkpoint is that of the entries, each applied once.
    settings = Settings(clusters=ClusterSettings(quiet_s=1, size=20), alerts=tomllib.loads(CONFIG)["alerts"])
    state = AggregatorState(state_options(settings))
    for entry_id, fields in redis.xrange(STREAMS.metrics):
        state.apply(MetricEvent.decode(fields[DATA_FIELD]), order(entry_id.decode())[0])
    changes = state.take_changes()
    expected = {
        name: data for name, data in changes.rows.items() if name.startswith(("clusters:", "cluster_scope:", "open_"))
    }
    assert clusters(redis, STREAMS) == expected
    raised = [Alert.decode(fields[DATA_FIELD]) for _, fields in redis.xrange(STREAMS.alerts)]
    assert [one.alert_id for one in raised if one.rule == "adherence"] == [
        one.alert_id for one in changes.alerts if one.rule == "adherence"
    ]
