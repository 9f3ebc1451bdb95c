"""The warnings of `ragtide doctor` about a Redis that may lose data; the rest is in the end-to-end tests."""

import re
from typing import Any

import numpy as np
import pytest
from tests.support.ingest import Ingest
from tests.support.metric_events import adherence
from tests.support.metric_events import event as metric_event
from tests.support.owners import owners
from tests.support.wire_spans import rag, request
from tests.support.wire_spans import span as wire_span

from ragtide import AlertRule, ConfigurationError, Deployment
from ragtide.cli.running import Given
from ragtide_aggregator.checkpoint.commit import CHECKPOINT_VERSION
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_consumers.labelers.local.labeler import LANGUAGES
from ragtide_roles.doctor.examination import examine
from ragtide_roles.doctor.finding import Finding
from ragtide_roles.doctor.labelers import labeler_findings
from ragtide_roles.doctor.server import history_findings
from ragtide_runtime.redis.keys import LABEL_GROUP, Streams, known_digest
from ragtide_runtime.redis.known_ids import remember_id
from ragtide_runtime.redis.scripts import run_script
from ragtide_runtime.settings.alerting import BudgetSettings, ClusterSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import HistorySettings


async def findings(redis: Any, settings: Settings | None = None) -> dict[str, Finding]:
    return {finding.subject: finding for finding in await examine(redis, settings or Settings(), "a Redis")}


@pytest.mark.parametrize(
    ("policy", "maxmemory", "level", "words"),
    [
        ("noeviction", "1gb", "ok", "noeviction"),
        ("allkeys-lru", "1gb", "problem", "may drop streams"),
        ("volatile-ttl", "1gb", "problem", "may drop leases"),
        ("allkeys-lru", "0", "warning", "as soon as maxmemory is set"),
    ],
)
async def test_a_redis_that_may_drop_what_is_needed_is_a_problem(
    async_redis: Any, policy: str, maxmemory: str, level: str, words: str
) -> None:
    try:
        await async_redis.config_set("maxmemory", maxmemory)
        await async_redis.config_set("maxmemory-policy", policy)
        found = (await findings(async_redis))["memory"]
    finally:
        await async_redis.config_set("maxmemory-policy", "noeviction")
        await async_redis.config_set("maxmemory", "0")
    assert found.level == level
    assert words in found.found
    assert (found.advice != "") == (level != "ok")


async def test_owners_lags_dead_letters_drops_and_what_redis_lost_are_shown(async_redis: Any) -> None:
    streams = Streams("ragtide", 0)
    await async_redis.xgroup_create(streams.interactions, LABEL_GROUP, id="0", mkstream=True)
    for number in range(5):
        await async_redis.xadd(streams.interactions, {"data": str(number)})
    await async_redis.xreadgroup(LABEL_GROUP, "w", {streams.interactions: ">"}, count=2)
    await async_redis.xadd(streams.metrics, {"data": "x"})
    await async_redis.xadd(streams.dead_letters, {"data": "x"})
    await async_redis.set(streams.lease, "3:host-1:abc")
    await async_redis.hset(streams.aggregators, "host-1:abc", "99999999999999 1")
    await async_redis.hincrby(streams.dropped, "drop_new", 7)
    await async_redis.hincrby(streams.dropped, "alerts", 3)
    await async_redis.hset(streams.checkpoint, "stream_rollback", '{"times": 2, "at": "2026-11-21T10:00:00"}')
    found = await findings(async_redis)
    assert "5 waiting (2 taken), the oldest for" in found["partition 0: labeling"].found
    assert "1 worker seen" in found["partition 0: labeling"].found
    seen = r"1 worker seen this minute \(the last read was \d+ s ago\), 1 of 1 partition owned by an aggregator"
    assert re.fullmatch(seen, found["roles"].found)
    assert found["partition 0: aggregator"].found == "owned by 3:host-1:abc, 1 metric events not yet aggregated"
    assert found["aggregators"].found == "host-1:abc owns 1"
    assert found["partition 0: dead letters"].level == "warning"
    assert found["partition 0: dropped"].found == "7 drop_new"
    assert found["partition 0: alerts"].found == "3 dropped before every consumer group had finished them"
    assert found["partition 0: rollback"].found.startswith("2 times, last on 2026-11-21")


async def test_dependent_interactions_that_count_each_by_itself_are_warned_about(async_redis: Any) -> None:
    luck = np.repeat(np.random.default_rng(1).random(500) < 0.85, 10)
    state = AggregatorState(StateOptions(clusters=ClusterSettings()))
    for one in adherence(luck):
        state.apply(one)
    fields: dict[Any, Any] = {**state.take_changes().rows, "version": CHECKPOINT_VERSION}
    await async_redis.hset(Streams("ragtide", 0).checkpoint, mapping=fields)
    found = (await findings(async_redis))["pipeline shop"]
    assert found.level == "warning"
    assert re.search(r"design effect (6|7|8|9|10|11)\.\d of trace.adherence", found.found)
    assert "set clusters.by" in found.advice


async def test_different_sampling_probabilities_are_warned_about(async_redis: Any) -> None:
    for probabilities, words in (
        ([0.1] * 20, ""),
        ([1.0, 0.25] * 10, "from 0.25 to 1"),
        ([0.5, 0.1] * 10, "0.1 to 0.5"),
    ):
        state = AggregatorState(StateOptions())
        for one, probability in zip(adherence([1.0, 0.0] * 10), probabilities, strict=True):
            state.apply(one.model_copy(update={"sampling_probability": probability}))
        fields: dict[Any, Any] = {**state.take_changes().rows, "version": CHECKPOINT_VERSION}
        await async_redis.hset(Streams("ragtide", 0).checkpoint, mapping=fields)
        found = (await findings(async_redis)).get("sampling of shop")
        if not words:
            assert found is None
            continue
        assert found is not None
        assert found.level == "warning"
        assert words in found.found


async def test_a_rule_that_day_and_night_may_fire_is_warned_about(async_redis: Any) -> None:
    rule = AlertRule(name="fall", kind="drift", metric="trace.adherence")
    state = AggregatorState(StateOptions(rules=(rule,)))
    rng = np.random.default_rng(2)
    for hour in range(24 * 6):
        for one in adherence(rng.normal(0.8 + 0.05 * (-1) ** hour, 0.1, 10).clip(0, 1), first=3_600 * hour):
            state.apply(one)
    fields: dict[Any, Any] = {**state.take_changes().rows, "version": CHECKPOINT_VERSION}
    await async_redis.hset(Streams("ragtide", 0).checkpoint, mapping=fields)
    found = (await findings(async_redis, Settings(alerts=(rule,))))["alert rule fall: shop"]
    assert found.level == "warning"
    assert re.search(r"the mean of trace.adherence swings by 0.0[4-7]\d? over the day", found.found)
    assert re.match(r'set min_effect = 0.0[5-8] or baseline = "seasonal"', found.advice)


async def test_a_covariate_that_never_arrives_is_warned_about(async_redis: Any) -> None:
    rules = tuple(
        AlertRule(name=name, kind="distribution", covariate=name, run_length=1000)
        for name in ("question_length", "difficulty", "top_score")
    )
    state = AggregatorState(StateOptions(rules=rules))
    for one in adherence([0.5] * 120, covariates={"question_length": 5.0}):
        state.apply(one)
    fields: dict[Any, Any] = {**state.take_changes().rows, "version": CHECKPOINT_VERSION}
    await async_redis.hset(Streams("ragtide", 0).checkpoint, mapping=fields)
    found = await findings(async_redis, Settings(alerts=rules))
    assert "alert rule question_length: shop" not in found
    assert found["alert rule difficulty: shop"].level == "warning"
    assert "no interaction has the covariate difficulty" in found["alert rule difficulty: shop"].found
    assert "publish it" in found["alert rule difficulty: shop"].advice
    assert "restart workers" in found["alert rule top_score: shop"].advice


async def test_what_false_alarms_are_allowed_and_how_many_detectors_share_them(async_redis: Any) -> None:
    rules = (
        AlertRule(name="floor", kind="threshold", metric="trace.adherence", target=0.7),
        AlertRule(name="shape", kind="distribution", metric="trace.adherence", segment="lang"),
        AlertRule(name="own", kind="drift", metric="trace.adherence", run_length=500),
    )
    state = AggregatorState(StateOptions(rules=rules))
    for number, language in enumerate(("de", "en", "de")):
        (one,) = adherence([0.5], first=number, segments={"lang": language})
        state.apply(one)
    fields: dict[Any, Any] = {**state.take_changes().rows, "version": CHECKPOINT_VERSION}
    await async_redis.hset(Streams("ragtide", 0).checkpoint, mapping=fields)
    assert "false alarms" not in await findings(async_redis)
    # One of the pipeline, and four of each language: mean and spread, in both directions.
    for budget, allowed in (
        (BudgetSettings(false_discovery_rate=0.1), "at most 10% of the alarms of 7d are false"),
        (BudgetSettings(false_alarms=1, period="1d"), "at most 1 in 1d"),
    ):
        found = (await findings(async_redis, Settings(alert_defaults=False, alerts=rules, budget=budget)))[
            "false alarms"
        ]
        assert (found.level, found.found) == ("ok", f"{allowed}, on average, of 9 detectors together")


async def test_sessions_that_are_closed_too_early_are_warned_about(async_redis: Any) -> None:
    async def clusters_of(size: int) -> dict[str, Any]:
        state = AggregatorState(StateOptions(clusters=ClusterSettings(size=size)))
        for number, one in enumerate(adherence(np.random.default_rng(1).random(1_000))):
            state.apply(one.model_copy(update={"session_id": f"s-{number // 4}"}))
        fields: dict[Any, Any] = {**state.take_changes().rows, "version": CHECKPOINT_VERSION}
        await async_redis.delete(Streams("ragtide", 0).checkpoint)
        await async_redis.hset(Streams("ragtide", 0).checkpoint, mapping=fields)
        return await findings(async_redis)

    found = (await clusters_of(3))["clusters of shop"]
    assert found.level == "warning"
    # Each session of four is a cluster of three and one that goes on with it.
    assert found.found.startswith("50% of the clusters (250 of 500)")
    assert "clusters.quiet_s" in found.advice
    assert "clusters of shop" not in await clusters_of(4)


@pytest.mark.parametrize(("closed", "level"), [(0, "warning"), (300, "ok")])
async def test_interactions_that_wait_in_open_sessions_are_shown(async_redis: Any, closed: int, level: str) -> None:
    state = AggregatorState(StateOptions(clusters=ClusterSettings(size=2)))
    for number, one in enumerate(adherence(np.full(closed + 100, 0.5))):
        session = f"s-{number // 2}" if number < closed else f"open-{number}"
        state.apply(one.model_copy(update={"session_id": session}))
    fields: dict[Any, Any] = {**state.take_changes().rows, "version": CHECKPOINT_VERSION}
    await async_redis.hset(Streams("ragtide", 0).checkpoint, mapping=fields)
    found = (await findings(async_redis))["open clusters of shop"]
    assert found.level == level
    assert found.found.startswith("Answers that wait in open sessions: 100.")
    assert ("clusters.quiet_s" in found.advice) == (level == "warning")


async def test_an_aggregator_that_is_silent_is_not_shown_as_one_that_runs(async_redis: Any) -> None:
    await async_redis.hset(
        Streams("ragtide", 0).aggregators, mapping={"dead-1:abc": "1 3", "host-1:abc": "99999999999999 1"}
    )
    assert (await findings(async_redis))["aggregators"].found == "host-1:abc owns 1"
    await async_redis.hdel(Streams("ragtide", 0).aggregators, "host-1:abc")
    assert "aggregators" not in await findings(async_redis)


async def test_it_is_said_when_nothing_runs_at_all_and_a_problem_when_something_waits(async_redis: Any) -> None:
    idle = (await findings(async_redis))["roles"]
    assert (idle.level, idle.found) == ("warning", "no worker and no aggregator is running")
    await async_redis.xadd(Streams("ragtide", 0).interactions, {"data": "x"})
    found = await findings(async_redis)
    assert found["roles"].level == "problem"
    assert found["roles"].found.endswith("1 entries wait")
    assert found["roles"].advice == "start both: ragtide up"
    for role in ("labeling", "aggregator"):
        assert found[f"partition 0: {role}"].level == "problem"


@pytest.mark.parametrize(
    ("running", "waiting", "problems"),
    [
        ({"worker", "aggregator"}, (1, 1), set()),
        ({"worker"}, (0, 0), set()),
        ({"aggregator"}, (0, 0), set()),
        ({"aggregator"}, (0, 1), set()),
        ({"aggregator"}, (1, 0), {"labeling"}),
        ({"worker"}, (1, 0), {"aggregator"}),
        ({"worker"}, (0, 1), {"aggregator"}),
    ],
)
async def test_a_role_that_is_missing_is_a_problem_only_while_something_waits_for_it(
    async_redis: Any, running: set[str], waiting: tuple[int, int], problems: set[str]
) -> None:
    streams = Streams("ragtide", 0)
    await async_redis.xgroup_create(streams.interactions, LABEL_GROUP, id="0", mkstream=True)
    if "worker" in running:
        # Redis 7.0 does not know a consumer that has read nothing yet; a worker's other commands make it known.
        await async_redis.xgroup_createconsumer(streams.interactions, LABEL_GROUP, "w")
    if "aggregator" in running:
        await async_redis.set(streams.lease, "3:host-1:abc")
    for stream, count in zip((streams.interactions, streams.metrics), waiting, strict=True):
        for number in range(count):
            await async_redis.xadd(stream, {"data": str(number)})
    found = await findings(async_redis)
    assert {subject for subject, one in found.items() if one.level == "problem"} == {
        f"partition 0: {role}" for role in problems
    }


async def test_a_redis_without_an_append_only_file_is_warned_about(async_redis: Any) -> None:
    try:
        await async_redis.config_set("appendonly", "no")
        found = (await findings(async_redis))["durability"]
    finally:
        await async_redis.config_set("appendonly", "yes")
    assert (found.level, found.advice) == ("warning", "set appendonly yes")


def test_the_number_of_partitions_can_be_given_on_the_command_line() -> None:
    assert Given(partitions=3).settings().partitions == 3
    with pytest.raises(ConfigurationError, match="partitions"):
        Given(partitions=0).settings()


async def test_the_memory_of_the_history_is_projected_and_a_full_partition_is_a_warning(async_redis: Any) -> None:
    settings = Settings(history=HistorySettings(series_max=2))
    assert await history_findings(Deployment(async_redis, settings)) == []
    (owner,) = owners(async_redis, settings)
    await owner.commit(metric_event(0, {"trace.adherence": 0.5}))
    (full,) = await history_findings(Deployment(async_redis, settings))
    assert (full.level, full.found.partition(",")[0]) == ("warning", "2 series")
    assert "1 partition cannot have more than 2" in full.found
    (room,) = await history_findings(Deployment(async_redis, Settings()))
    assert (room.level, room.found) == ("ok", "2 series, about 0.7 MiB in Redis when they are full")


async def test_the_memory_of_known_ids_is_projected_from_the_rate_and_the_windows(async_redis: Any) -> None:
    streams = Streams("ragtide", 0)
    for number in range(3000):
        digest, keys = known_digest("shop", str(number)), streams.owner_keys("shop", str(number))
        await run_script(async_redis, remember_id(keys, digest, f"{number}-0", 86_400_000))
    seconds, _ = await async_redis.time()
    for number in range(1000):  # ten a second
        await async_redis.xadd(streams.metrics, {"data": "x"}, id=f"{(seconds - 100) * 1000 + 100 * number}-1")
    found = (await findings(async_redis))["known ids"]
    assert found.level == "ok"
    now, steady, rate = re.findall(r"([\d.]+) (?:MiB|interactions)", found.found)
    assert 0.03 < float(now) < 1.0
    assert 9.0 < float(rate) <= 10.2
    assert float(steady) == pytest.approx(float(rate) * 8 * 86_400 * 1.125 * 26 / 2**20, rel=0.01)
    assert found.found.endswith("with windows of a day and 7 days")


async def test_a_redis_too_small_for_the_known_ids_to_come_is_warned_of(async_redis: Any) -> None:
    seconds, _ = await async_redis.time()
    for number in range(1000):
        at = (seconds - 1) * 1000 + number
        await async_redis.xadd(Streams("ragtide", 0).metrics, {"data": "x"}, id=f"{at}-1")
    try:
        await async_redis.config_set("maxmemory", "200mb")
        found = (await findings(async_redis))["known ids"]
    finally:
        await async_redis.config_set("maxmemory", "0")
    assert found.level == "warning"
    assert "exceeds Redis's maxmemory of 200.0 MiB" in found.found
    assert found.advice.startswith("raise maxmemory")


async def test_settings_with_which_no_worker_starts_are_a_problem_unless_workers_run(async_redis: Any) -> None:
    settings = Settings(labeler="cascade")
    (found,) = [one for one in await examine(async_redis, settings, "") if one.subject == "labeler cascade"]
    assert found.level == "problem"
    assert "judge.model is not set" in found.found
    (found,) = await labeler_findings(async_redis, settings, workers=1)
    assert found.level == "warning"
    (found,) = await labeler_findings(async_redis, Settings(), workers=0)
    assert (found.level, found.subject) == ("ok", "local labeler")
    assert all(name in found.found for name in LANGUAGES.values())


async def test_an_evaluator_that_never_scores_is_named_with_the_one_before_it(async_redis: Any) -> None:
    evaluators = [{"name": "all", "labeler": "local"}, {"name": "shop", "labeler": "local", "pipelines": ["shop*"]}]
    found = {one.subject: one for one in await labeler_findings(async_redis, Settings(evaluators=evaluators), 0)}
    assert (found["evaluator all"].level, found["evaluator shop"].level) == ("ok", "warning")
    assert "never scores: evaluator all" in found["evaluator shop"].found


async def test_a_group_of_alerts_that_no_process_reads_is_named_with_the_command_that_removes_it(
    async_redis: Any,
) -> None:
    stream = Streams("ragtide", 0).alerts
    now_ms = int((await async_redis.time())[0]) * 1000
    old = now_ms - 3 * 86_400_000
    for entry_id in (f"{old}-0", f"{old}-1", f"{now_ms}-0"):
        await async_redis.xadd(stream, {"data": "x"}, id=entry_id)
    for group, position in (("unread", "0"), ("taken", "0"), ("reading", f"{old}-1"), ("done", "$"), ("record", "0")):
        await async_redis.xgroup_create(stream, group, id=position)
    await async_redis.xreadgroup("taken", "dead", {stream: ">"})
    found = {subject: finding for subject, finding in (await findings(async_redis)).items() if ": group " in subject}
    assert sorted(found) == ["partition 0: group taken", "partition 0: group unread"]
    assert found["partition 0: group taken"].found == "its oldest unfinished alert is 3.0 days old"
    advice = found["partition 0: group unread"].advice
    assert advice.endswith("redis-cli XGROUP DESTROY 'ragtide:{0}:alerts' unread")


async def traced(redis: Any, *traces: Any) -> dict[str, Finding]:
    """Return the findings after these traces are over."""
    ingest = Ingest(redis)
    await ingest.send(traces)
    await ingest.read_all()
    await ingest.reader.step()
    return await findings(redis)


async def test_traces_that_gave_nothing_are_counted_by_reason_and_one_is_named(async_redis: Any) -> None:
    plain = {"openinference.span.kind": "LLM", "output.value": "Hi."}
    found = (await traced(async_redis, request(*rag(trace=1), wire_span(1, None, plain, trace=2))))["traces of shop"]
    assert found.level == "ok"
    assert re.fullmatch(r"since \d\d:00 UTC 1 of 2 traces gave no interaction: 1 no retrieval", found.found)
    assert found.advice == f"see why: ragtide publish explain {2:032x}"


async def test_a_service_that_gave_only_nothing_is_a_warning_and_one_that_is_only_refused_a_problem(
    async_redis: Any,
) -> None:
    found = await traced(
        async_redis,
        request(wire_span(1, trace=1), service="index"),
        request(*rag(trace=2, answer=""), service="silent"),
        request(*rag(trace=3), service="shop"),
        request(*(one for trace in range(10, 20) for one in [wire_span(1, trace=trace)]), service="[/x]\x1b[2J\u202e"),
    )
    assert found["traces of index"].level == "warning"
    assert found["traces of silent"].level == "problem"
    assert "1 interaction cannot be used: 1 no content" in found["traces of silent"].found
    assert "ragtide dead-letters" in found["traces of silent"].advice
    assert "traces of shop" not in found
    assert "traces of [/x]\\x1b[2J\\u202e" in found


async def test_few_services_are_named(async_redis: Any) -> None:
    services = [request(wire_span(1, trace=number), service=f"s{number}") for number in range(1, 9)]
    found = await traced(async_redis, *services)
    assert sum(subject.startswith("traces of ") for subject in found) == 5
    assert found["traces"].found == "3 more services with traces of this kind"
