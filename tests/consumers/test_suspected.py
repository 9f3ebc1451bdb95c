"""While a pipeline is suspected, the cascade judges more of it, each with the probability that it states."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.judge.asking import TOWER, settings

from ragtide import Labeling, RagInteraction
from ragtide.testing import ScriptedJudge
from ragtide_consumers.labelers.cascade import draw, draw_middle, position
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.suspected import SuspectedPipelines
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.labelers import CascadeSettings
from ragtide_runtime.suspected import write_suspected
from ragtide_schemas import utc_now

SINCE = utc_now().replace(microsecond=0)
STREAMS = Streams("ragtide", 0)
LOCAL = Labeling({"trace.adherence": 0.9})


def interaction(number: int, at: datetime = SINCE, **segments: str) -> RagInteraction:
    return TOWER.model_copy(update={"interaction_id": f"i{number}", "occurred_at": at, "segments": segments})


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1, 1000), st.floats(0, 0.5), st.integers(0, 10**6))
def test_all_rates_rise_together_and_the_middle_keeps_its_share(
    rate: float, other: float, boost: float, middle_rate: float, number: int
) -> None:
    share = 1 - middle_rate
    rules = CascadeSettings(
        rate=rate * share, segment_rates={"lang=ru": other * share}, middle="model", middle_rate=middle_rate
    )
    plain, russian = interaction(number), interaction(number, lang="ru")
    draws = [draw(one, LOCAL, rules, boost) for one in (plain, russian)]
    assert draws[0].inclusion_probability == min(rate * share * boost, share)
    assert draws[1].inclusion_probability == min(other * share * boost, share)
    assert {one.uniform_probability for one in draws} == {min(min(rate, other) * share * boost, share)}
    assert draw_middle(plain, LOCAL, rules, boost) == draw_middle(plain, LOCAL, rules)


@given(st.floats(0, 1), st.floats(1, 1000), st.integers(0, 10**6))
def test_what_is_drawn_again_after_a_suspicion_is_judged_as_if_there_had_been_none(
    rate: float, boost: float, number: int
) -> None:
    raised, usual = (draw(interaction(number), LOCAL, CascadeSettings(rate=rate), factor) for factor in (boost, 1.0))
    # Only what was chosen waits for the judge, so nothing that would be judged at the usual share is published before.
    assert raised.chosen or not usual.chosen
    assert usual.inclusion_probability == rate


def test_a_share_that_depends_on_the_judged_answers_so_far_leaves_estimates_exact() -> None:
    rules, means, plain = CascadeSettings(rate=0.05, boost=8.0), [], []
    for run in range(300):
        weights = total = judged = n = 0.0
        suspicion = 0.0
        for number in range(400):
            answer = interaction(run * 1000 + number)
            # The level falls after the first half, so what is judged more often is worse.
            score = float(position("truth", answer.interaction_id) < (0.9 if number < 200 else 0.3))
            drawn = draw(answer, LOCAL, rules, rules.boost if suspicion > 2 else 1.0)
            if drawn.uniform:
                suspicion = max(suspicion + (1.0 - 2.0 * score), 0.0)
                weights, total = weights + 1 / drawn.uniform_probability, total + score / drawn.uniform_probability
                judged, n = judged + score, n + 1
        means.append(total / 400)
        plain.append(judged / max(n, 1))
        assert weights > 0
    error = (sum((mean - 0.6) ** 2 for mean in means) / len(means)) ** 0.5 / len(means) ** 0.5
    assert abs(sum(means) / len(means) - 0.6) < 4 * error
    assert abs(sum(plain) / len(plain) - 0.6) > 10 * error


async def probabilities(labeler: Any, *answers: RagInteraction) -> list[tuple[float, float | None] | None]:
    judged = [(await labeler.label(answer)).judged for answer in answers]
    return [None if one is None else (one.inclusion_probability, one.uniform_probability) for one in judged]


def chosen(rate: float, below: float = 0.0) -> int:
    return next(n for n in range(10_000) if below <= position("shop", f"i{n}") < rate)


async def test_only_what_occurs_while_its_pipeline_is_suspected_is_judged_more_often(
    server: ScriptedJudge, async_redis: Any
) -> None:
    cascade = CascadeSettings(rate=0.05, boost=4.0, boost_s=60)
    options = settings(server, labeler="cascade").model_copy(update={"cascade": cascade})
    always, more = chosen(0.05), chosen(0.2, 0.05)
    await write_suspected(async_redis, STREAMS, {"shop": SINCE}, [])
    async with labeler_of(options, async_redis) as labeler:
        during, before, after = SINCE, SINCE - timedelta(seconds=1), SINCE + timedelta(seconds=60)
        assert await probabilities(labeler, interaction(always), interaction(more)) == [(0.2, 0.2)] * 2
        for time in (before, after):
            answers = interaction(always, time), interaction(more, time)
            assert await probabilities(labeler, *answers) == [(0.05, 0.05), None]
        other = interaction(more, during).model_copy(update={"pipeline": "other"})
        assert await probabilities(labeler, other) in ([None], [(0.05, 0.05)])
    await write_suspected(async_redis, Streams("ragtide.run.may", 0), {"shop": SINCE}, [])
    workspace = options.model_copy(update={"prefix": "ragtide.run.may"})
    async with labeler_of(workspace, async_redis) as labeler:
        assert await probabilities(labeler, interaction(always), interaction(more)) == [(0.05, 0.05), None]


async def test_redis_is_read_at_most_once_a_second_and_a_cleared_suspicion_counts_no_longer(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("ragtide_consumers.labelers.suspected.monotonic", lambda: now)
    pipelines = SuspectedPipelines(async_redis, [STREAMS], for_s=60)
    assert not await pipelines.covers(interaction(1))
    await write_suspected(async_redis, STREAMS, {"shop": SINCE}, [])
    assert not await pipelines.covers(interaction(1))
    now += 1
    assert await pipelines.covers(interaction(1))
    await write_suspected(async_redis, STREAMS, {}, ["shop"])
    now += 1
    assert not await pipelines.covers(interaction(1))


async def test_without_redis_the_share_is_the_usual() -> None:
    async with connect_async("redis://127.0.0.1:1") as away:
        assert not await SuspectedPipelines(away, [STREAMS], for_s=60).covers(interaction(1))
