"""Errors of the producers.

RagtideError
└── UnreadableFileError    a file of interactions cannot be opened, or is not of its format
"""

from ragtide_runtime.errors import RagtideError


class UnreadableFileError(RagtideError):
    """A file of interactions cannot be opened, or is not of the format it was read as."""
