"""Errors of experiments."""

from ragtide_runtime.errors import RagtideError


class AnswerError(ValueError):
    """The answer of a config cannot be scored; it counts as a failed call."""


class ExperimentError(RagtideError):
    """An experiment cannot be run, or a command has no effect; the message says why, and what to do."""


class CommandConflictError(ExperimentError):
    """The log of an experiment moved on after the author of a command looked, and changed what the command means."""


class MeasureError(ExperimentError):
    """The values of `measure` differ from their declarations; the experiment ends, and continues once they agree."""
