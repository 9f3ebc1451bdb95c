"""The evidence of rules can be read before they fire: how far it has come, in which direction, and since when."""

from typing import Any

import pytest
from tests.support.metric_events import START, adherence
from tests.support.owners import Owner, owners

from ragtide import AlertRule, Deployment
from ragtide_aggregator.alerts.rule_state import RuleState
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.reading.field_names import FieldNames
from ragtide_aggregator.reading.suspicions import Suspicions
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.settings.model import Settings

RULE = AlertRule(name="floor", kind="threshold", metric="trace.adherence", target=0.7)
OTHER = AlertRule(name="drift", kind="drift", metric="trace.adherence", learn_n=20)
SETTINGS = Settings(alerts=(RULE, OTHER), alert_defaults=False)


def owner_of(redis: Any, settings: Settings = SETTINGS) -> Owner:
    (owner,) = owners(redis, settings)
    owner.state = AggregatorState(state_options(settings))
    return owner


async def test_evidence_grows_to_the_line_and_then_the_rule_fires(async_redis: Any) -> None:
    owner = owner_of(async_redis)
    await owner.commit(*adherence([0.8, 0.9] * 50))
    calm = {suspicion.rule: suspicion for suspicion in await Deployment(async_redis, SETTINGS).suspicions()}
    assert calm["floor"].once_in < 200
    assert round(calm["floor"].run_length) == 10_000
    number, seen = 100, []
    while not owner.state.firing():
        await owner.commit(*adherence([0.55], first=number))
        number += 1
        found = {suspicion.rule: suspicion for suspicion in await Deployment(async_redis, SETTINGS).suspicions()}
        if "floor" in found:
            seen.append(found["floor"])
        assert number < 400
    evidence = [one.once_in for one in seen]
    assert evidence == sorted(evidence)
    assert 1_000 < evidence[-1] < 10_000
    last = seen[-1]
    assert (last.pipeline, last.metric, last.direction) == ("shop", "trace.adherence", "fall")
    assert last.began_at is not None
    assert abs((last.began_at - START).total_seconds() - 100) < 20
    # A rule that fires looks for the end of its change, so it has no evidence of a beginning.
    fired = {alert.rule for alert in owner.state.firing()}
    assert not fired & {suspicion.rule for suspicion in await Deployment(async_redis, SETTINGS).suspicions()}


async def test_what_is_read_is_what_the_aggregator_has(async_redis: Any) -> None:
    owner = owner_of(async_redis)
    await owner.commit(*adherence([0.8, 0.9] * 50), *adherence([0.65] * 20, first=100, segments={"lang": "de"}))
    expected = {}
    for row, key in enumerate(owner.state.keys):
        for rule in owner.state.rules_of(row):
            evidence = rule.evidence()
            if evidence is not None and key.segment is None:
                expected[rule.rule.name] = evidence.movement, evidence.once_in
    assert expected
    found = await Deployment(async_redis, SETTINGS).suspicions()
    assert {one.rule: (one.direction, one.once_in) for one in found} == expected


async def test_another_rule_of_the_reader_has_no_evidence(async_redis: Any) -> None:
    owner = owner_of(async_redis)
    await owner.commit(*adherence([0.2] * 5))
    changed = Settings(alerts=(RULE.model_copy(update={"target": 0.71}),))
    assert [suspicion.once_in for suspicion in await Deployment(async_redis, changed).suspicions()] == [0.0]
    assert await Deployment(async_redis, Settings()).suspicions() == []


async def test_a_result_is_used_until_the_next_commit(async_redis: Any) -> None:
    owner = owner_of(async_redis)
    await owner.commit(*adherence([0.6] * 3))
    reader = Suspicions(async_redis, SETTINGS.layout.all(), state_options(SETTINGS), names=FieldNames(async_redis))
    first = await reader.read()
    assert (await reader.read())[0] is first[0]
    await owner.commit(*adherence([0.2] * 30, first=3))
    (before, after) = ({found.rule: found.once_in for found in numbers} for numbers in (first, await reader.read()))
    assert after != before
    assert after == {found.rule: found.once_in for found in await Deployment(async_redis, SETTINGS).suspicions()}


async def test_the_state_of_a_removed_rule_costs_a_reader_nothing(async_redis: Any) -> None:
    owner = owner_of(async_redis)
    reader = Suspicions(
        async_redis, SETTINGS.layout.all(), state_options(Settings(alerts=(OTHER,))), names=FieldNames(async_redis)
    )
    for first in range(0, 400, 100):
        await owner.commit(*adherence([0.1] * 100, first=first))
        await reader.read()
    assert {suspicion.rule for suspicion in await reader.read()} == {"drift"}


async def test_a_new_rule_has_evidence_on_the_pipelines_that_it_names_only(async_redis: Any) -> None:
    learning = Settings(alerts=(OTHER,), alert_defaults=False)
    owner = owner_of(async_redis, learning)
    for name in ("other", "shop", "shop-2", ',null,null,"shop'):
        await owner.commit(*adherence([0.5], pipeline=name))
    added = Settings(alerts=(OTHER, RULE.model_copy(update={"pipeline": "shop*"})), alert_defaults=False)
    evidence = await Deployment(async_redis, added).suspicions()
    assert {(suspicion.pipeline, suspicion.rule, suspicion.once_in) for suspicion in evidence} == {
        ("shop", "floor", 0.0), ("shop-2", "floor", 0.0),
    }  # fmt: skip


async def test_a_first_look_decodes_no_keys_of_rules_that_learn(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    learning = Settings(alerts=(OTHER,), alert_defaults=False)
    owner = owner_of(async_redis, learning)
    await owner.commit(*(value for n in range(30) for value in adherence([0.5], pipeline=f"p{n}")))
    decoded: list[str] = []
    decode = RuleState.key_of

    def key_of(field: str) -> EstimateKey:
        decoded.append(field)
        return decode(field)

    monkeypatch.setattr(RuleState, "key_of", key_of)
    assert await Deployment(async_redis, learning).suspicions() == []
    assert len(decoded) == 1
