"""The cascade: who goes to the judge is a reproducible draw with a known probability."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.consumers.judge.asking import TOWER, settings
from tests.support.nli_server import NliServer

from ragtide import ConfigurationError, LabelerUnavailable, Labeling, RagInteraction
from ragtide.testing import ScriptedJudge, Status
from ragtide_consumers.labelers.cascade import Draw, draw, position
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.nli import NliLabeler
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.settings.labelers import CascadeSettings, ServiceSettings
from ragtide_schemas import MetricEvent, utc_now
from ragtide_schemas.metric_definitions import OUTCOMES

LOCAL = Labeling({"trace.adherence": 0.9})
SKIPPING = {"rate": 1.0, "when_unavailable": "skip"}


def interaction(number: int, **segments: str) -> RagInteraction:
    return TOWER.model_copy(update={"interaction_id": f"i{number}", "segments": segments})


def chosen(rules: CascadeSettings, n: int = 4000, **segments: str) -> list[Draw]:
    return [draw(interaction(number, **segments), LOCAL, rules) for number in range(n)]


def test_the_share_that_is_chosen_is_the_rate() -> None:
    for rate in (0.0, 0.05, 0.5, 1.0):
        draws = chosen(CascadeSettings(rate=rate))
        share = sum(one.chosen for one in draws) / len(draws)
        assert abs(share - rate) < 4 * (rate * (1 - rate) / len(draws)) ** 0.5 + 1e-9
        assert {one.inclusion_probability for one in draws} == {rate}


def test_the_draw_is_the_same_in_every_process_and_another_salt_draws_another() -> None:
    # Computed once; a change would draw another sample from a replay of the same stream.
    assert position("shop", "i1") == pytest.approx(PLACE)
    assert position("shop", "i1", "salt") != position("shop", "i1")
    assert position("other", "i1") != position("shop", "i1")


PLACE = 0.6895292989286618


def test_a_segment_has_its_own_rate_and_the_largest_counts() -> None:
    rules = CascadeSettings(rate=0.1, segment_rates={"lang=ru": 0.5, "tier=gold": 1.0})
    assert {one.inclusion_probability for one in chosen(rules, 50, lang="ru")} == {0.5}
    assert {one.inclusion_probability for one in chosen(rules, 50, lang="ru", tier="gold")} == {1.0}
    assert {one.inclusion_probability for one in chosen(rules, 50, lang="de")} == {0.1}


def test_every_low_local_score_is_chosen_with_probability_one() -> None:
    rules = CascadeSettings(rate=0.01, below={"trace.adherence": 0.3})
    low = [draw(interaction(n), Labeling({"trace.adherence": 0.2}), rules) for n in range(100)]
    assert all(one.chosen and one.inclusion_probability == 1.0 for one in low)
    assert 0 < sum(one.uniform for one in low) + 1 < 20


@given(
    st.integers(0, 10**6),
    st.floats(0, 1),
    st.dictionaries(st.sampled_from(["lang=ru", "lang=de"]), st.floats(0, 1)),
    st.sampled_from(["ru", "de", "fr"]),
    st.floats(0, 1),
)
def test_the_uniform_part_is_always_chosen_and_does_not_depend_on_scores_or_segments(
    number: int, rate: float, segment_rates: dict[str, float], language: str, score: float
) -> None:
    rules = CascadeSettings(rate=rate, segment_rates=segment_rates, below={"trace.adherence": 0.5})
    one = draw(interaction(number, lang=language), Labeling({"trace.adherence": score}), rules)
    other = draw(interaction(number, lang="xx"), Labeling({}), rules)
    assert (one.uniform, one.uniform_probability) == (other.uniform, other.uniform_probability)
    assert one.uniform_probability == min([rate, *segment_rates.values()])
    assert one.chosen or not one.uniform


def test_weighting_by_the_inverse_probability_is_unbiased_although_low_scores_are_always_chosen() -> None:
    rules = CascadeSettings(rate=0.2, below={"trace.adherence": 0.3})
    truth, weighted, plain = [], [], []
    for number in range(20_000):
        score = position("truth", str(number))
        truth.append(score)
        one = draw(interaction(number), Labeling({"trace.adherence": score}), rules)
        weighted.append(score / one.inclusion_probability if one.chosen else 0.0)
        if one.chosen:
            plain.append(score)
    mean = sum(truth) / len(truth)
    assert sum(weighted) / len(weighted) == pytest.approx(mean, abs=0.02)
    assert abs(sum(plain) / len(plain) - mean) > 0.1


async def event_of(
    server: ScriptedJudge,
    one: RagInteraction,
    cascade: dict[str, Any],
    more: Mapping[str, Any] = MappingProxyType({}),
    **judge: Any,
) -> MetricEvent:
    update = {"cascade": CascadeSettings(**cascade), **more}
    options = settings(server, labeler="cascade", **judge).model_copy(update=update)
    async with labeler_of(options, None) as labeler:
        labeling = await labeler.label(one)
        event = metric_event(one, labeler_id(labeler), labeling, labeled_at=utc_now(), latency_s=0.0)
    assert MetricEvent.decode(event.encode()) == event
    return event


async def test_a_chosen_interaction_has_both_scores_in_one_event(server: ScriptedJudge) -> None:
    event = await event_of(server, TOWER, {"rate": 1.0}, prices={"test-model": {"input": 1.0, "output": 1.0}})
    assert event.labeler == "local"
    assert event.judged is not None
    assert event.judged.labeler == "judge"
    assert event.judged.profile == "ragbench"
    assert event.judged.prompts == ("trace.en.1",)
    assert event.judged.scores["trace.adherence"] == 0.0
    assert 0 < event.scores["trace.adherence"] < 1
    assert event.judged.inclusion_probability == 1.0
    assert event.judged.uniform
    assert event.cost_usd > 0


async def test_an_interaction_that_is_not_chosen_costs_nothing(server: ScriptedJudge) -> None:
    event = await event_of(server, TOWER, {"rate": 0.0})
    assert event.judged is None
    assert event.labeler == "local"
    assert server.requests == []


async def test_a_judge_that_is_down_is_skipped_and_counted_as_absent(server: ScriptedJudge) -> None:
    server.always = Status(500)
    event = await event_of(server, TOWER, SKIPPING, attempts=1)
    assert event.scores["trace.adherence"] > 0
    assert event.judged is not None
    assert event.judged.scores == {}
    assert set(event.judged.absent.values()) == {"judge_unavailable"}
    assert len(event.judged.absent) == 7


CUSTOM = """
from ragtide import CustomMetric, Direction, Kind, MetricDefinition

def supported(interaction, labels):
    for one in labels:
        verdicts = getattr(one, "fully_supported", None)
        if verdicts is not None:
            return float(sum(verdicts.values()))
    return 50.0

by_judge = CustomMetric(
    MetricDefinition("mine.supported", 0.0, 100.0, Direction.HIGHER, Kind.DISTRIBUTIVE, "Supported.", "us"),
    supported,
    version="3",
)
"""


@pytest.fixture
def custom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "cascade_metrics.py").write_text(CUSTOM)
    monkeypatch.syspath_prepend(str(tmp_path))
    return {"metrics": ("cascade_metrics:by_judge",)}


async def test_custom_metrics_see_the_judges_labels_for_the_judged_part(
    server: ScriptedJudge, custom: dict[str, Any]
) -> None:
    event = await event_of(server, TOWER, {"rate": 1.0}, custom)
    assert event.judged is not None
    assert event.scores["mine.supported"] == 50.0
    assert event.judged.scores["mine.supported"] < 50.0
    assert event.declared is not None
    assert event.declared["mine.supported"].version == "3"


async def test_custom_metrics_of_a_judge_that_was_skipped_are_absent_for_its_reason(
    server: ScriptedJudge, custom: dict[str, Any]
) -> None:
    server.always = Status(500)
    event = await event_of(server, TOWER, SKIPPING, custom, attempts=1)
    assert event.judged is not None
    assert event.judged.absent["mine.supported"] == "judge_unavailable"
    assert event.scores["mine.supported"] == 50.0


OWN = """
from ragtide import LabelerUnavailable, Labeling

class Careful:
    name, version, profile = "careful", "1", "mine"
    down = False

    async def label(self, interaction):
        if Careful.down:
            raise LabelerUnavailable(because="asleep")
        return Labeling({"trace.adherence": 1.0, "mine.long": 0.0}, counters={"looks": 1})
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "cascade_labeler.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "cascade_labeler:Careful"


async def test_a_labeler_of_the_users_own_may_be_the_reference(server: ScriptedJudge, own: str) -> None:
    event = await event_of(server, TOWER, {"rate": 1.0, "reference": own})
    assert (event.labeler, event.judged and event.judged.labeler) == ("local", "careful")
    assert event.judged is not None
    assert event.judged.scores == {"trace.adherence": 1.0, "mine.long": 0.0}
    assert server.requests == []


async def test_two_remote_labelers_make_a_cascade_and_their_costs_are_one(server: ScriptedJudge) -> None:
    with NliServer() as nli:
        services = {"nli": ServiceSettings(url=nli.url, call_usd=0.01, cache_ttl_s=0.0)}
        cascade = {"rate": 1.0, "proxy": "nli", "reference": "judge"}
        prices = {"test-model": {"input": 1.0, "output": 1.0}}
        event = await event_of(server, TOWER, cascade, {"services": services}, prices=prices)
        assert (event.labeler, event.judged and event.judged.labeler) == ("nli", "judge")
        assert event.judged is not None
        assert event.scores["trace.supported_fraction"] == event.judged.scores["trace.supported_fraction"] == 0.5
        assert event.cost_usd > 0.01
        assert {"nli_calls", "judge_calls"} <= set(event.counters)
        nli.always = Status(500)
        services = {"nli": ServiceSettings(url=nli.url, attempts=1)}
        with pytest.raises(LabelerUnavailable):
            await event_of(server, TOWER, cascade, {"services": services})


async def test_a_service_that_is_down_is_skipped_as_the_reference(server: ScriptedJudge) -> None:
    with NliServer() as nli:
        nli.always = Status(500)
        services = {"nli": ServiceSettings(url=nli.url, attempts=1)}
        event = await event_of(server, TOWER, {**SKIPPING, "reference": "nli"}, {"services": services})
    assert event.judged is not None
    assert event.judged.scores == {}
    assert event.judged.absent == dict.fromkeys(NliLabeler.metrics, "judge_unavailable")


async def test_a_reference_that_names_no_metrics_is_absent_for_those_of_the_proxy(
    server: ScriptedJudge, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("cascade_labeler").Careful, "down", True)
    event = await event_of(server, TOWER, {**SKIPPING, "reference": own})
    assert event.judged is not None
    of_every_event = {metric.name for metric in OUTCOMES}
    proxy = {name for name in (*event.scores, *event.absent) if name not in of_every_event}
    assert event.judged.absent == dict.fromkeys(proxy, "judge_unavailable")


@pytest.mark.parametrize(
    "pair", [{"proxy": "judge"}, {"reference": "local"}, {"proxy": "cascade"}, {"reference": "cascade"}]
)
def test_a_cascade_is_of_two_different_labelers(pair: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="a cascade needs two different labelers"):
        CascadeSettings(**pair)


async def test_a_reference_that_is_unknown_is_named(server: ScriptedJudge) -> None:
    with pytest.raises(ConfigurationError, match=r"no labeler 'nobody'\. There are: local, judge"):
        await event_of(server, TOWER, {"reference": "nobody"})
