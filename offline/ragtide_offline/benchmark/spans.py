"""Compares the unsupported parts of responses that a labeler finds with those that the data mark, by characters.

Precision is the share of the labeler's characters that the data mark too, recall the share of the data's characters
that the labeler finds. Both are of all characters of a subset, and F1 is their harmonic mean. A sentence that a labeler
finds unsupported counts as a whole, if the labeler marks no parts of sentences.

Source: Niu et al., "RAGTruth", arXiv:2401.00396, which compares detected spans with people's by characters.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragtide_consumers.metrics.trace import supported_sentences
from ragtide_consumers.text.keys import normalize_key, response_keys
from ragtide_consumers.text.sentences import cut, place_sentences
from ragtide_schemas import Labels, RagInteraction, SentenceLabels, SentenceProbabilities

from .figures import Figure, Floats, SubsetScores, figure_of, question_digest

LIKELY: Final = 0.5
"""Sentences with a lower probability of support count as unsupported."""

COMPLETE: Final = "Complete"
"""Experts' word in ExpertQA for a claim that the passages support completely."""

Span = tuple[int, int]
"""Place of its first character, and place after its last character."""

ComparedResponse = tuple[tuple[int, int, int, int], str]
"""Characters that both marked, the labeler, the data, and all of the sentences; and digest of the question."""


@dataclass(frozen=True, slots=True)
class TrueSpans:
    """The unsupported parts of a response by the data."""

    text: str
    """The response, or its sentences in one text if they are not in the response."""
    sentences: Sequence[str]
    places: Sequence[Span]
    """Place of each sentence in the text."""
    spans: Sequence[Span]


@dataclass(frozen=True, slots=True)
class SpanFigures:
    """F1, precision and recall of the unsupported parts of responses."""

    n: int
    """Number of responses whose spans the data have, and whose sentences the labeler decided about."""
    n_marked: int
    """Number of those with a true span."""
    figures: Sequence[Figure]


def spans_of_people(row: Mapping[str, Any]) -> list[Span]:
    """Return the spans that people marked in a response of RAGTruth.

    Raises:
        KeyError: a span has no start or end.
        ValueError: a span is not within the response.
    """
    spans = [(label["start"], label["end"]) for label in row["labels"]]
    for start, end in spans:
        if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(row["response"])):
            raise ValueError("labels")
    return spans


def true_spans(interaction: RagInteraction, fields: Mapping[str, Any]) -> TrueSpans | None:
    """Return the unsupported parts of a response; None if the row is of data without them, or was not judged whole.

    RAGTruth has spans, RAGBench the keys of unsupported sentences. The claims of ExpertQA are parts of the response; a
    row counts if experts judged each of them.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: the parts have another form than in these data.
    """
    if {"source_id", "labels"} <= fields.keys():
        sentences = cut(interaction).response
        text, places = place_sentences(interaction.response, sentences)
        return TrueSpans(text, sentences, places, spans_of_people(fields))
    if "unsupported_response_sentence_keys" in fields and interaction.response_sentences is not None:
        keys = [str(key) for key, _ in fields["response_sentences"]]
        unsupported = {str(key) for key in fields["unsupported_response_sentence_keys"] or ()}
        if not unsupported <= {*keys}:
            raise ValueError("unsupported_response_sentence_keys")
        text, places = place_sentences(interaction.response, interaction.response_sentences)
        spans = [place for key, place in zip(keys, places, strict=True) if key in unsupported]
        return TrueSpans(text, interaction.response_sentences, places, spans)
    if "claims" in fields and "contexts" in fields:
        claims = [str(claim["claim"]) for claim in fields["claims"]]
        text, parts = place_sentences(interaction.response, claims)
        if not claims or not all(claim["support"] for claim in fields["claims"]) or text != interaction.response:
            return None
        spans = [part for claim, part in zip(fields["claims"], parts, strict=True) if claim["support"] != COMPLETE]
        sentences = cut(interaction).response
        return TrueSpans(text, sentences, place_sentences(text, sentences)[1], spans)
    return None


def found_spans(truth: TrueSpans, labelings: Iterable[Labels]) -> list[Span] | None:
    """Return the parts of a response that a labeler found unsupported; None if it decided about no sentence.

    Args:
        truth: the response and its sentences.
        labelings: labels of the labeler.
    """
    for labels in labelings:
        if isinstance(labels, SentenceProbabilities) and len(labels.supported) == len(truth.places):
            return [
                place for place, probability in zip(truth.places, labels.supported, strict=True) if probability < LIKELY
            ]
        if isinstance(labels, SentenceLabels):
            return _marked_spans(truth, labels)
    return None


def _marked_spans(truth: TrueSpans, labels: SentenceLabels) -> list[Span] | None:
    keys = response_keys(len(truth.places))
    places = dict(zip(keys, truth.places, strict=True))
    verdicts = supported_sentences(labels)
    if not {*keys} <= verdicts.keys():
        return None
    if not labels.unsupported_spans:
        return [place for key, place in places.items() if not verdicts[key]]
    spans = []
    for span in labels.unsupported_spans:
        start, end = places.get(normalize_key(span.sentence), (0, 0))
        spans.append((min(start + span.start, end), min(start + span.end, end)))
    return spans


class ComparedSpans:
    """The characters that a labeler and the data marked so far."""

    def __init__(self) -> None:
        self._subsets: defaultdict[str, list[ComparedResponse]] = defaultdict(list)
        self.undecided = 0
        """Number of responses whose sentences the labeler did not decide about."""
        self.unusable = 0
        """Number of responses whose true spans have another form than in these data."""

    def take(
        self, subset: str, interaction: RagInteraction, fields: Mapping[str, Any], labelings: Iterable[Labels]
    ) -> None:
        """Take the labels of a response; a row without true spans is left out.

        Args:
            subset: name of the row's subset.
            labelings: labels that the labeler gave.
        """
        try:
            truth = true_spans(interaction, fields)
        except (LookupError, TypeError, ValueError, AttributeError):
            self.unusable += 1
            return
        if truth is None or not truth.places:
            return
        spans = found_spans(truth, labelings)
        if spans is None:
            self.undecided += 1
            return
        theirs, ours = _mask(truth.spans, len(truth.text)), _mask(spans, len(truth.text))
        # White space around sentences belongs to no sentence, so no labeler could mark it.
        inside = _mask(truth.places, len(truth.text))
        theirs &= inside
        counts = int((theirs & ours).sum()), int(ours.sum()), int(theirs.sum()), int(inside.sum())
        self._subsets[subset].append((counts, question_digest(interaction.question)))

    def figures(self, *, confidence: float, seed: int) -> SpanFigures | None:
        """Return F1, precision and recall; None if no subset has enough responses and a true span.

        Args:
            confidence: level of the intervals.
            seed: of the bootstrap, which draws questions within subsets.
        """
        subsets = {}
        for name, responses in self._subsets.items():
            counts = np.array([counts for counts, _ in responses], np.float64)
            subsets[name] = SubsetScores(counts, counts, np.array([question for _, question in responses]), {})
        figures = [figure_of(name, statistic, subsets, confidence, seed) for name, statistic in STATISTICS.items()]
        if figures[0].mean.value is None:
            return None
        marked = [theirs > 0 for responses in self._subsets.values() for (_, _, theirs, _), _ in responses]
        return SpanFigures(len(marked), sum(marked), figures)


def _mask(spans: Iterable[Span], length: int) -> NDArray[np.bool_]:
    mask = np.zeros(length, np.bool_)
    for start, end in spans:
        mask[start:end] = True
    return mask


def _share(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _precision(counts: Floats, _: Floats) -> float:
    both, ours, theirs, _all = counts.sum(axis=0)
    return _share(both, ours) if theirs else float("nan")


def _recall(counts: Floats, _: Floats) -> float:
    both, _ours, theirs, _all = counts.sum(axis=0)
    return _share(both, theirs)


def _f1(counts: Floats, _: Floats) -> float:
    both, ours, theirs, _all = counts.sum(axis=0)
    return _share(2 * both, ours + theirs) if theirs else float("nan")


def _f1_of_all(counts: Floats, _: Floats) -> float:
    _both, _ours, theirs, characters = counts.sum(axis=0)
    return _share(2 * theirs, characters + theirs) if theirs else float("nan")


STATISTICS: Final = {
    "F1": _f1,
    "F1 of marking everything": _f1_of_all,
    "precision": _precision,
    "recall": _recall,
}
"""Figures of spans. A subset without a true span has none, because nothing can be found in it. A subset in which the
labeler marks nothing has no precision."""
