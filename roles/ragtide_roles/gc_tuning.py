"""The frequency of garbage collection in a serving process."""

import gc


def collect_rarely() -> None:
    """Look for cycles a hundred times less often than Python does by default.

    With hundreds of calls in flight nearly all objects are alive, so that most collections find nothing. Objects that
    exist at the call are excluded for good. Only ragtide's own processes call this, never an application.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
