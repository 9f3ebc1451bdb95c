"""A wall clock that jumps when its process gets a signal, as one does that a time server sets right by an hour."""

import signal
import time
from datetime import UTC, datetime, timedelta, tzinfo
from types import FrameType, ModuleType

JUMPS_S = {signal.SIGUSR1: 3600.0, signal.SIGUSR2: -3600.0}
"""Seconds by which each signal moves the clock."""

_real_time = time.time
_offset_s = 0.0


class JumpingDatetime(datetime):
    """`datetime` whose `now` is that of the jumping clock; it returns ordinary datetimes."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz or UTC) + timedelta(seconds=_offset_s)

    @classmethod
    def fromtimestamp(cls, timestamp: float, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.fromtimestamp(timestamp, tz or UTC)


def listen() -> None:
    """Make `time.time` jump at the signals."""

    def jump(number: int, _: FrameType | None) -> None:
        global _offset_s  # noqa: PLW0603 - a process has one wall clock
        _offset_s += JUMPS_S[signal.Signals(number)]

    for number in JUMPS_S:
        signal.signal(number, jump)
    time.time = lambda: _real_time() + _offset_s


def jump_in(*modules: ModuleType) -> None:
    """Make the `datetime` that these modules look at jump too."""
    for module in modules:
        setattr(module, "datetime", JumpingDatetime)  # noqa: B010 - the type checker knows another class there
