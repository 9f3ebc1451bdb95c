"""Errors of the aggregator.

RagtideError
├── CheckpointError        a checkpoint cannot be read by this release, or is damaged
├── TooManySegmentsError   too many segment values are read at the same time
└── UnknownReleaseError    a verdict is asked of a pipeline, version or release that does not exist

StepFailedError is in checkpoint/halving.py, beside the search for the entry that caused it. DamagedFieldError is a
ValueError, because readers of a state treat it as bad input.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ragtide_runtime.errors import RagtideError


class CheckpointError(RagtideError):
    """A checkpoint cannot be read by this release, or a field of it is damaged."""


class TooManySegmentsError(RagtideError):
    """Too many segment values are read at the same time."""

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} other segment values were looked at within the last minute: try again in a minute")


class UnknownReleaseError(RagtideError):
    """A verdict is asked of something that does not exist; the message has the name that was probably meant.

    Attributes:
        what: `pipeline`, `version` (it never answered) or `release` (of versions that were not given).
    """

    def __init__(self, what: Literal["pipeline", "version", "release"], sentence: str) -> None:
        super().__init__(sentence)
        self.what = what


class DamagedFieldError(ValueError):
    """A field of a checkpoint cannot be read; `field` is its name."""

    def __init__(self, field: str, error: Exception) -> None:
        super().__init__(f"{field}: {type(error).__name__}: {error}")
        self.field = field


@contextmanager
def reading(field: str) -> Iterator[None]:
    """Turn any error of a body that reads a field of a checkpoint into a DamagedFieldError."""
    try:
        yield
    except (DamagedFieldError, MemoryError):
        raise
    except Exception as error:
        raise DamagedFieldError(field, error) from error
