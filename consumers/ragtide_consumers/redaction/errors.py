"""Errors of redaction.

RagtideError
├── RedactionError          a text could not be redacted, so nothing was written
├── NotRedactedError        redaction of one entry took too long, so its texts are not stored
└── RedactionAbortedError   redaction was stopped because its role stops
"""

from ragtide_runtime.errors import RagtideError


class RedactionError(RagtideError):
    """A text could not be redacted, so it is not written."""


class NotRedactedError(RagtideError):
    """Redaction of one entry took too long or crashed; its texts are not stored."""


class RedactionAbortedError(RagtideError):
    """Redaction was stopped, because its role is stopping and its time is over."""
