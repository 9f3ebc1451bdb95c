"""Errors of the aggregator.

RagtideError
├── LeaseLostError        another aggregator owns the partition
├── StreamWentBackError   what an aggregator had read is no longer in the stream
└── CheckpointError       a checkpoint cannot be read by this release
"""

from ragtide_runtime.errors import RagtideError


class LeaseLostError(RagtideError):
    """Another aggregator owns the partition; what this one had not committed is done again by the other."""


class StreamWentBackError(RagtideError):
    """Redis lost the tail of a stream that had been read; what was not committed is read again."""


class CheckpointError(RagtideError):
    """A checkpoint cannot be read by this release."""
