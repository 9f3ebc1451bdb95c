"""Experiments: configs answer the items of a data set, a labeler scores the answers, and the race stops losers."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .answers import Answer as Answer
    from .control import ExperimentControl as ExperimentControl
    from .experiment import Experiment as Experiment

__getattr__ = late(
    __name__,
    {
        ".answers": "Answer",
        ".control": "ExperimentControl",
        ".experiment": "Experiment",
    },
)
