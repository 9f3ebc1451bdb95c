"""Keeps specimens: chooses interactions, makes their specimens, and gives the arguments of the script.

The sentences of a specimen are the ones that were labeled, because the same rules cut the same texts again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import structlog

from ragtide_runtime.redis.keys import SPECIMEN_SAMPLE, Streams, interaction_digest
from ragtide_runtime.redis.scripts import Argument
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.retention import SpecimenSettings
from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_schemas import (
    ClaimLabels,
    EvaluatorScores,
    JudgedScores,
    Labels,
    MetricEvent,
    RagInteraction,
    SentenceLabels,
    Specimen,
    SpecimenLabeling,
)
from ragtide_schemas.limits import PROBABILITY_MIN
from ragtide_schemas.specimen import REASONS_MAX, SENTENCE_REASON

from ..labelers.protocol import Labeling
from ..metrics.trace import SPECIAL_KEYS
from ..redaction.process import NotRedactedError, RedactionAbortedError, RedactionError
from ..redaction.redaction import Redaction, redact_with_sentences
from ..text.keys import document_keys, normalize_key, response_keys
from ..text.sentences import HEAVY_CHARS, CutInteraction, characters, cut
from .lists import ListPlace, SpecimenLists

TOO_LARGE: Final = "too_large"
NOT_REDACTED: Final = "not_redacted"
FAILED: Final = "failed"

ITEM_BYTES: Final = 262_144
"""Most characters of an interaction's texts, and bytes of a stored specimen; a larger one is not kept."""
PARTITION_BYTES: Final = 2**30
"""Most bytes of the specimens of a partition; at the limit no further specimen is kept."""

OUTCOMES: Final = ("kept", "unneeded", "full", TOO_LARGE, NOT_REDACTED, FAILED)
"""Outcomes of a specimen: the first three are the script's."""

log = structlog.get_logger("ragtide.specimens")


@dataclass(frozen=True, slots=True)
class ProposedSpecimen:
    """A specimen that is ready to be stored, and the places for which it is proposed."""

    payload: bytes
    """The stored form of the specimen."""
    places: Sequence[ListPlace]
    limits: SpecimenSettings
    """How long it is kept, and beside how many others."""


class SpecimenKeeper:
    """Proposes specimens of one worker process.

    Args:
        count: called with the outcome of each specimen that is not proposed.

    Raises:
        ConfigurationError: the function that redacts cannot be loaded.
    """

    def __init__(self, settings: Settings, count: Callable[[str], None] = lambda _: None) -> None:
        self._settings = settings.specimens
        self._lists = SpecimenLists(settings.specimens, settings.alerts)
        self._redaction = Redaction.of("specimens", settings.specimens, patterns_here=True)
        self._count = count
        self._log_limit = LogLimit()

    @classmethod
    def of(cls, settings: Settings, count: Callable[[str], None]) -> "SpecimenKeeper | None":
        """Return the keeper that the settings ask for; None if they keep no specimens here."""
        return cls(settings, count) if settings.keeps_specimens else None

    def take_rules(self, settings: Settings) -> None:
        """Take the alert rules of other settings."""
        self._lists.take_rules(settings.alerts)

    def places(self, interaction: RagInteraction, event: MetricEvent) -> Sequence[ListPlace]:
        """Return the places for which an interaction qualifies; most have none. It raises no error."""
        if interaction.run is not None and not self._settings.offline:
            return ()
        try:
            return self._lists.places(event)
        except Exception as error:  # noqa: BLE001 - no specimen may keep a result from being published
            self._not_kept(FAILED, type(error).__name__)
            return ()

    async def proposed(
        self,
        interaction: RagInteraction,
        labeling: Labeling,
        event: MetricEvent,
        places: Sequence[ListPlace],
        *,
        trace_id: str | None,
    ) -> ProposedSpecimen | None:
        """Return the specimen of an interaction that qualifies for places; None after a failure.

        It raises no error, because no specimen may keep a result from being published.
        """
        try:
            return await self._make_specimen(interaction, labeling, event, places, trace_id)
        except (NotRedactedError, RedactionError, RedactionAbortedError) as error:
            self._not_kept(NOT_REDACTED, str(error))
        except Exception as error:  # noqa: BLE001 - without its message, which may hold a text
            self._not_kept(FAILED, type(error).__name__)
        return None

    async def _make_specimen(
        self,
        interaction: RagInteraction,
        labeling: Labeling,
        event: MetricEvent,
        places: Sequence[ListPlace],
        trace_id: str | None,
    ) -> ProposedSpecimen | None:
        names = [place.name for place in places]
        sample = self._settings.sample if SPECIMEN_SAMPLE in names else None

        def payload() -> bytes:
            proposed = specimen(
                interaction, labeling, event, self._redaction, lists=names, sample=sample, trace_id=trace_id
            )
            return proposed.to_stored()

        size = characters(interaction)
        stored = b""
        if size <= ITEM_BYTES:
            # A thread costs more than a short text, and a text that a child process redacts would block the event loop.
            aside = size > HEAVY_CHARS or self._redaction.waits
            stored = await asyncio.to_thread(payload) if aside else payload()
        if not stored or len(stored) > ITEM_BYTES:
            self._count(TOO_LARGE)
            return None
        return ProposedSpecimen(stored, places, self._settings)

    def _not_kept(self, outcome: str, because: str) -> None:
        self._count(outcome)
        self._log_limit.warning(log, outcome, "a specimen is not kept", outcome=outcome, because=because)

    def close(self) -> None:
        """End the process that redacts, if there is one."""
        self._redaction.close()


def specimen_keys(streams: Streams, event: MetricEvent, proposed: ProposedSpecimen) -> tuple[str, ...]:
    """Return the keys with which a script keeps a specimen."""
    lists = (streams.specimens_of(event.pipeline, place.name) for place in proposed.places)
    return (*streams.specimen_keys(event.pipeline, event.interaction_id), *lists)


def specimen_arguments(streams: Streams, event: MetricEvent, proposed: ProposedSpecimen) -> tuple[Argument, ...]:
    """Return the arguments of `keep_specimen` in `scripts/shared/specimens.lua`."""
    places = (
        argument
        for place in proposed.places
        for argument in (place.name, "" if place.score is None else repr(place.score), place.most)
    )
    limits = proposed.limits
    return (
        interaction_digest(event.pipeline, event.interaction_id),
        streams.specimen(""),
        proposed.payload,
        int(limits.keep_s * 1000),
        limits.count,
        limits.bytes,
        PARTITION_BYTES,
        event.pipeline,
        *places,
    )


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
    redacted = redact_with_sentences(redaction, interaction, sentences)
    unchanged = _unchanged_sentences(sentences, redacted)
    labelings = []
    scored: list[MetricEvent | EvaluatorScores] = [event, *(event.beside or ())]
    for by, result in zip(scored, [labeling, *(part.labeling for part in labeling.beside)], strict=True):
        labelings.append(_labeling(by, result, sentences, redaction, unchanged))
        if by.judged is not None and result.judged is not None:
            labelings.append(_labeling(by.judged, result.judged.labeling, sentences, redaction, unchanged))
    probability = None if sample is None else max(interaction.sampling_probability * sample, PROBABILITY_MIN)
    return Specimen(
        **event.shared_with(Specimen) | {"splitter": sentences.splitter},
        interaction=redacted,
        labelings=tuple(labelings),
        lists=tuple(lists),
        sample_probability=probability,
        redacted_by=redaction.names,
        trace_id=trace_id,
    )


def _labeling(
    scored: MetricEvent | EvaluatorScores | JudgedScores,
    labeling: Labeling,
    sentences: CutInteraction,
    redaction: Redaction,
    unchanged: frozenset[str],
) -> SpecimenLabeling:
    known = {f"{SENTENCE_REASON}{key}" for key in sentences.response_keys}
    reasons = {
        key: reason for key, reason in labeling.reasons.items() if key in known or not key.startswith(SENTENCE_REASON)
    }
    return SpecimenLabeling(
        **scored.shared_with(SpecimenLabeling),
        labels=tuple(
            _redacted(labels, sentences, redaction, unchanged)
            for labels in labeling.labels
            if _have_sentences(labels, sentences)
        ),
        versions={metric: declaration.version for metric, declaration in labeling.declared.items()},
        reasons=dict(islice(redaction.reasons(reasons).items(), REASONS_MAX)),
    )


def _have_sentences(labels: Labels, sentences: CutInteraction) -> bool:
    if not isinstance(labels, SentenceLabels):
        return True
    documents, response = labels.document_keys, labels.response_keys
    return documents in (None, sentences.document_keys) and response in (None, sentences.response_keys)


def _unchanged_sentences(sentences: CutInteraction, redacted: RagInteraction) -> frozenset[str]:
    after = redacted.response_sentences or ()
    return frozenset(
        key
        for key, before, now in zip(sentences.response_keys, sentences.response, after, strict=False)
        if before == now
    )


def _redacted(labels: Labels, sentences: CutInteraction, redaction: Redaction, unchanged: frozenset[str]) -> Labels:
    if isinstance(labels, ClaimLabels):
        claims = {"response_claims": labels.response_claims, "reference_claims": labels.reference_claims}
        return ClaimLabels.model_validate({**labels.model_dump(), **redaction.texts(claims)})
    return _keep_known_keys(labels, sentences, unchanged) if isinstance(labels, SentenceLabels) else labels


def _keep_known_keys(labels: SentenceLabels, sentences: CutInteraction, unchanged: frozenset[str]) -> SentenceLabels:
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
        unsupported_spans=tuple(span for span in labels.unsupported_spans if span.sentence in unchanged),
        n_document_sentences=len(documents),
        document_keys=sentences.document_keys,
        response_keys=sentences.response_keys,
    )
