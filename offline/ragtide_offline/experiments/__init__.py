"""Experiments: configs answer the items of a data set, a labeler scores the answers, and the race stops losers."""

from typing import TYPE_CHECKING

from ragtide_schemas.lazy_imports import late

if TYPE_CHECKING:
    from .answers import Answer
    from .control import ExperimentControl
    from .experiment import Experiment

__all__ = ["Answer", "Experiment", "ExperimentControl"]

__getattr__ = late(__name__, {"Answer": ".answers", "Experiment": ".experiment", "ExperimentControl": ".control"})
