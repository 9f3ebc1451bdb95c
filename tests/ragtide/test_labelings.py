"""Two labelings of the same interactions are compared interaction by interaction, where ids can be joined."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redis.asyncio import Redis
from tests.support.metric_events import START, event
from typer.testing import CliRunner

from ragtide import ConfigurationError
from ragtide.cli.app import cli
from ragtide_aggregator.checkpoint.commit import CHECKPOINT_VERSION
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_offline.report.labelings import Compared, named_recording
from ragtide_offline.report.pipelines import PipelineSide, read_comparison, read_labelers
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import RecorderSettings
from ragtide_runtime.workspaces import register_workspace, settings_of_workspace
from ragtide_schemas import METRICS, JudgedScores, MetricDeclaration, MetricEvent, Workspace

METRIC = "trace.adherence"
SETTINGS = Settings()


async def labeled(
    redis: Redis, run: str, events: Sequence[MetricEvent], *, kind: Any = "replay", replays: str = "interactions"
) -> PipelineSide:
    """Leave what a replay of interactions leaves: a run in the list, its metric events and its checkpoint."""
    info = Workspace(run=run, kind=kind, source="somewhere", options={"replays": replays})
    await register_workspace(redis, SETTINGS, info)
    own = settings_of_workspace(SETTINGS, info)
    streams = Streams(own.prefix, 0)
    state = AggregatorState(StateOptions())
    for one in events:
        await redis.xadd(streams.metrics, {DATA_FIELD: one.encode()})
        state.apply(one)
    fields: dict[Any, Any] = {**state.take_changes().rows, "version": CHECKPOINT_VERSION}
    await redis.hset(streams.checkpoint, mapping=fields)
    return PipelineSide(Deployment(redis, own), "shop", info)


def scored(values: Any, **changes: Any) -> list[MetricEvent]:
    return [event(number, {METRIC: float(value)}, **changes) for number, value in enumerate(values)]


async def compared(
    redis: Redis, first: PipelineSide, second: PipelineSide, **options: Any
) -> dict[str | None, Compared]:
    found = await read_comparison(redis, (first, second), window="all", **options)
    return {one.key.segment: one for one in found if one.key.metric == METRIC}


async def test_identical_scores_have_a_difference_of_0_and_next_to_no_uncertainty(async_redis: Redis) -> None:
    values = np.random.default_rng(1).uniform(0, 1, 500)
    first = await labeled(async_redis, "one", scored(values))
    second = await labeled(async_redis, "other", scored(values)[::-1])
    one = (await compared(async_redis, first, second))[None]
    assert (one.method, one.n, one.difference.estimate) == ("paired", (500, 500), 0.0)
    assert -0.03 < one.difference.lower < one.difference.upper < 0.03


@pytest.mark.parametrize(("ongoing", "strategy"), [(False, "closed"), (True, "running")])
async def test_of_complete_runs_of_known_size_the_difference_is_known(
    async_redis: Redis, ongoing: bool, strategy: str
) -> None:
    rng = np.random.default_rng(2)
    values = rng.uniform(0.1, 1, 300)
    first = await labeled(async_redis, "one", scored(values, population_size=300))
    second = await labeled(async_redis, "other", scored(values - 0.1, population_size=300))
    one = (await compared(async_redis, first, second, ongoing=ongoing))[None]
    assert one.strategy == strategy
    assert one.difference.estimate == pytest.approx(0.1)
    assert (one.difference.lower == one.difference.upper) == (not ongoing)
    assert one.difference.verdict == "higher"


async def test_a_run_that_is_not_complete_leaves_uncertainty(async_redis: Redis) -> None:
    first = await labeled(async_redis, "one", scored([0.5] * 50, population_size=50))
    second = await labeled(async_redis, "other", scored([0.5] * 49, population_size=50))
    one = (await compared(async_redis, first, second))[None]
    assert (one.n, one.strategy) == ((49, 49), "running")


async def test_another_labeler_is_compared_on_the_same_interactions(async_redis: Redis) -> None:
    rng = np.random.default_rng(3)
    values = rng.uniform(0, 0.9, 200)
    first = await labeled(async_redis, "one", scored(values + 0.1, labeler="judge", labeler_version="a"))
    second = await labeled(async_redis, "other", scored(values, labeler="judge", labeler_version="b"))
    one = (await compared(async_redis, first, second))[None]
    assert (one.key.labeler, one.other_labeler, one.method) == ("judge", "judge b", "paired")
    assert one.difference.verdict == "higher"
    profile = await labeled(async_redis, "third", scored(values, profile="capstone"))
    assert await compared(async_redis, first, profile) == {}


async def test_segments_are_paired_and_absent_scores_are_no_pairs(async_redis: Redis) -> None:
    def events(absent: int) -> list[MetricEvent]:
        found = [event(number, {METRIC: 0.5}, segments={"lang": "de" if number % 2 else "en"}) for number in range(40)]
        found[absent] = event(absent, {}, absent={METRIC: "no_response_sentences"}, segments={"lang": "en"})
        return found

    first = await labeled(async_redis, "one", events(0))
    second = await labeled(async_redis, "other", events(2))
    found = await compared(async_redis, first, second)
    assert {segment: one.n[0] for segment, one in found.items()} == {None: 38, "lang=de": 20, "lang=en": 18}


@pytest.mark.parametrize("kind", ["paired", "live"])
async def test_metrics_stand_in_the_order_of_the_registry_and_whole_pipelines_come_first(
    async_redis: Redis, kind: str
) -> None:
    names = ["trace.completeness", METRIC, "trace.context_utilization", "trace.context_relevance"]

    def events(names: list[str], language: str) -> list[MetricEvent]:
        return [event(n, dict.fromkeys(names, 0.5), segments={"lang": language}) for n in range(20)]

    first = await labeled(async_redis, "one", events(names, "de"))
    second = await labeled(async_redis, "other", events(names[::-1], "de"))
    if kind == "live":
        first, second = replace(first, info=None), replace(second, info=None)
    found = await read_comparison(async_redis, (first, second), window="all")
    assert [one.key.metric for one in found] == sorted(names, key=list(METRICS).index) * 2
    assert [one.key.segment for one in found] == [None] * 4 + ["lang=de"] * 4


async def test_versions_of_a_formula_are_no_pairs(async_redis: Redis) -> None:
    def events(version: str) -> list[MetricEvent]:
        declared = {"mine.words": MetricDeclaration(version=version, lower=0, upper=1000)}
        return [event(number, {"mine.words": 120.0}, declared=declared) for number in range(20)]

    first = await labeled(async_redis, "one", events("1"))
    second = await labeled(async_redis, "other", events("2"))
    assert await read_comparison(async_redis, (first, second), window="all") == []
    third = await labeled(async_redis, "third", events("1"))
    (one,) = await read_comparison(async_redis, (first, third), window="all")
    assert (one.method, one.means, one.difference.estimate) == ("paired", (120.0, 120.0), 0.0)


@pytest.mark.parametrize("why", ["no common interaction", "live traffic", "other experiments", "a recording not named"])
async def test_where_ids_cannot_be_joined_means_are_compared_and_that_is_said(async_redis: Redis, why: str) -> None:
    events = scored([0.5] * 100)
    options: dict[str, Any] = {}
    if why == "other experiments":
        options = {"kind": "experiment"}
    if why == "a recording not named":
        options = {"replays": "metric events"}
    first = await labeled(async_redis, "one", events, **options)
    if why == "no common interaction":
        events = [one.model_copy(update={"interaction_id": f"other-{one.interaction_id}"}) for one in events]
    second = await labeled(async_redis, "other", events, **options)
    if why == "live traffic":
        first, second = replace(first, info=None), replace(second, info=None)
    one = (await compared(async_redis, first, second))[None]
    assert (one.method, one.n, one.strategy) == ("unpaired", (100, 100), "running")
    assert one.difference.upper > 0.1


async def test_two_live_pipelines_have_a_joint_interval_and_replays_which_may_share_items_do_not(
    async_redis: Redis,
) -> None:
    rng = np.random.default_rng(4)
    values, others = rng.random(300), rng.random(300)
    first = await labeled(async_redis, "one", scored(values))
    events = [one.model_copy(update={"pipeline": "shop-2"}) for one in scored(others)]
    second = replace(await labeled(async_redis, "other", events), pipeline="shop-2")
    live = replace(first, info=None), replace(second, info=None)
    replayed = (await compared(async_redis, live[0], second))[None].difference
    joint = (await compared(async_redis, *live))[None].difference
    assert joint.upper - joint.lower < 0.8 * (replayed.upper - replayed.lower)
    assert joint.estimate == replayed.estimate


async def leave(url: str, run: str, events: Sequence[MetricEvent]) -> None:
    async with connect_async(url) as client:
        await labeled(client, run, events)


@pytest.mark.parametrize("command", [["report", "one", "--compare", "other"], ["compare", "shop"]])
def test_the_commands_compare_two_replays_by_interaction(redis: Any, redis_url: str, command: list[str]) -> None:
    values = np.random.default_rng(5).uniform(0, 1, 100)
    for run, labeler in (("one", "a"), ("other", "b")):
        asyncio.run(leave(redis_url, run, scored(values, labeler=labeler, population_size=100)))
    runs = [] if command[0] == "report" else ["--workspace", "one", "--workspace", "other"]
    done = CliRunner().invoke(cli, ["--redis-url", redis_url, *command, *runs, "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    found = json.loads(done.stdout)
    (gap,) = found["gaps"] if command[0] == "report" else found
    assert (gap["method"], gap["n"], gap["difference"]["lower"], gap["difference"]["upper"]) == (
        "paired", [100, 100], 0.0, 0.0,
    )  # fmt: skip
    if command[0] == "report":
        assert found["cautions"] == ["Another labeler scored each replay: a 1 and b 1."]
        page = CliRunner().invoke(cli, ["--redis-url", redis_url, *command, "-o", "-"])
        assert "Paired: by interaction id" in page.stdout
    else:
        labelers = ["--workspace", "one", "--labeler", "a", "--labeler", "c", "--json"]
        none = CliRunner().invoke(cli, ["--redis-url", redis_url, *command, *labelers])
        assert (none.exit_code, json.loads(none.stdout)) == (1, [])
        assert "there is no labeler of " in none.stderr
        shown = CliRunner().invoke(cli, ["--redis-url", redis_url, *command, *runs], env={"COLUMNS": "140"})
        assert "Paired by interaction id: 100 pairs." in shown.stdout
        assert "a and b 1" in shown.stdout


async def test_two_labelers_of_a_cascade_are_compared_on_what_both_scored(async_redis: Redis) -> None:
    rng = np.random.default_rng(6)
    values = rng.uniform(0.1, 1, 300)

    def judged(score: float, *, uniform: bool) -> JudgedScores:
        return JudgedScores(
            labeler="judge", labeler_version="m", profile="ragbench", scores={METRIC: score}, uniform=uniform
        )

    # The judge is 0.1 lower on the uniform sample; the rest was chosen for its scores and is no fair sample.
    events = [
        event(number, {METRIC: value}, judged=judged(value - 0.1 if number % 2 else 0.0, uniform=bool(number % 2)))
        for number, value in enumerate(values.tolist())
    ]
    side = await labeled(async_redis, "one", events)
    (one,) = await read_labelers(async_redis, side, ("test", "judge"))
    assert (one.method, one.n, one.key.labeler, one.other_labeler) == ("paired", (150, 150), "test", "judge m")
    assert one.difference.estimate == pytest.approx(0.1)
    assert one.difference.verdict == "higher"


def test_redis_does_not_decide_which_recording_is_opened(tmp_path: Path) -> None:
    options = {"replays": "metric events"}
    info = Workspace(run="back", kind="replay", source=str(tmp_path / "elsewhere"), created_at=START, options=options)
    recorder = RecorderSettings(url=str(tmp_path / "mine"))
    assert named_recording(Settings(), info, None) is None
    assert named_recording(Settings(recorder=recorder), info, None) is None
    with pytest.raises(ConfigurationError, match="workspace back replays another recording"):
        named_recording(Settings(), info, str(tmp_path / "mine"))
