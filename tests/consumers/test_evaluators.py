"""Several evaluators: who scores what, with which probability, and what happens if one of them cannot."""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.consumers.test_worker import STREAMS, dead_letters, events, pending, read, working
from tests.support.conditions import until

from ragtide import Labeler, LabelerUnavailable, Labeling, RagInteraction
from ragtide.testing import ScriptedJudge
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.state.state import AggregatorState, StateOptions
from ragtide_consumers.labelers import evaluators
from ragtide_consumers.labelers.evaluators import (
    Evaluator,
    EvaluatorSet,
    NoLabeler,
    ReplaceableLabeler,
    evaluator_of,
)
from ragtide_consumers.labelers.protocol import criteria_of, take_criteria
from ragtide_consumers.labelers.published import published_metrics
from ragtide_consumers.labelers.registry import labeler_of, replaceable_labeler_of
from ragtide_consumers.worker.app import create_group
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, awaiting_consumer
from ragtide_runtime.settings.evaluators import EvaluatorSettings
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import MetricEvent
from ragtide_schemas.criterion import Criterion

ADHERENCE = "trace.adherence"


class Scorer:
    """Scores every interaction; it may be down, may fail, and may wait."""

    profile = "ragbench"

    def __init__(self, name: str, version: str = "1", score: float = 0.5) -> None:
        self.name, self.version, self.score = name, version, score
        self.down = self.failing = False
        self.resume_in_s = 0.01
        self.calls = 0
        self.closed = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def label(self, interaction: RagInteraction) -> Labeling:
        del interaction
        self.calls += 1
        await self.gate.wait()
        if self.down:
            raise LabelerUnavailable(self.resume_in_s, "asleep")
        if self.failing:
            raise ValueError("broken")
        return Labeling({ADHERENCE: self.score}, prompt_tokens=3, cost_usd=0.25, counters={"calls": 1}, prompts=("p",))

    async def aclose(self) -> None:
        self.closed = True


def interaction(number: int, pipeline: str = "shop", **changes: Any) -> RagInteraction:
    return RagInteraction(
        interaction_id=f"i-{number}", pipeline=pipeline, question="q", documents=["d"], response="r", **changes
    )


def evaluator(labeler: Labeler, **fields: Any) -> Evaluator:
    return evaluator_of(EvaluatorSettings(**{"name": labeler.name, "labeler": "own:one", **fields}), labeler, labeler)


def together(*evaluators: Evaluator, wait: bool = True) -> EvaluatorSet:
    return EvaluatorSet(evaluators, NoLabeler(), wait=wait)


def labelers(labeling: Labeling) -> list[tuple[str, float]]:
    assert labeling.by is not None
    return [(labeling.by.name, 1.0), *((part.by.name, part.inclusion_probability) for part in labeling.beside)]


async def test_the_first_whole_evaluator_gives_the_event_and_the_others_are_beside_it() -> None:
    own = together(
        evaluator(Scorer("sampled"), rate=0.999999), evaluator(Scorer("first")), evaluator(Scorer("second")),
        evaluator(Scorer("other"), pipelines=["help*"]),
        evaluator(Scorer("german"), segments={"lang": ["de", "at"], "tier": ["gold"]}),
    )  # fmt: skip
    assert labelers(await own.label(interaction(1))) == [("first", 1.0), ("sampled", 0.999999), ("second", 1.0)]
    german = interaction(1, segments={"lang": "de", "tier": "gold", "x": "y"})
    assert [name for name, _ in labelers(await own.label(german))] == ["first", "sampled", "second", "german"]
    half = interaction(1, segments={"lang": "de"})
    assert [name for name, _ in labelers(await own.label(half))] == ["first", "sampled", "second"]


async def test_without_a_whole_evaluator_every_interaction_has_an_event_of_no_labeler() -> None:
    own = together(evaluator(Scorer("sampled"), rate=0.3), evaluator(Scorer("help"), pipelines=["help"]))
    found = [labelers(await own.label(interaction(number))) for number in range(400)]
    assert {names[0] for names in found} == {("none", 1.0)}
    assert {tuple(names[1:]) for names in found} == {(), (("sampled", 0.3),)}
    assert labelers(await own.label(interaction(1, "help")))[0] == ("help", 1.0)


async def test_an_event_says_which_evaluators_may_score_every_answer_of_the_pipeline() -> None:
    """A judge of German answers alone measures a part; with a second evaluator of the same judge they measure all."""

    async def of_all(*evaluators: Evaluator) -> dict[str, bool]:
        labeling = await together(*evaluators).label(interaction(1, segments={"lang": "de"}))
        return {part.by.name: part.of_all for part in labeling.beside}

    local, german = evaluator(Scorer("local")), {"segments": {"lang": ["de"]}}
    assert await of_all(local, evaluator(Scorer("judge"), rate=0.999999)) == {"judge": True}
    assert await of_all(local, evaluator(Scorer("judge"), **german)) == {"judge": False}
    both = evaluator(Scorer("judge"), **german), evaluator(Scorer("judge"), rate=0.1)
    assert await of_all(local, *both) == {"judge": True}
    other = evaluator(Scorer("judge"), **german), evaluator(Scorer("judge", version="2"), rate=0.999999)
    assert await of_all(local, other[0]) == {"judge": False}
    labeling = await together(local, *other).label(interaction(1, segments={"lang": "de"}))
    assert [(part.by.version, part.of_all) for part in labeling.beside] == [("1", False), ("2", True)]
    elsewhere = evaluator(Scorer("judge"), rate=0.1, pipelines=["help"])
    assert await of_all(local, evaluator(Scorer("judge"), **german), elsewhere) == {"judge": False}


async def test_tokens_cost_and_counts_of_an_event_are_those_of_all_evaluators() -> None:
    labeling = await together(evaluator(Scorer("one")), evaluator(Scorer("two"))).label(interaction(1))
    assert (labeling.prompt_tokens, labeling.cost_usd, labeling.counters) == (6, 0.5, {"calls": 2})
    assert labeling.beside[0].labeling.cost_usd == 0.25


RATES = st.sampled_from([0.05, 0.2, 0.5, 1.0])


@examples(max_examples=20, deadline=None)
@given(st.lists(RATES, min_size=1, max_size=4))
def test_each_evaluator_scores_its_share_and_draws_independently_of_the_others(rates: list[float]) -> None:
    own = together(*(evaluator(Scorer(f"e{place}"), rate=rate) for place, rate in enumerate(rates)))
    n = 4_000
    drawn = np.zeros((len(rates), n), dtype=bool)
    for number in range(n):
        first, beside = own.chosen(interaction(number))
        for one in [*([first] if first else []), *beside]:
            drawn[int(one.settings.name[1:]), number] = True
    for place, rate in enumerate(rates):
        assert abs(drawn[place].mean() - rate) <= 4.5 * np.sqrt(rate * (1 - rate) / n)
        for other in range(place):
            both = rate * rates[other]
            assert abs((drawn[place] & drawn[other]).mean() - both) <= 4.5 * np.sqrt(both * (1 - both) / n)


def test_every_worker_and_every_redelivery_draws_alike() -> None:
    first, second = (together(evaluator(Scorer("e"), rate=0.3)) for _ in range(2))
    for number in range(200):
        names = [[one.settings.name for one in own.chosen(interaction(number))[1]] for own in (first, second, first)]
        assert names[0] == names[1] == names[2]


def test_evaluators_with_the_same_labeler_and_version_never_score_an_interaction_twice() -> None:
    """The first that takes it decides, so that the probability of each interaction is known."""
    judge = Scorer("judge")
    german = evaluator(judge, name="german", segments={"lang": ["de"]}, rate=0.5)
    everything = evaluator(judge, name="all", rate=1.0)
    own = together(german, everything)
    of_german = [own.chosen(interaction(number, segments={"lang": "de"})) for number in range(1000)]
    assert {first for first, _ in of_german} == {None}
    assert {tuple(one.settings.name for one in beside) for _, beside in of_german} == {(), ("german",)}
    assert 440 < sum(len(beside) for _, beside in of_german) < 560
    first, beside = own.chosen(interaction(1, segments={"lang": "fr"}))
    # Not whole: its events would be the first of some interactions of the pipeline only.
    assert first is None
    assert [one.settings.name for one in beside] == ["all"]
    other = together(german, evaluator(Scorer("judge", version="2"), name="all"))
    first, beside = other.chosen(interaction(1, segments={"lang": "de"}))
    assert first is not None
    assert first.settings.name == "all"


def test_an_evaluator_behind_one_that_takes_all_of_its_interactions_is_reported() -> None:
    local, judge = Scorer("local"), Scorer("judge")
    cascade = evaluator_of(EvaluatorSettings(name="cascade", labeler="own:one", pipelines=["shop"]), local, local)
    assert together(evaluator(local), evaluator(judge, pipelines=["shop"]), cascade).hidden == {"cascade": "local"}
    assert together(cascade, evaluator(local)).hidden == {}
    german = evaluator(local, name="german", segments={"lang": ["de", "at"]}, rate=0.1)
    austrian = evaluator(local, name="austrian", segments={"lang": ["at"], "tier": ["gold"]})
    assert together(german, austrian).hidden == {"austrian": "german"}
    assert together(austrian, german, evaluator(local)).hidden == {}


PATTERNS = st.sampled_from(["*", "s*", "shop*", "shop", "shop?", "[st]hop", "help", "*p"])
CHOICES = st.tuples(st.lists(PATTERNS, min_size=1, max_size=2), st.sampled_from([{}, {"lang": ["de"]}]))


@given(st.lists(CHOICES, min_size=2, max_size=4), st.sampled_from(["shop", "shops", "help", "top", "s"]))
def test_a_reported_evaluator_scores_nothing(choices: list[tuple[list[str], Any]], pipeline: str) -> None:
    own = together(
        *(
            evaluator(Scorer("one"), name=f"e{place}", pipelines=pipelines, segments=segments)
            for place, (pipelines, segments) in enumerate(choices)
        )
    )
    for segments in ({}, {"lang": "de"}, {"lang": "en"}):
        first, beside = own.chosen(interaction(1, pipeline, segments=segments))
        assert not own.hidden.keys() & {each.settings.name for each in (first, *beside) if each is not None}


async def commit_all(redis: Any, labeler: Labeler, published: Sequence[RagInteraction], **changes: Any) -> None:
    await create_group(redis, STREAMS.interactions)
    for one in published:
        await redis.xadd(STREAMS.interactions, {DATA_FIELD: one.encode()})
    async with working(redis, labeler, **changes) as worker:
        await worker.take(await read(redis, 1000))


async def test_all_scores_of_an_interaction_are_committed_as_one_event(async_redis: Any) -> None:
    own = together(evaluator(Scorer("cheap", score=0.9)), evaluator(Scorer("dear", score=0.1), rate=0.5))
    await commit_all(async_redis, own, [interaction(number) for number in range(60)])
    found = await events(async_redis)
    assert len(found) == len({one.interaction_id for one in found}) == 60
    assert {one.labeler for one in found} == {"cheap"}
    beside = [part for one in found for part in one.beside or ()]
    assert 15 < len(beside) < 45
    assert {(part.labeler, part.inclusion_probability, part.scores[ADHERENCE]) for part in beside} == {
        ("dear", 0.5, 0.1)
    }
    outcomes = {metric for one in found for metric in one.scores} - {ADHERENCE}
    assert outcomes
    assert not any(outcomes & part.scores.keys() for part in beside), "an outcome counts once"


async def test_an_unavailable_labeler_holds_up_only_the_interactions_that_it_is_to_score(async_redis: Any) -> None:
    cheap, dear = Scorer("cheap"), Scorer("dear")
    own = together(evaluator(cheap), evaluator(dear, rate=0.3, pipelines=["shop"]))
    published = [interaction(number, pipeline) for pipeline in ("shop", "help") for number in range(50)]
    drawn = {one.interaction_id for one in published[:50] if own.chosen(one)[1]}
    assert 5 < len(drawn) < 30
    dear.down = True
    await create_group(async_redis, STREAMS.interactions)
    for one in published:
        await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: one.encode()})
    async with working(async_redis, own, worker_concurrency=2, max_deliveries=1) as worker:
        taking = asyncio.create_task(worker.take(await read(async_redis, 1000)))

        async def others_are_scored() -> bool:
            return len(await events(async_redis)) == 100 - len(drawn)

        await until(others_are_scored)
        held = await async_redis.xpending_range(STREAMS.interactions, LABEL_GROUP, min="-", max="+", count=1000)
        assert {entry["consumer"] for entry in held} <= {waiting_for("dear"), b"me"}
        assert not own.outages[1].ready().ok
        dear.down = False

        async def all_are_scored() -> bool:
            return len(await events(async_redis)) == 100

        await until(all_are_scored)
        await taking
    found = await events(async_redis)
    assert sorted((one.pipeline, one.interaction_id) for one in found) == sorted(
        (one.pipeline, one.interaction_id) for one in published
    )
    assert {one.interaction_id for one in found if one.beside} == drawn
    assert await dead_letters(async_redis) == []
    assert own.outages[1].ready().ok


async def test_what_waits_for_a_labeler_that_is_back_is_scored_while_another_one_stays_away(async_redis: Any) -> None:
    away, back = Scorer("away"), Scorer("back")
    # Longer than an entry is idle until it is tried again, so the oldest entry is tried every time.
    away.resume_in_s = back.resume_in_s = 1.0
    away.down = back.down = True
    own = together(evaluator(away, pipelines=["shop"]), evaluator(back, pipelines=["help"]))
    await create_group(async_redis, STREAMS.interactions)
    for pipeline in ("shop", "help"):
        for number in range(5):
            await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: interaction(number, pipeline).encode()})
    async with working(async_redis, own, worker_min_idle_s=0.1, max_deliveries=1) as worker:
        taking = asyncio.create_task(worker.take(await read(async_redis, 1000)))

        async def all_wait() -> bool:
            held = await async_redis.xpending_range(STREAMS.interactions, LABEL_GROUP, min="-", max="+", count=1000)
            return [entry["consumer"] for entry in held] == 5 * [waiting_for("away")] + 5 * [waiting_for("back")]

        await until(all_wait)
        back.down = False

        async def those_of_back_are_scored() -> bool:
            return len(await events(async_redis)) == 5

        await until(those_of_back_are_scored)
        await taking
    assert {event.pipeline for event in await events(async_redis)} == {"help"}
    assert await dead_letters(async_redis) == []


def waiting_for(evaluator: str) -> bytes:
    return awaiting_consumer(evaluator, is_turn=False).encode()


async def test_a_labeler_that_fails_for_good_makes_a_dead_letter_and_no_half_event(async_redis: Any) -> None:
    broken = Scorer("broken")
    broken.failing = True
    own = together(evaluator(Scorer("cheap")), evaluator(broken, pipelines=["shop"]))
    await commit_all(async_redis, own, [interaction(1), interaction(2, "help")], max_deliveries=1)

    async def is_given_up() -> bool:
        return len(await dead_letters(async_redis)) == 1 and not await pending(async_redis)

    async with working(async_redis, own, max_deliveries=1):
        await until(is_given_up)
    assert [one.interaction_id for one in await events(async_redis)] == ["i-2"]
    (letter,) = await dead_letters(async_redis)
    assert b"i-1" in letter.payload_bytes()
    assert "evaluator broken: ValueError: broken" in letter.detail


def settings_of(server: ScriptedJudge, *evaluators: dict[str, Any], **changes: Any) -> Settings:
    judge = {"model": "m", "base_url": server.url, "api_key": "none", "cache_ttl_s": 0.0}
    return Settings.model_validate({"judge": judge, "evaluators": evaluators, **changes})


A = {"name": "a", "labeler": "judge", "pipelines": ["a"], "model": "model-x", "rate": 0.1}
B = {"name": "b", "labeler": "local", "pipelines": ["b"]}
C = {"name": "c", "labeler": "cascade", "pipelines": ["c"], "cascade": {"rate": 0.3}, "model": "model-y"}


async def test_criteria_of_an_evaluators_own_table_are_not_replaced_though_the_same_are_asked_of_all() -> None:
    mine = Criterion(name="mine", question="Is it short?", scale="yes_no")
    stored = Criterion(name="stored", question="Is it kind?", scale="yes_no")
    with ScriptedJudge() as server:
        own = {**B, "labeler": "judge", "judge": {"criteria": [mine]}}
        judge = settings_of(server).judge.model_copy(update={"criteria": (mine,)})
        given = settings_of(server, {**A, "model": None}, own).model_copy(update={"judge": judge})
        async with labeler_of(given, None) as labeler:
            take_criteria(labeler, [mine, stored])
            assert [criterion.name for criterion in criteria_of(labeler)] == ["mine", "stored", "mine"]


async def test_a_is_judged_by_x_at_10_percent_b_is_scored_locally_and_c_by_a_cascade(async_redis: Any) -> None:
    """The example of the documentation, from the stream to the estimates, with a judge over HTTP."""
    text = "The tower was built in 1889."
    published = [
        RagInteraction(
            interaction_id=f"i-{number}", pipeline=pipeline, question="When was the tower built?", documents=[text],
            response=text,
        )
        for pipeline in ("a", "b", "c", "d")
        for number in range(200)
    ]  # fmt: skip
    with ScriptedJudge() as server:
        given = settings_of(server, A, B, C)
        async with labeler_of(given, async_redis) as labeler:
            await commit_all(async_redis, labeler, published, worker_concurrency=64, worker_min_idle_s=60.0)
        asked = [request["model"] for request in server.requests]
    found = await events(async_redis)
    assert len(found) == 800
    by: dict[str, list[MetricEvent]] = {name: [one for one in found if one.pipeline == name] for name in "abcd"}
    assert {one.labeler for one in by["a"]} == {one.labeler for one in by["d"]} == {"none"}
    assert {one.labeler for one in by["b"]} == {one.labeler for one in by["c"]} == {"local"}
    judged_a = [part for one in by["a"] for part in one.beside or ()]
    judged_c = [one.judged for one in by["c"] if one.judged is not None]
    assert 8 <= len(judged_a) <= 35
    assert {(part.labeler, part.labeler_version.split("/")[0], part.inclusion_probability) for part in judged_a} == {
        ("judge", "model-x", 0.1)
    }
    assert 35 <= len(judged_c) <= 85
    assert {(one.labeler_version.split("/")[0], one.inclusion_probability) for one in judged_c} == {("model-y", 0.3)}
    assert not any(one.beside for name in "bcd" for one in by[name])
    assert asked.count("model-x") == len(judged_a)
    assert asked.count("model-y") == len(judged_c)
    state = AggregatorState(StateOptions())
    for one in found:
        state.apply(one)
    n = {(e.pipeline, e.labeler): e.n for e in estimates(state) if e.metric == ADHERENCE and e.estimator == "mean"}
    assert n == {
        ("a", "judge"): len(judged_a), ("b", "local"): 200, ("c", "local"): 200, ("c", "judge"): len(judged_c),
    }  # fmt: skip
    whole = {e.pipeline: e.n for e in estimates(state) if e.metric == "retrieval.empty"}
    assert whole == {"a": 200, "b": 200, "c": 200, "d": 200}
    (traffic,) = [e.n_traffic for e in estimates(state) if e.pipeline == "a" and e.metric == ADHERENCE]
    assert traffic == pytest.approx(10 * len(judged_a))


async def test_an_evaluator_may_have_an_endpoint_a_model_and_limits_of_its_own() -> None:
    asked = [interaction(number) for number in range(12)]
    with ScriptedJudge(latency_s=0.02) as usual, ScriptedJudge(latency_s=0.02) as special:
        judge = {"base_url": special.url, "model": "large", "max_in_flight": 1}
        own = {"name": "own", "labeler": "judge", "judge": judge}
        async with labeler_of(settings_of(usual, own, {"name": "usual", "labeler": "judge"}), None) as labeler:
            found = await asyncio.gather(*(labeler.label(each) for each in asked))
        assert {request["model"] for request in special.requests} == {"large"}
        assert {request["model"] for request in usual.requests} == {"m"}
        assert len(special.requests) == len(usual.requests) == len(asked)
        assert special.most_in_flight == 1
    assert {part.by.version.split("/")[0] for each in found for part in each.beside} == {"m"}


async def test_each_evaluator_with_limits_of_its_own_has_an_account_of_its_own(async_redis: Any) -> None:
    price = {"m": {"input": 1000.0, "output": 1000.0}}
    own = {"name": "own-one", "labeler": "judge", "judge": {"spend_per_day_usd": 1e-9, "prices": price}, "rate": 0.999}
    shared = {"name": "shared", "labeler": "judge", "model": "other", "rate": 0.999}
    with ScriptedJudge() as server:
        async with labeler_of(settings_of(server, own, shared), async_redis) as labeler:
            with pytest.raises(LabelerUnavailable, match="spend limit"):
                await labeler.label(interaction(1))
        models = {request["model"] for request in server.requests}
    assert models == {"other"}
    keys = [key async for key in async_redis.scan_iter(match="*spend*")]
    assert keys
    assert all(b"judge_own_one" in key for key in keys)


def test_the_published_metrics_are_those_of_all_evaluators() -> None:
    found = published_metrics(Settings.model_validate({"evaluators": [A, B], "judge": {"families": ["ragchecker"]}}))
    assert found is not None
    assert {"ragchecker.f1", ADHERENCE} <= found


async def test_a_single_labeler_is_the_case_of_one_to_the_bit(async_redis: Any) -> None:
    one = interaction(1, segments={"lang": "de"})
    with_evaluator = Settings.model_validate({"evaluators": [{"name": "all", "labeler": "local"}]})
    async with labeler_of(Settings(), None) as plain, labeler_of(with_evaluator, None) as single:
        first, second = await plain.label(one), await single.label(one)
    assert second.by is not None
    assert (second.by.name, second.scores, second.absent, second.beside) == ("local", first.scores, first.absent, ())
    del async_redis


async def test_what_asks_one_labeler_refuses_several_evaluators_and_says_how_to_name_one() -> None:
    with pytest.raises(ConfigurationError, match="several evaluators"):
        async with labeler_of(Settings.model_validate({"evaluators": [B]}), None, patient=False):
            pass


class Builds:
    """Builds scorers, and remembers them."""

    def __init__(self) -> None:
        self.made: list[Scorer] = []
        self.broken = {"broken"}
        """Names that cannot be built."""
        self.tries = 0

    async def __call__(self, wanted: Settings, stack: Any) -> Labeler:
        name = wanted.evaluators[0].name if wanted.evaluators else "single"
        self.tries += 1
        if name in self.broken:
            raise ConfigurationError("no such labeler")
        scorer = Scorer(name)
        self.made.append(scorer)
        stack.push_async_callback(scorer.aclose)
        return scorer


def named(name: str) -> Settings:
    return Settings.model_validate({"evaluators": [{"name": name, "labeler": "local"}]})


async def test_new_evaluators_replace_the_old_ones_which_finish_what_they_label() -> None:
    builds, outcomes = Builds(), list[str]()
    labeler = ReplaceableLabeler(builds, outcomes.append)
    await labeler.open(named("old"))
    (old,) = builds.made
    old.gate.clear()
    slow = asyncio.create_task(labeler.label(interaction(1)))
    await until(lambda: old.calls == 1)
    labeler.take(named("new"))
    await until(lambda: outcomes == ["taken"])
    assert not old.closed
    fresh = await labeler.label(interaction(2))
    old.gate.set()
    last = await slow
    assert fresh.by is not None
    assert last.by is not None
    assert (fresh.by.name, last.by.name) == ("new", "old")
    await until(lambda: old.closed)
    await labeler.aclose()
    assert builds.made[1].closed


async def test_evaluators_that_cannot_start_change_nothing_and_are_counted() -> None:
    builds, outcomes = Builds(), list[str]()
    labeler = ReplaceableLabeler(builds, outcomes.append)
    await labeler.open(named("old"))
    labeler.take(named("broken"))
    await until(lambda: outcomes == ["refused"])
    assert labeler.name == "old"
    labeler.take(named("right"))
    await until(lambda: outcomes == ["refused", "taken"])
    assert labeler.name == "right"
    await labeler.aclose()


async def test_evaluators_that_cannot_start_are_tried_again_and_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluators, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(evaluators, "LONGEST_RETRY_S", 0.001)
    builds, outcomes = Builds(), list[str]()
    labeler = ReplaceableLabeler(builds, outcomes.append)
    await labeler.open(named("old"))
    labeler.take(named("broken"))
    await until(lambda: builds.tries >= 4)
    assert (outcomes, labeler.name) == (["refused"], "old")
    builds.broken.clear()
    await until(lambda: labeler.name == "broken")
    assert outcomes == ["refused", "taken"]
    await labeler.aclose()


async def test_evaluators_that_cannot_start_hold_up_neither_newer_ones_nor_the_end() -> None:
    builds, outcomes = Builds(), list[str]()
    labeler = ReplaceableLabeler(builds, outcomes.append)
    await labeler.open(named("old"))
    labeler.take(named("broken"))
    await until(lambda: outcomes == ["refused"])
    labeler.take(named("new"))
    await until(lambda: labeler.name == "new")
    labeler.take(named("broken"))
    await until(lambda: outcomes == ["refused", "taken", "refused"])
    await labeler.aclose()
    assert all(scorer.closed for scorer in builds.made)


async def test_a_worker_takes_evaluators_in_place_of_its_single_labeler() -> None:
    async with replaceable_labeler_of(Settings(), None) as labeler:
        assert labeler.name == "local"
        labeler.take(Settings.model_validate({"evaluators": [B]}))
        await until(lambda: labeler.name == "evaluators")
        assert labelers(await labeler.label(interaction(1, "a"))) == [("none", 1.0)]
