"""What every destination has, the two ways in which a delivery fails, and threads for a library that blocks."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ragtide_runtime.errors import RagtideError

from ..notification import Notification


class TryLater(RagtideError):  # noqa: N818  # reads as the state it names
    """A delivery that failed, and that may succeed later.

    Args:
        reason: why it failed, in one sentence without secrets.
        retry_after_s: seconds that the destination asks to wait; None if it names no time.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        """Why it failed, in one sentence without secrets."""
        self.retry_after_s = retry_after_s
        """Seconds that the destination asks to wait; None if it names no time."""


class Refused(RagtideError):  # noqa: N818  # reads as the state it names
    """A delivery that a destination refused: the same notification would be refused again.

    Args:
        reason: why it was refused, in one sentence without secrets.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        """Why it was refused, in one sentence without secrets."""


@dataclass(frozen=True, slots=True)
class Preview:
    """A request that a destination would send, with every secret masked."""

    target: str
    """Method and address, such as `POST https://hooks.example.com/***`."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers of the request, or of the e-mail."""
    body: Any = None
    """The body: JSON, or text."""


class Destination(Protocol):
    """A place to which notifications are sent."""

    @property
    def name(self) -> str:
        """Name of the destination in the settings."""

    @property
    def grouped(self) -> bool:
        """Whether one message holds several alerts (people's channels), or each alert alone (machines)."""

    @property
    def resend_s(self) -> float | None:
        """Seconds after which a firing alert must be sent again, however long it fires; None if once is enough."""

    async def deliver(self, notification: Notification) -> str:
        """Send a notification, and return the id under which the destination knows the message; empty without one.

        Raises:
            TryLater: it failed, and may succeed later.
            Refused: it would fail again.
        """

    def preview(self, notification: Notification) -> list[Preview]:
        """Return the requests that `deliver` would send, with every secret masked. Nothing is sent."""

    async def aclose(self) -> None:
        """Close what the destination opened."""


T = TypeVar("T")

MOST_THREADS = 2
"""Threads of a destination: one may still wait for a server that hangs while another delivers."""


class DeliveryThreads:
    """Threads of one destination, so that a server that hangs takes no thread from other destinations.

    The event loop resolves names in its own threads, so a destination must not fill these.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix=f"notify-{name}")

    async def run(self, deliver: Callable[[], T], timeout_s: float) -> T:
        """Return what `deliver` returns.

        Args:
            deliver: runs in a thread. It continues after the time limit, and its result is discarded then.
            timeout_s: seconds to wait for it.

        Raises:
            TimeoutError: it took longer.
        """
        async with asyncio.timeout(timeout_s):
            return await asyncio.get_running_loop().run_in_executor(self._pool, deliver)

    def close(self) -> None:
        """Start no further delivery, and do not wait for those that run."""
        self._pool.shutdown(wait=False, cancel_futures=True)
