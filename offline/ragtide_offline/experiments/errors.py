"""Errors of executing experiments.

`AnswerError`: a config gave no answer that can be scored. `ExperimentError`: an experiment cannot be run as described.
`MeasureError`, one of the latter: the values of its own metrics differ from their declarations.
"""

from ragtide_runtime.errors import RagtideError


class AnswerError(ValueError):
    """A config gave no answer that can be scored; it counts as a failed call."""


class ExperimentError(RagtideError):
    """An experiment cannot be run as described; the message says why, and what to do."""


class MeasureError(ExperimentError):
    """The values of `measure` differ from their declarations: the experiment ends until that is corrected."""
