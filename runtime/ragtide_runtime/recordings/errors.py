"""Errors of recordings.

RagtideError
└── UnreadableRecordingError   a recording is missing, damaged, or of a newer release
"""

from ..errors import RagtideError


class UnreadableRecordingError(RagtideError):
    """A recording is missing, damaged, or of a newer release."""
