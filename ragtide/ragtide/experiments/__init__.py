"""Experiments from Python: run one, look at it, and give it orders."""

from .control import ExperimentControl
from .experiment import Experiment

__all__ = ["Experiment", "ExperimentControl"]
