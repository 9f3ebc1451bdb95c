"""What one estimate is about: scope, metric, and who measured it how."""

import json
from typing import NamedTuple

from ragtide_schemas import MetricEvent


class EstimateKey(NamedTuple):
    """Scope (pipeline, run, segment value), metric, and the instrument (profile, labeler and its version).

    Scores of different profiles or labelers are never mixed: they are different measurements under one name.
    """

    pipeline: str
    run: str | None
    segment: str | None
    metric: str
    profile: str
    labeler: str
    labeler_version: str

    def encode(self) -> str:
        """Return the key as text, for a field of the checkpoint."""
        return json.dumps(self, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> "EstimateKey":
        """Return the key that `encode` wrote."""
        return cls(*json.loads(text))


def segment_values(event: MetricEvent) -> list[str]:
    """Return the event's segments as `name=value`, in order of their names."""
    return [f"{name}={value}" for name, value in sorted(event.segments.items())]
