"""A running deployment takes new alert rules from its file, and refuses wrong ones."""

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.roles import STREAMS, interactions, running

from ragtide import Alert, InteractionProducer
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_runtime.settings.watch import UNCHANGED

pytestmark = [pytest.mark.processes, pytest.mark.heavy]

RULE = """
[[alerts]]
name = "{}"
kind = "threshold"
metric = "trace.adherence"
target = {}
min_effect = 0.0
run_length = 100
"""


def rules_that_fired(redis: Any) -> set[str]:
    return {Alert.decode(fields[DATA_FIELD]).rule for _, fields in redis.xrange(STREAMS.alerts)}


@pytest.mark.parametrize("by_signal", [True, False])
def test_a_new_rule_fires_without_a_restart(by_signal: bool, redis: Any, redis_url: str, tmp_path: Path) -> None:
    file, log = tmp_path / "ragtide.toml", tmp_path / "up.log"
    file.write_text(RULE.format("never", 0.01))
    extra = {"RAGTIDE_CONFIG": str(file), "RAGTIDE_RULES_POLL_S": "0" if by_signal else "0.1"}
    with running("up", redis_url, log, extra) as process, InteractionProducer(redis_url) as producer:
        wait_until(lambda: b"aggregating a partition" in log.read_bytes())
        file.write_text(RULE.format("floor", '"high"'))
        if by_signal:
            process.send_signal(signal.SIGHUP)
        wait_until(lambda: UNCHANGED.encode() in log.read_bytes())
        file.write_text(RULE.format("floor", 0.99))
        if by_signal:
            process.send_signal(signal.SIGHUP)
        wait_until(lambda: b"new alert rules are in force" in log.read_bytes())
        producer.publish_many(interactions(300))
        wait_until(lambda: rules_that_fired(redis))
    assert rules_that_fired(redis) == {"floor"}
    assert "Traceback" not in log.read_text()
