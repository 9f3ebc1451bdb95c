"""Limits attempts to guess a token."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

PER_MINUTE: Final = 20
"""Logins that an address may try in a minute, in each process."""
ADDRESSES: Final = 10_000
"""Addresses that are remembered."""


class Attempts:
    """Counts the logins of each address.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def admit(self, address: str) -> bool:
        """Count an attempt, and return whether it is allowed."""
        now = self._clock()
        began, count = self._known.pop(address, (now, 0))
        if now - began >= 60:
            began, count = now, 0
        self._known[address] = began, count + 1
        if len(self._known) > ADDRESSES:
            self._known.popitem(last=False)
        return count < PER_MINUTE
