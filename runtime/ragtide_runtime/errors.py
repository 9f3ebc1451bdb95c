"""Errors of the runtime, and the base of every error that ragtide raises on purpose.

RagtideError
├── ConfigurationError    a setting is unknown or wrong
├── RedisUnavailable      no Redis can be started, reached or used
├── LeaseLostError        another process owns the partition
└── StreamRollbackError   entries that were read are no longer in the stream
"""


class RagtideError(Exception):
    """Base of ragtide's named errors; the message is one sentence and ends with the action to take."""


class RedisUnavailable(RagtideError):  # noqa: N818  # reads as the state it names
    """No Redis can be started, reached or used: nothing installed, no answer, or a start that failed.

    Args:
        message: the error in one sentence.
        may_recover: whether a process that starts may wait for it.
    """

    def __init__(self, message: str, *, may_recover: bool = False) -> None:
        super().__init__(message)
        self.may_recover = may_recover


class ConfigurationError(RagtideError):
    """A setting is unknown or wrong, or the settings cannot be read."""


class LeaseLostError(RagtideError):
    """Another process owns the partition; it repeats all work that this process had not committed."""


class StreamRollbackError(RagtideError):
    """Redis lost the end of a stream that was read; entries that were not committed are read again."""
