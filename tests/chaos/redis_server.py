"""The Redis server of a chaos run: a real process that can be killed and comes back with its append-only file."""

import subprocess
from pathlib import Path
from typing import Any, Self

from redis import RedisError
from tests.support.conditions import wait_until

from ragtide_runtime.redis.client import connect
from ragtide_runtime.redis.server.binary import find_redis_servers

CONFIGURATION = """
port 0
unixsocket {folder}/redis.sock
dir {folder}
save ""
appendonly yes
appendfsync {appendfsync}
auto-aof-rewrite-min-size 32mb
"""


class RedisServer:
    """A server that listens on a Unix socket in a folder; use it as a context manager."""

    def __init__(self, folder: Path, *, appendfsync: str) -> None:
        self.binary = find_redis_servers()[0]
        self.socket = folder / "redis.sock"
        self.client: Any = connect(f"unix://{self.socket}")
        """A client that goes by no proxy; typed loosely, since redis-py leaves open whether replies are bytes."""
        self._log = folder / "redis.log"
        self._configuration = folder / "redis.conf"
        self._configuration.write_text(CONFIGURATION.format(folder=folder, appendfsync=appendfsync))

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._process.kill()
        self._process.wait()

    def kill_and_restart(self) -> None:
        """Kill the process as nothing else ends one, start it again, and return when it answers."""
        self._process.kill()
        self._process.wait()
        self.client.connection_pool.disconnect()
        self._start()

    def _start(self) -> None:
        self.socket.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([self.binary.path, self._configuration], stdout=log, stderr=log)
        wait_until(self._answers)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        try:
            return bool(self.client.ping())
        except RedisError:  # not listening yet, or loading its file
            return False
