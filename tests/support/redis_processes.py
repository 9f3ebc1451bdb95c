"""Redis servers as processes of a test's own: one, a cluster, or one with replicas and sentinels."""

import os
import random
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from redis import Redis, RedisError
from tests.support.conditions import wait_until

from ragtide_runtime.redis.server.binary import find_redis_servers

SLOTS = 16_384


def free_port() -> int:
    """Return a free port that no client gets as its own, and whose second port in a cluster, 10,000 above, is none.

    Linux gives ports from 32,768 to clients. A client could take the port of a server that is down for a moment, and
    even connect to itself there.
    """
    while True:
        port = random.randrange(12_000, 22_000)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


class RedisProcess:
    """One server on a TCP port, to be stopped, killed and started again with its data."""

    def __init__(self, folder: Path, *options: str, sentinel: bool = False, binary: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._binary = binary
        self.folder = folder
        self.port = free_port()
        self._options = options
        self._sentinel = sentinel
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL of the server."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def client(self) -> Any:
        """Return a client that neither waits long nor tries again."""
        return Redis(port=self.port, socket_timeout=5, socket_connect_timeout=5, decode_responses=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        configuration = self.folder / "redis.conf"
        if not configuration.exists():  # a sentinel and a cluster node write into theirs
            lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}", *self._options]
            configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command: list[str | Path] = [self._binary or find_redis_servers()[0].path, configuration]
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *(["--sentinel"] if self._sentinel else [])], stdout=log, stderr=log
            )
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "redis.log").read_text()
        # Closed by hand: an error keeps the client for a while, and then its socket would be a warning.
        with suppress(RedisError), self.client as client:
            return bool(client.ping())
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@contextmanager
def servers(folder: Path, count: int, *options: str) -> Iterator[list[RedisProcess]]:
    """Run so many servers for the body of a `with`."""
    processes = [RedisProcess(folder / f"redis-{number}", *options) for number in range(count)]
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in processes:
            process.kill()


@contextmanager
def cluster(folder: Path, *, masters: int = 3, replicas: int = 3, timeout_ms: int = 2000) -> Iterator["Cluster"]:
    """Run a Redis Cluster for the body of a `with`: masters with the slots shared out, and replicas of them in turn."""
    options = (
        "cluster-enabled yes",
        f"cluster-node-timeout {timeout_ms}",
        "cluster-replica-validity-factor 0",
        "appendonly yes",
        "save ''",
        "repl-diskless-sync yes",
        "repl-diskless-sync-delay 0",
    )
    with servers(folder, masters + replicas, *options) as nodes:
        first = nodes[0]
        for node in nodes[1:]:
            node.client.execute_command("CLUSTER MEET", "127.0.0.1", first.port)
        wait_until(lambda: all(_known(node) == len(nodes) for node in nodes))
        for number, master in enumerate(nodes[:masters]):
            first_slot, last_slot = number * SLOTS // masters, (number + 1) * SLOTS // masters
            master.client.execute_command("CLUSTER ADDSLOTS", *range(first_slot, last_slot))
        for number, replica in enumerate(nodes[masters:]):
            name = nodes[number % masters].client.execute_command("CLUSTER MYID")
            replica.client.execute_command("CLUSTER REPLICATE", name)
        found = Cluster(nodes, masters)
        wait_until(found.healthy)
        yield found


class Cluster:
    """A running Redis Cluster."""

    def __init__(self, nodes: Sequence[RedisProcess], masters: int) -> None:
        self.nodes = nodes
        self.masters = nodes[:masters]
        self.replicas = nodes[masters:]

    @property
    def url(self) -> str:
        """URL that names two of the nodes."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:2])

    def healthy(self) -> bool:
        """Return whether every slot is served and every replica follows its master."""
        with suppress(RedisError):
            states = [node.client.execute_command("CLUSTER INFO") for node in self.nodes]
            fine = all(str(state["cluster_state"]) == "ok" for state in states)
            linked = all(node.client.info("replication").get("master_link_status") == "up" for node in self.replicas)
            return fine and linked
        return False

    def is_master(self, node: RedisProcess) -> bool:
        """Return whether a node answers, and is a master."""
        with suppress(RedisError):
            return bool(node.client.role()[0] == "master")
        return False

    def replicated(self, master: RedisProcess) -> bool:
        """Return whether a replica of a master has everything the master has."""
        found = master.client.info("replication")
        offsets = [found[name]["offset"] for name in found if name.startswith("slave") and name[5:].isdigit()]
        return found["master_repl_offset"] in offsets

    def master_of(self, slot: int) -> RedisProcess:
        """Return the node that serves a slot now."""
        for node in self.nodes:
            with suppress(RedisError):
                for found in node.client.execute_command("CLUSTER NODES").values():
                    mine = "myself" in found["flags"] and "master" in found["flags"]
                    if mine and any(int(first) <= slot <= int(last) for first, last in _ranges(found["slots"])):
                        return node
        raise AssertionError(f"nobody serves slot {slot}")


def _ranges(slots: list[list[str]]) -> Iterator[tuple[str, str]]:
    for found in slots:
        yield found[0], found[-1]


def _known(node: RedisProcess) -> int:
    return int(node.client.execute_command("CLUSTER INFO")["cluster_known_nodes"])
