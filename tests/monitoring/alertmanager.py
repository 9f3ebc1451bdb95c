"""`ragtide notify` beside a real Alertmanager, which receives, groups, keeps and resolves the alerts.

`make monitoring` runs it.
"""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.monitoring.programs import program, served
from tests.support.alerts import alert
from tests.support.conditions import until, wait_until
from tests.support.receiver import Receiver, receiver
from tests.support.redis_processes import free_port
from tests.support.roles import STREAMS, running

CONFIGURATION = """
route:
  receiver: people
  group_by: [pipeline]
  group_wait: 1s
  group_interval: 1s
receivers:
  - name: people
    webhook_configs:
      - url: {url}
        send_resolved: true
"""


@pytest.fixture
async def people() -> AsyncIterator[Receiver]:
    async with receiver() as found:
        yield found


@pytest.fixture
def alertmanager(people: Receiver, tmp_path: Path) -> Iterator[str]:
    configuration = tmp_path / "alertmanager.yml"
    configuration.write_text(CONFIGURATION.format(url=people.url), "utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = [
        program("prometheus-alertmanager", "alertmanager"),
        f"--config.file={configuration}", f"--storage.path={tmp_path / 'kept'}",
        f"--web.listen-address={address}", "--cluster.listen-address=", "--log.level=debug",
    ]  # fmt: skip
    with served(command, tmp_path / "alertmanager.log", f"http://{address}/-/ready"):
        yield f"http://{address}"


async def test_alertmanager_receives_groups_and_resolves(
    redis: Any, redis_url: str, alertmanager: str, people: Receiver, tmp_path: Path
) -> None:
    metrics = ("trace.adherence", "trace.relevance")
    fired = [alert(name, metric=name, rule="floor", severity="page") for name in metrics]
    for raised in (*fired, alert("c", pipeline="search", rule="floor", severity="info")):
        redis.xadd(STREAMS.alerts, {"data": raised.encode()})
    destination = {"name": "am", "kind": "alertmanager", "url": alertmanager}
    extra = {"RAGTIDE_NOTIFY_ALLOW_PRIVATE": "true", "RAGTIDE_NOTIFY_DESTINATIONS": json.dumps([destination])}
    with running("notify", redis_url, tmp_path / "notify.log", extra):
        wait_until(lambda: len(_known(alertmanager)) == 3)
        known = {one["labels"]["metric"]: one for one in _known(alertmanager) if one["labels"]["pipeline"] == "shop"}
        assert set(known) == set(metrics)
        for one in known.values():
            assert one["labels"] | {"alertname": "floor", "severity": "page"} == one["labels"]
            assert one["annotations"]["alert_id"] == one["labels"]["metric"]
            assert one["status"]["state"] == "active"
            # It is sent again long before.
            assert (datetime.fromisoformat(one["endsAt"]) - datetime.now(UTC)).total_seconds() > 180
        await until(lambda: _told(people, "shop", "firing") == set(metrics))
        assert _told(people, "search", "firing") == {"c"}
        # One message is about one group: no pipeline is told with another.
        assert {tuple(one.json["groupLabels"]) for one in people.received} == {("pipeline",)}

        resolved = fired[0].model_copy(update={"status": "resolved", "resolved_at": datetime.now(UTC)})
        redis.xadd(STREAMS.alerts, {"data": resolved.encode()})
        await until(lambda: _told(people, "shop", "resolved") == {metrics[0]})
        wait_until(lambda: len(_known(alertmanager)) == 2)
        assert _told(people, "search", "resolved") == set()
        last = [one.json for one in people.received if one.json["groupLabels"] == {"pipeline": "shop"}][-1]
        assert last["status"] == "firing"  # The group: its other alert goes on.


def _known(url: str) -> list[dict[str, Any]]:
    with urlopen(f"{url}/api/v2/alerts", timeout=60) as reply:
        found = json.loads(reply.read())
    assert isinstance(found, list)
    return found


def _told(people: Receiver, pipeline: str, status: str) -> set[str]:
    return {
        one["annotations"]["alert_id"]
        for message in people.received
        for one in message.json["alerts"]
        if one["labels"]["pipeline"] == pipeline and one["status"] == status
    }
