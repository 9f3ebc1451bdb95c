"""The labeler `nli` against a real HTTP server: what it measures, what it costs, and what happens when it fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError
from tests.support.conditions import until
from tests.support.nli_server import NliServer

from ragtide import Labeler, LabelerUnavailable, RagInteraction
from ragtide.testing import Drops, Hangs, Raw, Status
from ragtide_consumers.labelers.event import labeler_id, metric_event
from ragtide_consumers.labelers.nli import MOST_PAIRS
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.labelers.remote.errors import EndpointMisconfigured, EndpointUnavailable, OverBudget
from ragtide_consumers.labelers.remote.telemetry import LabelerTelemetry
from ragtide_consumers.worker.waiting import Patience
from ragtide_roles.doctor.examination import examine
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import ProcessTelemetry
from ragtide_schemas import MetricEvent, utc_now

pytestmark = pytest.mark.processes

SECRET = "hf-very-secret-0123456789"

TOWER = RagInteraction(
    interaction_id="tower",
    pipeline="shop",
    question="When was the tower built?",
    documents=["The tower was built in 1889. It stands in Paris.", "The river flows through Paris."],
    response="The tower was built in 1889. Penguins admire the tower.",
    reference_answer="The tower was built in 1889. The river flows.",
)


@pytest.fixture
def nli() -> Iterator[NliServer]:
    """Return a service that answers by shared words, and misbehaves as scripted."""
    with NliServer() as running:
        yield running


def settings(server: NliServer, **changes: Any) -> Settings:
    service = {"url": server.url, "api_key": SECRET, "attempts": 3, "timeout_s": 5.0, "cache_ttl_s": 0.0, **changes}
    return Settings(labeler="nli", services={"nli": service})


@asynccontextmanager
async def labeler(server: NliServer, redis: Any = None, **changes: Any) -> AsyncIterator[Labeler]:
    async with labeler_of(settings(server, **changes), redis) as one:
        yield one


def another(number: int) -> RagInteraction:
    text = f"The tower number {number} was built in 1889."
    return TOWER.model_copy(update={"interaction_id": str(number), "response": text})


async def test_sentences_are_supported_by_the_documents_that_entail_them(nli: NliServer) -> None:
    async with labeler(nli, model="deberta") as one:
        labeling = await one.label(TOWER)
        event = metric_event(TOWER, labeler_id(one), labeling, labeled_at=utc_now(), latency_s=0.0)
    assert MetricEvent.decode(event.encode()) == event
    assert (event.labeler, event.labeler_version) == ("nli", "deberta/nli.1/sentencex-1+forms-3")
    assert event.profile == "ragbench+ragchecker_strict"
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.scores["trace.adherence"] == 0.0
    assert labeling.scores["ragchecker.faithfulness"] == 0.5
    assert labeling.scores["ragchecker.precision"] == 0.5
    assert labeling.scores["ragchecker.recall"] == 0.5
    assert labeling.scores["ragchecker.claim_recall"] == 1.0
    assert labeling.scores["ragchecker.context_precision"] == 1.0
    assert labeling.scores["ragchecker.hallucination"] == 0.5
    assert labeling.counters == {"nli_calls": 1}


async def test_metrics_that_need_other_labels_are_absent_with_the_reason(nli: NliServer) -> None:
    async with labeler(nli) as one:
        labeling = await one.label(TOWER.model_copy(update={"reference_answer": None}))
    reasons = {name: reason for name, reason in labeling.absent.items() if name.startswith("trace.")}
    assert reasons == {
        "trace.context_relevance": "not_labeled",
        "trace.context_utilization": "not_labeled",
        "trace.completeness": "not_labeled",
        "trace.average": "part_absent",
        "trace.rmse_aggregation": "part_absent",
    }
    assert labeling.absent["ragchecker.precision"] == "no_reference_answer"
    assert labeling.scores["ragchecker.faithfulness"] == 0.5


@pytest.mark.parametrize(
    ("changes", "reason"), [({"documents": ()}, "nothing_retrieved"), ({"response": " "}, "no_response")]
)
async def test_an_empty_interaction_costs_no_call(nli: NliServer, changes: dict[str, Any], reason: str) -> None:
    async with labeler(nli) as one:
        labeling = await one.label(TOWER.model_copy(update=changes))
    assert set(labeling.absent.values()) == {reason}
    assert nli.requests == []


async def test_a_document_that_is_too_long_for_a_premise_is_asked_in_pieces(nli: NliServer) -> None:
    padding = " ".join(f"Sentence {number} says nothing of importance here." for number in range(200))
    long = TOWER.model_copy(update={"documents": (*TOWER.documents[1:], *_documents(f"{padding} {TOWER.response}"))})
    async with labeler(nli) as one:
        labeling = await one.label(long)
    assert labeling.scores["trace.supported_fraction"] == 1.0
    premises = [premise for request in nli.requests for premise, _ in request["inputs"]]
    assert max(map(len, premises)) < 2000
    assert all(request["truncate"] is True for request in nli.requests)


def _documents(text: str) -> tuple[Any, ...]:
    return RagInteraction(**TOWER.model_dump() | {"documents": [text]}).documents


async def test_a_batch_has_at_most_as_many_pairs_as_the_settings_say(nli: NliServer) -> None:
    async with labeler(nli, batch=3) as one:
        batched = await one.label(TOWER)
    async with labeler(nli) as one:
        whole = await one.label(TOWER)
    assert max(len(request["inputs"]) for request in nli.requests[:-1]) == 3
    assert batched.scores == whole.scores
    assert batched.labels == whole.labels


async def test_an_interaction_of_too_many_pairs_is_absent(nli: NliServer) -> None:
    response = " ".join(f"Sentence {number} is here." for number in range(MOST_PAIRS))
    async with labeler(nli) as one:
        labeling = await one.label(TOWER.model_copy(update={"response": response}))
    assert set(labeling.absent.values()) == {"too_long"}
    assert nli.requests == []


@pytest.mark.parametrize(
    "fault",
    [Status(429, "overloaded", {"retry-after": "0.05"}), Status(503), Status(500), Drops(), Hangs()],
    ids=repr,
)
async def test_a_passing_failure_is_tried_again_and_counted(nli: NliServer, fault: Any) -> None:
    nli.script.append(fault)
    async with labeler(nli, timeout_s=0.5) as one:
        labeling = await one.label(TOWER)
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.counters == {"nli_calls": 2, "nli_retries": 1}


async def test_an_interaction_waits_for_a_service_that_is_down_and_is_labeled(nli: NliServer) -> None:
    nli.always = Status(503, "the model is being loaded")
    async with labeler(nli, breaker_failures=2, breaker_pause_s=0.05) as one:
        patience = Patience(one)
        labeling = asyncio.create_task(patience.label(TOWER))
        await until(lambda: len(nli.requests) >= 6)
        assert not patience.outage.ready().ok
        assert "the model is being loaded" in patience.outage.ready().detail
        nli.always = None
        found = (await labeling).labeling
    assert found.scores["trace.supported_fraction"] == 0.5
    assert found.counters["nli_calls"] == len(nli.requests)


async def test_a_service_that_fails_again_and_again_is_paused(nli: NliServer) -> None:
    nli.always = Status(500)
    async with labeler(nli, breaker_failures=4, breaker_pause_s=60, attempts=3) as one:
        for number in range(5):
            with pytest.raises(EndpointUnavailable):
                await one.label(another(number))
    assert len(nli.requests) == 4


@pytest.mark.parametrize("status", [401, 403, 404, 308])
async def test_a_service_that_refuses_to_be_asked_is_asked_once_and_the_key_is_in_no_message(
    nli: NliServer, status: int
) -> None:
    nli.always = Status(status, f"wrong key {SECRET}", {"location": f"http://elsewhere/{SECRET}"})
    async with labeler(nli, breaker_pause_s=60) as one:
        with pytest.raises(EndpointMisconfigured, match="the service nli refuses calls") as caught:
            await one.label(TOWER)
    assert SECRET not in str(caught.value)
    assert len(nli.requests) == 1
    assert nli.headers[0]["authorization"] == f"Bearer {SECRET}"


async def test_content_that_the_service_refuses_is_absent_once_it_has_answered(nli: NliServer) -> None:
    async with labeler(nli) as one:
        await one.label(TOWER)
        nli.script.append(Status(422, "tokenization error"))
        labeling = await one.label(another(1))
    assert set(labeling.absent.values()) == {"service_refused"}
    assert labeling.counters == {"nli_calls": 1}


@pytest.mark.parametrize(
    "body",
    [
        b"<html>sign in</html>",
        b"{}",
        b"[]",
        b"null",
        b'[[{"label": "LABEL_0", "score": 1.0}]]',
        b'[[{"score": 1}]]',
        b"[" * 9999,
    ],
    ids=repr,
)
async def test_a_reply_of_another_form_is_a_failure_of_the_service(nli: NliServer, body: bytes) -> None:
    nli.always = Raw(body)
    async with labeler(nli, attempts=2) as one:
        with pytest.raises(EndpointUnavailable, match="the reply cannot be used"):
            await one.label(TOWER)
    assert len(nli.requests) == 2


async def test_a_reply_without_an_end_is_not_read_to_it(nli: NliServer) -> None:
    nli.always = Raw(b" " * 2**20, times=300)
    async with labeler(nli, attempts=1) as one:
        with pytest.raises(EndpointUnavailable, match="larger than 8 MB"):
            await one.label(TOWER)
    assert nli.raw_sent < 100 * 2**20


async def test_a_replay_finds_the_answers_in_the_cache(nli: NliServer, async_redis: Any) -> None:
    for expected in ({"nli_calls": 1}, {"cache_hits": 1}):
        async with labeler(nli, async_redis, cache_ttl_s=60) as one:
            assert (await one.label(TOWER)).counters == expected
    async with labeler(nli, async_redis, cache_ttl_s=60, model="another") as one:
        assert (await one.label(TOWER)).counters == {"nli_calls": 1}
    keys = await async_redis.keys("ragtide:nli-cache:*")
    assert len(keys) == 2
    for key in keys:
        await async_redis.set(key, b'{"of": "another form"}')
    async with labeler(nli, async_redis, cache_ttl_s=60) as one:
        assert (await one.label(TOWER)).counters == {"nli_calls": 1}


async def test_never_more_calls_are_in_flight_than_allowed(nli: NliServer) -> None:
    nli.latency_s = 0.01
    async with labeler(nli, max_in_flight=7) as one:
        await asyncio.gather(*(one.label(another(number)) for number in range(60)))
    assert nli.most_in_flight == 7


async def test_dollars_are_counted_and_limited(nli: NliServer, async_redis: Any) -> None:
    async with labeler(nli, async_redis, call_usd=0.4, spend_per_day_usd=1.0) as one:
        assert (await one.label(TOWER)).cost_usd == pytest.approx(0.4)
        await one.label(another(1))
        with pytest.raises(OverBudget, match="the service nli's spend limit of the day is reached"):
            await one.label(another(2))
    given = settings(nli, call_usd=0.4, spend_per_day_usd=1.0)
    findings = {finding.subject: finding.found for finding in await examine(async_redis, given, "a Redis")}
    assert findings["nli: spent"] == "$0.80 of $1.00 today (UTC)"


async def test_doctor_says_that_the_service_is_paused(nli: NliServer, async_redis: Any) -> None:
    nli.always = Status(500, "out of memory")
    given = settings(nli, attempts=1, breaker_failures=1)
    async with labeler_of(given, async_redis) as one:
        with suppress(LabelerUnavailable):
            await one.label(TOWER)

        async def told() -> bool:
            findings = [one for one in await examine(async_redis, given, "a Redis") if one.subject == "service nli"]
            return bool(findings) and findings[0].level == "problem" and "out of memory" in findings[0].found

        await until(told)


async def test_calls_are_counted_for_prometheus(nli: NliServer) -> None:
    registry = CollectorRegistry()
    nli.script.append(Status(500))
    async with labeler_of(settings(nli), None, telemetry=LabelerTelemetry(ProcessTelemetry(registry=registry))) as one:
        await one.label(TOWER)
    calls = {
        outcome: registry.get_sample_value("ragtide_service_calls_total", {"service": "nli", "outcome": outcome})
        for outcome in ("answered", "server_error")
    }
    assert calls == {"answered": 1, "server_error": 1}


async def test_a_service_without_an_address_says_what_to_set() -> None:
    with pytest.raises(ConfigurationError, match=r"the service nli has no address: set url in the table \[services\."):
        async with labeler_of(Settings(labeler="nli"), None):
            pass


@pytest.mark.parametrize("name", ["judge", "Nli", "a:b", ""])
def test_a_service_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(ValidationError, match=r"services"):
        Settings(services={name: {"url": "http://nli"}})
