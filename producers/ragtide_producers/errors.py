"""Errors of the producers.

RagtideError
├── QueueFullError         the producer's own queue is full; only a strict producer raises it
├── ReplayError            a replay cannot publish
├── StreamFullError        a stream had no room for as long as publishing may wait
└── UnreadableFileError    a file of interactions cannot be opened, or is not of its format
"""

from ragtide_runtime.errors import RagtideError


class QueueFullError(RagtideError):
    """The producer's own queue is full: Redis or the workers do not keep up, or cannot be reached."""


class ReplayError(RagtideError):
    """A replay cannot publish into its run."""


class StreamFullError(RagtideError):
    """A stream was at its cap for as long as publishing may wait; publishing all of the call again is safe."""


class UnreadableFileError(RagtideError):
    """A file of interactions cannot be opened, or is not of the format it was read as."""
