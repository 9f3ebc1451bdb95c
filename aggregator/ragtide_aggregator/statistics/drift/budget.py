"""Divides the budget of false alarms of a deployment among the values of its detectors.

Let an e-detector M_t = (M_{t-1} + c_t) L_t alarm at 1, with each cost c_t set before its value is seen. Its expected
number of false alarms in any stretch of time is at most the sum of the c_t, because M_t - sum c + (alarms so far) falls
on average, also across restarts. So it is enough that the costs of all values of all detectors in a period add up to
the budget at most. The number of values in a period is not known in advance. Half of the budget is for as many values
as the last period had, a quarter for twice as many more, an eighth for four times as many more, and so on. The sum
never exceeds the budget, for any traffic.

Source: Shin, Ramdas, Rinaldo (2024), "E-detectors", section 2, with costs in place of the constant 1.
"""

import struct
from typing import Final

import numpy as np

from ..tables.batches import Floats

FORECAST: Final = 10_000
"""Expected number of values in the first period, and the lowest expected number in any period."""

_STATE = struct.Struct("<Bqqq")
VERSION: Final = 1
"""Version of the bytes."""


class Budget:
    """A budget: at most `false_alarms` in a period, on average.

    The costs equal this:

    >>> def cost(number, k, forecast):  # of the value with a number, from 0, in a period
    ...     share = 0
    ...     while number >= forecast * (2 ** (share + 1) - 1):  # 1, 2, 4, ... times the forecast
    ...         share += 1
    ...     return k / 2 ** (share + 1) / (forecast * 2**share)
    >>> budget = Budget(3.0, period_ms=1000)
    >>> budget.begin(0)
    >>> budget.spend(80_000).tolist() == [cost(number, 3.0, FORECAST) for number in range(80_000)]
    True

    Args:
        false_alarms: k, positive.
        period_ms: length of a period.
    """

    def __init__(self, false_alarms: float, period_ms: int) -> None:
        if not (0 < false_alarms < np.inf and period_ms > 0):
            raise ValueError(f"false_alarms is {false_alarms} and period_ms {period_ms}: give positive numbers")
        self._k = false_alarms
        self._period_ms = period_ms
        self._period: int | None = None
        self._forecast = FORECAST
        self._spent = 0

    def begins(self, time_ms: int) -> bool:
        """Return whether a time is in a later period, so that `begin` must be called."""
        return self._period is None or time_ms // self._period_ms > self._period

    @property
    def next_ms(self) -> float:
        """Beginning of the next period; minus infinity before the first period."""
        return -np.inf if self._period is None else (self._period + 1) * self._period_ms

    def begin(self, time_ms: int) -> None:
        """Begin the period that contains a time; the unspent rest of the period before is lost."""
        if self._period is not None:
            self._forecast = max(self._spent, FORECAST)
        self._period, self._spent = time_ms // self._period_ms, 0

    def spend(self, count: int) -> Floats:
        """Return the costs of the next values, in order; shape (count,)."""
        number = self._spent + np.arange(count)
        self._spent += count
        # The first `forecast` values have share 0, the next twice as many share 1, and so on.
        share = np.floor(np.log2(number / self._forecast + 1))
        return np.asarray(self._k / self._forecast * np.exp2(-2 * share - 1))

    def to_bytes(self) -> bytes:
        """Return the state as bytes, exactly."""
        return _STATE.pack(VERSION, -1 if self._period is None else self._period, self._forecast, self._spent)

    def load(self, data: bytes) -> None:
        """Set the state to what `to_bytes` returned.

        Raises: ValueError if the bytes were written by another version.
        """
        if len(data) != _STATE.size or data[0] != VERSION:
            raise ValueError(f"a budget has version {data[:1].hex() or 'none'} and {len(data)} bytes")
        _, period, self._forecast, self._spent = _STATE.unpack(data)
        self._period = None if period < 0 else period
