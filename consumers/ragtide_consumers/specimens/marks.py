"""The marks of a specimen's sentences: relevant, utilized, supported, as one labeler labeled them. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragtide_schemas import Labels, SentenceLabels, SentenceProbabilities, Specimen, SpecimenLabeling
from ragtide_schemas.specimen import SENTENCE_REASON

from ..metrics.trace import supported_sentences
from ..text.keys import letters

Mark = bool | float | None
"""Whether a sentence has a label, or the probability of it; None if the labeler gave none."""


@dataclass(frozen=True, slots=True)
class DocumentSentence:
    """A sentence of a document with its marks."""

    key: str
    """Key of the sentence, such as `0a`."""
    text: str
    relevant: Mark
    """Whether it is relevant to the question."""
    utilized: Mark
    """Whether the response used it."""
    supports: tuple[str, ...]
    """Keys of the response sentences that it supports."""


@dataclass(frozen=True, slots=True)
class ResponseSentence:
    """A sentence of the response with its marks."""

    key: str
    """Key of the sentence, such as `a`."""
    text: str
    supported: Mark
    """Whether the documents support it fully."""
    by: tuple[str, ...]
    """Keys of the document sentences that support it, or reasons such as `general`."""
    unsupported: tuple[tuple[int, int], ...] = ()
    """Start and end of each part that the documents do not support, if the labeler marks parts."""
    reason: str = ""
    """The judge's reason in its own words; empty without one."""


@dataclass(frozen=True, slots=True)
class MarkedSpecimen:
    """The sentences of a specimen with the marks of one labeler."""

    documents: tuple[tuple[DocumentSentence, ...] | None, ...]
    """The sentences of each document; None if only its text is kept."""
    response: tuple[ResponseSentence, ...] | None
    """The sentences of the response; None if only its text is kept."""


def labeling_to_show(specimen: Specimen, labeler: str | None = None) -> SpecimenLabeling | None:
    """Return the labeling whose marks are shown: of a labeler by name, else the last one that labels sentences."""
    if labeler is not None:
        return next((labeling for labeling in specimen.labelings if labeling.labeler == labeler), None)
    marking = [labeling for labeling in specimen.labelings if any(map(_marks, labeling.labels))]
    return marking[-1] if marking else specimen.labelings[0]


def marked(specimen: Specimen, labeling: SpecimenLabeling) -> MarkedSpecimen:
    """Return the sentences of a specimen with the marks of one of its labelings."""
    labels = next(filter(_marks, labeling.labels), None)
    if isinstance(labels, SentenceLabels):
        return _mark_by_key(specimen, labels, labeling)
    return _mark_by_place(specimen, labels if isinstance(labels, SentenceProbabilities) else None)


def _marks(labels: Labels) -> bool:
    return isinstance(labels, SentenceLabels | SentenceProbabilities)


def _mark_by_key(specimen: Specimen, labels: SentenceLabels, labeling: SpecimenLabeling) -> MarkedSpecimen:
    verdicts = supported_sentences(labels)

    def among(key: str, keys: Sequence[str] | None) -> Mark:
        return None if keys is None else key in keys

    def document(key: str, text: str) -> DocumentSentence:
        supports = tuple(sentence for sentence, keys in labels.support.items() if key in keys)
        return DocumentSentence(key, text, among(key, labels.relevant), among(key, labels.utilized), supports)

    spans: dict[str, list[tuple[int, int]]] = {}
    for span in labels.unsupported_spans:
        spans.setdefault(span.sentence, []).append((span.start, span.end))

    def unsupported(key: str, text: str) -> tuple[tuple[int, int], ...]:
        return _merge_spans(spans[key], len(text)) if key in spans else ()

    def sentence(key: str, text: str) -> ResponseSentence:
        reason = labeling.reasons.get(SENTENCE_REASON + key, "")
        by = labels.support.get(key, ())
        return ResponseSentence(key, text, verdicts.get(key), by, unsupported(key, text), reason)

    response = specimen.interaction.response_sentences
    return MarkedSpecimen(
        tuple(
            None
            if kept.sentences is None
            else tuple(document(f"{number}{letters(place)}", text) for place, text in enumerate(kept.sentences))
            for number, kept in enumerate(specimen.interaction.documents)
        ),
        None if response is None else tuple(sentence(letters(place), text) for place, text in enumerate(response)),
    )


def _merge_spans(spans: Sequence[tuple[int, int]], length: int) -> tuple[tuple[int, int], ...]:
    """Return spans in order, within a text and without overlap, because any labeler may give them.

    >>> _merge_spans([(6, 9), (1, 3), (2, 4), (5, 5)], 8)
    ((1, 4), (6, 8))
    """
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        begin, stop = start, min(end, length)
        if merged and begin <= merged[-1][1]:
            begin, last = merged.pop()
            stop = max(stop, last)
        if begin < stop:
            merged.append((begin, stop))
    return tuple(merged)


def _mark_by_place(specimen: Specimen, labels: SentenceProbabilities | None) -> MarkedSpecimen:
    documents = specimen.interaction.documents
    total = sum(len(document.sentences or ()) for document in documents)
    whole = labels is not None and total == len(labels.relevant)
    place = 0
    marked_documents: list[tuple[DocumentSentence, ...] | None] = []
    for number, document in enumerate(documents):
        if document.sentences is None:
            marked_documents.append(None)
            continue
        sentences = []
        for index, text in enumerate(document.sentences):
            relevant = utilized = None
            if labels is not None and whole:
                relevant, utilized = labels.relevant[place], labels.utilized[place]
            place += 1
            sentences.append(DocumentSentence(f"{number}{letters(index)}", text, relevant, utilized, ()))
        marked_documents.append(tuple(sentences))
    response = specimen.interaction.response_sentences
    if response is None:
        return MarkedSpecimen(tuple(marked_documents), None)
    known = labels is not None and len(labels.supported) == len(response)
    supported: Sequence[Mark] = labels.supported if labels is not None and known else [None] * len(response)
    return MarkedSpecimen(
        tuple(marked_documents),
        tuple(
            ResponseSentence(letters(index), text, mark, ())
            for index, (text, mark) in enumerate(zip(response, supported, strict=True))
        ),
    )
