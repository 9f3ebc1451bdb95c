"""Errors of the producers.

RagtideError
└── UnreadableFileError    a file of interactions cannot be opened or is not text
"""

from ragtide_runtime.errors import RagtideError


class UnreadableFileError(RagtideError):
    """A file of interactions cannot be opened or is not UTF-8 text."""
