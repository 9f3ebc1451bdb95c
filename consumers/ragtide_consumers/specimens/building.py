"""Makes a specimen of a labeled interaction: cuts its sentences again, redacts, and keeps known keys of labels. No I/O.

The sentences are the ones that were labeled, because the same rules cut the same texts. The texts are redacted as a
whole and sentence by sentence. If the two differ, a place that two sentences share was taken out. Then the sentences
could show a part of it, so they are left out.
"""

from collections.abc import Sequence
from typing import Any

from ragtide_runtime.recordings import EntryKind
from ragtide_schemas import (
    ClaimLabels,
    JudgedScores,
    Labels,
    MetricEvent,
    RagInteraction,
    SentenceLabels,
    Specimen,
    SpecimenLabeling,
)
from ragtide_schemas.limits import PROBABILITY_MIN

from ..labelers.protocol import Labeling
from ..metrics.trace import SPECIAL_KEYS
from ..redaction.redaction import Redaction
from ..text.keys import document_keys, normalize_key, response_keys
from ..text.sentences import CutInteraction, cut


def specimen(
    interaction: RagInteraction,
    labeling: Labeling,
    event: MetricEvent,
    redaction: Redaction,
    *,
    lists: Sequence[str],
    sample: float | None,
    trace_id: str | None,
) -> Specimen:
    """Return the specimen of an interaction.

    Args:
        interaction: as it was labeled.
        labeling: the result of its labeler.
        event: its metric event.
        redaction: removes parts of the texts.
        lists: names of the lists for which it is proposed.
        sample: share of the interactions that is sampled; None if it is not in the sample.
        trace_id: 32 hexadecimal digits, if it has a trace.

    Raises:
        RedactionError, NotRedactedError, RedactionAbortedError: the texts could not be redacted.
        pydantic.ValidationError: the redacted labels break the contract.
    """
    sentences = cut(interaction)
    whole = _with_sentences(interaction, sentences)
    redacted = redaction.model(EntryKind.INTERACTIONS, event.entry_id or interaction.interaction_id, whole)
    if not isinstance(redacted, RagInteraction):  # never: the redaction of a model returns its type
        raise TypeError(f"redaction made {type(redacted).__name__} of an interaction")
    labelings = [_labeling(event, labeling.labels, sentences, redaction)]
    if event.judged is not None and labeling.judged is not None:
        labelings.append(_labeling(event.judged, labeling.judged.labeling.labels, sentences, redaction))
    probability = None if sample is None else max(interaction.sampling_probability * sample, PROBABILITY_MIN)
    return Specimen(
        interaction=_without_shared_places(whole, redacted),
        labelings=tuple(labelings),
        lists=tuple(lists),
        sample_probability=probability,
        labeled_at=event.labeled_at,
        splitter=sentences.splitter,
        redacted_by=redaction.names,
        prompt_tokens=event.prompt_tokens,
        completion_tokens=event.completion_tokens,
        cost_usd=event.cost_usd,
        latency_s=event.latency_s,
        counters=event.counters,
        trace_id=trace_id,
    )


def characters(interaction: RagInteraction) -> int:
    """Return the number of characters of the texts of an interaction."""
    documents = sum([len(document.text) for document in interaction.documents])
    return len(interaction.question) + len(interaction.response) + documents


def _with_sentences(interaction: RagInteraction, sentences: CutInteraction) -> RagInteraction:
    documents = tuple(
        document.model_copy(update={"sentences": tuple(texts)})
        for document, texts in zip(interaction.documents, sentences.documents, strict=True)
    )
    return interaction.model_copy(update={"documents": documents, "response_sentences": tuple(sentences.response)})


def _without_shared_places(before: RagInteraction, after: RagInteraction) -> RagInteraction:
    """Return a redacted interaction without the sentences of a text in which they share a redacted place."""
    documents = tuple(
        new.model_copy(update={"sentences": None}) if _share(old.text, old.sentences, new.text, new.sentences) else new
        for old, new in zip(before.documents, after.documents, strict=True)
    )
    changed: dict[str, Any] = {"documents": documents}
    if _share(before.response, before.response_sentences, after.response, after.response_sentences):
        changed["response_sentences"] = None
    return after.model_copy(update=changed)


def _share(text: str, sentences: Sequence[str] | None, redacted: str, parts: Sequence[str] | None) -> bool:
    """Return whether a text and its sentences differ after redaction; a producer's own sentences may differ before."""
    if text == redacted and sentences == parts:  # most texts
        return False
    same_before = _letters([text]) == _letters(sentences or ())
    return same_before and _letters([redacted]) != _letters(parts or ())


def _letters(texts: Sequence[str]) -> str:
    return "".join("".join(text.split()) for text in texts)


def _labeling(
    scored: MetricEvent | JudgedScores, labels: Sequence[Labels], sentences: CutInteraction, redaction: Redaction
) -> SpecimenLabeling:
    return SpecimenLabeling(
        labeler=scored.labeler,
        labeler_version=scored.labeler_version,
        profile=scored.profile,
        prompts=scored.prompts,
        labels=tuple(_redacted(one, sentences, redaction) for one in labels),
        scores=scored.scores,
        absent=scored.absent,
    )


def _redacted(labels: Labels, sentences: CutInteraction, redaction: Redaction) -> Labels:
    """Return labels with redacted claims, and without keys that name no sentence: a judge may answer with any text."""
    if isinstance(labels, ClaimLabels):
        claims = {"response_claims": labels.response_claims, "reference_claims": labels.reference_claims}
        return ClaimLabels.model_validate({**labels.model_dump(), **redaction.texts(claims)})
    return _with_known_keys(labels, sentences) if isinstance(labels, SentenceLabels) else labels


def _with_known_keys(labels: SentenceLabels, sentences: CutInteraction) -> SentenceLabels:
    documents = frozenset(document_keys(map(len, sentences.documents)))
    responses = frozenset(response_keys(len(sentences.response)))

    def known(keys: Sequence[str] | None, among: frozenset[str]) -> tuple[str, ...] | None:
        return None if keys is None else tuple(key for key in map(normalize_key, keys) if key in among)

    support = {normalize_key(key): known(keys, documents | SPECIAL_KEYS) for key, keys in labels.support.items()}
    fully = {normalize_key(key): value for key, value in labels.fully_supported.items()}
    return SentenceLabels(
        relevant=known(labels.relevant, documents),
        utilized=known(labels.utilized, documents),
        support={key: keys or () for key, keys in support.items() if key in responses},
        fully_supported={key: value for key, value in fully.items() if key in responses},
        unsupported=known(labels.unsupported, responses),
        n_document_sentences=len(documents),
        document_keys=sentences.document_keys,
        response_keys=sentences.response_keys,
    )
