"""Errors of recordings.

RagtideError
└── UnreadableRecordingError   a recording is not there, not whole, or of another release
"""

from ..errors import RagtideError


class UnreadableRecordingError(RagtideError):
    """A recording is not there, not whole, or was written by a newer release."""
