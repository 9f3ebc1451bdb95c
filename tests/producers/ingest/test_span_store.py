"""Spans in Redis: each is stored once, within limits; each decided interaction is published once, whatever fails."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from redis.exceptions import ConnectionError as RedisConnectionError
from structlog.testing import capture_logs
from tests.support.conditions import until
from tests.support.ingest import Ingest, joined, requests_of
from tests.support.wire_spans import rag, request, span

from ragtide_aggregator.maintenance.repartition import Repartition
from ragtide_producers.errors import IngestFullError
from ragtide_producers.ingest import receiver as receiving
from ragtide_producers.ingest import service, span_store
from ragtide_producers.ingest.assembling import SERVICE_CHARS, assemble
from ragtide_producers.ingest.closing import forget_spans
from ragtide_producers.ingest.outcomes import ServiceTraces, read_outcomes
from ragtide_producers.publishing import batch_publisher
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.scripts import run_script, run_scripts
from ragtide_runtime.settings.ingest import IngestSettings
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.user_ids import AS_SENT
from ragtide_schemas import DeadLetter, RagInteraction, hashed_user_id, utc_now
from ragtide_schemas.dead_letter import without_values

STREAMS = Streams("ragtide", 0)


async def letters(redis: Any) -> list[DeadLetter]:
    return [DeadLetter.decode(fields[b"data"]) for _, fields in await redis.xrange(STREAMS.dead_letters)]


async def test_a_span_is_stored_once(async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    first = await ingest.receiver.accept(request(*rag()))
    size = await async_redis.get(STREAMS.traces_bytes)
    second = await ingest.receiver.accept(request(*rag(), *rag()))
    assert (first.spans, first.rejected, second.spans) == (3, 0, 6)
    assert await async_redis.get(STREAMS.traces_bytes) == size


async def test_of_two_versions_of_a_span_the_last_counts(async_redis: Any) -> None:
    """Some SDKs send a span when it begins, and again when it has ended."""
    ingest = Ingest(async_redis)
    chain, call, root = rag()
    early = span(1, None, {"openinference.span.kind": "CHAIN"}, at=(0, 0))
    await ingest.send([request(early, chain, call), request(root)])
    await ingest.read_all()
    assert [(interaction.question, interaction.response) for interaction in await ingest.interactions()] == [
        ("Which tea?", "Green.")
    ]


async def test_ids_of_a_wrong_length_are_rejected_and_the_others_are_stored(async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    bad = [span(4), span(5), span(6), span(7, 1)]
    bad[0].trace_id, bad[1].span_id, bad[2].trace_id, bad[3].parent_span_id = b"1" * 15, b"", bytes(16), b"12"
    found = await ingest.receiver.accept(request(*rag(), *bad))
    assert (found.spans, found.rejected) == (3, 4)
    assert "4 spans have no valid id" in found.message
    await ingest.read_all()
    assert len(await ingest.interactions()) == 1


async def test_embeddings_are_not_stored(async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    vectors = {"embedding.embeddings.0.embedding.vector": [0.5] * 3_000, "numbers": [1] * 3_000, "few": [1, 2]}
    await ingest.send([request(span(1, None, {**vectors, "input.value": "q" * 5_000}))])
    assert int(await async_redis.get(STREAMS.traces_bytes)) < 6_000


async def test_spans_beyond_the_limits_of_a_trace_are_rejected_for_good(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_producers.ingest.span_store.TRACE_SPANS", 5)
    ingest = Ingest(async_redis)
    found = await ingest.receiver.accept(request(*rag(), *(span(number, 1) for number in range(10, 20))))
    assert (found.spans, found.rejected) == (5, 8)
    assert "beyond the limits of one trace" in found.message
    monkeypatch.setattr("ragtide_producers.ingest.span_store.TRACE_BYTES", 1_000)
    small = Ingest(async_redis, prefix="small")
    big = await small.receiver.accept(request(*rag(answer="word " * 1_000)))
    assert big.rejected == 2


async def test_resources_are_sent_once_and_no_call_is_large(async_redis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One trace of many resources, and one large resource of many spans: Redis gets about the bytes of the request."""
    calls: list[Sequence[Any]] = []
    real = span_store.SpanStore.store_call

    def watched(self: Any, *given: Any) -> Any:
        found = real(self, *given)
        calls.append(found.args)
        return found

    monkeypatch.setattr(span_store.SpanStore, "store_call", watched)
    many = ExportTraceServiceRequest()
    for number in range(1, 2_001):
        one = many.resource_spans.add()
        text = one.resource.attributes.add(key="service.name").value
        text.string_value = f"shop {number} " + "x" * 400
        one.scope_spans.add().spans.append(span(number))
    large = request(*(span(number) for number in range(1, 3_001)), service="shop " + "x" * 300_000)
    for trace, body in ((1, many), (2, large)):
        calls.clear()
        for one in body.resource_spans:
            for of_scope in one.scope_spans:
                for wire in of_scope.spans:
                    wire.trace_id = trace.to_bytes(16, "big")
        size = body.ByteSize()
        ingest = Ingest(async_redis, settle_s=600)
        accepted = await ingest.receiver.accept(body)
        assert (accepted.rejected, len(calls) > 1) == (0, True)
        sizes = [[len(argument) for argument in args if isinstance(argument, bytes)] for args in calls]
        assert sum(sum(one) for one in sizes) < 2 * size
        assert max(len(one) for one in sizes) <= 4 * receiving.CALL_SPANS_MAX
        assert max(sum(one) for one in sizes) <= receiving.CALL_BYTES_MAX + 400_000
        (stored,) = await ingest.store.read(STREAMS, [f"{trace:032x}"])
        assert all(one.resource["service.name"].startswith("shop ") for one in stored.read_spans())


async def test_without_room_senders_wait_and_read_traces_make_room(async_redis: Any) -> None:
    ingest = Ingest(async_redis, traces_cap=2, settle_s=600)
    await ingest.send([request(*rag(trace=1)), request(*rag(trace=2))])
    with pytest.raises(IngestFullError) as full:
        await ingest.receiver.accept(request(*rag(trace=3)))
    assert full.value.retry_after_s > 0
    await ingest.send([request(*rag(trace=2), span(9, 1, trace=2))])  # more of a trace that is open
    assert await ingest.store.sizes() == [(2, int(await async_redis.get(STREAMS.traces_bytes)), 0)]


async def test_bytes_are_bounded_and_traces_that_were_read_go_first(async_redis: Any) -> None:
    text = "word " * 2_000
    ingest = Ingest(async_redis, traces_bytes=100_000, quiet_s=600)
    for trace in range(1, 40):
        await ingest.send([request(*rag(trace=trace, answer=text))])
        await ingest.read_all()
        assert int(await async_redis.get(STREAMS.traces_bytes)) <= 100_000
    assert len(await ingest.interactions()) == 39
    waiting = Ingest(async_redis, prefix="waiting", traces_bytes=100_000, settle_s=600)
    sent = 0
    try:
        for sent in range(1, 100):
            await waiting.receiver.accept(request(*rag(trace=sent, answer=text)))
    except IngestFullError:
        pass
    assert sent < 10


async def test_a_large_trace_is_stored_and_read_whole(async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    extra = [span(number, 1) for number in range(10, 2_300)]
    await ingest.send([request(*rag(), *extra)])
    await ingest.read_all()
    assert len(await ingest.interactions()) == 1


async def test_two_tokens_never_meet_in_one_trace(async_redis: Any) -> None:
    """A sender that may not write to a pipeline cannot add spans to the traces of another sender."""
    ingest = Ingest(async_redis, quiet_s=0.2)
    await ingest.send([request(*rag())])
    foreign = span(8, 1, {"openinference.span.kind": "LLM", "output.value": "Buy."}, at=(0.9, 0.95))
    await ingest.send([request(foreign, service="other")], pipelines=("other",))
    await ingest.read_all()
    assert [interaction.response for interaction in await ingest.interactions()] == ["Green."]


@pytest.mark.parametrize("lost", ["before", "after"])
@pytest.mark.parametrize("failing", range(1, 6))
async def test_a_process_that_dies_between_two_steps_loses_nothing_and_repeats_nothing(
    failing: int, lost: str, async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of a step: claim, read, decide, publish, finish. A late document comes before the next process."""
    monkeypatch.setattr(span_store, "CLAIM_S", 0.05)
    ingest = Ingest(async_redis, settle_s=0, quiet_s=0.3)
    refused = rag(trace=2)
    refused[0].dropped_attributes_count = 1
    await ingest.send([request(*rag(), *refused, *rag(trace=3))])
    _fail_at(monkeypatch, failing, lost)
    with pytest.raises(RedisConnectionError):
        await ingest.read_all()
    monkeypatch.undo()
    monkeypatch.setattr(span_store, "CLAIM_S", 0.05)
    more = span(
        7,
        1,
        {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": "Black."},
        at=(0.1, 0.2),
    )
    await ingest.send([request(more)])
    await ingest.read_all()
    found = await ingest.interactions()
    assert sorted(one.interaction_id[:37] for one in found) == [f"otel-{trace:032x}" for trace in (1, 3)]
    assert [letter.reason for letter in await letters(async_redis)] == ["truncated"]


def _fail_at(monkeypatch: pytest.MonkeyPatch, number: int, lost: str) -> None:
    """Let the call fail, before Redis has it or so that its reply is lost."""
    calls = 0

    async def failing(redis: Any, scripts: Sequence[Any]) -> list[Any]:
        nonlocal calls
        calls += 1
        if calls == number and lost == "before":
            raise RedisConnectionError("cut")
        found = await run_scripts(redis, scripts)
        if calls == number:
            raise RedisConnectionError("cut")
        return found

    monkeypatch.setattr(service, "run_scripts", failing)
    monkeypatch.setattr(span_store, "run_scripts", failing)
    monkeypatch.setattr(batch_publisher, "run_scripts", failing)


@pytest.mark.parametrize("call", range(3, 6))
async def test_spans_that_come_while_a_trace_is_read_are_read_too(
    call: int, async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first turn was read without the second: before its decision, before it is published, before its end."""
    ingest = Ingest(async_redis, quiet_s=600)
    retrieval, answer, root = rag()
    await ingest.send([request(retrieval, answer, root)])
    calls = 0

    async def interrupted(redis: Any, scripts: Sequence[Any]) -> list[Any]:
        nonlocal calls
        calls += 1
        if calls == call:
            await ingest.send([request(*rag("two", answer="2", first=21, parent=1, start=5))])
        return await run_scripts(redis, scripts)

    monkeypatch.setattr(service, "run_scripts", interrupted)
    monkeypatch.setattr(span_store, "run_scripts", interrupted)
    monkeypatch.setattr(batch_publisher, "run_scripts", interrupted)
    await ingest.read_all()
    assert calls > call
    assert sorted(interaction.question for interaction in await ingest.interactions()) == ["Which tea?", "two"]


async def test_the_interaction_of_a_trace_is_encoded_once_and_written_down_as_it_is_published(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[bytes] = []
    written: list[bytes] = []
    encode, decide = RagInteraction.encode, span_store.SpanStore.decide_call

    def counted(item: RagInteraction) -> bytes:
        encoded.append(encode(item))
        return encoded[-1]

    def watched(self: Any, streams: Streams, found: Any, letters: Any) -> Any:
        written.extend(found.payloads)
        return decide(self, streams, found, letters)

    monkeypatch.setattr(RagInteraction, "encode", counted)
    monkeypatch.setattr(span_store.SpanStore, "decide_call", watched)
    ingest = Ingest(async_redis)
    chain, call, root = rag()
    root.attributes.add(key="user.id").value.string_value = "alice"
    await ingest.send([request(chain, call, root)])
    await ingest.read_all()
    [(_, fields)] = await async_redis.xrange(STREAMS.interactions)
    assert encoded == written == [fields[b"data"]]
    assert b"alice" not in written[0]
    assert hashed_user_id("alice").encode() in written[0]


async def test_a_decision_about_an_older_version_is_refused(async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    await ingest.send([request(*rag())])
    (trace,) = await ingest.store.read(STREAMS, [f"{1:032x}"])
    found = assemble(trace, 10**15, IngestSettings(default_pipeline="helpdesk"), AS_SENT)
    assert len(found.interactions) == 1
    await ingest.send([request(span(9, 1))])
    assert await run_script(async_redis, ingest.store.decide_call(STREAMS, found, [])) is None
    assert await async_redis.hget(STREAMS.trace(trace.name), "o") is None
    (again,) = await ingest.store.read(STREAMS, [trace.name])
    decide = ingest.store.decide_call(STREAMS, replace(found, trace=again), [])
    assert await run_script(async_redis, decide) == 1
    assert await run_script(async_redis, decide) is None


async def test_many_readers_publish_each_interaction_once(async_redis: Any) -> None:
    ingests = [Ingest(async_redis, partitions=3, settle_s=0.05) for _ in range(4)]
    traces = [request(*rag(f"question {trace}", trace=trace)) for trace in range(1, 120)]

    async def sending(ingest: Ingest, part: Sequence[Any]) -> None:
        for one in part:
            await ingest.send([one])

    async def reading(ingest: Ingest, done: Callable[[], bool]) -> None:
        while not done():
            await ingest.reader.step()

    sent = asyncio.gather(*(sending(ingest, traces[number::4]) for number, ingest in enumerate(ingests)))
    await asyncio.gather(sent, *(reading(ingest, sent.done) for ingest in ingests))
    await asyncio.gather(*(ingest.read_all() for ingest in ingests))
    assert sorted(interaction.question for interaction in await ingests[0].interactions()) == sorted(
        f"question {trace}" for trace in range(1, 120)
    )


async def test_a_full_stream_keeps_the_interactions_until_there_is_room(async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    settings = ingest.settings.model_copy(update={"interactions_cap": 1})
    ingest.reader = service.TraceReader(settings, async_redis, ingest.telemetry)
    await ingest.send([request(*rag("one", trace=1), *rag("two", trace=2))])
    await until(lambda: _has_published(ingest, 1))
    published = {interaction.question for interaction in await ingest.interactions()}
    assert len(published) == 1
    await async_redis.xtrim(STREAMS.interactions, maxlen=0)
    await ingest.read_all()
    assert published | {interaction.question for interaction in await ingest.interactions()} == {"one", "two"}
    assert await async_redis.xlen(STREAMS.interactions) == 1


async def _has_published(ingest: Ingest, number: int) -> bool:
    await ingest.reader.step()
    return len(await ingest.interactions()) == number


async def test_a_trace_that_cannot_be_read_is_a_dead_letter_and_the_others_are_read(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = assemble

    def failing(trace: Any, *rest: Any) -> Any:
        if trace.name.endswith("2"):
            raise RecursionError("too deep")
        return good(trace, *rest)

    monkeypatch.setattr("ragtide_producers.ingest.service.assemble", failing)
    ingest = Ingest(async_redis)
    await ingest.send([request(*rag(trace=1), *rag(trace=2))])
    await ingest.read_all()
    assert len(await ingest.interactions()) == 1
    (letter,) = await letters(async_redis)
    assert "RecursionError: too deep" in letter.detail


async def test_a_trace_that_ends_its_readers_is_given_up(async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    await ingest.send([request(*rag())])
    name = f"{1:032x}"
    for _ in range(5):  # each of these processes dies of it
        await ingest.store.read(STREAMS, [name])
    await ingest.read_all()
    assert await ingest.interactions() == []
    (letter,) = await letters(async_redis)
    assert "in 5 tries" in letter.detail
    assert not await async_redis.exists(STREAMS.open_traces)


async def test_late_spans_are_counted_and_a_later_turn_is_published(async_redis: Any) -> None:
    ingest = Ingest(async_redis, quiet_s=600)
    await ingest.send([request(*rag())])
    await ingest.read_all()
    await ingest.send([request(*rag("two", answer="2", first=21, parent=1, start=5))])
    await ingest.read_all()
    assert [interaction.question for interaction in await ingest.interactions()] == ["Which tea?", "two"]
    assert _value(ingest, "ragtide_ingest_late_spans_total") == 3


async def test_a_closed_trace_knows_which_spans_became_interactions(async_redis: Any) -> None:
    """A Collector may repeat a batch after minutes, and not the batch that has the root."""
    ingest = Ingest(async_redis)
    retrieval, call, root = rag()
    await ingest.send([request(retrieval, call, root)])
    await ingest.read_all()
    await ingest.store.make_room()
    key = STREAMS.trace(f"{1:032x}")
    assert await async_redis.pttl(key) > 0
    await ingest.send([request(retrieval, call)])
    assert not await async_redis.exists(STREAMS.open_traces)
    await ingest.send([request(span(8, 1))])
    assert await async_redis.pttl(key) == -1
    await ingest.read_all()
    assert len(await ingest.interactions()) == 1


async def test_a_repartition_waits_for_open_traces(async_redis: Any) -> None:
    ingest = Ingest(async_redis, partitions=2, quiet_s=600)
    await ingest.send([request(*rag(trace=1)), request(*rag(trace=2))])
    new = Settings(partitions=1).layout
    with pytest.raises(ConfigurationError, match="traces that wait to be read"):
        await Repartition(async_redis, ingest.settings, new).run()
    await ingest.read_all()
    for streams in ingest.settings.layout.all():
        await async_redis.delete(streams.interactions)
    await Repartition(async_redis, ingest.settings, new).run()
    assert await async_redis.keys("*trace*") == []


async def test_a_tail_sampler_is_warned_of_once(async_redis: Any) -> None:
    """The Collector records the policy that kept a trace as an attribute of the scope."""
    ingest = Ingest(async_redis)
    chosen = request(*rag(trace=1))
    attribute = chosen.resource_spans[0].scope_spans[0].scope.attributes.add()
    attribute.key, attribute.value.string_value = "tailsampling.policy", "errors"
    with capture_logs() as logs:
        await ingest.send([request(*rag(trace=2)), chosen, chosen])
    (warning,) = logs
    assert (warning["service"], warning["log_level"]) == ("shop", "warning")
    assert "tail sampler" in warning["event"]
    await ingest.read_all()
    assert len(await ingest.interactions()) == 2


async def test_a_capture_in_one_request_leaves_bytes_that_are_counted_to_the_end(
    async_redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtide_producers.ingest.assembling.HOLD_MS", 2_000)
    ingest = Ingest(async_redis, partitions=3, quiet_s=1)
    await ingest.send([joined(requests_of("langchain_openinference"))])
    await ingest.read_all()
    for streams in ingest.settings.layout.all():
        stored = 0
        for key in await async_redis.keys(streams.trace("*")):
            stored += int(await async_redis.hget(key, "b") or 0)
        assert stored == int(await async_redis.get(streams.traces_bytes) or 0)
    await ingest.store.make_room()
    assert [size.bytes for size in await ingest.store.sizes()] == [0, 0, 0]


def _value(ingest: Ingest, name: str) -> float:
    found = ingest.registry.get_sample_value(name)
    assert found is not None
    return found


async def outcomes(ingest: Ingest) -> list[ServiceTraces]:
    return await read_outcomes(ingest.redis, ingest.settings.layout.all(), utc_now())


async def test_traces_are_counted_once_by_what_they_gave(async_redis: Any) -> None:
    ingest = Ingest(async_redis, partitions=3, explain_s=600)
    hidden = rag(trace=8, answer="")
    plain = [span(1, None, {"openinference.span.kind": "LLM", "output.value": "Hi."}, trace=trace) for trace in (3, 4)]
    await ingest.send(
        [request(*rag(trace=1), *rag(trace=2), *hidden, *plain), request(span(1, trace=5), service="b:c")]
    )
    await ingest.read_all()
    await ingest.send([request(span(9, 1, trace=3), span(9, 1, trace=1))])  # late, and of traces that were counted
    await ingest.read_all()
    await ingest.reader.step()
    shop, other = await outcomes(ingest)
    assert (shop.service, shop.traces) == ("shop", {"interaction": 2, "no_content": 1, "no_retrieval": 2})
    assert (other.service, other.traces) == ("b:c", {"no_retrieval": 1})
    assert shop.newest["interaction"] in {f"{trace:032x}" for trace in (1, 2)}
    assert other.newest["no_retrieval"] == f"{5:032x}"
    counted = {
        outcome: ingest.registry.get_sample_value("ragtide_ingest_traces_total", {"outcome": outcome})
        for outcome in ("interaction", "no_content", "no_retrieval", "failed")
    }
    assert counted == {"interaction": 2, "no_content": 1, "no_retrieval": 3, "failed": 0}


async def test_every_refused_interaction_is_counted_and_the_first_are_dead_letters(async_redis: Any) -> None:
    """An application whose instrumentation captures no content sends very many."""
    ingest = Ingest(async_redis, traces_cap=10_000)
    silent = [one for trace in range(1, 260) for one in rag(trace=trace, answer="")]
    await ingest.send([request(*silent), request(*rag(trace=1_000, answer=""), service="b")])
    await ingest.read_all()
    found = await letters(async_redis)
    assert Counter((letter.reason, json.loads(letter.payload)["service"]) for letter in found) == {
        ("no_content", "shop"): 100,
        ("no_content", "b"): 1,
    }
    assert {of.service: dict(of.refused) for of in await outcomes(ingest)} == {
        "shop": {"no_content": 259},
        "b": {"no_content": 1},
    }
    value = ingest.registry.get_sample_value("ragtide_ingest_interactions_total", {"outcome": "no_content"})
    assert value == 260


async def test_the_names_of_services_are_bounded(async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    for part in range(3):
        numbers = range(1_000 * part + 1, 1_000 * part + 1_001)
        whole = joined([request(span(1, trace=number), service=f"s{number}" + "x" * 400) for number in numbers])
        await ingest.send([whole])
        await ingest.read_all()
    found = await outcomes(ingest)
    assert sum(of.traces.total() for of in found) == 3_000
    assert len(found) < 2_000
    assert found[0].service == ""
    assert max(len(of.service) for of in found) == SERVICE_CHARS


async def test_the_spans_of_a_trace_that_is_over_are_kept_to_be_explained(async_redis: Any) -> None:
    ingest = Ingest(async_redis, explain_s=600)
    await ingest.send([request(*rag(trace=1), span(1, trace=2))])
    await ingest.read_all()
    await ingest.reader.step()
    found = {trace.name: trace for trace in await ingest.store.find("0")}
    assert found.keys() == {f"{trace:032x}" for trace in (1, 2)}
    (one,) = await ingest.store.find(f"{1:032x}")
    assert len(one.read_spans()) == 3
    assert one.reads == 0
    assert await ingest.store.find("f") == []
    size = await async_redis.get(STREAMS.traces_bytes)
    await ingest.send([request(*rag(trace=1))])  # repeated
    assert await async_redis.get(STREAMS.traces_bytes) == size
    brief = Ingest(async_redis, explain_s=0.001)
    await until(lambda: _keeps(brief, 0))
    assert not await async_redis.exists(STREAMS.traces_bytes)
    assert await async_redis.pttl(STREAMS.trace(f"{1:032x}")) > 0


async def _keeps(ingest: Ingest, number: int) -> bool:
    await ingest.reader.step()
    (size,) = await ingest.store.sizes()
    return size.kept == number


@pytest.mark.parametrize("name", [f"otel-{1:032x}-{1:016x}", "i-17"])
async def test_the_spans_of_a_forgotten_interaction_are_deleted(async_redis: Any, name: str) -> None:
    ingest = Ingest(async_redis, explain_s=600)
    mine = rag("About Anna?", trace=1)
    mine[2].attributes.add(key="ragtide.interaction_id").value.string_value = "i-17"
    await ingest.send([request(*mine, *rag(trace=2))])
    await ingest.read_all()
    assert await forget_spans(async_redis, ingest.settings.layout, name) == 1
    assert [trace.name for trace in await ingest.store.find("")] == [f"{2:032x}"]
    for key in await async_redis.keys("*trace:*"):
        assert not any(b"Anna" in value for value in (await async_redis.hgetall(key)).values())


async def test_of_many_traces_the_newest_are_kept_within_a_share_of_the_bytes(async_redis: Any) -> None:
    text = "word " * 1_000
    ingest = Ingest(async_redis, explain_s=600, traces_bytes=64 * 100_000)
    for trace in range(1, 60):
        await ingest.send([request(*rag(trace=trace, answer=text))])
        await ingest.read_all()
    await ingest.reader.step()
    (size,) = await ingest.store.sizes()
    assert 50_000 < size.bytes <= 100_000
    kept = {int(trace.name, 16) for trace in await ingest.store.find("")}
    assert kept == set(range(60 - size.kept, 60))
    assert len(await ingest.interactions()) == 59


async def test_kept_spans_make_room_for_new_ones(async_redis: Any) -> None:
    text = "word " * 1_000
    ingest = Ingest(async_redis, explain_s=600, traces_bytes=64 * 100_000)
    for trace in range(1, 10):
        await ingest.send([request(*rag(trace=trace, answer=text))])
    await ingest.read_all()
    small = Ingest(async_redis, explain_s=600, traces_bytes=30_000, settle_s=600)
    await small.send([request(*rag(trace=20, answer=text))])
    assert [size.kept for size in await small.store.sizes()] == [0]


async def test_the_log_and_what_viewers_see_of_a_refusal_quote_no_text(async_redis: Any) -> None:
    ingest = Ingest(async_redis)
    chain, call, root = rag(answer="")
    root.attributes.add(key="output.value").value.string_value = '{"strange": {"shape": "Anna lives in Bonn"}}'
    with capture_logs() as logs:
        await ingest.send([request(chain, call, root)])
        await ingest.read_all()
    (letter,) = await letters(async_redis)
    assert "Anna" in letter.detail
    assert "Anna" not in without_values(letter.detail)
    assert "ingest.answer_keys" in without_values(letter.detail)
    assert "Anna" not in str(logs)
