"""Errors of the aggregator.

RagtideError
├── LeaseLostError        another aggregator owns the partition
└── CheckpointError       a checkpoint cannot be read by this release
"""

from ragtide_runtime.errors import RagtideError


class LeaseLostError(RagtideError):
    """Another aggregator owns the partition; what this one had not committed is done again by the other."""


class CheckpointError(RagtideError):
    """A checkpoint cannot be read by this release."""
