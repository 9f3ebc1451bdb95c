"""Opinions on the page of an item: those of people who see its scores. No clock, no I/O."""

from collections.abc import Sequence
from typing import Any

from ragtide_offline.annotation.annotations import HIGHEST, LOWEST, REASON_CHARS, Annotation

from .viewers import Viewer


def opinions_shown(viewer: Viewer, opinions: Sequence[Annotation]) -> dict[str, Any]:
    """Return the content of the page about opinions, the newest first."""
    return {
        "opinions": opinions,
        "mine": next((opinion for opinion in opinions if opinion.annotator == viewer.name), None),
        "may_opine": viewer.is_operator and viewer.sees_texts,
        "ratings": range(LOWEST, HIGHEST + 1),
        "reason_chars": REASON_CHARS,
    }
