"""Makes a specimen of a labeled interaction: cuts its sentences again, redacts, and keeps known keys of labels. No I/O.

The sentences are the ones that were labeled, because the same rules cut the same texts.
"""

from collections.abc import Sequence

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
from ..redaction.redaction import Redaction, redacted_with_sentences
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
    redacted = redacted_with_sentences(redaction, interaction, sentences)
    kept = _same_sentences(sentences, redacted)
    labelings = [_labeling(event, labeling.labels, sentences, redaction, kept)]
    if event.judged is not None and labeling.judged is not None:
        labelings.append(_labeling(event.judged, labeling.judged.labeling.labels, sentences, redaction, kept))
    probability = None if sample is None else max(interaction.sampling_probability * sample, PROBABILITY_MIN)
    return Specimen(
        interaction=redacted,
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


def _labeling(
    scored: MetricEvent | JudgedScores,
    labels: Sequence[Labels],
    sentences: CutInteraction,
    redaction: Redaction,
    kept: frozenset[str],
) -> SpecimenLabeling:
    return SpecimenLabeling(
        labeler=scored.labeler,
        labeler_version=scored.labeler_version,
        profile=scored.profile,
        prompts=scored.prompts,
        labels=tuple(_redacted(one, sentences, redaction, kept) for one in labels if _are_of(one, sentences)),
        scores=scored.scores,
        absent=scored.absent,
    )


def _are_of(labels: Labels, sentences: CutInteraction) -> bool:
    """Return whether labels are of these sentences; a labeler may have cut the interaction in another way."""
    if not isinstance(labels, SentenceLabels):
        return True
    documents, response = labels.document_keys, labels.response_keys
    return documents in (None, sentences.document_keys) and response in (None, sentences.response_keys)


def _same_sentences(sentences: CutInteraction, redacted: RagInteraction) -> frozenset[str]:
    """Return the keys of the response sentences that redaction left as they were."""
    after = redacted.response_sentences or ()
    return frozenset(
        key
        for key, before, now in zip(sentences.response_keys, sentences.response, after, strict=False)
        if before == now
    )


def _redacted(labels: Labels, sentences: CutInteraction, redaction: Redaction, kept: frozenset[str]) -> Labels:
    """Return labels with redacted claims, and without keys that name no sentence: a judge may answer with any text."""
    if isinstance(labels, ClaimLabels):
        claims = {"response_claims": labels.response_claims, "reference_claims": labels.reference_claims}
        return ClaimLabels.model_validate({**labels.model_dump(), **redaction.texts(claims)})
    return _with_known_keys(labels, sentences, kept) if isinstance(labels, SentenceLabels) else labels


def _with_known_keys(labels: SentenceLabels, sentences: CutInteraction, kept: frozenset[str]) -> SentenceLabels:
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
        # A span is a place in its sentence, which redaction may move.
        unsupported_spans=tuple(one for one in labels.unsupported_spans if one.sentence in kept),
        n_document_sentences=len(documents),
        document_keys=sentences.document_keys,
        response_keys=sentences.response_keys,
    )
