"""Windows, comparisons, samples, labeling and budgets through the command line, from metric events on a real Redis."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.roles import STREAMS, command, running, wait_for_aggregation

from ragtide import MetricEvent
from ragtide_runtime.redis.keys import DATA_FIELD
from ragtide_schemas import utc_now

METRIC = "trace.adherence"


def emit(redis: Any, pipeline: str, values: Any, *, minutes_apart: float = 0.05) -> None:
    """Add metric events as a worker would, the last one about now."""
    now = utc_now()
    for number, value in enumerate(values):
        when = now - timedelta(minutes=minutes_apart * (len(values) - number))
        event = MetricEvent(
            interaction_id=f"{pipeline}-{number}",
            pipeline=pipeline,
            occurred_at=when,
            labeled_at=when,
            labeler="test",
            labeler_version="1",
            profile="ragbench",
            scores={METRIC: float(value)},
            gold_scores={METRIC: 1.0} if number % 5 == 0 else {},
            latency_s=0.25,
        )
        redis.xadd(STREAMS.metrics, {DATA_FIELD: event.encode()})


def printed(redis_url: str, *arguments: str, **extra: str) -> list[dict[str, Any]]:
    done = command(redis_url, *arguments, "--json", extra=extra)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_windows_comparisons_samples_and_labeling_are_shown(redis: Any, redis_url: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    emit(redis, "a", rng.beta(9, 1, 300))
    emit(redis, "b", rng.beta(5, 5, 300))
    # Over three hours: an hour holds a part of it.
    emit(redis, "slow", rng.beta(9, 1, 180), minutes_apart=1)
    with running("aggregator", redis_url, tmp_path / "aggregator.log"):
        wait_for_aggregation(redis)
    whole = printed(redis_url, "estimates", "--pipeline", "slow", "--metric", METRIC)
    assert [(e["n"], e["window"], e["estimator"]) for e in whole] == [(180, "all", "mean")]
    (hour,) = printed(redis_url, "estimates", "--pipeline", "slow", "--metric", METRIC, "--window", "1h")
    assert 0 < hour["n"] <= 60
    (day,) = printed(redis_url, "estimates", "--pipeline", "slow", "--metric", METRIC, "--window", "24h/1h")
    assert day["n"] == 180
    (gap,) = printed(redis_url, "compare", "a", "b")
    assert gap["metric"] == METRIC
    assert gap["verdict"] == "undecided" or gap["difference"]["lower"] > 0
    assert gap["difference"]["lower"] < 0.4 < gap["difference"]["upper"]
    assert gap["n"] == [300, 300]
    both = printed(redis_url, "estimates", "--pipeline", "a", "--estimator", "all", "--metric", METRIC)
    assert {(e["labeler"], e["estimator"]) for e in both} == {
        ("test", "mean"),
        ("gold", "weighted"),
        ("gold", "prediction_powered"),
    }
    (took,) = printed(redis_url, "estimates", "--pipeline", "a", "--labeling")
    assert took["estimate"] == pytest.approx(0.25)
    for arguments in (("estimates", "--window", "1h"), ("compare", "a", "b"), ("estimates", "--labeling")):
        shown = command(redis_url, *arguments)
        assert shown.returncode == 0, shown.stderr
        assert "a" in shown.stdout
    # Its last two hours are alike.
    assert "→ was 0." in command(redis_url, "estimates", "--window", "1h", "--pipeline", "slow").stdout
    nothing = command(redis_url, "compare", "a", "unknown")
    assert nothing.returncode == 1
    assert "there is no pipeline 'unknown'" in nothing.stderr


@pytest.mark.parametrize(
    ("arguments", "extra", "words"),
    [
        (("estimates", "--window", "5m"), {}, "no window '5m'. There are: all, 1h, 24h/1h"),
        (("compare", "a", "b", "--window", "5m"), {}, "no window '5m'"),
        (("estimates", "--estimator", "best"), {}, "no estimator 'best'. There are: mean"),
        (("estimates",), {"RAGTIDE_WINDOWS": '["25h/2h"]'}, "whole number of steps"),
        (("estimates",), {"RAGTIDE_WINDOWS": '["soon"]'}, "windows"),
        (("estimates",), {"RAGTIDE_BUDGET_FALSE_ALARMS": "0"}, "false_alarms"),
    ],
)
def test_what_is_wrong_is_named_without_a_stack_trace(
    redis_url: str, arguments: tuple[str, ...], extra: dict[str, str], words: str
) -> None:
    done = command(redis_url, *arguments, extra=extra)
    assert done.returncode != 0
    # Boxes break lines.
    said = " ".join(done.stderr.replace("│", " ").split())
    assert words in said
    assert "Traceback" not in said


def test_alerts_keep_the_budget_of_the_deployment(redis: Any, redis_url: str, tmp_path: Path) -> None:
    emit(redis, "a", [*np.random.default_rng(2).beta(9, 1, 300), *np.random.default_rng(3).beta(2, 8, 100)])
    extra = {
        "RAGTIDE_BUDGET_FALSE_ALARMS": "0.5",
        "RAGTIDE_ALERT_DEFAULTS": "false",
        "RAGTIDE_ALERTS": json.dumps([{"name": "fall", "kind": "drift", "metric": METRIC}]),
    }
    with running("aggregator", redis_url, tmp_path / "aggregator.log", extra):
        wait_for_aggregation(redis)
    (line,) = command(redis_url, "alerts", "--json").stdout.splitlines()
    alert = json.loads(line)
    # Half of half an alarm over the 10,000 values that a first period is thought to have.
    assert alert["run_length"] == pytest.approx(40_000)
