"""Experiments from Python: run one, look at it, and give it orders."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .control import ExperimentControl
    from .experiment import Experiment

__all__ = ["Experiment", "ExperimentControl"]

_HOMES = {"Experiment": ".experiment", "ExperimentControl": ".control"}


def __getattr__(name: str) -> object:
    # Late: the roles, which these run, need to know what it takes to take part in an experiment.
    if name not in _HOMES:
        raise AttributeError(f"module 'ragtide.experiments' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
