"""Spoils recorded interactions in known ways, and computes the inputs of a fit of each clean and spoilt one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ragtide_consumers.labelers.local.correction import CORRECTED
from ragtide_consumers.labelers.local.model import LocalModel
from ragtide_consumers.metrics.trace import TRACE
from ragtide_runtime.redis.keys import interaction_digest
from ragtide_schemas import RagInteraction

from ..corruptions.interactions import CORRUPTIONS, spoilt, without_own_sentences
from .examined import ExaminedInteraction, InteractionExaminer, Similar

MOST_SPOILT: Final = 400
"""Most interactions that are spoilt, because each is labeled about twelve times; of more chance draws so many."""

SENSED: Final = {
    name: [score for score in CORRECTED if corruption.expected.get(TRACE + score) == "worse"]
    for name, corruption in CORRUPTIONS.items()
}
"""By corruption: the scores that should get worse."""


@dataclass(frozen=True, slots=True)
class ExaminedPair:
    """The inputs of a fit from an interaction, clean and spoilt in one way."""

    corruption: str
    clean: ExaminedInteraction
    """One object for all pairs of an interaction."""
    spoilt: ExaminedInteraction


@dataclass(slots=True)
class TrafficSample:
    """Interactions to spoil: of all that are added those with the lowest digests, which is a draw by chance."""

    _found: dict[str, RagInteraction] = field(default_factory=dict)

    def add(self, interaction: RagInteraction) -> None:
        """Add an interaction, unless it has no documents or no response."""
        if not (interaction.documents and interaction.response.strip()):
            return
        self._found.setdefault(interaction_digest(interaction.pipeline, interaction.interaction_id), interaction)
        if len(self._found) >= 2 * MOST_SPOILT:
            self._found = self._drawn()

    def _drawn(self) -> dict[str, RagInteraction]:
        return dict(sorted(self._found.items())[:MOST_SPOILT])

    @property
    def drawn(self) -> Sequence[RagInteraction]:
        """At most `MOST_SPOILT` interactions."""
        return [*self._drawn().values()]


def examine_pairs(
    interactions: Iterable[RagInteraction],
    each: Callable[[], object] = lambda: None,
    *,
    similar: Similar | None = None,
    model: LocalModel | None = None,
    seed: int = 0,
) -> list[ExaminedPair]:
    """Return the inputs of a fit from interactions that are spoilt in every way that some score should follow.

    Texts of another interaction are those of one of the same pipeline and data set. What the local labeler does not
    score, clean or spoilt, gives no pair.

    Args:
        interactions: with documents and responses; scores are not read.
        each: called before each interaction.
        similar: a sentence encoder, whose similarities are more inputs of the fit.
        model: instead of the shipped one.
        seed: of the corruptions.
    """
    rows = [*interactions]
    others: dict[tuple[str, str], list[RagInteraction]] = {}
    for row in rows:
        others.setdefault(_kind(row), []).append(row)
    examiner, pairs = InteractionExaminer(similar, model), list[ExaminedPair]()
    for row in rows:
        each()
        clean = examiner.examine(without_own_sentences(row))
        if isinstance(clean, str):
            continue
        for name in (name for name, scores in SENSED.items() if scores):
            changed = spoilt(CORRUPTIONS[name], row, others[_kind(row)], seed=seed)
            after = None if changed is None else examiner.examine(changed)
            if after is not None and not isinstance(after, str):
                pairs.append(ExaminedPair(name, clean, after))
    return pairs


def _kind(interaction: RagInteraction) -> tuple[str, str]:
    return interaction.pipeline, interaction.segments.get("dataset", "")
