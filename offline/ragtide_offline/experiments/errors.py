"""Errors of experiments, and the kind of an error.

Two errors are of one kind if their messages differ only in the values that they quote.
"""

import re
from typing import Final

from ragtide_runtime.errors import RagtideError

LONGEST: Final = 500
"""Characters of a message that are compared."""

_VALUES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\d+(?:\.\d+)?")

_GOT: Final = re.compile(r"\(got [^;]*")


class AnswerError(ValueError):
    """The answer of a config cannot be scored; it counts as a failed call."""


class ExperimentError(RagtideError):
    """An experiment cannot be run, or a command has no effect; the message says why, and what to do."""


class CommandConflictError(ExperimentError):
    """The log of an experiment moved on after the author of a command looked, and changed what the command means."""


class MeasureError(ExperimentError):
    """The values of `measure` differ from their declarations; the experiment ends, and continues once they agree."""


def kind_of(message: str) -> str:
    """Return a message without the values that it quotes; it is equal for all errors of one kind.

    >>> kind_of("row 7: year is 'x' (got 'x')") == kind_of("row 12: year is 'why' (got 'why')")
    True
    """
    return _VALUES.sub("…", _GOT.sub("", message[:LONGEST]))
