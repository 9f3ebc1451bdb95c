"""Sentences about dependent interactions in an alert: where they break or leave open the promise of its rule."""

from typing import Final

CERTAIN_EFFECT: Final = 1.2
"""A design effect that is certainly larger breaks the promise of a rule that takes each interaction by itself."""


def dependent_sentence(effect: float) -> str:
    """Return what a design effect means for a rule that takes each interaction by itself."""
    return (
        f" Neighbouring interactions depend on each other (design effect {effect:.1f}), but the rule takes each by"
        " itself: false alarms come more often than that. Set clusters.by to session_id, user_id or blocks."
    )


def unsettled_sentence(block: int) -> str:
    """Return what it means for a rule that the dependence reaches further than the measured blocks."""
    return (
        f" Blocks of {block:,} interactions may be too short for the measured dependence: this rate is not guaranteed."
        " Set clusters.by to session_id or user_id if sessions are known."
    )
