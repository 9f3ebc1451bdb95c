"""What a viewer may see of a dead letter."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
from ragtide_schemas import DeadLetter, Reason
from ragtide_schemas.dead_letter import without_values

from ..guard.viewers import Viewer
from .hiding import TextHiding
from .letter_index import IndexedLetters

MEANINGS: Final[Mapping[Reason, str]] = {
    Reason.MISSING_DATA_FIELD: "The stream entry has no field data: correct the program that writes the stream.",
    Reason.NOT_JSON: "The entry is not UTF-8 JSON: correct the producer and publish again.",
    Reason.TOO_LARGE: "The entry or one of its fields is too large: publish a smaller one.",
    Reason.UNKNOWN_SCHEMA_VERSION: "A newer release wrote the entry: upgrade ragtide, then retry.",
    Reason.INVALID: "A field is missing, unknown or out of its range: correct the producer and publish again.",
    Reason.TRUNCATED: "The trace has cut attributes: raise the limits of its exporter.",
    Reason.NO_CONTENT: "The trace has no question, documents or response: let its instrumentation capture content.",
    Reason.NO_PIPELINE: "No attribute of the trace names the pipeline: set OTEL_SERVICE_NAME in the application.",
    Reason.DUPLICATE: "An earlier entry has the same interaction id: nothing is lost if both are the same answer.",
    Reason.DELETED: "The entry was deleted from its stream before it was labeled, so its payload is lost.",
    Reason.LABELING_FAILED: "The labeler failed at every delivery: correct the cause, then retry.",
    Reason.TOO_MANY_DELIVERIES: "No worker finished the entry, and it may crash workers: retry one alone first.",
    Reason.UNKNOWN_INTERACTION: "The feedback is about an interaction that was not scored in time.",
    Reason.NOT_AGGREGATABLE: "The state of the aggregator cannot take the entry.",
    Reason.UNDELIVERABLE: "A notification could not be delivered: look at its destination.",
}
"""Meaning and remedy of each reason."""
FREE_DETAILS: Final = frozenset({Reason.LABELING_FAILED, Reason.NOT_AGGREGATABLE})
"""Reasons whose detail is a message of a program, which may quote any text."""


def may_see(viewer: Viewer, letter: StoredDeadLetter) -> bool:
    """Return whether a viewer may see a dead letter; one without a pipeline is for viewers of all pipelines."""
    return not viewer.patterns or (letter.pipeline is not None and viewer.may_use(letter.pipeline))


def seen_by(viewer: Viewer, indexed: IndexedLetters) -> IndexedLetters:
    """Return the dead letters that a viewer may see.

    Entries that were not read have no known pipeline, so their number is for viewers of all pipelines only.
    """
    if not viewer.patterns:
        return indexed
    letters = [letter for letter in indexed.letters if may_see(viewer, letter)]
    return IndexedLetters(letters, total=len(letters), unreadable=0)


def shown_detail(letter: DeadLetter, *, sees_texts: bool, hides: bool) -> str:
    """Return the detail of a dead letter without values that the viewer may not see; empty if nothing is left.

    Args:
        letter: the dead letter.
        sees_texts: whether the viewer sees texts.
        hides: whether redaction removes parts of texts: a quoted value may be cut within such a part, so that no
            pattern would find it.
    """
    if sees_texts and not hides:
        return letter.detail
    if letter.reason in FREE_DETAILS and not sees_texts:
        return ""
    return without_values(letter.detail)


@dataclass(frozen=True, slots=True)
class ShownLetter:
    """The texts of a dead letter, without the parts that must not be shown."""

    detail: str
    payload: bytes | None
    hidden: str
    """Why there is no payload; empty if there is one."""


async def shown_letter(
    hiding: TextHiding, letter: DeadLetter, *, sees_texts: bool, payload: bool = True
) -> ShownLetter:
    """Return what is shown of a dead letter.

    Args:
        hiding: the redactions.
        letter: the dead letter.
        sees_texts: whether the user sees texts.
        payload: whether the payload is wanted.
    """
    details = await hiding.texts([shown_detail(letter, sees_texts=sees_texts, hides=hiding.hides)])
    detail = details[0] if details else ""
    if not payload:
        return ShownLetter(detail, None, "it was not asked for")
    if not sees_texts:
        return ShownLetter(detail, None, "texts are hidden from this user")
    redacted = await hiding.payload(letter.payload_bytes())
    return ShownLetter(detail, redacted, "it cannot be redacted" if redacted is None else "")
