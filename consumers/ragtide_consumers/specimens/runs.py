"""The calls of a specimen's run by round, with what the answer had of each, as one labeler labeled it. No I/O."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from pydantic_core import to_json

from ragtide_schemas import Specimen, SpecimenLabeling
from ragtide_schemas.details import CallOutcome, ForeignText, KeptCall, KeptRound
from ragtide_schemas.retrieval_steps import RetrievalStep

from ..metrics.trace import MARKED
from .marks import DocumentSentence, Mark, MarkedSpecimen

if TYPE_CHECKING:
    from ..metrics.calls import CallUse


def kept_rounds(
    specimen: Specimen,
    labeling: SpecimenLabeling,
    marks: MarkedSpecimen,
    shown: Callable[[str], ForeignText | None],
) -> tuple[KeptRound, ...]:
    """Return the rounds of a run; empty without calls.

    Args:
        specimen: the specimen.
        labeling: one of its labelings.
        marks: the marks of this labeling.
        shown: returns what a reader may see of a text that a call was asked with.
    """
    calls = specimen.interaction.calls
    if not calls:
        return ()
    from ..metrics.calls import call_uses  # noqa: PLC0415 - imports the splitter of sentences, which few readers need

    uses = call_uses(specimen.interaction, labeling.labels, labeling.absent)
    kept = (
        (call.round, _kept_call(number, call, use, marks, shown))
        for number, (call, use) in enumerate(zip(calls, uses, strict=True), 1)
    )
    return tuple(
        KeptRound(number=number, calls=tuple(call for _, call in group))
        for number, group in groupby(kept, key=lambda pair: pair[0])
    )


def _kept_call(
    number: int, call: RetrievalStep, use: "CallUse", marks: MarkedSpecimen, shown: Callable[[str], ForeignText | None]
) -> KeptCall:
    asked = call.query if call.arguments is None else to_json(call.arguments).decode()
    return KeptCall(
        number=number,
        tool=call.name,
        asked=None if asked is None else shown(asked),
        outcome=_outcome(call, use),
        wasted=None if isinstance(use.wasted, str) else use.wasted,
        error=call.error,
        returned=call.returned,
        documents=call.documents,
        used=tuple(_keys(call, marks, lambda sentence: sentence.utilized)),
        relevant=tuple(_keys(call, marks, lambda sentence: sentence.relevant)),
        latency_s=call.latency_s,
    )


def _outcome(call: RetrievalStep, use: "CallUse") -> CallOutcome:
    if call.error is not None:
        return "failed"
    if not call.looked_for_documents:
        return "other"
    if not call.documents:
        return "not reached" if call.returned else "nothing"
    if not isinstance(use.used, str) and use.used >= MARKED:
        return "used"
    if not isinstance(use.relevant, str) and use.relevant >= MARKED:
        return "relevant"
    return "unknown" if isinstance(use.wasted, str) else "unused"


def _keys(call: RetrievalStep, marks: MarkedSpecimen, mark: Callable[[DocumentSentence], Mark]) -> Iterator[str]:
    for index in call.documents:
        for sentence in marks.documents[index] or ():
            if (mark(sentence) or 0.0) >= MARKED:
                yield sentence.key
