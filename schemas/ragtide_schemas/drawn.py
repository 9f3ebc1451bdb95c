"""How a row of a data set was drawn from known answers: `metadata.ragtide.drawn` of a row of `ragtide dataset draw`."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints, ValidationError

from .base import Count, Name, Probability, Value, WireModel
from .metric_names import MetricName

PROVENANCE: Final = "ragtide"
"""Name in the metadata of a row of where it comes from."""

STRATUM_MAX_CHARS: Final = 1_000
"""Most characters of the name of a stratum."""


class DrawRecord(WireModel):
    """How a row was drawn from known answers. Estimates weight the row by the inverse of its probability."""

    draw: Name | None = None
    """Id of the draw: strata of different draws are different strata."""
    stratum: Annotated[str, StringConstraints(max_length=STRATUM_MAX_CHARS)]
    """Name of its stratum, such as `lang=de|adherence<0.4`."""
    of: Annotated[float, Field(ge=1)]
    """Number of answers of the stratum."""
    rows: Annotated[Count, Field(ge=1)]
    """Number of rows that were drawn from it."""
    probability: Probability
    """Probability of the draw, without that of the source."""
    scores: dict[MetricName, Value] | None = None
    """Scores of the answer that were known at the draw."""
    means: dict[MetricName, Value] | None = None
    """Means of the same scores over all answers of the stratum."""

    def gap(self, metric: str) -> float | None:
        """Return the known score of a metric minus its mean in the stratum; None if one of them is not known."""
        score, mean = (self.scores or {}).get(metric), (self.means or {}).get(metric)
        return None if score is None or mean is None else score - mean


def drawn_of(metadata: Mapping[str, Any]) -> DrawRecord | None:
    """Return how a row was drawn, given its metadata; None of a row that was not drawn, or does not say it properly.

    >>> row = drawn_of({"ragtide": {"drawn": {"stratum": "lang=de", "of": 900, "rows": 30, "probability": 30 / 900}}})
    >>> row.stratum, row.of
    ('lang=de', 900.0)
    >>> drawn_of({"ragtide": {"chosen": []}}) is None
    True
    """
    provenance = metadata.get(PROVENANCE)
    fields = provenance.get("drawn") if isinstance(provenance, Mapping) else None
    if not isinstance(fields, Mapping):
        return None
    try:
        return DrawRecord.model_validate({name: fields[name] for name in DrawRecord.model_fields if name in fields})
    except ValidationError:
        return None
