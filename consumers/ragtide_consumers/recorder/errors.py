"""Errors of the recorder.

RagtideError
├── NotRecordableError    the place of the recording belongs to another deployment
├── RedactionError        a text could not be redacted, so nothing was written
├── NotRedactedError      redaction of one entry took too long, so its texts are not recorded
└── StepAbortedError      the step that is being written is aborted; its entries stay in Redis
    └── RedactionAbortedError   redaction was stopped because the recorder stops
"""

from ragtide_runtime.errors import RagtideError


class NotRecordableError(RagtideError):
    """The recording at this place belongs to another deployment."""


class RedactionError(RagtideError):
    """A text could not be redacted; it is not written, it stays in Redis, and the recorder stops."""


class NotRedactedError(RagtideError):
    """Redaction of one entry took too long or crashed; the entry is recorded without its texts."""


class StepAbortedError(RagtideError):
    """The step that is being written is aborted; its entries stay in Redis."""


class RedactionAbortedError(StepAbortedError):
    """Redaction was stopped, because the recorder is stopping and its time is over."""
