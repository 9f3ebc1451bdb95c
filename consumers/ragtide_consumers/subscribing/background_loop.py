"""An event loop in a thread, for blocking callers of asynchronous code."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines in a daemon thread; `close` ends the thread."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ragtide alerts", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; an exception such as KeyboardInterrupt cancels it.

        Raises:
            RuntimeError: this is a forked child, which has not the thread of its parent.
        """
        if os.getpid() != self._pid:
            work.close()
            raise RuntimeError("the subscriber was opened before this process was forked: open another one here")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and the thread; in a forked child, which has no such thread, do nothing."""
        if os.getpid() != self._pid:
            return
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
