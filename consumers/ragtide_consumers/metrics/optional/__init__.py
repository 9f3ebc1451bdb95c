"""Optional metrics, one file each; the setting `metrics` turns them on by their names.

A file holds the definition, the formula and the version of a metric, as a `CustomMetric` named `METRIC`. Events declare
the definition, so no other file of ragtide names the metric.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from ..custom import CustomMetric


@cache
def optional_metrics() -> Mapping[str, CustomMetric]:
    """Return the metric of every file here, by its qualified name."""
    metrics = [import_module(f"{__name__}.{module.name}").METRIC for module in iter_modules(__path__)]
    return {metric.definition.name: metric for metric in metrics}
