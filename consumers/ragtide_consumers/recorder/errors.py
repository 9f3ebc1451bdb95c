"""Errors of the recorder; a text that cannot be redacted has errors of its own (`redaction/errors.py`).

RagtideError
├── NotRecordableError    the place of the recording belongs to another deployment
└── StepAbortedError      the step that is being written is aborted; its entries stay in Redis
"""

from ragtide_runtime.errors import RagtideError


class NotRecordableError(RagtideError):
    """The recording at this place belongs to another deployment."""


class StepAbortedError(RagtideError):
    """The step that is being written is aborted; its entries stay in Redis."""
