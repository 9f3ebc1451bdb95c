"""Errors of the recorder.

RagtideError
├── RecorderFencedError   another recorder writes the partition down
├── StreamLostError       Redis lost entries that were read
├── NotRecordableError    the place of the recording belongs to another deployment
└── RedactionError        a text could not be redacted, so that nothing was written
"""

from ragtide_runtime.errors import RagtideError


class RecorderFencedError(RagtideError):
    """Another recorder writes the partition down; what this one had not written is read again by the other."""


class StreamLostError(RagtideError):
    """Redis lost the end of a stream that was read; what was not written is read again."""


class NotRecordableError(RagtideError):
    """The recording at this place is that of another deployment."""


class RedactionError(RagtideError):
    """A text could not be redacted; it is neither written nor lost, and the recorder stops."""
