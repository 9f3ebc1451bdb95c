"""`ragtide serve` as a process that a test can kill and start again at the same address."""

import signal
from pathlib import Path
from typing import Self
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.support.conditions import wait_until
from tests.support.forked import ForkedProcess
from tests.support.redis_processes import free_port
from tests.support.roles import begin


class PageService:
    """The service.

    Args:
        redis_url: its Redis.
        folder: for its log.
        supervised: whether it is started again when it ends while it starts, as it does without Redis.
        extra: environment of the process.
    """

    def __init__(self, redis_url: str, folder: Path, *, supervised: bool = False, **extra: str) -> None:
        self._redis_url = redis_url
        self._log = folder / "serve.log"
        self._supervised = supervised
        self._extra = extra
        self._port = free_port()
        self._process: ForkedProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._begin()
        wait_until(self._answers)

    def _begin(self) -> None:
        settings = {"RAGTIDE_SERVE_PORT": str(self._port), **self._extra}
        self._process = begin(self._redis_url, self._log, "serve", extra=settings)

    def kill(self) -> None:
        """End it as a power cut does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            assert self._supervised, self._log.read_text()
            self._begin()
            return False
        try:
            with urlopen(f"{self.url}/healthz", timeout=10):
                return True
        except HTTPError:
            return True
        except OSError:
            return False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
