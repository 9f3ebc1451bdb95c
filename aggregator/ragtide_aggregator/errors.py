"""Errors of the aggregator.

RagtideError
├── LeaseLostError        another aggregator owns the partition
├── StreamWentBackError   what an aggregator had read is no longer in the stream
└── CheckpointError       a checkpoint cannot be read by this release, or is damaged

StepFailedError is in service/halving.py, beside the search for the entry that caused it. DamagedFieldError is a
ValueError: a field of a checkpoint cannot be read.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ragtide_runtime.errors import RagtideError


class LeaseLostError(RagtideError):
    """Another aggregator owns the partition; what this one had not committed is done again by the other."""


class StreamWentBackError(RagtideError):
    """Redis lost the tail of a stream that had been read; what was not committed is read again."""


class CheckpointError(RagtideError):
    """A checkpoint cannot be read by this release, or a field of it is damaged."""


class DamagedFieldError(ValueError):
    """A field of a checkpoint cannot be read.

    Attributes:
        field: its name.
    """

    def __init__(self, field: str, error: Exception) -> None:
        super().__init__(f"{field}: {type(error).__name__}: {error}")
        self.field = field


@contextmanager
def reading(field: str) -> Iterator[None]:
    """Let a body that reads a field of a checkpoint raise DamagedFieldError, whatever is wrong with the field."""
    try:
        yield
    except (DamagedFieldError, MemoryError):
        raise
    except Exception as error:
        raise DamagedFieldError(field, error) from error
