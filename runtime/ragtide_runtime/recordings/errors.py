"""Errors of recordings.

RagtideError
└── UnreadableRecordingError   a recording is not there, not whole, or of another release
"""

from ragtide_runtime.errors import RagtideError


class UnreadableRecordingError(RagtideError):
    """A recording is not there, not whole, or was written by a newer release."""
