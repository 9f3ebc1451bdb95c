"""Errors of the recorder.

RagtideError
├── NotRecordableError    the place of the recording belongs to another deployment
├── RedactionError        a text could not be redacted, so that nothing was written
├── NotRedactedError      redaction of one entry took too long, so that its texts are not recorded
└── StepAbortedError      the step that is being written is given up; its entries stay in Redis
    └── RedactionAbortedError   redaction was stopped because the recorder stops
"""

from ragtide_runtime.errors import RagtideError


class NotRecordableError(RagtideError):
    """The recording at this place is that of another deployment."""


class RedactionError(RagtideError):
    """A text could not be redacted; it is neither written nor lost, and the recorder stops."""


class NotRedactedError(RagtideError):
    """Redaction of one entry took too long or died; the entry is recorded without its texts."""


class StepAbortedError(RagtideError):
    """The step that is being written is given up; its entries stay in Redis."""


class RedactionAbortedError(StepAbortedError):
    """Redaction was stopped, because the recorder stops and its time for that is over."""
