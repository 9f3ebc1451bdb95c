"""Specimens: interactions that are kept with their labels, so that people can look at them."""

import zlib
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field, StringConstraints

from .alert import Alert
from .base import Count, Dollars, Name, Probability, Seconds, Tokens, UtcTime, Value, VersionedModel, WireModel
from .errors import InvalidEntryError, Reason
from .interaction import RagInteraction
from .labels import Labels
from .limits import ENTRY_MAX_BYTES, NAME_MAX_CHARS
from .metric_names import MetricName
from .retrieval_steps import OF_CALLS

STORED_MAX_BYTES: Final = 4 * ENTRY_MAX_BYTES
"""Most bytes of the JSON of a stored specimen: the texts are in it twice, as texts and as sentences."""


SPANS: Final = "unsupported_spans"
"""Field of labels that only some labelers give."""

REASONS: Final = "reasons"
"""Field of a labeling that only judges give."""

VERSIONS: Final = "versions"
"""Field of a labeling that only those with metrics that are not ragtide's own have."""

REASON_CHARS: Final = 500
"""Most characters of a judge's reason."""

REASONS_MAX: Final = 2_000
"""Most reasons of one labeling: of its metrics, and of the sentences of the response."""

SENTENCE_REASON: Final = "sentence:"
"""Prefix of the key of a reason about a response sentence; the key of the sentence follows."""

ReasonKey = Annotated[str, StringConstraints(min_length=1, max_length=NAME_MAX_CHARS)]
ReasonText = Annotated[str, StringConstraints(min_length=1, max_length=REASON_CHARS)]


class SpecimenLabeling(WireModel):
    """The labels of one labeler for a specimen, and the scores that were computed from them."""

    labeler: Name
    """Name of the labeler, such as `local`."""
    labeler_version: Name
    """Version of the labeler."""
    profile: Name
    """Variant of the formulas."""
    prompts: tuple[Name, ...] = ()
    """Prompts of a judge, such as `trace.en.1`."""
    labels: tuple[Labels, ...] = ()
    """The labels, by the keys of the interaction's sentences; empty if the labeler gives scores only."""
    scores: dict[MetricName, Value]
    """Score by qualified metric name."""
    absent: dict[MetricName, str] = Field(default_factory=dict)
    """Reason for each metric that could not be computed."""
    versions: dict[MetricName, Name] = Field(default_factory=dict)
    """Version of each metric that is not ragtide's own, such as a criterion."""
    reasons: Annotated[dict[ReasonKey, ReasonText], Field(max_length=REASONS_MAX)] = Field(default_factory=dict)
    """The judge's reasons in its own words, redacted: by qualified metric name, or by `sentence:KEY` for a response
    sentence."""


class Specimen(VersionedModel):
    """An interaction that is kept for a while, redacted, with its sentences, labels and scores."""

    max_bytes: ClassVar[int | None] = STORED_MAX_BYTES

    interaction: RagInteraction
    """The interaction after redaction. Its sentences are those that were labeled. A document or a response has no
    sentences if redaction took out a place that two sentences share: then only the redacted text is kept."""
    labelings: Annotated[tuple[SpecimenLabeling, ...], Field(min_length=1)]
    """The labels of the labeler, and then those of the reference of a cascade, such as the judge; then those of further
    evaluators."""
    lists: tuple[str, ...] = ()
    """Lists for which its worker proposed it: `newest`, `sample`, `judged`, `worst:METRIC:LABELER`, or
    `beyond:RULE`."""
    sample_probability: Probability | None = None
    """Probability with which an interaction of the traffic is in the sample; None outside of the sample."""
    labeled_at: UtcTime
    """Time of scoring."""
    splitter: Name | None = None
    """Rules that split the texts into sentences."""
    redacted_by: tuple[Name, ...] = ()
    """Patterns and function that redacted the texts."""
    prompt_tokens: Tokens = 0
    """Tokens sent to a judge."""
    completion_tokens: Tokens = 0
    """Tokens of a judge's answers."""
    cost_usd: Dollars = 0.0
    """Price of the judge's calls in US dollars; 0 if no price is known."""
    latency_s: Seconds = 0.0
    """Seconds of labeling."""
    counters: dict[Name, Count] = Field(default_factory=dict)
    """Counts of repairs and events while labeling, by name."""
    trace_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    """Id of the trace of the interaction, if there is one."""

    def score_of(self, alert: Alert) -> float | None:
        """Return the score that an alert is about: of its metric, labeler and profile; None without one."""
        by = (alert.labeler, alert.labeler_version, alert.profile)
        return next(
            (
                labeling.scores.get(alert.metric)
                for labeling in self.labelings
                if (labeling.labeler, labeling.labeler_version, labeling.profile) == by
            ),
            None,
        )

    def reason_of(self, alert: Alert) -> str | None:
        """Return the judge's reason of the score that an alert is about; None without one."""
        by = (alert.labeler, alert.labeler_version, alert.profile)
        return next(
            (
                labeling.reasons.get(alert.metric)
                for labeling in self.labelings
                if (labeling.labeler, labeling.labeler_version, labeling.profile) == by
            ),
            None,
        )

    def encode(self) -> bytes:
        """Return the model as JSON (UTF-8), with every field: labels without a list of keys need their `null`.

        Without spans, reasons, versions or calls their field is left out, so that releases that do not know it read
        the specimen.
        """
        spans = any(getattr(labels, SPANS, ()) for labeling in self.labelings for labels in labeling.labels)
        reasons = any(labeling.reasons for labeling in self.labelings)
        left_out: dict[str, Any] = {} if spans else {"labels": {"__all__": {SPANS}}}
        left_out |= {} if reasons else {REASONS: True}
        left_out |= {} if any(labeling.versions for labeling in self.labelings) else {VERSIONS: True}
        exclude: dict[str, Any] = {"labelings": {"__all__": left_out}} if left_out else {}
        if not self.interaction.calls:
            exclude["interaction"] = {"steps_left_out": True, "steps": {"__all__": set(OF_CALLS)}}
        return self.__pydantic_serializer__.to_json(self, exclude=exclude)

    def to_stored(self) -> bytes:
        """Return the model as it is stored: compressed JSON."""
        return zlib.compress(self.encode(), 1)

    @classmethod
    def from_stored(cls, payload: bytes) -> Self:
        """Return the model in a stored payload.

        Raises:
            InvalidEntryError: the payload holds no specimen, or is too large.
        """
        decompressor = zlib.decompressobj()
        try:
            text = decompressor.decompress(payload, STORED_MAX_BYTES)
        except zlib.error as error:
            raise InvalidEntryError(Reason.NOT_JSON, f"the specimen is not compressed JSON: {error}") from None
        if decompressor.unconsumed_tail:
            raise InvalidEntryError(Reason.TOO_LARGE, f"the specimen has more than {STORED_MAX_BYTES} bytes of JSON")
        return cls.decode(text)
