"""`ragtide bridge`: addresses, messages, and both directions with a Redis as broker; tests/brokers has the others."""

import asyncio
import json
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from redis.asyncio import Redis
from structlog.testing import capture_logs
from tests.support.conditions import until
from tests.support.metric_events import START, event
from tests.support.redis_processes import RedisProcess
from tests.support.wire_spans import rag, request, span

from ragtide.bridge.addresses import SCHEMES, read_address
from ragtide.bridge.findings import bridge_findings
from ragtide.bridge.intake import read_message
from ragtide.bridge.links import Received, link_class
from ragtide.bridge.outlet import Outlet, group_of
from ragtide.bridge.service import bridge_addresses, forget_bridge, run_bridge
from ragtide.bridge.span_intake import read_spans
from ragtide_producers.publishing.routes import InteractionRoute, PublishCommand
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.entries import Entry
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry
from ragtide_schemas import DeadLetter, MetricEvent, RagInteraction

ADDRESS = read_address("--from", "kafka://broker/rag.answers")


def answer(**more: object) -> dict[str, Any]:
    return {
        "pipeline": "shop",
        "question": "Which tea is green?",
        "documents": ["Sencha is a green tea."],
        "response": "Sencha is green.",
        **more,
    }


def read(body: object, entry_id: str = "0/7") -> list[PublishCommand | DeadLetter]:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_message(Received(payload, entry_id), ADDRESS, InteractionRoute.of(Settings()), Counter())


@pytest.mark.pure
@pytest.mark.parametrize(
    "text",
    [
        "s3cret",
        "kafka://user:s3cret@",
        "kafka://user:s3cret@host",
        "kafka://user:s3cret@host/",
        "nats://user:s3cret@host/a/b",
        "nats://user:s3cret@host:port/a",
        "natz://user:s3cret@host/a",
    ],
)
def test_a_wrong_url_is_one_sentence_that_does_not_quote_it(text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_address("--from", text)
    assert "--from" in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.pure
def test_the_last_part_of_a_path_is_the_topic() -> None:
    rabbit = read_address("x", "amqps://user:p%40ss@host/shop/rag%2Fanswers")
    assert (rabbit.server, rabbit.topic) == ("amqps://user:p%40ss@host:5671/shop", "rag/answers")
    assert (rabbit.username, rabbit.password, rabbit.shown) == ("user", "p@ss", "amqps://host:5671/shop/rag/answers")
    assert read_address("x", "kafka://a,b:9/t").hosts == ("a:9092", "b:9")
    assert read_address("x", "otlp+kafka://a/t").is_otlp
    with pytest.raises(ConfigurationError, match="only --from takes spans"):
        bridge_addresses(Settings(bridge={"alerts": "otlp+nats://host/a"}).bridge)


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("amqp://user:s3cret@a,b/rag", "takes one"),
        ("redis://user:s3cret@a,b/rag", "takes one"),
        ("redis://user:s3cret@host/shop/rag", "is no number"),
        ("amqps://user:s3cret@host/rag?verify=no", "leave them out"),
        ("kafka://user:s3cret@host/rag#1", "leave them out"),
        ("nats://user:s3cret@host/rag%20answers", "correct it"),
        ("nats://user:s3cret@host/rag%0d%0aPUB", "correct it"),
        ("nats://user:s3cret@host/rag..answers", "correct it"),
        ("nats://user:s3cret@host/>.answers", "correct it"),
    ],
)
def test_what_a_client_would_ignore_or_misread_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as raised:
        bridge_addresses(Settings(bridge={"source": text}).bridge)
    assert "s3cret" not in str(raised.value)


@pytest.mark.pure
def test_nothing_is_sent_to_a_wildcard_of_nats() -> None:
    assert bridge_addresses(Settings(bridge={"source": "nats://host/rag.*.>"}).bridge)["from"].topic == "rag.*.>"
    for subject in ("rag.*", "rag.>"):
        with pytest.raises(ConfigurationError, match="nothing can be sent"):
            bridge_addresses(Settings(bridge={"alerts": f"nats://host/{subject}"}).bridge)


@pytest.mark.pure
def test_signs_in_a_password_that_were_not_encoded_stay_in_it() -> None:
    for text in ("amqp://us/er:p:a/ss@host/rag", "redis://us/er:p:a/ss@host/2/rag"):
        found = read_address("x", text)
        assert (found.username, found.password, found.hosts[0].partition(":")[0]) == ("us/er", "p:a/ss", "host")
        assert "us%2Fer:p%3Aa%2Fss@host" in found.server
    assert read_address("x", "redis://:pass@host/rag").server == "redis://:pass@host:6379"


@pytest.mark.pure
def test_topics_of_two_virtual_hosts_or_databases_have_positions_of_their_own() -> None:
    for one, two in (("amqp://h/one/rag", "amqp://h/two/rag"), ("redis://h/1/rag", "redis://h/2/rag")):
        first, second = read_address("x", one), read_address("x", two)
        assert first.shown != second.shown
        assert group_of("alerts", first) != group_of("alerts", second)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
async def test_a_broker_that_is_away_is_an_error_of_the_link_with_every_scheme(scheme: str) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = read_address("x", f"{scheme}://user:s3cret@127.0.0.1:{reserved.getsockname()[1]}/rag")
        link = link_class(address.kind)(address, "bridge", 10)
        try:
            with pytest.raises(link.errors) as raised:
                await link.open(None)
        finally:
            await link.close()
    assert "s3cret" not in str(raised.value)


async def test_a_password_is_not_sent_to_a_server_of_nats_without_tls() -> None:
    sent: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "a", "version": "2.10.0", "auth_required": true, "max_payload": 1000}\r\n')
        sent.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        address = read_address("x", f"nats+tls://user:s3cret@127.0.0.1:{port}/rag")
        link = link_class("nats")(address, "bridge", 10)
        try:
            with pytest.raises(link.errors, match="has no TLS"):
                await link.open(None)
        finally:
            await link.close()
        await until(lambda: sent)
    assert sent == [b""]


@pytest.mark.pure
def test_the_path_of_mqtt_is_the_topic() -> None:
    mqtt = read_address("x", "mqtts://user:p%40ss@host/$share/ragtide/rag@shop/+/a?b/#")
    assert (mqtt.kind, mqtt.tls, mqtt.hosts, mqtt.topic) == (
        "mqtt",
        True,
        ("host:8883",),
        "$share/ragtide/rag@shop/+/a?b/#",
    )
    assert (mqtt.username, mqtt.password) == ("user", "p@ss")
    assert (
        bridge_addresses(Settings(bridge={"source": "mqtt://host/rag%2Fanswers"}).bridge)["from"].topic == "rag/answers"
    )
    for direction, url in (
        ("source", "mqtt://a,b/rag"),
        ("source", "mqtt://host/rag/#/answers"),
        ("source", "mqtt://host/rag/an+"),
        ("source", "mqtt://host/$share/ragtide"),
        ("alerts", "mqtt://host/rag/+"),
        ("alerts", "mqtt://host/$share/ragtide/rag"),
    ):
        with pytest.raises(ConfigurationError):
            bridge_addresses(Settings(bridge={direction: url}).bridge)


async def test_a_session_of_mqtt_that_another_client_takes_over_ends_the_bridge(redis: Any, redis_url: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while header := await reader.read(2):
            packet = await reader.readexactly(header[1])
            if header[0] == 0x10:
                writer.write(bytes([0x20, 3, 0, 0, 0]))
            if header[0] == 0x82:
                writer.write(bytes([0x90, 4, packet[0], packet[1], 0, 1]) + bytes([0xE0, 2, 0x8E, 0]))
                break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}/rag"
        settings = Settings(redis_url=redis_url, bridge={"source": url})
        with pytest.raises(ConfigurationError, match="took over the session ragtide-bridge-"):
            await run_bridge(settings, redis_url, asyncio.Event(), ProcessTelemetry(Health("bridge")))


@pytest.mark.pure
def test_a_message_that_comes_again_has_the_same_ids_and_another_message_others() -> None:
    def ids(*arguments: Any) -> list[str]:
        return [item.interaction_id for item in read(*arguments) if isinstance(item, PublishCommand)]

    two = [answer(), answer()]
    assert len(set(ids(two))) == 2
    assert ids(two) == ids(two)
    assert not set(ids(two)) & set(ids(two, "1/7"))
    assert ids(answer(interaction_id="mine")) == ["mine"]
    # The place of a message says little: a new topic, or that of another cluster, begins with the same ones.
    assert not set(ids(answer())) & set(ids(answer(response="Another answer.")))


@pytest.mark.pure
def test_bad_items_are_dead_letters_with_their_place_and_the_others_are_published() -> None:
    found = read(b"\n".join(json.dumps(item).encode() for item in (answer(), {"pipeline": "shop"}, answer())))
    assert [type(item) for item in found] == [PublishCommand, DeadLetter, PublishCommand]
    (letter,) = [item for item in found if isinstance(item, DeadLetter)]
    assert (letter.stream, letter.entry_id, letter.pipeline) == ("kafka:rag.answers", "0/7#1", "shop")
    for body, reason in ((b"\xff", "not_json"), (b"", "not_json"), (b"[]", "invalid"), (b"[1]", "invalid")):
        (bad,) = read(body)
        assert isinstance(bad, DeadLetter)
        assert bad.reason.value == reason
    (pretty,) = read(json.dumps(answer(), indent=2).encode())
    assert isinstance(pretty, PublishCommand)


@pytest.mark.pure
def test_a_package_that_is_missing_is_a_sentence_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "ragtide.bridge.nats_link", raising=False)
    with pytest.raises(ConfigurationError, match=r"pip install 'ragtide\[nats\]'"):
        link_class("nats")


async def test_a_redis_is_a_broker_in_both_directions(tmp_path: Path) -> None:
    with RedisProcess(tmp_path) as server:
        async with Redis.from_url(server.url) as redis:
            await both_directions(redis, server.url)


async def both_directions(redis: Any, redis_url: str) -> None:
    def url(stream: str) -> str:
        return f"{redis_url}/{stream}"

    bridge = {"source": url("answers"), "alerts": url("alerts-out"), "batch": 10}
    settings = Settings(redis_url=redis_url, bridge=bridge)
    streams = Streams(settings.prefix, 0)
    for number in range(25):
        await redis.xadd("answers", {DATA_FIELD: json.dumps(answer(interaction_id=f"i-{number}"))})
    await redis.xadd("answers", {DATA_FIELD: b"poison \xff"})
    for number in range(15):
        await redis.xadd(streams.alerts, {DATA_FIELD: json.dumps({"alert_id": f"a-{number}"})})
    stop, process = asyncio.Event(), ProcessTelemetry(Health("bridge"))
    running = asyncio.create_task(run_bridge(settings, redis_url, stop, process))

    async def everything_arrived() -> bool:
        taken = await redis.xlen(streams.interactions) == 25 and await redis.xlen(streams.dead_letters) == 1
        pending = (await redis.xpending("answers", "ragtide-bridge"))["pending"] if taken else 1
        return taken and not pending and await redis.xlen("alerts-out") == 15

    try:
        await until(everything_arrived)
    finally:
        stop.set()
        await running
    found = {
        RagInteraction.decode(fields[DATA_FIELD]).interaction_id
        for _, fields in await redis.xrange(streams.interactions)
    }
    assert found == {f"i-{number}" for number in range(25)}
    out = [json.loads(fields[DATA_FIELD])["alert_id"] for _, fields in await redis.xrange("alerts-out")]
    assert out == [f"a-{number}" for number in range(15)]
    assert [finding.level for finding in await bridge_findings(settings)] == ["ok", "ok"]
    assert await forget_bridge(redis, settings) == 1
    await redis.delete("answers")
    assert [finding.level for finding in await bridge_findings(settings)] == ["problem", "ok"]
    with pytest.raises(ConfigurationError, match="there is no stream answers"):
        await run_bridge(settings, redis_url, asyncio.Event(), ProcessTelemetry(Health("bridge")))


async def test_a_stream_whose_group_was_removed_is_read_on(tmp_path: Path) -> None:
    with RedisProcess(tmp_path) as server:
        async with Redis.from_url(server.url) as redis:
            await redis.xadd("answers", {DATA_FIELD: json.dumps(answer(interaction_id="first"))})
            settings = Settings(redis_url=server.url, bridge={"source": f"{server.url}/answers"})
            interactions, stop = Streams(settings.prefix, 0).interactions, asyncio.Event()
            running = asyncio.create_task(run_bridge(settings, server.url, stop, ProcessTelemetry(Health("bridge"))))

            async def has_taken(count: int) -> bool:
                return int(await redis.xlen(interactions)) == count

            try:
                await until(lambda: has_taken(1))
                await redis.xgroup_destroy("answers", "ragtide-bridge")
                await redis.xadd("answers", {DATA_FIELD: json.dumps(answer(interaction_id="second"))})
                await until(lambda: has_taken(2))
            finally:
                stop.set()
                await running


async def test_a_broker_that_refuses_every_message_is_one_outage(tmp_path: Path) -> None:
    with RedisProcess(tmp_path) as server:
        async with Redis.from_url(server.url) as redis:
            settings = Settings(redis_url=server.url, bridge={"alerts": f"{server.url}/alerts-out"})
            await redis.xadd(Streams(settings.prefix, 0).alerts, {DATA_FIELD: json.dumps({"alert_id": "a-1"})})
            await redis.set("alerts-out", "no stream")
            stop, process = asyncio.Event(), ProcessTelemetry(Health("bridge"))

            async def refused() -> int:
                return int((await redis.info("errorstats"))["errorstat_WRONGTYPE"]["count"])

            with capture_logs() as lines:
                running = asyncio.create_task(run_bridge(settings, server.url, stop, process))
                try:
                    await until(lambda: any("retrying" in line["event"] for line in lines))
                    before = await refused()
                    await until(lambda: is_more(refused, before + 2))
                    await redis.delete("alerts-out")
                    await until(lambda: is_more(lambda: redis.xlen("alerts-out"), 0))
                finally:
                    stop.set()
                    await running
    words = ("retrying", "answers again", "bridge connected")
    assert [sum(word in line["event"] for line in lines) for word in words] == [1, 1, 1]
    assert "a-1" not in str(lines)


async def is_more(count: Callable[[], Awaitable[int]], than: int) -> bool:
    return await count() > than


async def test_a_stream_to_send_to_begins_with_its_first_entry(tmp_path: Path) -> None:
    with RedisProcess(tmp_path) as server:
        address = bridge_addresses(Settings(bridge={"alerts": f"{server.url}/alerts-out"}).bridge)["alerts"]
        link = link_class("redis")(address, "bridge", 10)
        try:
            await link.open(None)
            await link.check()
        finally:
            await link.close()


@pytest.mark.pure
def test_protobuf_that_looks_like_json_after_a_blank_is_protobuf() -> None:
    of_sizes = (request(span(1), service="s" * size).SerializeToString() for size in range(100))
    body = next(encoded for encoded in of_sizes if encoded.startswith(b"\n{"))
    assert read_spans(body)


async def test_spans_of_a_collector_become_interactions_and_other_bytes_a_dead_letter(tmp_path: Path) -> None:
    with RedisProcess(tmp_path) as server:
        async with Redis.from_url(server.url) as redis:
            for encoded in (request(*rag()).SerializeToString(), MessageToJson(request(*rag(trace=2))), b"\xff poison"):
                await redis.xadd("spans", {DATA_FIELD: encoded})
            settings = Settings(
                redis_url=server.url,
                bridge={"source": f"otlp+{server.url}/spans"},
                ingest={"settle_s": 0, "quiet_s": 0, "default_pipeline": "helpdesk"},
            )
            streams = Streams(settings.prefix, 0)
            stop = asyncio.Event()
            running = asyncio.create_task(run_bridge(settings, server.url, stop, ProcessTelemetry(Health("bridge"))))

            async def everything_arrived() -> bool:
                taken = await redis.xlen(streams.interactions) == 2
                return taken and await redis.xlen(streams.dead_letters) == 1

            try:
                await until(everything_arrived, 30)
            finally:
                stop.set()
                await running


def test_ticks_are_not_sent_as_metric_events() -> None:
    streams = Layout("ragtide").all()[0]
    tick = MetricEvent.tick("shop", None, occurred_at=START, scored_until=START)
    found = [(streams.metrics, Entry(f"{number}-0", {DATA_FIELD: one.encode()})) for number, one in
             enumerate([event(1, {"trace.adherence": 0.5}), tick, event(2, {})])]  # fmt: skip
    outlet = Outlet("events", Layout("ragtide"))
    assert [message.key for message in outlet.messages(found)] == ["i-1", "i-2"]
    assert outlet.unreadable.count == 0
