"""The labelers that come with ragtide: what the rest of it knows of each. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from .metrics import MetricDefinition


@dataclass(frozen=True, slots=True)
class KnownLabeler:
    """What the rest of ragtide knows of a labeler that comes with it. Another one needs a line here, and its class."""

    authority: int
    """Its place among labelers that score the same answers: people come first."""
    has_level: bool = False
    """Whether the level of its numbers is right, and not only their changes: then a mean may have a quality band."""
    is_free: bool = False
    """Whether it makes no calls."""
    kind: Literal["LLM", "CODE"] | None = None
    """Kind of annotator, as OpenInference has it."""
    answers_criteria: bool = True
    """Whether it may answer criteria."""
    built_by: str | None = None
    """Its class, as `module:name`, if it is built in the same way as a labeler of users."""


KNOWN: Final[Mapping[str, KnownLabeler]] = {
    # Scores that people gave.
    "gold": KnownLabeler(0, has_level=True),
    # They read meaning, but their level is as good as the model that you chose.
    "judge": KnownLabeler(1, kind="LLM"),
    "nli": KnownLabeler(3, kind="CODE", answers_criteria=False, built_by="ragtide_consumers.labelers.nli:NliLabeler"),
    "model": KnownLabeler(3, is_free=True, answers_criteria=False),
    # It compares words: its means are wrong by an amount that differs between domains.
    "local": KnownLabeler(4, is_free=True, kind="CODE"),
    "none": KnownLabeler(5),
}
"""Labelers by their name."""
_OWN: Final = KnownLabeler(2, has_level=True)
"""A labeler of your own: ragtide knows nothing against its level."""


def authority(labeler: str) -> int:
    """Return the place of a labeler among those that score the same answers; the first measures what others predict.

    People come before a judge, then labelers of your own, models, and the comparison of words.

    >>> sorted(["local", "mine", "judge", "nli"], key=authority)
    ['judge', 'mine', 'nli', 'local']
    """
    return KNOWN.get(labeler, _OWN).authority


def certain_band(
    definition: MetricDefinition | None,
    labeler: str,
    numbers: tuple[float | None, float | None, float | None],
) -> str | None:
    """Return the quality band of a mean; None where the data or the labeler do not support one.

    The whole interval must lie in one band, and the level must be right: of a count, or by a labeler that has one.

    Args:
        definition: of the metric; None for a metric without a definition.
        labeler: its name.
        numbers: lower end of the interval, mean, and upper end.

    >>> from ragtide_schemas import METRICS
    >>> adherence = METRICS["trace.adherence"]
    >>> [certain_band(adherence, "gold", ends) for ends in ((0.96, 0.97, 0.98), (0.5, 0.97, 1.0))]
    ['excellent', None]
    >>> certain_band(adherence, "local", (0.96, 0.97, 0.98)) is None
    True
    """
    lower, mean, upper = numbers
    if definition is None or definition.bands is None or lower is None or mean is None or upper is None:
        return None
    if definition.from_labels and not KNOWN.get(labeler, _OWN).has_level:
        return None
    band = definition.band(mean)
    return band if definition.band(lower) == band == definition.band(upper) else None
