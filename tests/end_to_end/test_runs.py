"""Calls of an agent from an application to the estimates of each tool and of the runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.judge.asking import TOWER
from tests.support.conditions import wait_until
from tests.support.roles import command, metric_events, running

from ragtide import InteractionProducer

N = 60


def run(number: int) -> dict[str, Any]:
    search = {"name": "search", "kind": "tool", "round": 1, "query": f"tower {number}", "latency_s": 90.0}
    fails, n_documents = number % 4 == 0, len(TOWER.documents)
    return {
        **TOWER.model_dump(),
        "interaction_id": f"run-{number}",
        "steps": [
            {**search, **({"error": "timeout"} if fails else {"documents": [0], "returned": 3})},
            {**search, "round": 2, "documents": list(range(n_documents)), "returned": n_documents},
            {"name": "book", "kind": "tool", "round": 3, "arguments": {"tower": "it"}},
        ],
    }


def test_runs_have_estimates_of_each_tool_and_answers_without_calls_have_none(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    with running("up", redis_url, tmp_path / "up.log"):
        with InteractionProducer(redis_url) as producer:
            for number in range(N):
                assert producer.submit(run(number), pipeline="agent")
                assert producer.submit({**TOWER.model_dump(), "interaction_id": f"a-{number}"}, pipeline="plain")
        wait_until(lambda: len(metric_events(redis)) == 2 * N)

        def estimates() -> dict[tuple[str, str], dict[str, Any]]:
            rows = json.loads(command(redis_url, "estimates", "--json").stdout)
            of_all = (row for row in rows if row["segment"] is None and row["window"] == "all")
            return {(row["pipeline"], row["metric"]): row for row in of_all}

        wait_until(lambda: estimates().get(("agent", "agent.gave_up"), {}).get("n") == N)
        found = estimates()
    means = {metric: row["estimate"] for (pipeline, metric), row in found.items() if pipeline == "agent"}
    assert means["tool.search.failed"] == pytest.approx(1 / 8)
    assert means["tool.search.latency_s"] == pytest.approx(60)
    assert means["tool.search.repeated"] == pytest.approx(1 / 2)
    assert means["tool.search.calls"] == pytest.approx(2)
    assert means["agent.calls"] == means["agent.rounds"] == pytest.approx(3)
    assert means["tool.book.wasted"] == 0
    assert means["agent.wasted"] > 1 / 4
    assert found["agent", "tool.book.used"]["absent"] == {"no_evidence": N}
    assert not [metric for pipeline, metric in found if pipeline == "plain" and metric.startswith(("tool.", "agent."))]
