import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.aggregator_settings import aggregator_settings
from tests.support.metric_events import START, event
from tests.support.recorded import record

from ragtide import Alert, AlertRule
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.service.aggregator import Aggregator
from ragtide_aggregator.state.options import HistoryOptions
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_aggregator.statistics.tables.panes import Panes
from ragtide_aggregator.statistics.tables.windows import window
from ragtide_offline.replay import metrics_replay as metrics
from ragtide_offline.replay import recorded_entries as reading
from ragtide_offline.replay.counting import count_selected
from ragtide_offline.replay.metrics_replay import MetricsReplay
from ragtide_offline.replay.selection import SCOPE_FIELDS, Selection, selection
from ragtide_offline.replay.session import ReplayProgress
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.recordings import EntryKind, RecordedEntry, Recording
from ragtide_runtime.redis.keys import DATA_FIELD, interaction_digest, workspace_prefix
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.alerting import BudgetSettings
from ragtide_schemas import Estimate, Feedback, MetricDeclaration, MetricEvent

ADHERENCE = "trace.adherence"
RULES = (
    AlertRule(name="floor", kind="threshold", metric=ADHERENCE, target=0.7),
    AlertRule(name="drift", kind="drift", metric=ADHERENCE, learn_n=60, segment="lang"),
    AlertRule(name="error", kind="rmse", metric=ADHERENCE, target=0.2),
    AlertRule(
        name="people", kind="agreement", statistic="kappa", metric=ADHERENCE, target=0.9, threshold=0.5, run_length=10
    ),
    AlertRule(name="spread", kind="distribution", metric="trace.context_relevance", learn_n=40, min_effect=0.01),
)
STATE = StateOptions(
    rules=RULES,
    panes=Panes((window("1h"), window("2h/1h")), 60_000),
    budget=BudgetSettings(false_alarms=3.0, period="1h"),
    history=HistoryOptions(300_000, 1_800_000, 50, 1_000, 3_600_000, 200, frozenset({"lang"})),
)
SETTINGS = aggregator_settings(partitions=3, splits={"big": 2})
LIVE = SETTINGS.layout
RUN = Layout(workspace_prefix("ragtide", "again"), 3, {"big": 2})
EVERYTHING = Selection()
OPTIONS: dict[str, Any] = {"options": STATE, "split": True, "lease_s": 60.0, "feedback_window_s": 3600.0}


def traffic() -> list[MetricEvent]:
    """Return events of four pipelines that get worse half way, with segments, gold, absent scores and late ones."""
    random = Random(7)
    found = []
    for number in range(900):
        worse = number > 450
        pipeline = ("shop", "docs", "big", "help")[number % 4]
        scores = {
            "trace.context_relevance": random.betavariate(0.5, 0.5) if worse else random.betavariate(40, 40),
            ADHERENCE: random.betavariate(3, 7) if worse else random.betavariate(8, 2),
        }
        absent = {}
        if number % 11 == 0:
            del scores[ADHERENCE]
            absent[ADHERENCE] = "no_labels"
        found.append(
            event(
                number * 20 if number % 13 else number * 20 - 15_000,
                scores,
                interaction_id=f"i-{number}",
                pipeline=pipeline,
                absent=absent,
                segments={"lang": "de" if number % 3 else "en"},
                gold_scores={ADHERENCE: random.random()} if number % 5 == 0 and not absent else {},
                latency_s=random.random(),
                profile="ragbench" if number % 7 else "capstone",
                labeled_at=START,
            )
        )
    return found


def feedback(number: int, score: float, pipeline: str) -> Feedback:
    return Feedback(pipeline=pipeline, interaction_id=f"i-{number}", gold_scores={ADHERENCE: score}, given_at=START)


@asynccontextmanager
async def live(redis: Any) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(Aggregator(redis, SETTINGS, holder="live", state=STATE).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def caught_up(redis: Any) -> None:
    async with asyncio.timeout(120):
        for streams in LIVE.all():
            for stream, name in ((streams.metrics, "position"), (streams.feedback, "feedback")):
                last = await redis.xrevrange(stream, count=1)
                while last and await redis.hget(streams.checkpoint, name) != last[0][0]:  # noqa: ASYNC110 - Redis tells nobody
                    await asyncio.sleep(0.005)


def entries() -> list[tuple[EntryKind, RecordedEntry]]:
    """Return what was on the streams: feedback before its interaction, after it, twice, and about nothing."""
    models: list[tuple[EntryKind, MetricEvent | Feedback]] = []
    events = traffic()
    for number, one in enumerate(events):
        if number % 45 == 0:
            models.append((EntryKind.FEEDBACK, feedback(number, 0.5, one.pipeline)))
        models.append((EntryKind.METRICS, one))
        if number % 150 == 149:
            models += [
                (EntryKind.FEEDBACK, feedback(later, 0.9, events[later].pipeline))
                for later in range(number - 120, number)
            ]
    models.append((EntryKind.METRICS, event(1, {ADHERENCE: 3.0}, interaction_id="bad")))
    models.append((EntryKind.FEEDBACK, feedback(10**6, 1.0, "shop")))
    return [
        (kind, RecordedEntry(LIVE.of(one.pipeline, one.interaction_id).partition, f"{1_795_240_000_000 + at}-0", one))
        for at, (kind, one) in enumerate(models)
    ]


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return record(entries(), tmp_path / "recording", partitions=3)


@pytest.fixture
async def lived(async_redis: Any) -> None:
    """Let a live aggregator take it; feedback and events that it reads at once it may join in another order."""
    async with live(async_redis):
        for kind, of_kind in groupby(entries(), key=lambda one: one[0]):
            async with async_redis.pipeline() as pipe:
                for _, entry in of_kind:
                    streams, model = LIVE.all()[entry.partition], entry.model
                    pipe.xadd(kind.stream(streams), {DATA_FIELD: model.encode()}, id=entry.entry_id)
                    if isinstance(model, MetricEvent):
                        digest = interaction_digest(model.pipeline, model.interaction_id)
                        pipe.set(streams.scored(digest), entry.entry_id)
                await pipe.execute()
            await caught_up(async_redis)


def replay(
    redis: Any,
    recording: Recording,
    part: Selection = EVERYTHING,
    options: Mapping[str, Any] = OPTIONS,
) -> MetricsReplay:
    counted = count_selected(recording, EntryKind.METRICS, part, SCOPE_FIELDS)
    return MetricsReplay(redis, RUN, recording, selection=part, counted=counted, **options)


def unseen(_: ReplayProgress) -> None:
    """Look away."""


async def rows_of(redis: Any, layout: Layout) -> dict[tuple[int, str], bytes]:
    """Return the state in every checkpoint, the sizes of finite populations taken out."""
    kept = {b"position", b"feedback", b"version", b"steps", b"replay", b"owed", b"names"}
    found = {}
    for streams in layout.all():
        for name, data in (await redis.hgetall(streams.checkpoint)).items():
            if name in kept or name.startswith(
                (b"changed:", b"seen_ids:", b"health:", b"alert:stall-", b"scored:", b"graded:")
            ):
                continue
            of_row = data[:32] + data[40:] if name.startswith(b"estimate:") else data
            found[streams.partition, name.decode()] = of_row
    return found


async def alerts_of(redis: Any, layout: Layout) -> list[tuple[int, Alert]]:
    return [
        (streams.partition, Alert.decode(fields[DATA_FIELD]))
        for streams in layout.all()
        for _, fields in await redis.xrange(streams.alerts)
    ]


async def closed_panes(redis: Any, layout: Layout) -> dict[tuple[int, str], list[bytes]]:
    """Return the lists of the history."""
    return {
        (streams.partition, key.decode().removeprefix(streams.history(""))): await redis.lrange(key, 0, -1)
        for streams in layout.all()
        async for key in redis.scan_iter(match=streams.history("*"))
    }


async def estimates_of(redis: Any, layout: Layout, *, known: bool, **how: Any) -> list[Any]:
    options = replace(STATE, rules=())
    states = [(await load_checkpoint(redis, streams, options)).state for streams in layout.all()]
    whole = AggregatorState.merged(states, options)
    if not known:
        whole.rows.population[:] = 0
    return estimates(whole, **how)


@pytest.mark.usefixtures("lived")
async def test_a_replay_gives_what_live_gave_to_the_bit(async_redis: Any, recording: Recording) -> None:
    progress = await replay(async_redis, recording).run(asyncio.Event(), unseen)
    assert progress.done == progress.total == 901
    assert await alerts_of(async_redis, RUN) == await alerts_of(async_redis, LIVE)
    assert len({alert.rule for _, alert in await alerts_of(async_redis, RUN)}) == len(RULES)
    assert await rows_of(async_redis, RUN) == await rows_of(async_redis, LIVE)
    history = await closed_panes(async_redis, RUN)
    assert history == await closed_panes(async_redis, LIVE)
    assert {len(records) for records in history.values()} > {50, 10}
    found = await estimates_of(async_redis, RUN, known=False)
    assert found == await estimates_of(async_redis, LIVE, known=True)
    assert any(one.window != "all" and one.n_late for one in found)
    assert any(one.metric == f"rmse.{ADHERENCE}" and one.n > 30 for one in found)


@pytest.fixture
def _commits_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "COMMIT_S", 0.0)
    monkeypatch.setattr(reading, "AT_ONCE", 97)
    monkeypatch.setattr(reading, "TABLE_ROWS", 97)


async def stopping_at_every_commit(redis: Any, recording: Recording, options: Mapping[str, Any]) -> int:
    """Replay, stopped whenever something was committed, and return how often."""
    done = 0
    for times in range(100):
        stop = asyncio.Event()

        def end(progress: ReplayProgress, stop: asyncio.Event = stop, done: int = done) -> None:
            if progress.done > done:
                stop.set()

        progress = await replay(redis, recording, options=options).run(stop, end)
        if progress.complete:
            return times
        done = progress.done
    raise AssertionError("it never ends")


@pytest.mark.usefixtures("_commits_all_the_time", "lived")
async def test_a_replay_that_is_stopped_again_and_again_ends_the_same(async_redis: Any, recording: Recording) -> None:
    assert await stopping_at_every_commit(async_redis, recording, OPTIONS) > 5
    assert await alerts_of(async_redis, RUN) == await alerts_of(async_redis, LIVE)
    assert await rows_of(async_redis, RUN) == await rows_of(async_redis, LIVE)
    assert await closed_panes(async_redis, RUN) == await closed_panes(async_redis, LIVE)


@pytest.mark.parametrize(
    "strategy",
    [
        "running",
        "normal",
        *(pytest.param(name, marks=pytest.mark.heavy) for name in ("wilson", "hoeffding", "asymptotic")),
    ],
)
async def test_when_all_was_seen_nothing_is_uncertain(async_redis: Any, recording: Recording, strategy: str) -> None:
    await replay(async_redis, recording).run(asyncio.Event(), unseen)
    found = await estimates_of(async_redis, RUN, known=True, strategy=strategy)
    whole = [one for one in found if one.window == "all" and one.metric == "trace.context_relevance"]
    assert {one.segment for one in whole} == {None, "lang=de", "lang=en"}
    for one in whole:
        # The event out of its range was announced with shop's and never counted.
        if one.pipeline != "shop":
            assert one.population_size == one.n
            assert one.lower == one.estimate == one.upper


async def test_the_population_of_a_metric_of_sessions_is_the_number_of_sessions(
    async_redis: Any, tmp_path: Path
) -> None:
    solved = {"criteria.solved": MetricDeclaration(version="of-sessions", lower=0, upper=1)}
    tone = {"criteria.tone": MetricDeclaration(version="of-answers", lower=0, upper=1)}
    random, found = Random(3), list[MetricEvent]()
    for number in range(240):
        lang = {"lang": "de" if number % 3 else "en"}
        found.append(
            event(number, {ADHERENCE: random.random(), "criteria.tone": random.random()}, declared=tone, segments=lang)
        )
        if number % 4 == 0:
            absent = {"criteria.solved": "judge_cannot_tell"} if number % 20 == 0 else {}
            scores = {} if absent else {"criteria.solved": float(random.random() < 0.6)}
            found.append(
                event(
                    number, scores, interaction_id=f"s-{number}", unit="session", absent=absent, declared=solved,
                    segments=lang,
                )
            )  # fmt: skip
    entries = [
        (EntryKind.METRICS, RecordedEntry(0, f"{1_795_240_000_000 + at}-0", one)) for at, one in enumerate(found)
    ]
    await replay(async_redis, record(entries, tmp_path / "recording")).run(asyncio.Event(), unseen)
    options = replace(STATE, rules=())
    lived = AggregatorState(options)
    for at, one in enumerate(found):
        lived.apply(one, 1_795_240_000_000 + at)

    def in_order(found: Estimate) -> str:
        return f"{found.metric} {found.segment} {found.window} {found.window_start}"

    again = await estimates_of(async_redis, RUN, known=False)
    before = estimates(AggregatorState.merged([lived], options))
    assert sorted(again, key=in_order) == sorted(before, key=in_order)
    replayed = [found for found in await estimates_of(async_redis, RUN, known=True) if found.window == "all"]
    sizes = {found.metric: found.population_size for found in replayed if found.segment is None}
    assert (sizes["criteria.solved"], sizes["criteria.tone"], sizes[ADHERENCE]) == (60, 240, 240)
    # The sessions that the judge could not decide are a part of the population.
    assert {found.n for found in replayed if found.metric == "criteria.solved" and found.segment is None} == {48}
    by_lang = {found.segment: found.population_size for found in replayed if found.metric == "criteria.solved"}
    assert by_lang["lang=de"] + by_lang["lang=en"] == 60
    for found in replayed:
        if found.metric in ("criteria.tone", ADHERENCE):
            assert found.lower == found.estimate == found.upper


async def test_a_selection_is_replayed_as_if_nothing_else_had_been(async_redis: Any, recording: Recording) -> None:
    part = selection("2026-11-21T01:00:00Z", "2026-11-21T03:00:00+00:00", ["shop", "big"], ["lang=de"])
    progress = await replay(async_redis, recording, part).run(asyncio.Event(), unseen)
    wanted = [one for one in traffic() if part.takes(one)]
    assert 50 < progress.done == len(wanted) < 901
    found = await estimates_of(async_redis, RUN, known=True)
    assert {one.pipeline for one in found} == {"shop", "big"}
    assert {one.segment for one in found} == {None, "lang=de"}
    relevance = [one for one in found if one.metric == "trace.context_relevance" and one.window == "all"]
    assert sum(one.n for one in relevance if one.segment is None) == len(wanted)
    assert all(one.population_size == one.n for one in relevance)


async def test_what_was_recorded_in_an_hour_takes_an_hour_at_its_own_pace(
    async_redis: Any, recording: Recording
) -> None:
    # Some 5 hours in about a second.
    options = {**OPTIONS, "speed": 15_000.0}
    loop = asyncio.get_running_loop()
    started = loop.time()
    progress = await replay(async_redis, recording, options=options).run(asyncio.Event(), unseen)
    assert loop.time() - started > 899 * 20 / 15_000
    assert progress.done == progress.total


async def test_who_was_silent_for_too_long_begins_again_from_the_last_commit(
    async_redis: Any, redis: Any, recording: Recording
) -> None:
    await replay(async_redis, recording).run(asyncio.Event(), unseen)
    expected = await rows_of(async_redis, RUN), await alerts_of(async_redis, RUN)
    for streams in RUN.all():
        await async_redis.delete(streams.checkpoint, streams.alerts)
    slow = replay(async_redis, recording, options={**OPTIONS, "speed": 15_000.0})
    losses = 0

    def lose(_: ReplayProgress) -> None:
        nonlocal losses
        losses += 1
        if losses == 3:
            redis.delete(*(streams.lease for streams in RUN.all()))  # they ran out

    assert (await slow.run(asyncio.Event(), lose)).complete
    assert (await rows_of(async_redis, RUN), await alerts_of(async_redis, RUN)) == expected


@pytest.mark.heavy
async def test_two_do_not_replay_one_run_at_once(async_redis: Any, recording: Recording) -> None:
    stop = asyncio.Event()
    begun = asyncio.Event()
    slow = replay(async_redis, recording, options={**OPTIONS, "speed": 1.0, "lease_s": 6.0})
    first = asyncio.create_task(slow.run(stop, lambda _: begun.set()))
    await begun.wait()
    with pytest.raises(ConfigurationError, match="another process replays into this workspace"):
        await replay(async_redis, recording).run(asyncio.Event(), unseen)
    stop.set()
    await first


async def test_an_empty_selection_is_refused(recording: Recording) -> None:
    with pytest.raises(ConfigurationError, match="no pipeline 'other'"):
        count_selected(recording, EntryKind.METRICS, selection(pipelines=["other"]), SCOPE_FIELDS)
