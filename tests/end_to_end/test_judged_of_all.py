"""A cascade over traffic of which the proxy cannot score a third: every screen's number is of all answers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.end_to_end.test_judge import judge_settings
from tests.support.judged_traffic import METRIC, powered_by_definition, weighted_by_definition
from tests.support.roles import command, metric_events, running, wait_for_aggregation, wait_for_events

from ragtide import Deployment, InteractionProducer
from ragtide.testing import ScriptedJudge
from ragtide_schemas import Headline, RagInteraction

ENGLISH = (
    "The {0} in the old harbour opens at nine on weekdays.",
    "Refunds travel by courier within {0} weeks.",
)
DUTCH = ("Het {0} bij de oude haven gaat op werkdagen om negen uur open.", "Terugbetalingen duren ongeveer {0} weken.")


def answers(n: int, seed: int) -> tuple[list[RagInteraction], float]:
    """Return answers, 35% of them Dutch, and the share of all whose sentence is in the document."""
    rng = np.random.default_rng(seed)
    found, supported = [], []
    for number in range(n):
        dutch = rng.random() < 0.35
        supported.append(bool(rng.random() < (0.13 if dutch else 0.74)))
        document, other = DUTCH if dutch else ENGLISH
        document = document.format(f"museum{number}")
        found.append(
            RagInteraction(
                interaction_id=f"i-{number}", pipeline="shop",
                question=("Wanneer gaat het open?" if dutch else "When does it open?"),
                documents=[{"id": "d", "text": document}],
                response=document if supported[-1] else other.format(number),
                segments={"lang": "nl" if dutch else "en"},
            )
        )  # fmt: skip
    return found, float(np.mean(supported))


@pytest.mark.heavy
def test_the_numbers_of_a_cascade_are_of_all_answers(redis: Any, redis_url: str, tmp_path: Path) -> None:
    published, truth = answers(1000, seed=1)
    with ScriptedJudge() as server:
        settings = judge_settings(server, RAGTIDE_LABELER="cascade", RAGTIDE_CASCADE_RATE="0.4")
        with InteractionProducer(redis_url) as producer:
            producer.publish_many(published)
        with (
            running("worker", redis_url, tmp_path / "worker.log", settings),
            running("aggregator", redis_url, tmp_path / "aggregator.log"),
        ):
            wait_for_events(redis, len(published))
            wait_for_aggregation(redis)
    events = metric_events(redis)
    absent = [event for event in events if METRIC in event.absent]
    assert {event.segments["lang"] for event in absent} == {"nl"}
    assert 0.2 < len(absent) / len(events) < 0.4, "the proxy cannot score the Dutch answers"
    expected = {"weighted": weighted_by_definition(events), "prediction_powered": powered_by_definition(events)}
    done = command(redis_url, "estimates", "--json", "--estimator", "all")
    assert done.returncode == 0, done.stderr
    rows = [
        row
        for row in json.loads(done.stdout)
        if (row["metric"], row["labeler"], row["segment"], row["window"]) == (METRIC, "judge", None, "all")
    ]
    assert {row["estimator"] for row in rows} == {"mean", "weighted", "prediction_powered"}
    for row in rows:
        assert row["lower"] < truth < row["upper"], row["estimator"]
        if row["estimator"] in expected:
            by_definition = expected[row["estimator"]]
            numbers = [row["estimate"], row["coverage"], row["n"], row["n_absent"]]
            assert numbers == pytest.approx(list(by_definition))
            assert row["proxy_coverage"] == pytest.approx(1 - len(absent) / len(events))

    async def headlines() -> list[Headline]:
        async with Deployment.connect(redis_url) as deployment:
            return await deployment.headlines()

    (found,) = [each for each in asyncio.run(headlines()) if each.metric == METRIC and each.segment is None]
    assert (found.labeler, found.estimator) == ("judge", "prediction_powered")
    assert found.estimate == pytest.approx(expected["prediction_powered"].estimate)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < truth < found.upper
