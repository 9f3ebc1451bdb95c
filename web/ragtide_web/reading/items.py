"""One kept item as every reader sees it: the page, the HTTP API and MCP show the same `KeptItem`. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from pydantic_core import to_json

from ragtide_consumers.specimens.formulas import filled_formulas
from ragtide_consumers.specimens.marks import DocumentSentence, Mark, ResponseSentence, labeling_to_show, marked
from ragtide_consumers.specimens.runs import kept_rounds
from ragtide_schemas import RetrievedDocument, Specimen
from ragtide_schemas.details import (
    ForeignText,
    KeptDocument,
    KeptDocumentSentence,
    KeptItem,
    KeptScore,
    KeptSentence,
    Support,
)
from ragtide_schemas.printable import printable

SHOWN_CHARS: Final = 40_000
"""Most characters of all texts of an item, unless a link asks for all of them."""
SHOWN_SENTENCES: Final = 2_000
"""Most sentences of an item, unless a link asks for all of them."""
ASKED_CHARS: Final = 300
"""Most characters of what a call was asked, unless a link asks for all of them."""
NOTE_CHARS: Final = 300
"""Most characters of a formula, or of the reason for an absent score."""
HIDDEN: Final = "texts are hidden from this token: see web.texts, and the access operate"

S = TypeVar("S", DocumentSentence, ResponseSentence)


class _Room:
    """The characters and sentences that are still shown."""

    def __init__(self, *, sees_texts: bool, chars: int, sentences: int) -> None:
        self.sees_texts, self.chars, self.left, self.cut = sees_texts, chars, sentences, False

    def text(self, text: str | None, most: int = 10**9) -> ForeignText | None:
        if text is None or not self.sees_texts:
            return None
        beginning = text[: min(self.chars, most)]
        self.chars -= len(beginning)
        self.cut |= len(beginning) < len(text)
        return ForeignText.of(beginning, cut=len(beginning) < len(text))

    def sentences(self, sentences: Iterable[S]) -> Iterator[tuple[S, str | None]]:
        """Yield the sentences that fit, each with its text, of the last maybe only the beginning."""
        for sentence in sentences:
            if self.left <= 0 or self.chars <= 0:
                self.cut = True
                return
            self.left -= 1
            text = self.text(sentence.text)
            yield sentence, None if text is None else text.untrusted_text + " …" * text.cut


def item_view(
    specimen: Specimen,
    labeler: str | None,
    *,
    sees_texts: bool,
    whole: bool = False,
    chars: int = SHOWN_CHARS,
    marks_support: bool = True,
) -> KeptItem:
    """Return an item as a viewer may see it.

    Args:
        specimen: the item.
        labeler: labeler whose marks are shown; None for the last one that marks sentences, such as the judge.
        sees_texts: whether the viewer may see texts; else keys and marks stand without them.
        whole: whether long texts are shown whole.
        chars: most characters of all texts, unless they are shown whole.
        marks_support: whether the sentences of the response are marked as supported or not.
    """
    labeling = labeling_to_show(specimen, labeler) or labeling_to_show(specimen) or specimen.labelings[0]
    marked_item, interaction = marked(specimen, labeling), specimen.interaction
    room = _Room(sees_texts=sees_texts, chars=10**9 if whole else chars, sentences=10**9 if whole else SHOWN_SENTENCES)
    # The texts take their room in this order.
    question = room.text(interaction.question)
    response = None
    if marked_item.response is not None and marks_support:
        response = tuple(_response(marked_item.response, room))
    response_text = room.text(interaction.response) if response is None else None
    most = 10**9 if whole else ASKED_CHARS
    rounds = kept_rounds(specimen, labeling, marked_item, lambda asked: room.text(asked, most))
    documents = tuple(
        _document(number, document, sentences, room)
        for number, (document, sentences) in enumerate(zip(interaction.documents, marked_item.documents, strict=True))
    )
    reference = room.text(interaction.reference_answer)
    further = {"segments": interaction.segments, "metadata": interaction.metadata, "history": interaction.history or ()}
    marks: list[Mark] = [sentence.supported for sentence in marked_item.response or ()]
    marks += [sentence.relevant for sentences in marked_item.documents for sentence in sentences or ()]
    return KeptItem(
        pipeline=interaction.pipeline,
        interaction_id=interaction.interaction_id,
        occurred_at=interaction.occurred_at or specimen.labeled_at,
        labeled_at=specimen.labeled_at,
        texts_hidden=None if sees_texts else HIDDEN,
        labeler=labeling.labeler,
        labelers=tuple(labeling.labeler for labeling in specimen.labelings),
        marked=any(mark is not None for mark in marks),
        uncertain=any(isinstance(mark, float) for mark in marks),
        scores=tuple(score for row in score_rows(_scores(specimen, sees_texts)) for score in row.scores),
        question=question,
        response=response,
        response_text=response_text,
        reference=reference,
        metadata=room.text(to_json(further, indent=2).decode()) if any(further.values()) else None,
        documents=documents,
        rounds=rounds,
        steps_left_out=interaction.steps_left_out or 0,
        cut=room.cut,
    )


class ScoreRow(NamedTuple):
    """The scores of a metric by each labeler."""

    metric: str
    scores: Sequence[KeptScore]
    difference: float | None
    """Difference of the highest and the lowest score; None with fewer than two scores."""


def score_rows(scores: Iterable[KeptScore]) -> Sequence[ScoreRow]:
    """Return the scores of each metric; those on which labelers disagree most come first."""
    by_metric: dict[str, list[KeptScore]] = {}
    for score in scores:
        by_metric.setdefault(score.metric, []).append(score)
    rows = []
    for metric, metric_scores in by_metric.items():
        values = [score.score for score in metric_scores if score.score is not None]
        rows.append(ScoreRow(metric, metric_scores, max(values) - min(values) if len(values) > 1 else None))
    return sorted(rows, key=lambda row: -(row.difference or 0.0))


def _scores(specimen: Specimen, sees_texts: bool) -> Iterator[KeptScore]:
    for labeling in specimen.labelings:
        formulas = filled_formulas(labeling)
        for metric in {**labeling.scores, **labeling.absent}:
            yield KeptScore(
                metric=metric,
                labeler=labeling.labeler,
                score=labeling.scores.get(metric),
                note=printable(formulas.get(metric, labeling.absent.get(metric, "")))[:NOTE_CHARS],
                reason=_reason(labeling.reasons.get(metric), sees_texts),
            )


def support_of(sentence: ResponseSentence) -> Support:
    """Return whether the documents support a sentence.

    A sentence is partly supported if some document sentence supports it and the labeler says not fully. A probability
    of at least 0.5 counts as supported.
    """
    if sentence.supported is None:
        return "unknown"
    if sentence.supported >= 0.5:
        return "supported"
    return "partly" if any(key[:1].isdigit() for key in sentence.by) else "not supported"


def _response(sentences: Sequence[ResponseSentence], room: _Room) -> Iterator[KeptSentence]:
    for sentence, text in room.sentences(sentences):
        spans = sentence.unsupported if text is not None else ()
        yield KeptSentence(
            key=sentence.key,
            untrusted_text=text,
            support=support_of(sentence),
            probability=_probability(sentence.supported),
            by=sentence.by,
            unsupported=tuple((_place(sentence.text, start), _place(sentence.text, end)) for start, end in spans),
            reason=_reason(sentence.reason, room.sees_texts),
        )


def _document(
    number: int, document: RetrievedDocument, sentences: Sequence[DocumentSentence] | None, room: _Room
) -> KeptDocument:
    title = document.metadata.get("title")
    name = document.id or (title if isinstance(title, str) else "")
    shown = (
        None
        if sentences is None
        else tuple(
            KeptDocumentSentence(
                key=sentence.key,
                untrusted_text=text,
                relevant=None if sentence.relevant is None else sentence.relevant >= 0.5,
                utilized=None if sentence.utilized is None else sentence.utilized >= 0.5,
                probabilities=(_probability(sentence.relevant), _probability(sentence.utilized)),
                supports=sentence.supports,
            )
            for sentence, text in room.sentences(sentences)
        )
    )
    text = room.text(document.text) if sentences is None else None
    return KeptDocument(
        number=number,
        name=ForeignText.of(name[:300]) if name and room.sees_texts else None,
        score=document.score,
        sentences=shown,
        text=text,
        cut=text.cut if text is not None else shown is not None and len(shown) < len(sentences or ()),
    )


def _reason(text: str | None, sees_texts: bool) -> ForeignText | None:
    return ForeignText.of(text) if text and sees_texts else None


def _place(text: str, place: int) -> int:
    return len(printable(text[:place], keep="\n\t"))


def _probability(mark: Mark) -> float | None:
    return mark if isinstance(mark, float) else None
