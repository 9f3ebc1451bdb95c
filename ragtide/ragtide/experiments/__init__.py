"""Experiments from Python: run one, look at it, and give it orders."""

from typing import TYPE_CHECKING

from ragtide_runtime.late import late

if TYPE_CHECKING:
    from .control import ExperimentControl
    from .experiment import Experiment

__all__ = ["Experiment", "ExperimentControl"]

# The roles, which these run, need to know what it takes to take part in an experiment.
__getattr__ = late(__name__, {"Experiment": ".experiment", "ExperimentControl": ".control"})
