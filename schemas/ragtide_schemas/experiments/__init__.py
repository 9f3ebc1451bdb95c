"""The contract of experiments: the plan, the log of orders and looks, and where an experiment stands by its log."""

from .entries import DRIVER, RACE, Begun, Completed, Entry, Evidence, Execution, Halted, Looked, Order, decode_entry
from .plan import OWN, Config, IntervalOptions, Limits, OwnMetric, Plan, RaceOptions
from .progress import Progress, Standing

__all__ = [
    "DRIVER",
    "OWN",
    "RACE",
    "Begun",
    "Completed",
    "Config",
    "Entry",
    "Evidence",
    "Execution",
    "Halted",
    "IntervalOptions",
    "Limits",
    "Looked",
    "Order",
    "OwnMetric",
    "Plan",
    "Progress",
    "RaceOptions",
    "Standing",
    "decode_entry",
]
