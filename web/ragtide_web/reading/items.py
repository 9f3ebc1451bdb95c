"""The item's screen: from a specimen to the marks, words and numbers that the template shows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from pydantic_core import to_json

from ragtide_consumers.specimens.formulas import filled_formulas
from ragtide_consumers.specimens.marks import (
    DocumentSentence,
    Mark,
    ResponseSentence,
    labeling_to_show,
    marked,
)
from ragtide_schemas import RetrievedDocument, Specimen

SHOWN_CHARS: Final = 40_000
"""Most characters of all texts of an item on its page; a link shows all of them."""
SHOWN_SENTENCES: Final = 2_000
"""Most sentences on the page. A link shows all of them, too."""

Support = Literal["supported", "partly", "not supported", "unknown"]


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text, or its beginning."""

    text: str
    cut: bool
    """Whether the text is longer."""


@dataclass(frozen=True, slots=True)
class ShownResponseSentence:
    """A sentence of the response."""

    key: str
    text: str | None
    """The sentence; None for a viewer who sees no texts."""
    support: Support
    probability: float | None
    """Probability that the documents support it; None if the labeler gave a label."""
    by: tuple[str, ...]
    """Keys of the document sentences that support it, or reasons such as `general`."""
    parts: tuple[tuple[str, bool], ...] = ()
    """The text in parts, each with whether it is marked as unsupported; empty without such marks."""
    reason: str | None = None
    """The judge's reason; None without one, or for a viewer who sees no texts."""


@dataclass(frozen=True, slots=True)
class ShownDocumentSentence:
    """A sentence of a document."""

    key: str
    text: str | None
    """The sentence; None for a viewer who sees no texts."""
    relevant: bool | None
    """Whether it is relevant to the question; None if unknown."""
    utilized: bool | None
    """Whether the response used it; None if unknown."""
    probabilities: tuple[float | None, float | None]
    """Probabilities that it is relevant and used; None of a labeler that gave labels."""
    supports: tuple[str, ...]
    """Keys of the response sentences that it supports."""


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document in the order of retrieval."""

    number: int
    """Place in the order of retrieval, from 0, as in the keys of its sentences."""
    name: str
    """Id or title; empty without one, or for a viewer who sees no texts."""
    score: float | None
    """The retriever's score."""
    sentences: tuple[ShownDocumentSentence, ...] | None
    """The sentences with marks; None if only the text is kept."""
    text: ShownText | None
    """The text, if its sentences are not kept and the viewer sees texts."""
    cut: bool
    """Whether the document is longer."""


@dataclass(frozen=True, slots=True)
class ShownScore:
    """The score of a metric by one labeler."""

    labeler: str
    score: float | None
    """The score; None if it is absent."""
    note: str
    """The formula with its numbers, or the reason for which the score is absent."""
    reason: str | None = None
    """The judge's reason in its own words; None without one, or for a viewer who sees no texts."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The scores of a metric by each labeler."""

    metric: str
    scores: tuple[ShownScore, ...]
    difference: float | None
    """Difference of the highest and the lowest score; None with fewer than two scores."""


@dataclass(frozen=True, slots=True)
class ItemScreen:
    """The content of the page of an item."""

    question: ShownText | None
    """The question; None for a viewer who sees no texts, as every text here."""
    response: tuple[ShownResponseSentence, ...] | None
    """The sentences of the response; None if only its text is kept."""
    response_text: ShownText | None
    """The response, if its sentences are not kept."""
    reference: ShownText | None
    metadata: ShownText | None
    """Segments, metadata and earlier turns as JSON."""
    documents: tuple[ShownDocument, ...]
    labeler: str
    """Labeler whose marks are shown."""
    marked: bool
    """Whether the labeler marked sentences."""
    uncertain: bool
    """Whether the marks are probabilities."""
    labelers: tuple[str, ...]
    """Labelers of the item."""
    rows: tuple[ScoreRow, ...]
    """Scores; those on which labelers disagree most come first."""
    cut: bool
    """Whether some text is not shown whole."""


class _Room:
    """The characters and sentences that the page still shows."""

    def __init__(self, *, sees_texts: bool, whole: bool, chars: int) -> None:
        self.sees_texts = sees_texts
        self.chars = 10**9 if whole else chars
        self.sentences = 10**9 if whole else SHOWN_SENTENCES
        self.cut = False

    def text(self, text: str | None) -> ShownText | None:
        if text is None or not self.sees_texts:
            return None
        found = ShownText(text[: self.chars], len(text) > self.chars)
        self.chars -= len(found.text)
        self.cut = self.cut or found.cut
        return found

    def sentence(self, text: str) -> tuple[bool, str | None]:
        """Return whether a sentence is shown, and its text, which may be only the beginning."""
        if self.sentences <= 0 or self.chars <= 0:
            self.cut = True
            return False, None
        self.sentences -= 1
        shown = self.text(text)
        return True, None if shown is None else shown.text + (" …" if shown.cut else "")


def item_view(
    specimen: Specimen,
    labeler: str | None,
    *,
    sees_texts: bool,
    whole: bool = False,
    chars: int = SHOWN_CHARS,
    marks_support: bool = True,
) -> ItemScreen:
    """Return the content of the page of an item.

    Args:
        specimen: the item.
        labeler: labeler whose marks are shown; None for the last one that marks sentences, such as the judge.
        sees_texts: whether the viewer may see texts; else keys and marks stand without them.
        whole: whether long texts are shown whole.
        chars: most characters of all texts, unless they are shown whole.
        marks_support: whether the sentences of the response are marked as supported or not.
    """
    labeling = labeling_to_show(specimen, labeler) or labeling_to_show(specimen) or specimen.labelings[0]
    found = marked(specimen, labeling)
    interaction, room = specimen.interaction, _Room(sees_texts=sees_texts, whole=whole, chars=chars)
    question = room.text(interaction.question)
    response = _response(found.response, room) if found.response is not None and marks_support else None
    response_text = room.text(interaction.response) if response is None else None
    documents = tuple(
        _document(number, document, sentences, room)
        for number, (document, sentences) in enumerate(zip(interaction.documents, found.documents, strict=True))
    )
    further = {"segments": interaction.segments, "metadata": interaction.metadata, "history": interaction.history or ()}
    marks: list[Mark] = [each.supported for each in found.response or ()]
    marks += [each.relevant for sentences in found.documents for each in sentences or ()]
    return ItemScreen(
        question=question,
        response=response,
        response_text=response_text,
        reference=room.text(interaction.reference_answer),
        metadata=room.text(to_json(further, indent=2).decode()) if any(further.values()) else None,
        documents=documents,
        labeler=labeling.labeler,
        marked=any(mark is not None for mark in marks),
        uncertain=any(isinstance(mark, float) for mark in marks),
        labelers=tuple(each.labeler for each in specimen.labelings),
        rows=score_rows(specimen, sees_texts=sees_texts),
        cut=room.cut,
    )


def score_rows(specimen: Specimen, *, sees_texts: bool = False) -> tuple[ScoreRow, ...]:
    """Return the scores of each metric; those on which labelers disagree most come first.

    Args:
        specimen: the item.
        sees_texts: whether the viewer may see texts; a judge's reason may quote them.
    """
    formulas = [filled_formulas(labeling) for labeling in specimen.labelings]
    metrics = dict.fromkeys(name for labeling in specimen.labelings for name in (*labeling.scores, *labeling.absent))
    rows = []
    for metric in metrics:
        scores = tuple(
            ShownScore(
                labeling.labeler,
                labeling.scores.get(metric),
                filled.get(metric, labeling.absent.get(metric, "")),
                labeling.reasons.get(metric) if sees_texts else None,
            )
            for labeling, filled in zip(specimen.labelings, formulas, strict=True)
            if metric in labeling.scores or metric in labeling.absent
        )
        values = [each.score for each in scores if each.score is not None]
        rows.append(ScoreRow(metric, scores, max(values) - min(values) if len(values) > 1 else None))
    return tuple(sorted(rows, key=lambda row: -(row.difference or 0.0)))


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


def _response(sentences: Sequence[ResponseSentence], room: _Room) -> tuple[ShownResponseSentence, ...]:
    shown = []
    for sentence in sentences:
        is_shown, text = room.sentence(sentence.text)
        if not is_shown:
            break
        parts = _parts(text, sentence.unsupported) if text is not None and sentence.unsupported else ()
        shown.append(
            ShownResponseSentence(
                sentence.key,
                text,
                support_of(sentence),
                _probability(sentence.supported),
                sentence.by,
                parts,
                sentence.reason or None if room.sees_texts else None,
            )
        )
    return tuple(shown)


def _parts(text: str, unsupported: Sequence[tuple[int, int]]) -> tuple[tuple[str, bool], ...]:
    """Return a text in parts, each with whether it is unsupported.

    >>> _parts("In 1890.", [(3, 7)])
    (('In ', False), ('1890', True), ('.', False))
    """
    edges = [0, *(edge for span in unsupported for edge in span), len(text)]
    return tuple(
        (text[start:end], number % 2 == 1) for number, (start, end) in enumerate(pairwise(edges)) if text[start:end]
    )


def _document(
    number: int, document: RetrievedDocument, sentences: Sequence[DocumentSentence] | None, room: _Room
) -> ShownDocument:
    title = document.metadata.get("title")
    name = document.id or (title if isinstance(title, str) else "")
    name = name[:300] if room.sees_texts else ""
    if sentences is None:
        text = room.text(document.text)
        return ShownDocument(number, name, document.score, None, text, text is not None and text.cut)
    shown = []
    for sentence in sentences:
        is_shown, content = room.sentence(sentence.text)
        if not is_shown:
            break
        shown.append(
            ShownDocumentSentence(
                sentence.key,
                content,
                _is(sentence.relevant),
                _is(sentence.utilized),
                (_probability(sentence.relevant), _probability(sentence.utilized)),
                sentence.supports,
            )
        )
    return ShownDocument(number, name, document.score, tuple(shown), None, len(shown) < len(sentences))


def _is(mark: Mark) -> bool | None:
    return None if mark is None else mark >= 0.5


def _probability(mark: Mark) -> float | None:
    return mark if isinstance(mark, float) else None
