"""Dead letters on the page: groups by reason, pages of a list, and the words of one. No clock, no I/O."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ragtide_schemas import Reason

from ...guard.viewers import Viewer
from ...reading.dead_letters import MEANINGS, may_see
from ...reading.letter_index import IndexedLetters, LetterSummary

PAGE_LETTERS: Final = 50
"""Dead letters on one page of the list."""


_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}(?:\.[A-Za-z0-9_-]{1,64}){0,8}(?= )")


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """The dead letters of one reason."""

    reason: Reason
    meaning: str
    count: int
    newest: datetime
    retryable: int
    """Dead letters that can be published again."""
    upto: str
    """Id of the newest of them: an order to retry the group means no later ones."""


@dataclass(frozen=True, slots=True)
class LetterList:
    """One page of the list, and all groups."""

    groups: Sequence[ReasonGroup]
    """The largest first."""
    letters: Sequence[LetterSummary]
    chosen: int
    """Dead letters with the chosen reason."""
    page: int
    pages: int
    indexed: int
    """Dead letters that are counted by reason."""
    total: int
    """Entries of the streams of dead letters; more than `indexed` if the oldest are not counted."""
    unreadable: int


def letter_list(indexed: IndexedLetters, viewer: Viewer, *, reason: str = "", page: int = 1) -> LetterList:
    """Return a page of the dead letters that a viewer may see.

    Args:
        indexed: the newest dead letters of the deployment.
        viewer: who looks.
        reason: only this reason; all unless given.
        page: number of the page, from 1; the last page if there are fewer.
    """
    visible = [letter for letter in indexed.letters if may_see(viewer, letter)]
    chosen = [letter for letter in visible if reason in ("", letter.reason)]
    pages = max(1, -(-len(chosen) // PAGE_LETTERS))
    shown = min(max(page, 1), pages)
    whole = not viewer.patterns
    return LetterList(
        reason_groups(visible),
        chosen[(shown - 1) * PAGE_LETTERS : shown * PAGE_LETTERS],
        len(chosen),
        shown,
        pages,
        len(visible),
        # Entries that were not read have no known pipeline, so their number is for viewers of all pipelines only.
        indexed.total if whole else len(visible),
        indexed.unreadable if whole else 0,
    )


def reason_groups(letters: Iterable[LetterSummary]) -> list[ReasonGroup]:
    """Return dead letters grouped by reason, the largest group first."""
    by_reason: defaultdict[Reason, list[LetterSummary]] = defaultdict(list)
    for letter in letters:
        by_reason[letter.reason].append(letter)
    groups = [
        ReasonGroup(
            reason,
            MEANINGS[reason],
            len(of),
            max(letter.failed_at for letter in of),
            sum(letter.can_be_retried for letter in of),
            max(of, key=lambda letter: letter.place).letter_id,
        )
        for reason, of in by_reason.items()
    ]
    return sorted(groups, key=lambda group: (-group.count, group.reason))


def failed_field(letter: LetterSummary) -> str | None:
    """Return the first field that a detail names, such as `documents.0.text`; None if the reason is not about a field.

    The detail of an invalid entry begins with the field.
    """
    if letter.reason not in (Reason.INVALID, Reason.TOO_LARGE, Reason.UNKNOWN_SCHEMA_VERSION):
        return None
    found = _FIELD.match(letter.detail)
    return None if found is None or found[0] in ("the", "The", "a", "an") else found[0]
