"""A Redis without a file, that a test can stop, kill and start again empty, as if a power cut took its last second."""

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from redis import RedisError
from tests.conditions import wait_until

from ragtide_runtime.connection import connect
from ragtide_runtime.redis_binary import find_redis_server


class ForgetfulRedis:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.url = f"unix://{directory / 'forgetful.sock'}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", self.url.removeprefix("unix://"), "--appendonly", "no", "--save", ""]
        self._process = subprocess.Popen(
            [find_redis_server().path, *options], cwd=self._directory, stdout=subprocess.DEVNULL
        )
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            with connect(self.url) as client:
                return bool(client.ping())
        except RedisError:
            return False

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
