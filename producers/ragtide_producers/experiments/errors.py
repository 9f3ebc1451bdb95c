"""Errors of executing experiments.

`AnswerError`, a config gave no answer that can be scored; `ExperimentError`, an experiment cannot be run as it was asked.
"""

from ragtide_runtime.errors import RagtideError


class AnswerError(ValueError):
    """A config gave no answer that can be scored; it counts as a failed call."""


class ExperimentError(RagtideError):
    """An experiment cannot be run as it was asked; the message says why, and what to do."""
