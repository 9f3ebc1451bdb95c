"""`ragtide bridge` beside real brokers: what it acknowledges is in Redis, what it sends has arrived. `make brokers`."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pytest
from tests.brokers.servers import BROKERS, Broker, Mosquitto, Nats, Rabbit, Tansu
from tests.monitoring.programs import program
from tests.support.conditions import wait_until
from tests.support.forked import ForkedProcess
from tests.support.redis_processes import RedisProcess
from tests.support.roles import STREAMS, begin, command, dead_letters, kill

from ragtide_runtime.redis.keys import DATA_FIELD

TOPIC, OUT = "rag.answers", "ragtide.out"

B = TypeVar("B", bound=Broker)

CONNECTED = b'"event": "bridge connected"'


def answer(number: int, **more: object) -> dict[str, Any]:
    fields = {"pipeline": "shop", "question": "Which tea is green?", "response": f"Sencha is green {number}."}
    return {**fields, "documents": ["Sencha is a green tea."], **more}


def body(*items: object) -> bytes:
    return b"\n".join(json.dumps(item).encode() for item in items)


@pytest.fixture(params=BROKERS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    yield from started(BROKERS[request.param](tmp_path / "broker"))


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[Nats]:
    yield from started(Nats(tmp_path / "broker"))


def started(found: B) -> Iterator[B]:
    try:
        found.start()
        found.create(TOPIC, OUT)
        yield found
    finally:
        found.end()


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Broker]:
    yield from started(Mosquitto(tmp_path / "broker"))


@pytest.fixture
def rabbit(tmp_path: Path) -> Iterator[Rabbit]:
    yield from started(Rabbit(tmp_path / "broker"))


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Tansu]:
    yield from started(Tansu(tmp_path / "broker"))


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisProcess]:
    with RedisProcess(tmp_path / "redis", "appendonly yes", "appendfsync always") as server:
        yield server


class Bridge:
    """A bridge as a process, which may be killed and started again."""

    def __init__(self, redis: RedisProcess, log: Path, *options: str, **settings: str) -> None:
        self._redis = redis
        self.log = log
        self._options = options
        self._settings = {f"RAGTIDE_{name.upper()}": value for name, value in settings.items()}
        self.process: ForkedProcess | None = None

    def begin(self) -> None:
        self.process = begin(self._redis.url, self.log, "bridge", *self._options, extra=self._settings)

    def start(self, directions: int = 1) -> None:
        before = self.log.read_bytes().count(CONNECTED) if self.log.exists() else 0
        self.begin()
        wait_until(lambda: self.log.read_bytes().count(CONNECTED) >= before + directions)

    def kill(self) -> None:
        if self.process is not None:
            kill(self.process)
            self.process = None

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log.read_text()
        self.process = None

    def __enter__(self) -> "Bridge":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def ids(redis: RedisProcess) -> list[str]:
    return [json.loads(fields["data"])["interaction_id"] for _, fields in redis.client.xrange(STREAMS.interactions)]


def binary(redis: RedisProcess) -> Any:
    from redis import Redis

    return Redis(port=redis.port)


def test_every_form_of_message_arrives_once_and_bad_ones_are_dead_letters(
    broker: Broker, redis_server: RedisProcess, tmp_path: Path
) -> None:
    with Bridge(redis_server, tmp_path / "log", "--from", broker.url(TOPIC)) as bridge:
        broker.publish(TOPIC, [body(answer(number, interaction_id=f"i-{number}")) for number in range(50)])
        many = [answer(number, interaction_id=f"i-{number}") for number in range(50, 53)]
        broker.publish(
            TOPIC, [json.dumps(many).encode(), body(*(answer(n, interaction_id=f"i-{n}") for n in (53, 54)))]
        )
        broker.publish(
            TOPIC, [b"poison \xff", json.dumps([answer(55, interaction_id="i-55"), {"pipeline": "shop"}]).encode()]
        )
        broker.publish(TOPIC, [body(answer(56))])
        wait_until(lambda: len(ids(redis_server)) == 57)
        wait_until(lambda: len(dead_letters(binary(redis_server))) == 2)
        letters = {letter.reason.value: letter for letter in dead_letters(binary(redis_server))}
        assert set(letters) == {"not_json", "invalid"}
        assert letters["not_json"].payload_bytes() == b"poison \xff"
        assert letters["not_json"].stream == f"{broker.scheme}:{TOPIC}"
        assert letters["invalid"].entry_id.endswith("#1")
        bridge.stop()
    assert {f"i-{number}" for number in range(56)} < set(ids(redis_server))
    # Everything was acknowledged: what comes next is the next message.
    broker.publish(TOPIC, [body(answer(57, interaction_id="i-57"))])
    with Bridge(redis_server, tmp_path / "log", "--from", broker.url(TOPIC)):
        broker.publish(TOPIC, [body(answer(58, interaction_id="i-58"))])
        wait_until(lambda: {"i-57", "i-58"} <= set(ids(redis_server)))
    assert len(ids(redis_server)) == 59
    assert len(dead_letters(binary(redis_server))) == 2


def test_a_message_without_an_id_that_comes_again_is_the_same_interaction(
    broker: Broker, redis_server: RedisProcess, tmp_path: Path
) -> None:
    if not broker.replays:
        pytest.skip("there is no second reader of its past")
    broker.publish(TOPIC, [body(answer(number)) for number in range(20)])
    for group in ("one", "two"):
        broker.publish(TOPIC, [body(answer(0, interaction_id=f"end-{group}-{number}")) for number in range(10)])
        ends = {f"end-{group}-{number}" for number in range(10)}
        with Bridge(redis_server, tmp_path / "log", "--from", broker.url(TOPIC), "--group", group) as bridge:
            wait_until(lambda ends=ends: ends <= set(ids(redis_server)))  # type: ignore[misc]  # mypy's lambdas
            bridge.stop()
    assert len(ids(redis_server)) == 40


def test_a_full_stream_pauses_the_consumer_and_the_broker_keeps_the_rest(
    broker: Broker, redis_server: RedisProcess, tmp_path: Path
) -> None:
    settings = {"interactions_cap": "60", "bridge_batch": "10"}
    seen: set[str] = set()
    with Bridge(redis_server, tmp_path / "log", "--from", broker.url(TOPIC), **settings) as bridge:
        broker.publish(TOPIC, [body(answer(number, interaction_id=f"i-{number}")) for number in range(300)])
        wait_until(lambda: len(ids(redis_server)) == 60)
        bridge.stop()
    # Nothing that was not in the stream was acknowledged.
    with Bridge(redis_server, tmp_path / "log", "--from", broker.url(TOPIC), **settings):

        def all_seen() -> bool:
            for entry_id, fields in redis_server.client.xrange(STREAMS.interactions):
                seen.add(json.loads(fields["data"])["interaction_id"])
                redis_server.client.xdel(STREAMS.interactions, entry_id)
            return len(seen) == 300

        wait_until(all_seen)


def test_entries_are_sent_once_confirmed_and_not_again_after_a_stop(
    broker: Broker, redis_server: RedisProcess, tmp_path: Path
) -> None:
    client = redis_server.client
    for number in range(150):
        client.xadd(STREAMS.metrics, {DATA_FIELD: json.dumps({"interaction_id": f"i-{number}"})})
    client.xadd(STREAMS.alerts, {DATA_FIELD: json.dumps({"alert_id": "a-1", "status": "firing"})})
    client.xadd(STREAMS.metrics, {DATA_FIELD: "unreadable"})
    bridge = Bridge(redis_server, tmp_path / "log", "--to-events", broker.url(OUT), "--to-alerts", broker.url(TOPIC))
    bridge.start(directions=2)
    try:
        assert len({json.loads(found)["interaction_id"] for found in broker.read(OUT, 150)}) == 150
        assert json.loads(broker.read(TOPIC, 1)[0])["alert_id"] == "a-1"
        bridge.stop()
        client.xadd(STREAMS.metrics, {DATA_FIELD: json.dumps({"interaction_id": "last"})})
        bridge.start(directions=2)
        (group,) = client.xinfo_groups(STREAMS.metrics)
        wait_until(lambda: client.xinfo_groups(STREAMS.metrics)[0]["lag"] == 0)
        wait_until(lambda: client.xinfo_groups(STREAMS.metrics)[0]["pending"] == 0)
        bridge.stop()
        assert group["name"].startswith("bridge-events-")
        count = 151 if broker.replays else 1
        assert json.loads(broker.read(OUT, count)[-1])["interaction_id"] == "last" or broker.scheme == "kafka"
    finally:
        bridge.kill()
    forgotten = command(redis_server.url, "bridge", "--to-events", broker.url(OUT), "--forget")
    assert forgotten.returncode == 0, forgotten.stderr
    assert not client.xinfo_groups(STREAMS.metrics)


def test_a_topic_that_does_not_exist_ends_the_bridge_with_a_sentence(
    broker: Broker, redis_server: RedisProcess
) -> None:
    for option in ("--from", "--to-alerts"):
        done = command(redis_server.url, "bridge", option, broker.url(broker.no_topic))
        assert done.returncode == 1, done.stderr
        assert unquote(broker.no_topic) in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def test_a_broker_that_is_down_is_waited_for_and_no_password_is_logged(
    broker: Broker, redis_server: RedisProcess, tmp_path: Path
) -> None:
    broker.kill()
    log = tmp_path / "log"
    bridge = Bridge(redis_server, log, "--from", broker.url(TOPIC))
    bridge.begin()
    try:
        wait_until(lambda: b"failed: retrying until it answers" in log.read_bytes())
        broker.start()
        wait_until(lambda: b"answers again" in log.read_bytes())
        broker.publish(TOPIC, [body(answer(1, interaction_id="i-1"))])
        wait_until(lambda: ids(redis_server) == ["i-1"])
        # The same while it runs.
        broker.kill()
        broker.start()
        broker.publish(TOPIC, [body(answer(2, interaction_id="i-2"))])
        wait_until(lambda: "i-2" in ids(redis_server))
        bridge.stop()
    finally:
        bridge.kill()


def test_a_password_in_a_url_is_in_no_output(nats_server: Broker, redis_server: RedisProcess, tmp_path: Path) -> None:
    nats_server.kill()
    secret = nats_server.url(TOPIC).replace("nats://", "nats://user:s3cret@")
    log = tmp_path / "log"
    bridge = Bridge(redis_server, log, "--from", secret)
    bridge.begin()
    try:
        wait_until(lambda: b"failed: retrying until it answers" in log.read_bytes())
        bridge.stop()
    finally:
        bridge.kill()
    assert b"s3cret" not in log.read_bytes()


def test_bridges_share_the_messages_of_a_shared_subscription_of_mqtt(
    mosquitto: Broker, redis_server: RedisProcess, tmp_path: Path
) -> None:
    shared = mosquitto.url("$share/ragtide/rag/%23")
    with (
        Bridge(redis_server, tmp_path / "one", "--from", shared, "--group", "one") as one,
        Bridge(redis_server, tmp_path / "two", "--from", shared, "--group", "two") as two,
    ):
        # A dead letter for each time that a message comes.
        mosquitto.publish("rag/answers", [f"poison {number}".encode() for number in range(200)])
        wait_until(lambda: len(dead_letters(binary(redis_server))) >= 200)
        one.stop()
        two.stop()
    assert len({letter.payload for letter in dead_letters(binary(redis_server))}) == 200
    assert len(dead_letters(binary(redis_server))) == 200
    for log in (tmp_path / "one", tmp_path / "two"):
        assert b"a message cannot be used" in log.read_bytes()


def test_a_message_of_mqtt_with_a_name_is_known_when_it_comes_again(
    mosquitto: Broker, redis_server: RedisProcess, tmp_path: Path
) -> None:
    with Bridge(redis_server, tmp_path / "log", "--from", mosquitto.url(TOPIC)) as bridge:
        for _ in range(2):
            mosquitto.publish(TOPIC, [body(answer(number)) for number in range(20)])
        mosquitto.publish(TOPIC, [body(answer(20, interaction_id="last"))])
        wait_until(lambda: "last" in ids(redis_server))
        bridge.stop()
    assert len(ids(redis_server)) == 21


def test_a_refused_password_and_a_forbidden_topic_of_mqtt_are_a_line_each(
    redis_server: RedisProcess, tmp_path: Path
) -> None:
    passwords, rights = tmp_path / "passwords", tmp_path / "rights"
    subprocess.run([program("mosquitto_passwd"), "-b", "-c", passwords, "reader", "right"], check=True)
    rights.write_text("user reader\ntopic read rag.answers\n", encoding="utf-8")
    broker = Mosquitto(tmp_path / "broker")
    broker.options = ("allow_anonymous false", f"password_file {passwords}", f"acl_file {rights}")
    redis_server.client.xadd(STREAMS.alerts, {DATA_FIELD: json.dumps({"alert_id": "a-1"})})
    try:
        broker.start()
        for password, option, line in (
            ("s3cret", "--from", b"it refuses the connection: Not authorized"),
            ("right", "--to-alerts", b"it refuses a message: Not authorized"),
        ):
            log = tmp_path / f"log{option}"
            url = broker.url(TOPIC).replace("mqtt://", f"mqtt://reader:{password}@")
            bridge = Bridge(redis_server, log, option, url)
            bridge.begin()
            try:
                wait_until(lambda log=log, line=line: line in log.read_bytes())  # type: ignore[misc]  # mypy's lambdas
                bridge.stop()
            finally:
                bridge.kill()
            assert password.encode() not in log.read_bytes()
            assert b"Traceback" not in log.read_bytes()
    finally:
        broker.end()


def test_headers_of_kafka_that_are_no_text_lose_no_message(
    kafka: Tansu, redis_server: RedisProcess, tmp_path: Path
) -> None:
    with Bridge(redis_server, tmp_path / "log", "--from", kafka.url(TOPIC)) as bridge:
        headers = [("trace", b"\xff\xfe"), ("reply_to", OUT.encode())]
        bodies = [body(answer(number, interaction_id=f"i-{number}")) for number in range(5)]
        asyncio.run(kafka.apublish(TOPIC, bodies, headers=headers))
        wait_until(lambda: len(ids(redis_server)) == 5)
        bridge.stop()


def test_a_bridge_answers_no_message_of_rabbitmq_that_asks_for_a_reply(
    rabbit: Rabbit, redis_server: RedisProcess, tmp_path: Path
) -> None:
    with Bridge(redis_server, tmp_path / "log", "--from", rabbit.url(TOPIC)) as bridge:
        asyncio.run(rabbit.apublish(TOPIC, [body(answer(1, interaction_id="i-1"))], reply_to=OUT))
        wait_until(lambda: ids(redis_server) == ["i-1"])
        bridge.stop()
    rabbit.publish(OUT, [b"the first"])
    assert rabbit.read(OUT, 1) == [b"the first"]


def test_a_virtual_host_that_does_not_exist_is_named(
    rabbit: Rabbit, redis_server: RedisProcess, tmp_path: Path
) -> None:
    bridge = Bridge(redis_server, tmp_path / "log", "--from", rabbit.url(f"shop/{TOPIC}"))
    bridge.begin()
    try:
        wait_until(lambda: b"it has no virtual host shop, or the user may not use it" in bridge.log.read_bytes())
        bridge.stop()
    finally:
        bridge.kill()


def test_a_queue_that_is_deleted_and_created_again_is_read_on(
    rabbit: Rabbit, redis_server: RedisProcess, tmp_path: Path
) -> None:
    with Bridge(redis_server, tmp_path / "log", "--from", rabbit.url(TOPIC)) as bridge:
        asyncio.run(rabbit.create_again(TOPIC))
        rabbit.publish(TOPIC, [body(answer(1, interaction_id="i-1"))])
        wait_until(lambda: ids(redis_server) == ["i-1"])
        bridge.stop()


def test_a_consumer_of_nats_that_is_for_another_subject_is_refused(
    nats_server: Nats, redis_server: RedisProcess, tmp_path: Path
) -> None:
    asyncio.run(nats_server.acreate_stream("shop.one", "shop.two"))
    with Bridge(redis_server, tmp_path / "log", "--from", nats_server.url("shop.one")) as bridge:
        bridge.stop()
    done = command(redis_server.url, "bridge", "--from", nats_server.url("shop.two"))
    assert done.returncode == 1
    assert "is for shop.one: give this bridge a --group of its own" in done.stderr.splitlines()[-1]
    nats_server.publish("shop.two", [body(answer(2, interaction_id="i-2"))])
    with Bridge(redis_server, tmp_path / "log", "--from", nats_server.url("shop.two"), "--group", "two") as bridge:
        wait_until(lambda: ids(redis_server) == ["i-2"])
        bridge.stop()


def test_two_subjects_of_one_stream_of_nats_get_all_alerts(
    nats_server: Nats, redis_server: RedisProcess, tmp_path: Path
) -> None:
    subjects = ("shop.one", "shop.two")
    asyncio.run(nats_server.acreate_stream(*subjects))
    redis_server.client.xadd(STREAMS.alerts, {DATA_FIELD: json.dumps({"alert_id": "a-1"})})
    for number, subject in enumerate(subjects, start=1):

        def all_sent(number: int = number) -> bool:
            groups = redis_server.client.xinfo_groups(STREAMS.alerts)
            return len(groups) == number and all(not group["pending"] and group["lag"] == 0 for group in groups)

        with Bridge(redis_server, tmp_path / "log", "--to-alerts", nats_server.url(subject)) as bridge:
            wait_until(all_sent)
            bridge.stop()
        assert json.loads(nats_server.read(subject, 1)[0])["alert_id"] == "a-1"


def test_a_password_of_nats_may_have_any_signs(redis_server: RedisProcess, tmp_path: Path) -> None:
    server = Nats(tmp_path / "broker")
    server.options, server.login = ["--user", "reader", "--pass", "p@ss/1"], {"user": "reader", "password": "p@ss/1"}
    server.start()
    try:
        server.create(TOPIC)
        url = server.url(TOPIC).replace("nats://", "nats://reader:p%40ss%2F1@")
        with Bridge(redis_server, tmp_path / "log", "--from", url) as bridge:
            server.publish(TOPIC, [body(answer(1, interaction_id="i-1"))])
            wait_until(lambda: ids(redis_server) == ["i-1"])
            bridge.stop()
    finally:
        server.end()


def test_an_event_that_the_broker_finds_too_large_is_a_dead_letter(
    nats_server: Nats, redis_server: RedisProcess, tmp_path: Path
) -> None:
    large = {"interaction_id": "large", "pipeline": "shop", "text": "x" * 2_000_000}
    for event in ({"interaction_id": "one"}, large, {"interaction_id": "two"}):
        redis_server.client.xadd(STREAMS.metrics, {DATA_FIELD: json.dumps(event)})
    with Bridge(redis_server, tmp_path / "log", "--to-events", nats_server.url(OUT)) as bridge:
        assert {json.loads(found)["interaction_id"] for found in nats_server.read(OUT, 2)} == {"one", "two"}
        wait_until(lambda: dead_letters(binary(redis_server)))
        bridge.stop()
    (letter,) = dead_letters(binary(redis_server))
    assert (letter.reason.value, letter.stream, letter.is_about("large")) == ("too_large", STREAMS.metrics, True)
