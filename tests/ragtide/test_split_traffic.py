"""Two pipelines among which a coin divides the traffic are compared by their metric events, and the coin is checked."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis
from tests.support.metric_events import START, event
from tests.support.recorded import record
from typer.testing import CliRunner

from ragtide import ConfigurationError
from ragtide.cli.app import cli
from ragtide_offline.report.split_answers import TrafficSplit
from ragtide_offline.report.split_traffic import SplitComparison, read_split_comparison
from ragtide_runtime.recordings import EntryKind, RecordedEntry
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent, to_milliseconds

METRIC = "trace.adherence"
SETTINGS = Settings()
ITEMS = 1200


def traffic(seed: int = 1, *, per_session: bool = False, **changes: Any) -> list[MetricEvent]:
    """Return events of two pipelines: the new one is 0.1 better, and hard questions are 0.5 worse."""
    rng = np.random.default_rng(seed)
    hard, coins = rng.random(ITEMS), rng.random(ITEMS)
    sessions = np.arange(ITEMS) // 3
    if per_session:
        coins = coins[sessions]
    events = []
    for number in range(ITEMS):
        new = bool(coins[number] < 0.4)
        score = float(np.clip(0.7 - 0.5 * hard[number] + 0.1 * new + 0.05 * rng.standard_normal(), 0, 1))
        fields: dict[str, Any] = {
            "pipeline": "new" if new else "old",
            "covariates": {"difficulty": hard[number], "words": 100 * hard[number] + 50 * new},
            "session_id": f"s-{sessions[number]}" if per_session else None,
            "segments": {"lang": "de" if number % 3 else "en"},
        }
        events.append(event(number, {METRIC: score}, **{**fields, **changes}))
    return events


async def publish(redis: Redis, events: Sequence[MetricEvent]) -> None:
    async with redis.pipeline(transaction=False) as pipe:
        for number, one in enumerate(events):
            at = f"{to_milliseconds(START) + 1000 * number}-0"
            pipe.xadd(Streams(SETTINGS.prefix, 0).metrics, {DATA_FIELD: one.encode()}, id=at)
        await pipe.execute()


async def found(redis: Redis, events: Sequence[MetricEvent], split: TrafficSplit, **changes: Any) -> SplitComparison:
    await publish(redis, events)
    return await read_split_comparison(redis, SETTINGS.model_copy(update=changes), ("new", "old"), split)


def width(comparison: SplitComparison) -> float:
    (whole,) = [one for one in comparison.compared if one.key.segment is None]
    assert whole.difference.lower < 0.1 < whole.difference.upper
    return whole.difference.upper - whole.difference.lower


async def test_a_covariate_makes_the_interval_of_the_difference_narrower(async_redis: Redis) -> None:
    plain = await found(async_redis, traffic(), TrafficSplit(0.4))
    again = await read_split_comparison(
        async_redis, SETTINGS, ("new", "old"), TrafficSplit(0.4, covariates=("difficulty", "segment:lang"))
    )
    assert width(again) < 0.75 * width(plain)
    assert not plain.cautions
    assert not again.cautions
    whole = next(one for one in again.compared if one.key.segment is None)
    assert (whole.method, whole.key.metric, whole.difference.verdict) == ("randomized", METRIC, "higher")
    assert [one.key.segment for one in plain.compared] == [None, "lang=de", "lang=en"]
    # The first answers show that both pipelines have traffic; the one that shows it was not drawn by a coin.
    first = next(number for number, one in enumerate(traffic()) if one.pipeline != traffic()[0].pipeline)
    assert sum(whole.n) == ITEMS - first - 1


async def test_a_covariate_that_depends_on_the_pipeline_is_left_out(async_redis: Redis) -> None:
    plain = await found(async_redis, traffic(), TrafficSplit(0.4))
    again = await read_split_comparison(async_redis, SETTINGS, ("new", "old"), TrafficSplit(0.4, covariates=("words",)))
    assert again.compared == plain.compared
    assert again.cautions == ["words depends on the pipeline, so it cannot be a covariate and is left out."]


async def test_another_share_than_stated_gives_no_interval(async_redis: Redis) -> None:
    of = await found(async_redis, traffic(), TrafficSplit(0.5))
    assert not of.compared
    (caution,) = of.cautions
    assert "a coin of 50.0% does not explain that" in caution


async def test_scores_that_are_missing_in_one_pipeline_give_no_interval(async_redis: Redis) -> None:
    events = [
        one.model_copy(update={"scores": {"trace.completeness": 0.5}}) if one.pipeline == "new" and number % 4 else one
        for number, one in enumerate(traffic())
    ]
    of = await found(async_redis, events, TrafficSplit(0.4))
    assert not of.compared
    assert f"Of the scores of {METRIC}:" in of.cautions[0]


async def test_sessions_that_stay_with_a_pipeline_need_a_coin_for_each_session(async_redis: Redis) -> None:
    events = traffic(per_session=True)
    of = await found(async_redis, events, TrafficSplit(0.4))
    assert not of.compared
    assert "give --unit cluster" in of.cautions[0]
    split = TrafficSplit(0.4, unit="cluster", covariates=("difficulty",))
    long = SETTINGS.model_copy(update={"clusters": SETTINGS.clusters.model_copy(update={"quiet_s": 1_800.0})})
    open_still = await read_split_comparison(async_redis, long, ("new", "old"), split)
    assert (open_still.compared, open_still.cautions) == ([], ["No cluster has ended yet (clusters.quiet_s)."])
    ended = SETTINGS.model_copy(update={"clusters": SETTINGS.clusters.model_copy(update={"size": 3})})
    by_session = await read_split_comparison(async_redis, ended, ("new", "old"), split)
    assert width(by_session) < 0.3
    whole = next(one for one in by_session.compared if one.key.segment is None)
    # The coins of the sessions that show that both pipelines have traffic are not random.
    first = next(number for number, one in enumerate(events) if one.pipeline != events[0].pipeline)
    assert sum(whole.n) == ITEMS // 3 - first // 3 - 1
    alone = SETTINGS.model_copy(update={"clusters": SETTINGS.clusters.model_copy(update={"by": "none"})})
    none = await read_split_comparison(async_redis, alone, ("new", "old"), split)
    assert "No interaction belongs to a cluster" in none.cautions[0]
    # Traffic stops: ticks end the sessions of both pipelines, without one more answer.
    for pipeline in ("new", "old"):
        at = START + timedelta(seconds=ITEMS + 1_801)
        tick = MetricEvent.tick(pipeline, None, occurred_at=at, scored_until=at)
        await async_redis.xadd(Streams(SETTINGS.prefix, 0).metrics, {DATA_FIELD: tick.encode()})
    quiet = await read_split_comparison(async_redis, long, ("new", "old"), split)
    assert [one.n for one in quiet.compared if one.key.segment is None] == [whole.n]


async def test_interactions_that_both_answered_were_not_divided(async_redis: Redis) -> None:
    events = [event(number, {METRIC: 0.5}, pipeline=name) for number in range(30) for name in ("new", "old")]
    of = await found(async_redis, events, TrafficSplit(0.5))
    assert "Both pipelines answered 29 of the interactions" in of.cautions[0]


async def test_only_what_came_since_the_split_counts_and_trimmed_events_are_said(async_redis: Redis) -> None:
    alone = [one.model_copy(update={"pipeline": "old"}) for one in traffic(2)[:600]]
    events = [*alone, *(one.model_copy(update={"interaction_id": f"x-{n}"}) for n, one in enumerate(traffic()))]
    since = START + timedelta(seconds=600)
    of = await found(async_redis, events, TrafficSplit(0.4, since=since))
    assert (of.since, sum(of.compared[0].n)) == (since, ITEMS)
    stream = Streams(SETTINGS.prefix, 0).metrics
    await async_redis.xtrim(stream, maxlen=1000, approximate=False)
    later = await read_split_comparison(async_redis, SETTINGS, ("new", "old"), TrafficSplit(0.4, since=since))
    assert any("not kept any more" in caution for caution in later.cautions)
    kept = TrafficSplit(0.4, since=since + timedelta(seconds=300))
    assert not (await read_split_comparison(async_redis, SETTINGS, ("new", "old"), kept)).cautions


async def test_answers_count_in_the_order_of_publishing_however_long_their_scores_take(async_redis: Redis) -> None:
    events = [
        one.model_copy(update={"entry_id": f"{to_milliseconds(START) + 1000 * number}-0"})
        for number, one in enumerate(traffic())
    ]
    later = sorted(events, key=lambda one: to_milliseconds(one.occurred_at) + 60_000 * (one.pipeline == "new"))
    split = TrafficSplit(0.4, covariates=("difficulty",))
    in_order = await found(async_redis, events, split)
    await async_redis.delete(Streams(SETTINGS.prefix, 0).metrics)
    assert (await found(async_redis, later, split)).compared == in_order.compared


async def test_unknown_and_too_many_covariates_are_refused(async_redis: Redis) -> None:
    with pytest.raises(ConfigurationError, match="there is no covariate 'dificulty'; did you mean 'difficulty'"):
        await found(async_redis, traffic(), TrafficSplit(0.4, covariates=("dificulty",)))
    for names, message in ((("segment:land",), "did you mean 'lang'"), (tuple("abcdefghi"), "too many")):
        with pytest.raises(ConfigurationError, match=message):
            await read_split_comparison(async_redis, SETTINGS, ("new", "old"), TrafficSplit(0.4, covariates=names))


async def test_a_recording_gives_the_same_differences_as_the_streams(async_redis: Redis, tmp_path: Path) -> None:
    split = TrafficSplit(0.4, covariates=("difficulty",))
    kept = await found(async_redis, traffic(), split)
    entries = [
        (EntryKind.METRICS, RecordedEntry(0, f"{to_milliseconds(START) + 1000 * number}-0", one))
        for number, one in enumerate(traffic())
    ]
    await async_redis.delete(Streams(SETTINGS.prefix, 0).metrics)
    recording = record(entries, tmp_path)
    assert await read_split_comparison(async_redis, SETTINGS, ("new", "old"), split, recording=recording) == kept


async def leave(url: str) -> None:
    async with connect_async(url) as client:
        await publish(client, traffic())


def test_the_command_shows_differences_and_cautions(redis: Any, redis_url: str) -> None:
    asyncio.run(leave(redis_url))
    command = ["--redis-url", redis_url, "compare", "new", "old"]
    done = CliRunner().invoke(cli, [*command, "--share", "0.4", "--covariate", "difficulty", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert {one["method"] for one in json.loads(done.stdout)} == {"randomized"}
    shown = CliRunner().invoke(cli, [*command, "--share", "0.4", "--covariate", "words"], env={"COLUMNS": "160"})
    assert "A coin sends 40% of the interactions to new" in shown.stdout
    assert "words depends on the pipeline" in shown.stderr
    for wrong in (["--unit", "cluster"], ["--share", "0.4", "--by", "lang"], ["--covariate", "a"]):
        assert CliRunner().invoke(cli, [*command, *wrong]).exit_code == 2
