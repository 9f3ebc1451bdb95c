"""How often a serving process looks for garbage in cycles."""

import gc


def collect_rarely() -> None:
    """Look for cycles a hundred times less often than Python does by default.

    With hundreds of calls in flight nearly all of what is looked through is alive, so that most looks find nothing.
    What the process was built from is left out for good. For processes of our own, never in an application.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
