"""Dead letters on the page: groups by reason, pages of a list, and the words of one. No clock, no I/O."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
from ragtide_schemas import DeadLetter, Reason

from ...reading.dead_letters import MEANINGS

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


def reason_groups(letters: Iterable[StoredDeadLetter]) -> list[ReasonGroup]:
    """Return dead letters grouped by reason, the largest group first."""
    by_reason: defaultdict[Reason, list[StoredDeadLetter]] = defaultdict(list)
    for letter in letters:
        by_reason[letter.letter.reason].append(letter)
    groups = [
        ReasonGroup(
            reason,
            MEANINGS[reason],
            len(same_reason),
            max(letter.letter.failed_at for letter in same_reason),
            sum(letter.can_be_retried for letter in same_reason),
            max(same_reason, key=lambda letter: letter.place).letter_id,
        )
        for reason, same_reason in by_reason.items()
    ]
    return sorted(groups, key=lambda group: (-group.count, group.reason))


def failed_field(letter: DeadLetter) -> str | None:
    """Return the first field that a detail names, such as `documents.0.text`; None if the reason is not about a field.

    The detail of an invalid entry begins with the field.
    """
    if letter.reason not in (Reason.INVALID, Reason.TOO_LARGE, Reason.UNKNOWN_SCHEMA_VERSION):
        return None
    match = _FIELD.match(letter.detail)
    return None if match is None or match[0] in ("the", "The", "a", "an") else match[0]
