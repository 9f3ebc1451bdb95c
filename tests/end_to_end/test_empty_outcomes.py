"""Nothing retrieved, no response: accepted by every way in, absent with a reason, counted, and watched by rules."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.consumers.judge.asking import TOWER, judge
from tests.support.conditions import wait_until
from tests.support.roles import STREAMS, command, dead_letters, metric_events, running

from ragtide import InteractionProducer, LocalLabeler, RagInteraction
from ragtide.testing import FakeLabeler, ScriptedJudge
from ragtide_consumers.labelers.cascade import CascadeLabeler
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_runtime.settings.labelers import CascadeSettings
from ragtide_schemas import METRICS, AlertRule, MetricEvent, utc_now

NOTHING: dict[str, Any] = {"documents": (), "response": "I found nothing about that."}
SILENT: dict[str, Any] = {"response": " \n"}
BOTH: dict[str, Any] = {"documents": (), "response": ""}

OUTCOMES = [
    pytest.param(NOTHING, "nothing_retrieved", (1.0, 0.0), id="nothing retrieved"),
    pytest.param(SILENT, "no_response", (0.0, 1.0), id="no response"),
    pytest.param(BOTH, "nothing_retrieved", (1.0, 1.0), id="both"),
]


async def event_of(labeler: Any, interaction: RagInteraction) -> MetricEvent:
    labeling = await labeler.label(interaction)
    return metric_event(interaction, labeler_id(labeler), labeling, labeled_at=utc_now(), latency_s=0.0)


def of(*families: str) -> set[str]:
    return {name for name in METRICS if name.partition(".")[0] in families}


def outcomes(empty: tuple[float, float]) -> dict[str, float]:
    documents = 0.0 if empty[0] else float(len(TOWER.documents))
    return {"retrieval.empty": empty[0], "response.empty": empty[1], "retrieval.documents": documents}


@pytest.mark.parametrize(("changes", "reason", "outcome"), OUTCOMES)
async def test_an_empty_outcome_is_counted_and_every_other_metric_is_absent_with_the_reason(
    changes: dict[str, Any], reason: str, outcome: tuple[float, float]
) -> None:
    found = await event_of(LocalLabeler(), TOWER.model_copy(update=changes))
    # Without a response there are still a question and documents.
    match = {} if outcome[0] else {"retrieval.match": 0.5}
    assert found.scores == {**match, **outcomes(outcome)}
    assert found.absent == dict.fromkeys({*of("trace"), "retrieval.match"} - match.keys(), reason)


@pytest.mark.parametrize(("changes", "reason", "outcome"), OUTCOMES)
async def test_a_judge_is_not_asked_where_there_is_nothing_to_judge(
    changes: dict[str, Any], reason: str, outcome: tuple[float, float]
) -> None:
    empty = TOWER.model_copy(update=changes)
    with ScriptedJudge() as server:
        async with judge(server, families=("trace", "ragchecker")) as labeler:
            alone = await event_of(labeler, empty)
            everything = CascadeSettings(rate=1.0)
            beside = await event_of(CascadeLabeler(LocalLabeler(), labeler, everything), empty)
        assert server.requests == []
    assert alone.scores == outcomes(outcome)
    assert alone.absent == dict.fromkeys(of("trace", "ragchecker"), reason)
    assert (alone.cost_usd, alone.prompt_tokens) == (0.0, 0)
    assert {name: beside.scores[name] for name in alone.scores} == alone.scores
    assert beside.scores.keys() <= {*alone.scores, "retrieval.match"}
    assert beside.judged is not None
    assert beside.judged.scores == {}
    assert beside.judged.absent == alone.absent


async def test_a_labeler_of_the_users_own_is_asked_and_its_events_carry_the_outcome() -> None:
    polite = FakeLabeler(lambda one: {"own.polite": float("please" in one.response)}, name="polite", profile="own")
    assert (await event_of(polite, TOWER.model_copy(update=NOTHING))).scores == {
        "own.polite": 0.0, **outcomes((1.0, 0.0)),
    }  # fmt: skip
    assert (await event_of(polite, TOWER)).scores["retrieval.empty"] == 0.0


def test_a_rising_share_of_empty_retrievals_raises_an_alert_with_its_diagnosis(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    rule = AlertRule(name="empty", kind="threshold", metric="retrieval.empty", target=0.2, direction="rise")
    with running("up", redis_url, tmp_path / "up.log", {"RAGTIDE_ALERTS": json.dumps([rule.model_dump(mode="json")])}):
        with InteractionProducer(redis_url) as producer:
            for number in range(100):
                changed = NOTHING if number >= 40 else {}
                one = TOWER.model_copy(update={"interaction_id": f"i-{number}", **changed})
                assert producer.submit(one)
        wait_until(lambda: redis.xlen(STREAMS.alerts) > 0)
        wait_until(lambda: len(metric_events(redis)) == 100)
    listed = [json.loads(line) for line in command(redis_url, "alerts", "--json").stdout.splitlines()]
    # The default rule on the same metric may fire, too.
    (alert,) = [alert for alert in listed if alert["rule"] == "empty"]
    assert (alert["rule"], alert["metric"], alert["status"]) == ("empty", "retrieval.empty", "firing")
    assert "finds nothing" in " ".join(alert["diagnosis"])
    shown = command(redis_url, "estimates").stdout
    assert "retrieval.empty" in shown
    assert "response.empty" in shown
    assert dead_letters(redis) == []
