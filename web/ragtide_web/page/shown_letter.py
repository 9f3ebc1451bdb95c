"""What of a dead letter a user or a client may see: one rule for the screens, the export and the API."""

from dataclasses import dataclass

from ragtide_schemas import DeadLetter

from .dead_letters import shown_detail
from .hiding import TextHiding
from .letter_index import LetterSummary


@dataclass(frozen=True, slots=True)
class ShownLetter:
    """The texts of a dead letter, without the parts that must not be shown."""

    detail: str
    payload: bytes | None
    hidden: str
    """Why there is no payload; empty if there is one."""


async def shown_letter(
    hiding: TextHiding, letter: DeadLetter, summary: LetterSummary, *, sees_texts: bool, payload: bool = True
) -> ShownLetter:
    """Return what is shown of a dead letter.

    Args:
        hiding: the redactions.
        letter: the dead letter.
        summary: its summary.
        sees_texts: whether the user sees texts.
        payload: whether the payload is wanted.
    """
    details = await hiding.texts([shown_detail(summary, sees_texts=sees_texts, hides=hiding.hides)])
    detail = details[0] if details else ""
    if not payload:
        return ShownLetter(detail, None, "it was not asked for")
    if not sees_texts:
        return ShownLetter(detail, None, "texts are hidden from this user")
    found = await hiding.payload(letter.payload_bytes())
    return ShownLetter(detail, found, "it cannot be redacted" if found is None else "")
