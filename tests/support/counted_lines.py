"""How much work a call does, without a clock: the lines of ragtide that run are counted."""

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_of(call: Callable[[], object]) -> int:
    """Return how many lines, calls and turns of loops of ragtide run in a call."""
    ran: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: Any) -> Any:
        if "ragtide_" not in frame.f_code.co_filename:
            return None
        ran[event] += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(before)
    return ran.total()
