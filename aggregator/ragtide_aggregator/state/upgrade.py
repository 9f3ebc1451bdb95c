"""Upgrades checkpoints of version 2. No clock, no I/O.

Version 2 did not store the range of a metric that is not ragtide's own; the range was in a registry of the process.
Without the range its numbers have no unit, so they are dropped. All other fields are unchanged.
"""

import json
from collections.abc import Mapping
from typing import Final

from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import METRICS

from ..events.keys import UNBOUNDED, scored_metric

VERSION_BEFORE: Final = b"2"

_NUMBERS_BEFORE_KEY: Final[dict[str, int]] = {
    CheckpointField.ESTIMATE: 0,
    CheckpointField.QUANTILES: 0,
    CheckpointField.PROCESSED: 1,
    CheckpointField.PANE: 2,
}
_METRIC: Final = 3
"""Index of the metric in a key."""


def upgraded(fields: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[str]]:
    """Return the fields of version 2 to keep, and the names of the fields to drop."""
    kept = {name: data for name, data in fields.items() if _has_a_unit(name)}
    return kept, [name for name in fields if name not in kept]


def _has_a_unit(name: str) -> bool:
    metric = _metric(name)
    return metric is None or metric in UNBOUNDED or scored_metric(metric) in METRICS


def _metric(name: str) -> str | None:
    """Return the metric of a field; None for a field without a metric."""
    kind, colon, rest = name.partition(":")
    kind += colon
    if kind in _NUMBERS_BEFORE_KEY:
        return str(json.loads(rest.split(":", _NUMBERS_BEFORE_KEY[kind])[-1])[_METRIC])
    if kind == CheckpointField.RULE_STATE:
        return str(json.loads(rest)[2 + _METRIC])
    return str(json.loads(rest)[0][_METRIC]) if kind == CheckpointField.PAIR else None
