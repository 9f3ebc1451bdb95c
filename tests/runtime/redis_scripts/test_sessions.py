"""The turns of sessions, script by script: added with a result, found when the session has ended, ended once."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from tests.support.conditions import wait_until
from tests.support.metric_events import event

from ragtide import RagInteraction
from ragtide_consumers.worker.results import LabeledEntry, SessionTurn, deliver_events
from ragtide_runtime.redis import session_turns
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, SESSIONS_TOTAL, Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.redis.scripts import run_scripts_blocking
from ragtide_runtime.redis.session_turns import (
    OpenSession,
    due_sessions,
    encoded_turn,
    end_due_sessions,
    end_session,
    forget_turns,
    move_sessions,
    read_session,
    session_key,
)
from ragtide_schemas.conversation import sessions_of

STREAMS = Streams("ragtide", 0)
DAY_MS = 86_400_000
QUIET_S = 100.0


def run(redis: Any, call: Any) -> Any:
    (reply,) = run_scripts_blocking(redis, [call])
    return reply


def turn(number: int, session: str = "s", **fields: Any) -> RagInteraction:
    return RagInteraction.model_validate(
        {
            "interaction_id": f"{session}-{number}", "pipeline": "p", "session_id": session, "question": f"q{number}?",
            "documents": ["d"], "response": "r", **fields,
        }
    )  # fmt: skip


def now_ms(redis: Any) -> int:
    seconds, micros = redis.time()
    return int(seconds * 1000 + micros // 1000)


NUMBERS = count()


def id_of(redis: Any, ago_s: float) -> str:
    return f"{now_ms(redis) - int(1000 * ago_s)}-{next(NUMBERS)}"


def arrive(redis: Any, interaction: RagInteraction, *, ago_s: float = 0.0) -> str:
    """Add an entry as one that came some time ago; a worker reads it."""
    if not redis.exists(STREAMS.interactions):
        redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0", mkstream=True)
    entry = redis.xadd(STREAMS.interactions, {DATA_FIELD: interaction.encode()}, id=id_of(redis, ago_s))
    redis.xreadgroup(LABEL_GROUP, "worker", {STREAMS.interactions: ">"})
    return str(entry.decode())


def commit(redis: Any, entry: str, interaction: RagInteraction) -> Any:
    labeled = event(0, {}, interaction_id=interaction.interaction_id, pipeline=interaction.pipeline)
    added = SessionTurn(session_key(STREAMS, interaction), encoded_turn(interaction))
    result = LabeledEntry(entry, labeled, turn=added)
    return run(redis, deliver_events(STREAMS, [result], dedupe_ms=DAY_MS, feedback_ms=DAY_MS, quiet_s=QUIET_S))[0]


def scored(redis: Any, *turns: RagInteraction, ago_s: float = 0.0) -> None:
    for interaction in turns:
        assert commit(redis, arrive(redis, interaction, ago_s=ago_s), interaction) == "emitted"


def due(redis: Any, most_open: int = 1000) -> list[str]:
    found: list[str] = run(redis, due_sessions(STREAMS, QUIET_S, most_open))
    return found


async def session_of(url: str, digest: str) -> OpenSession:
    async with connect_async(url) as client:
        return await read_session(client, STREAMS, digest)


def keys_left(redis: Any) -> list[bytes]:
    found: list[bytes] = [key for key in redis.keys("*session*") if b"sentinels" not in key]
    return found


def test_a_session_has_ended_after_the_quiet_time_and_not_before(redis: Any) -> None:
    scored(redis, turn(0), ago_s=QUIET_S + 50)
    assert len(due(redis)) == 1
    scored(redis, turn(1), ago_s=QUIET_S - 50)
    assert due(redis) == [], "a turn keeps it open"


def test_a_session_does_not_end_while_an_earlier_entry_is_unfinished(redis: Any) -> None:
    first, late = turn(0), turn(1)
    scored(redis, first, ago_s=QUIET_S + 90)
    entry = arrive(redis, late, ago_s=QUIET_S + 80)
    assert due(redis) == [], "the entry may be a turn of it; its worker is slow, or died"
    commit(redis, entry, late)
    assert len(due(redis)) == 1


def test_a_session_does_not_end_while_an_entry_is_not_read(redis: Any) -> None:
    scored(redis, turn(0), ago_s=QUIET_S + 90)
    id_ = id_of(redis, QUIET_S + 80)
    redis.xadd(STREAMS.interactions, {DATA_FIELD: turn(1).encode()}, id=id_)
    assert due(redis) == []


def test_without_the_group_of_the_workers_no_session_ends(redis: Any) -> None:
    scored(redis, turn(0), ago_s=QUIET_S + 50)
    redis.xgroup_destroy(STREAMS.interactions, LABEL_GROUP)
    assert due(redis) == []


async def test_a_session_is_ended_once_and_leaves_nothing(redis: Any, redis_url: str) -> None:
    scored(redis, turn(0), turn(1), ago_s=QUIET_S + 50)
    (digest,) = due(redis)
    session = await session_of(redis_url, digest)
    (whole,) = sessions_of(session.turns, QUIET_S)
    call = end_session(STREAMS, session, [whole], dedupe_ms=DAY_MS)
    assert (run(redis, call), run(redis, call)) == (1, None)
    (_, fields) = redis.xrevrange(STREAMS.interactions, count=1)[0]
    assert RagInteraction.decode(fields[DATA_FIELD]) == whole
    assert redis.xlen(STREAMS.interactions) == 3
    assert keys_left(redis) == []


async def test_a_turn_between_reading_and_ending_is_not_lost(redis: Any, redis_url: str) -> None:
    scored(redis, turn(0), ago_s=QUIET_S + 50)
    (digest,) = due(redis)
    session = await session_of(redis_url, digest)
    scored(redis, turn(1))
    assert run(redis, end_session(STREAMS, session, sessions_of(session.turns, QUIET_S), dedupe_ms=DAY_MS)) is None
    assert [t.question for t in (await session_of(redis_url, digest)).turns] == ["q0?", "q1?"]
    assert due(redis) == []


async def test_a_turn_after_the_end_is_a_session_of_its_own(redis: Any, async_redis: Any) -> None:
    asked: list[RagInteraction] = []

    def is_asked(session: RagInteraction) -> bool:
        asked.append(session)
        return True

    async def end(quiet_s: float) -> None:
        await end_due_sessions(
            async_redis,
            STREAMS,
            quiet_s=quiet_s,
            most_open=10,
            dedupe_ms=DAY_MS,
            is_asked=is_asked,
        )

    scored(redis, turn(0), ago_s=QUIET_S + 50)
    await end(QUIET_S)
    scored(redis, turn(1))
    await end(QUIET_S)
    assert [(session.question, session.turn) for session in asked] == [("q0?", 0)]
    (whole,) = redis.xpending_range(STREAMS.interactions, LABEL_GROUP, "-", "+", 10)
    redis.xack(STREAMS.interactions, LABEL_GROUP, whole["message_id"])
    wait_until(lambda: due_after(redis, 0.001))
    await end(0.001)
    assert [(session.question, session.turn) for session in asked] == [("q0?", 0), ("q1?", 0)]
    assert len({session.interaction_id for session in asked}) == 2
    assert keys_left(redis) == []


def due_after(redis: Any, quiet_s: float) -> list[str]:
    found: list[str] = run(redis, due_sessions(STREAMS, quiet_s, 1000))
    return found


def test_a_result_that_does_not_count_adds_no_turn(redis: Any, redis_url: str) -> None:
    interaction = turn(0)
    entry = arrive(redis, interaction)
    assert [commit(redis, entry, interaction) for _ in range(3)] == ["emitted", "finished_before", "finished_before"]
    again = arrive(redis, interaction)
    assert commit(redis, again, interaction) == "duplicate"
    (key,) = [key for key in keys_left(redis) if key.startswith(b"ragtide:{0}:session:")]
    assert redis.hget(key, "turns") == b"1"


def sizes_agree(redis: Any) -> bool:
    sizes = {name: int(size) for name, size in redis.hgetall(STREAMS.session_sizes).items()}
    total = sizes.pop(SESSIONS_TOTAL.encode(), 0)
    return total == sum(sizes.values()) and len(sizes) == redis.zcard(STREAMS.open_sessions)


async def test_a_long_session_keeps_its_last_turns_and_their_number(
    redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(redis, *(turn(number) for number in range(30)))
    (digest,) = redis.zrange(STREAMS.open_sessions, 0, -1)
    session = await session_of(redis_url, digest.decode())
    assert [t.question for t in session.turns] == [f"q{number}?" for number in range(9, 30)]
    assert (session.count, session.missing) == (30, 9)
    assert sizes_agree(redis)
    monkeypatch.setattr(session_turns, "SESSION_BYTES", 3000)
    scored(redis, turn(30, response="x" * 2500))
    assert len((await session_of(redis_url, digest.decode())).turns) < 5
    assert int(redis.hget(STREAMS.session_sizes, digest)) <= 3000
    scored(redis, turn(31, response="x" * 9000))
    assert [t.question for t in (await session_of(redis_url, digest.decode())).turns] == ["q31?"], "the last turn stays"
    assert sizes_agree(redis)


def test_with_too_many_sessions_those_that_were_quiet_for_longest_end(redis: Any) -> None:
    for number in range(5):
        scored(redis, turn(0, f"s{number}"), ago_s=50 - number)
    oldest = [digest.decode() for digest in redis.zrange(STREAMS.open_sessions, 0, 1)]
    assert due(redis, most_open=3) == oldest
    assert due(redis, most_open=5) == []


def test_with_too_many_bytes_those_that_were_quiet_for_longest_end(redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        scored(redis, turn(0, f"s{number}", response="x" * 1000), ago_s=50 - number)
    monkeypatch.setattr(session_turns, "SESSIONS_BYTES", 3000)
    oldest = [digest.decode() for digest in redis.zrange(STREAMS.open_sessions, 0, 1)]
    assert due(redis) == oldest


async def test_expired_turns_leave_nothing_and_are_counted(redis: Any, async_redis: Any) -> None:
    scored(redis, turn(0), ago_s=QUIET_S + 50)
    key = f"{STREAMS.session('')}{due(redis)[0]}"
    assert session_turns.KEPT_S * 1000 < redis.pttl(key) <= (session_turns.KEPT_S + QUIET_S) * 1000
    redis.pexpire(key, 1)
    wait_until(lambda: not redis.exists(key))
    ended = await end_due_sessions(
        async_redis, STREAMS, quiet_s=QUIET_S, most_open=10, dedupe_ms=DAY_MS, is_asked=lambda _: True
    )
    assert (ended.due, ended.asked, ended.expired) == (1, 0, 1)
    assert keys_left(redis) == []


async def test_the_text_of_a_turn_can_be_deleted(redis: Any, async_redis: Any, redis_url: str) -> None:
    scored(redis, turn(0), turn(1), turn(2), turn(0, "other"))
    assert await forget_turns(async_redis, Layout("ragtide"), "s-1", "other") == 0
    assert await forget_turns(async_redis, Layout("ragtide"), "s-1") == 1
    assert await forget_turns(async_redis, Layout("ragtide"), "s-1") == 0
    assert sizes_agree(redis)
    digest = session_key(STREAMS, turn(0)).rpartition(":")[2]
    session = await session_of(redis_url, digest)
    assert ([t.question for t in session.turns], session.missing) == (["q0?", "q2?"], 1)


async def test_sessions_move_to_the_partition_of_their_pipeline(redis: Any, async_redis: Any) -> None:
    layout = Layout("ragtide", 4)
    pipelines = [f"p{number}" for number in range(6)]
    for number, pipeline in enumerate(pipelines):
        scored(redis, turn(0, f"s{number}", pipeline=pipeline), turn(1, f"s{number}", pipeline=pipeline))
    for _ in range(2):  # repeating it changes nothing
        await move_sessions(async_redis, STREAMS, layout)
        found: list[tuple[int, Sequence[RagInteraction]]] = []
        for streams in layout.all():
            for digest in redis.zrange(streams.open_sessions, 0, -1):
                session = await read_session(async_redis, streams, digest.decode())
                found.append((streams.partition, session.turns))
                assert redis.pttl(streams.session(digest.decode())) > 0
            total = redis.hget(streams.session_sizes, SESSIONS_TOTAL) or 0
            sizes = redis.hvals(streams.session_sizes)
            assert int(total) * 2 == sum(map(int, sizes))
        assert sorted((partition, turns[0].pipeline, len(turns)) for partition, turns in found) == sorted(
            (layout.of(pipeline, "").partition, pipeline, 2) for pipeline in pipelines
        )
