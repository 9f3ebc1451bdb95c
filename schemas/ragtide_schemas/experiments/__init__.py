"""The contract of experiments: the plan, the entries of the log, and the result of an execution."""

from .entries import DRIVER, RACE, Begun, Command, Completed, Evidence, Execution, LogEntry, Look, Paused, decode_entry
from .plan import (
    OWN,
    OWN_SCORES,
    Config,
    DrawnItem,
    ExperimentOptions,
    IntervalOptions,
    Limits,
    OwnMetric,
    Plan,
    RaceOptions,
)

__all__ = [
    "DRIVER",
    "OWN",
    "OWN_SCORES",
    "RACE",
    "Begun",
    "Command",
    "Completed",
    "Config",
    "DrawnItem",
    "Evidence",
    "Execution",
    "ExperimentOptions",
    "IntervalOptions",
    "Limits",
    "LogEntry",
    "Look",
    "OwnMetric",
    "Paused",
    "Plan",
    "RaceOptions",
    "decode_entry",
]
