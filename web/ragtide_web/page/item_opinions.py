"""Opinions on the page of an item: those of people who see its scores. No clock, no I/O."""

from collections.abc import Sequence
from typing import Any

from ragtide_offline.annotation.opinions import HIGHEST, LOWEST, REASON_CHARS, Opinion

from .viewers import Viewer


def opinions_shown(viewer: Viewer, opinions: Sequence[Opinion]) -> dict[str, Any]:
    """Return the content of the page about opinions, the newest first."""
    return {
        "opinions": opinions,
        "mine": next((one for one in opinions if one.person == viewer.name), None),
        "may_opine": viewer.is_operator and viewer.sees_texts,
        "ratings": range(LOWEST, HIGHEST + 1),
        "reason_chars": REASON_CHARS,
    }
