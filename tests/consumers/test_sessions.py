"""Workers score each session once after its end, by a judge over HTTP."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.support.conditions import until

from ragtide import RagInteraction
from ragtide.testing import Labels, ScriptedJudge, Status
from ragtide_aggregator.service.trimming import trim_streams
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.worker.app import create_group, run_workers
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, SentinelField, Streams, awaiting_consumer
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.redis.session_turns import due_sessions, session_key
from ragtide_runtime.settings.alerting import ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent

STREAMS = Streams("ragtide", 0)
RESOLVED = {"name": "resolved", "question": "Was the problem solved?", "scale": "yes_no", "unit": "session"}
POLITE = {"name": "polite", "question": "Is the response polite?", "scale": "yes_no"}


def turn(session: str | None, number: int, **fields: Any) -> RagInteraction:
    return RagInteraction.model_validate(
        {
            "interaction_id": f"{session}-{number}", "pipeline": "shop", "session_id": session, "turn": number,
            "question": f"Where is parcel {number} of {session}?", "documents": ["Parcels take three days."],
            "response": f"Parcel {number} takes three days.", **fields,
        }
    )  # fmt: skip


def settings_of(server: ScriptedJudge, *criteria: Any, quiet_s: float = 0.2, **fields: Any) -> Settings:
    settings = server.settings(criteria=criteria)
    return settings.model_copy(
        update={"clusters": ClusterSettings(quiet_s=quiet_s), "worker_min_idle_s": 0.3, **fields}
    )


@asynccontextmanager
async def working(settings: Settings, redis: Any, url: str) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with labeler_of(settings, redis) as labeler:
        running = asyncio.create_task(run_workers(settings, url, labeler, stop))
        try:
            yield
        finally:
            stop.set()
            await running


async def publish(redis: Any, *interactions: RagInteraction) -> None:
    async with redis.pipeline(transaction=False) as pipe:
        for interaction in interactions:
            pipe.xadd(STREAMS.interactions, {DATA_FIELD: interaction.encode()})
        await pipe.execute()


async def events_of(redis: Any) -> list[MetricEvent]:
    return [MetricEvent.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.metrics)]


async def sessions_in(redis: Any) -> list[MetricEvent]:
    return [event for event in await events_of(redis) if event.is_session]


async def is_at_rest(redis: Any) -> bool:
    """Return whether no session is open, and no entry waits."""
    waiting = (await redis.xlen(STREAMS.interactions)) - (await redis.zcard(STREAMS.finished))
    return not await redis.exists(STREAMS.open_sessions) and not waiting


def conversations(server: ScriptedJudge) -> list[dict[str, str]]:
    return [dict(prompt.conversation) for prompt in server.prompts if prompt.conversation]


async def test_a_session_is_scored_once_after_its_end_and_its_answers_as_before(
    server: ScriptedJudge, async_redis: Any, redis_url: str
) -> None:
    server.labels = Labels(
        answers={"Was the problem solved?": "no"}, reasons={"Was the problem solved?": "It says so."}
    )
    async with working(settings_of(server, RESOLVED, POLITE), async_redis, redis_url):
        await publish(async_redis, turn("a", 1), turn(None, 7), turn("a", 0), turn("a", 2))
        await until(lambda: sessions_in(async_redis))
        await until(lambda: is_at_rest(async_redis))
    (session,) = await sessions_in(async_redis)
    assert session.scores == {"criteria.resolved": 0.0}
    assert (session.absent, session.session_id, session.turn, session.pipeline) == ({}, "a", 2, "shop")
    assert session.prompts == ("session.en.1", "criteria.en.1")
    assert session.declared is not None
    assert set(session.declared) == {"criteria.resolved"}
    answers = [event for event in await events_of(async_redis) if not event.is_session]
    assert len(answers) == 4
    assert all(event.scores["criteria.polite"] == 1.0 and "criteria.resolved" not in event.scores for event in answers)
    (asked,) = conversations(server)
    assert list(asked) == ["T1Q", "T1R", "T2Q", "T2R", "T3Q", "T3R"]
    assert [asked[f"T{number}Q"][:22] for number in (1, 2, 3)] == [
        f"Where is parcel {number} of a" for number in range(3)
    ]
    assert len(server.requests) == 5, "a session takes one call, and an answer none more"


async def test_a_session_is_no_interaction_of_the_traffic(
    server: ScriptedJudge, async_redis: Any, redis_url: str
) -> None:
    async with working(settings_of(server, RESOLVED), async_redis, redis_url):
        await publish(async_redis, turn("a", 0, usage={"latency_s": 1.5}, covariates={"x": 1.0}, gold_scores={}))
        await until(lambda: sessions_in(async_redis))
    (session,) = await sessions_in(async_redis)
    assert set(session.scores) == {"criteria.resolved"}
    assert (session.covariates, session.gold_scores, session.population_size) == (None, {}, None)
    entries = await async_redis.xrange(STREAMS.metrics)
    traffic = await async_redis.hmget(STREAMS.sentinels, [SentinelField.TRAFFIC, SentinelField.EVENT])
    assert traffic == [entries[0][0], entries[1][0]], "silence is measured from the answer"


async def test_two_workers_score_each_session_once_and_lose_no_turn(
    server: ScriptedJudge, async_redis: Any, redis_url: str
) -> None:
    settings = settings_of(server, RESOLVED, quiet_s=0.3, worker_concurrency=3)
    turns = [turn(f"s{place % 20}", place // 20) for place in range(80)]
    async with working(settings, async_redis, redis_url), working(settings, async_redis, redis_url):
        await publish(async_redis, *turns)
        await until(lambda: counted_turns(async_redis, 80))
        await until(lambda: is_at_rest(async_redis))
    found = await sessions_in(async_redis)
    assert len({event.interaction_id for event in found}) == len(found)
    by_session: Counter[str | None] = Counter()
    for event in found:
        by_session[event.session_id] += (event.turn or 0) + 1
    assert by_session == {f"s{number}": 4 for number in range(20)}
    assert len(conversations(server)) == len(found)


async def counted_turns(redis: Any, wanted: int) -> bool:
    return sum((event.turn or 0) + 1 for event in await sessions_in(redis)) >= wanted


async def test_a_turn_that_a_dead_worker_holds_is_waited_for(
    server: ScriptedJudge, async_redis: Any, redis_url: str
) -> None:
    await create_group(async_redis, STREAMS.interactions)
    await publish(async_redis, turn("a", 0))
    await async_redis.xreadgroup(LABEL_GROUP, "dead", {STREAMS.interactions: ">"})
    async with working(settings_of(server, RESOLVED, quiet_s=0.05, worker_min_idle_s=1.0), async_redis, redis_url):
        await publish(async_redis, turn("a", 1))
        await until(lambda: is_at_rest_with_session(async_redis))
    assert sum((event.turn or 0) + 1 for event in await sessions_in(async_redis)) == 2
    turns = [key for asked in conversations(server) for key in asked if key.endswith("Q")]
    assert len(turns) == 2


async def test_what_waits_for_an_unavailable_labeler_keeps_sessions_open_if_it_may_be_a_turn(async_redis: Any) -> None:
    await create_group(async_redis, STREAMS.interactions)
    first, second = turn("a", 0), turn("a", 1)
    added = (await async_redis.time())[0] * 1000 - 5000
    for number, interaction in enumerate((first, second), 1):
        await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: interaction.encode()}, id=f"{added}-{number}")
    await async_redis.xreadgroup(LABEL_GROUP, "me", {STREAMS.interactions: ">"})
    await async_redis.xack(STREAMS.interactions, LABEL_GROUP, f"{added}-1")
    await async_redis.zadd(STREAMS.finished, {f"{added}-1": added})
    digest = session_key(STREAMS, first).rpartition(":")[2]
    await async_redis.zadd(STREAMS.open_sessions, {digest: added})
    for consumer, due in (
        ("me", []),
        (awaiting_consumer("judge", is_turn=True), []),
        (awaiting_consumer("judge", is_turn=False), [digest]),
    ):
        await async_redis.xclaim(STREAMS.interactions, LABEL_GROUP, consumer, 0, [f"{added}-2"])
        assert await run_script(async_redis, due_sessions(STREAMS, 1.0, 1000)) == due, consumer
        # The clusters of the aggregator end by the same rule.
        status = await run_script(async_redis, trim_streams(STREAMS, Settings(), "0-0", "0-0"))
        assert (status.scored_until_ms > added + 1000) == bool(due), consumer


async def test_sessions_end_while_another_evaluator_is_unavailable(
    server: ScriptedJudge, async_redis: Any, redis_url: str
) -> None:
    with ScriptedJudge(always=Status(503)) as away:
        judge = {"model": "m", "base_url": server.url, "api_key": "none", "attempts": 1, "criteria": [RESOLVED]}
        given = Settings.model_validate(
            {
                "judge": judge,
                "evaluators": [
                    {"name": "shop", "labeler": "judge", "pipelines": ["shop"]},
                    {"name": "help", "labeler": "judge", "pipelines": ["help"], "judge": {"base_url": away.url}},
                ],
                "clusters": {"quiet_s": 0.2},
                "worker_min_idle_s": 0.3,
            }
        )

        async def holders() -> set[bytes]:
            found = await async_redis.xinfo_consumers(STREAMS.interactions, LABEL_GROUP)
            return {consumer["name"] for consumer in found if consumer["pending"]}

        await create_group(async_redis, STREAMS.interactions)
        async with working(given, async_redis, redis_url):
            await publish(async_redis, turn(None, 1, pipeline="help"))
            alone = awaiting_consumer("help", is_turn=False).encode()
            await until(lambda: holds(holders, {alone}))
            await publish(async_redis, turn("a", 0), turn("a", 1))
            await until(lambda: sessions_in(async_redis))
            await publish(async_redis, turn("b", 0, pipeline="help"))
            await until(lambda: holds(holders, {alone, awaiting_consumer("help", is_turn=True).encode()}))
    (session,) = await sessions_in(async_redis)
    assert (session.session_id, session.turn) == ("a", 1)


async def holds(holders: Callable[[], Awaitable[set[bytes]]], expected: set[bytes]) -> bool:
    return await holders() == expected


async def is_at_rest_with_session(redis: Any) -> bool:
    return bool(await sessions_in(redis)) and await is_at_rest(redis)


async def test_nothing_is_stored_or_asked_without_a_criterion_that_applies(
    server: ScriptedJudge, async_redis: Any, redis_url: str
) -> None:
    others: Sequence[Any] = (POLITE, {**RESOLVED, "pipelines": ["docs*"]}, {**RESOLVED, "name": "rare", "rate": 1e-6})
    async with working(settings_of(server, *others), async_redis, redis_url):
        await publish(async_redis, turn("a", 0), turn("a", 1))
        await until(lambda: at_least(async_redis, 2))
        assert not await async_redis.exists(STREAMS.open_sessions)
    assert conversations(server) == []


async def at_least(redis: Any, number: int) -> bool:
    return bool(await redis.xlen(STREAMS.metrics) >= number)


async def test_segments_are_those_of_the_whole_session(server: ScriptedJudge, async_redis: Any, redis_url: str) -> None:
    german = {**RESOLVED, "segments": {"lang": ["de"]}}
    async with working(settings_of(server, german), async_redis, redis_url):
        await publish(
            async_redis,
            turn("a", 0, segments={"lang": "de"}), turn("a", 1, segments={"lang": "de", "tier": "x"}),
            turn("b", 0, segments={"lang": "en"}), turn("b", 1, segments={"lang": "de"}),
        )  # fmt: skip
        await until(lambda: is_at_rest_with_session(async_redis))
    assert [(event.session_id, event.segments) for event in await sessions_in(async_redis)] == [("a", {"lang": "de"})]
    assert await async_redis.keys("*:session:*") == []


async def test_a_session_whose_criterion_was_removed_leaves_nothing(
    server: ScriptedJudge, async_redis: Any, redis_url: str
) -> None:
    async with working(settings_of(server, RESOLVED, quiet_s=100.0), async_redis, redis_url):
        await publish(async_redis, turn("a", 0))
        await until(lambda: async_redis.exists(STREAMS.open_sessions))
    async with working(settings_of(server, POLITE, quiet_s=0.1), async_redis, redis_url):
        await until(lambda: is_at_rest(async_redis))
    assert await async_redis.keys("*session*") == []
    assert await sessions_in(async_redis) == []


async def test_in_a_cascade_the_judge_scores_sessions_of_its_sample(
    server: ScriptedJudge, async_redis: Any, redis_url: str
) -> None:
    settings = settings_of(server, RESOLVED)
    cascade = settings.cascade.model_copy(update={"rate": 1.0})
    settings = settings.model_copy(update={"labeler": "cascade", "cascade": cascade})
    async with working(settings, async_redis, redis_url):
        await publish(async_redis, turn("a", 0), turn("a", 1))
        await until(lambda: is_at_rest_with_session(async_redis))
    (session,) = await sessions_in(async_redis)
    assert (session.scores, session.labeler) == ({}, "local")
    assert session.judged is not None
    assert (session.judged.scores, session.judged.labeler) == ({"criteria.resolved": 1.0}, "judge")


async def test_in_a_workspace_workers_make_no_sessions(server: ScriptedJudge, async_redis: Any, redis_url: str) -> None:
    settings = settings_of(server, RESOLVED, prefix="ragtide.run.may")
    streams = Streams("ragtide.run.may", 0)
    async with working(settings, async_redis, redis_url):
        await async_redis.xadd(streams.interactions, {DATA_FIELD: turn("a", 0).encode()})
        await until(lambda: async_redis.exists(streams.metrics))
    assert not await async_redis.exists(streams.open_sessions)
