"""The judge's self-consistency: for a share of the interactions it is asked twice, and its verdicts are compared."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.consumers.judge.asking import TOWER, entry, judge, settings

from ragtide import SentenceLabels
from ragtide.testing import JudgePrompt, Says, ScriptedJudge, Status
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.judge.client import FIRST_ANSWER_TOKENS
from ragtide_consumers.labelers.judge.self_consistency import is_asked_twice
from ragtide_consumers.labelers.published import published_metrics
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.errors import EndpointUnavailable
from ragtide_consumers.metrics.trace import self_consistency
from ragtide_runtime.calls.endpoint_states import read_spend
from ragtide_runtime.settings.labelers import CascadeSettings, JudgeSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent

pytestmark = pytest.mark.processes

NAME = "judge.self_consistency"
PRICES = {"test-model": {"input": 1000.0, "output": 4000.0}}


def verdicts(first: bool, second: bool) -> Says:
    """Return an answer about the two sentences of the tower."""
    entries = [entry(key, ["0a"] if verdict else [], verdict) for key, verdict in (("a", first), ("b", second))]
    fields = {
        "all_relevant_sentence_keys": ["0a"],
        "all_utilized_sentence_keys": ["0a"],
        "overall_supported": first and second,
        "sentence_support_information": entries,
    }
    return Says(json.dumps(fields))


def labels(supported: dict[str, bool]) -> SentenceLabels:
    support = {key: ["0a"] if verdict else [] for key, verdict in supported.items()}
    return SentenceLabels(
        relevant=[], utilized=[], support=support, n_document_sentences=1, response_keys=tuple(supported)
    )


@pytest.mark.parametrize(
    ("second", "expected"), [((True, False), 1.0), ((True, True), 0.5), ((False, True), 0.0)], ids=str
)
async def test_it_is_the_share_of_sentences_with_the_same_verdict(
    server: ScriptedJudge, second: tuple[bool, bool], expected: float
) -> None:
    server.script += [verdicts(True, False), verdicts(*second)]
    async with judge(server, repeat_share=1.0) as labeler:
        labeling = await labeler.label(TOWER)
        event = metric_event(
            TOWER, labeler_id(labeler), labeling, labeled_at=datetime(2026, 11, 23, tzinfo=UTC), latency_s=0.1
        )
    assert labeling.scores[NAME] == expected
    assert labeling.scores["trace.supported_fraction"] == 0.5, "the first answer gives the scores"
    assert MetricEvent.decode(event.encode()).scores[NAME] == expected
    assert labeling.counters == {"judge_calls": 2, "asked_again": 1}


@pytest.mark.pure
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_it_is_symmetric_and_one_exactly_for_equal_verdicts(pairs: list[tuple[bool, bool]]) -> None:
    one, other = (labels({f"s{place}": pair[side] for place, pair in enumerate(pairs)}) for side in (0, 1))
    value = self_consistency(one, other)
    assert value == self_consistency(other, one) == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert self_consistency(one, one) == 1.0


async def test_by_default_no_interaction_is_asked_twice(server: ScriptedJudge) -> None:
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert len(server.requests) == 1
    assert NAME not in {**labeling.scores, **labeling.absent}


@pytest.mark.pure
def test_the_share_is_chosen_by_the_id_alone() -> None:
    def asked(pipeline: str, share: float) -> set[int]:
        made = (TOWER.model_copy(update={"interaction_id": str(n), "pipeline": pipeline}) for n in range(4000))
        return {number for number, one in enumerate(made) if is_asked_twice(one, share)}

    few, more = asked("shop", 0.05), asked("shop", 0.2)
    assert len(few) / 4000 == pytest.approx(0.05, abs=0.02)
    assert len(more) / 4000 == pytest.approx(0.2, abs=0.03)
    assert few < more, "a larger share keeps the interactions of a smaller one"
    assert few != asked("desk", 0.05)
    assert asked("shop", 0.0) == set()
    assert len(asked("shop", 1.0)) == 4000


async def test_the_second_question_passes_the_cache_by(server: ScriptedJudge, async_redis: Any) -> None:
    server.script += [verdicts(True, False), verdicts(True, True), verdicts(False, True)]
    async with judge(server, async_redis, repeat_share=1.0, cache_ttl_s=60) as labeler:
        assert (await labeler.label(TOWER)).scores[NAME] == 0.5
        again = await labeler.label(TOWER)
    assert len(server.requests) == 3
    assert again.counters == {"cache_hits": 1, "judge_calls": 1, "asked_again": 1}
    assert again.scores["trace.supported_fraction"] == 0.5, "the cache has the first answer, not the second"
    assert again.scores[NAME] == 0.0


async def test_the_second_answer_costs_and_counts_in_the_spend_limit(server: ScriptedJudge, async_redis: Any) -> None:
    async with judge(server, prices=PRICES) as labeler:
        once = await labeler.label(TOWER)
    async with judge(server, async_redis, prices=PRICES, repeat_share=1.0, spend_per_day_usd=1e6) as labeler:
        twice = await labeler.label(TOWER)
    assert twice.cost_usd == pytest.approx(2 * once.cost_usd)
    assert twice.prompt_tokens == 2 * once.prompt_tokens
    assert (await read_spend(async_redis, "ragtide")).day_usd == pytest.approx(twice.cost_usd)
    server.requests.clear()
    # Enough to reserve the probable cost of one further call, and not of two.
    limit = twice.cost_usd + (once.prompt_tokens * 1000 + FIRST_ANSWER_TOKENS * 4000) / 1e6 + once.cost_usd / 2
    async with judge(server, async_redis, prices=PRICES, repeat_share=1.0, spend_per_day_usd=limit) as labeler:
        limited = await labeler.label(TOWER)
    assert limited.scores["trace.supported_fraction"] == 0.5
    assert limited.absent[NAME] == "over_budget"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ([Status(500)] * 3, "judge_unavailable"),
        ([Status(401)], "judge_unavailable"),
        ([Says("no")] * 3, "judge_unusable"),
        ([Says("", refusal="I cannot")], "judge_refused"),
    ],
    ids=("down", "no key", "prose", "refusal"),
)
async def test_a_failed_second_answer_loses_nothing_of_the_first(
    server: ScriptedJudge, replies: list[Any], reason: str
) -> None:
    async with judge(server) as labeler:
        alone = await labeler.label(TOWER)
    server.script += [verdicts(True, False), *replies]
    async with judge(server, repeat_share=1.0) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.absent == {**alone.absent, NAME: reason}
    assert labeling.scores.keys() == alone.scores.keys()
    assert labeling.counters["asked_again"] == 1
    assert labeling.labels


async def test_an_unusable_first_answer_leaves_the_second_all_its_repairs(server: ScriptedJudge) -> None:
    server.script += [Says("no"), verdicts(True, False), Says("no"), verdicts(True, True)]
    async with judge(server, repeat_share=1.0, repairs=1) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.scores[NAME] == 0.5


async def test_without_a_first_answer_there_is_no_second(server: ScriptedJudge) -> None:
    server.always = Says("", refusal="I cannot")
    async with judge(server, repeat_share=1.0) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.absent[NAME] == "judge_refused"
    assert len(server.requests) == 1


async def test_an_unavailable_judge_is_still_waited_for_on_the_first_answer(server: ScriptedJudge) -> None:
    server.always = Status(500)
    async with judge(server, repeat_share=1.0) as labeler:
        with pytest.raises(EndpointUnavailable):
            await labeler.label(TOWER)


async def test_the_second_question_comes_after_the_claims(server: ScriptedJudge) -> None:
    async with judge(server, repeat_share=1.0, families=("trace", "ragchecker")) as labeler:
        labeling = await labeler.label(TOWER)
    assert [_is_trace(prompt) for prompt in server.prompts] == [True, False, False, True]
    assert labeling.scores[NAME] == 1.0


def _is_trace(prompt: JudgePrompt) -> bool:
    return "all_relevant_sentence_keys" in json.dumps(prompt.body)


async def test_in_a_cascade_it_is_a_score_of_the_judge(server: ScriptedJudge) -> None:
    asked = settings(server, labeler="cascade", repeat_share=1.0)
    async with labeler_of(asked.model_copy(update={"cascade": CascadeSettings(rate=1.0)}), None) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.judged is not None
    assert labeling.judged.labeling.scores[NAME] == 1.0
    assert NAME not in labeling.scores


@pytest.mark.pure
def test_it_needs_the_verdicts_of_trace() -> None:
    with pytest.raises(ValidationError, match="add trace to families, or set repeat_share to 0"):
        JudgeSettings(families=("ragchecker",), repeat_share=0.1)
    with pytest.raises(ValidationError, match="repeat_share"):
        JudgeSettings(repeat_share=1.1)
    twice = Settings(labeler="judge", judge=JudgeSettings(repeat_share=0.1))
    assert NAME in (published_metrics(twice) or ())
    assert NAME not in (published_metrics(Settings(labeler="judge")) or ())
