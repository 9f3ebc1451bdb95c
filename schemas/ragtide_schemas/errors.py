"""The reasons of dead letters and of drops, and the error of a payload that breaks the contract."""

from enum import StrEnum

from .printable import printable


class Reason(StrEnum):
    """The reason of a dead letter, as a code."""

    MISSING_DATA_FIELD = "missing_data_field"
    """The stream entry has no field `data`."""
    NOT_JSON = "not_json"
    """The payload is not UTF-8 JSON. NaN, Infinity and half of a surrogate pair are read: their field decides."""
    TOO_LARGE = "too_large"
    """The payload, or a field of it, exceeds its limit."""
    UNKNOWN_SCHEMA_VERSION = "unknown_schema_version"
    """The payload has a schema version that this release cannot read."""
    INVALID = "invalid"
    """A field is missing, unknown, of a wrong type or out of its range."""
    TRUNCATED = "truncated"
    """Attributes of the spans were dropped or cut, so the interaction of the trace is not whole."""
    NO_CONTENT = "no_content"
    """The spans of the trace have no question, no documents or no response."""
    NO_PIPELINE = "no_pipeline"
    """No attribute of the spans names the pipeline."""
    DUPLICATE = "duplicate"
    """An earlier entry within the dedupe window has the same interaction id."""
    DELETED = "deleted"
    """The entry was deleted from its stream before it was labeled, so its payload is lost."""
    LABELING_FAILED = "labeling_failed"
    """The labeler failed at every delivery."""
    TOO_MANY_DELIVERIES = "too_many_deliveries"
    """No worker finished the entry in `max_deliveries` deliveries: it may crash workers."""
    UNKNOWN_INTERACTION = "unknown_interaction"
    """The feedback is about an interaction that was not scored within the feedback window."""
    NOT_AGGREGATABLE = "not_aggregatable"
    """The state of the aggregator cannot take the metric event or feedback."""
    UNDELIVERABLE = "undeliverable"
    """A notification could not be delivered."""


class Dropped(StrEnum):
    """The reason why an item never reached a worker."""

    DROP_NEW = "drop_new"
    """The stream was full, and the policy is to drop new interactions."""
    SAMPLE = "sample"
    """The stream was filling up, and the policy is to keep a sample."""
    QUEUE_FULL = "queue_full"
    """The queue in the producer's process was full."""
    UNSENT = "unsent"
    """The producer was closed, or its process ended, before the interaction was sent."""
    INVALID = "invalid"
    """The interaction was invalid or too large."""
    CAPPED = "capped"
    """The hard cap of the stream trimmed the interaction before it was labeled."""
    FEEDBACK = "feedback"
    """A feedback item (not an interaction) that a producer could not send."""
    ALERTS = "alerts"
    """An alert (not an interaction) that the hard cap trimmed before it was recorded."""


class InvalidEntryError(ValueError):
    """A payload breaks the contract.

    Attributes:
        reason: code of the reason.
        detail: one sentence with field, value and remedy.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        # Escaped, because the message may quote the payload, and is shown in logs, dead letters and terminals.
        self.detail = printable(detail)
        super().__init__(self.detail)
        self.reason = reason


def invalid(detail: str) -> InvalidEntryError:
    """Return the error of a field that breaks the contract, with one sentence that has field, value and remedy."""
    return InvalidEntryError(Reason.INVALID, detail)
