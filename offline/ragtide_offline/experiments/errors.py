"""Errors of executing experiments.

`AnswerError`, a config gave no answer that can be scored; `ExperimentError`, an experiment cannot be run as it was
asked; `MeasureError`, one of the latter, its own metrics are not what was declared.
"""

from ragtide_runtime.errors import RagtideError


class AnswerError(ValueError):
    """A config gave no answer that can be scored; it counts as a failed call."""


class ExperimentError(RagtideError):
    """An experiment cannot be run as it was asked; the message says why, and what to do."""


class MeasureError(ExperimentError):
    """What `measure` returned is not what was declared: nothing more is called before that is mended."""
