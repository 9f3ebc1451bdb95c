"""Errors of the producers."""

from ragtide_runtime.errors import RagtideError


class IngestFullError(RagtideError):
    """Too many spans wait to be read: send the request again later.

    Attributes:
        retry_after_s: seconds to wait.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class InvalidTracesError(RagtideError):
    """A body of traces cannot be decoded: sending it again is of no use."""


class ItemsTooLargeError(RagtideError):
    """A list has too many items, or one of them is too large."""


class QueueFullError(RagtideError):
    """The queue of a strict producer is full: Redis cannot be reached, or Redis or the workers are too slow."""


class ReplayError(RagtideError):
    """A replay cannot publish into its workspace."""


class StreamFullError(RagtideError):
    """A stream had no room for as long as publishing may wait; it is safe to publish all of the call again."""


class TooManySpansError(InvalidTracesError):
    """A request has more spans than one request may have."""


class UnreadableFileError(RagtideError):
    """A file of interactions cannot be opened, or has another format."""
