"""An event loop whose clock jumps to the next timer, so that a test of hours takes moments."""

import asyncio
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Waits for nothing: when all tasks sleep, the time is that of the first to wake. It is for tasks without I/O."""

    _ready: Any
    _scheduled: Any

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self._now = max(self._now, self._scheduled[0].when())
        super()._run_once()  # type: ignore[misc]
