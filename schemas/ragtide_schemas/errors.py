"""Errors of the contract.

One class, a ValueError: `InvalidEntryError` says that a payload breaks the contract.
"""

from enum import StrEnum

from .printable import printable


class Reason(StrEnum):
    """Why an entry was given up on: the code in a dead letter."""

    MISSING_DATA_FIELD = "missing_data_field"
    """The stream entry has no field `data`."""
    NOT_JSON = "not_json"
    """The payload is not valid UTF-8 JSON (NaN, Infinity and lone surrogates are not JSON)."""
    TOO_LARGE = "too_large"
    """The payload, or one field of it, is over its limit."""
    UNKNOWN_SCHEMA_VERSION = "unknown_schema_version"
    """The payload states a schema version this release does not read."""
    INVALID = "invalid"
    """A field is missing, unknown, of a wrong type or out of its range."""
    DUPLICATE = "duplicate"
    """Another entry with the same interaction id came first, within the dedupe window."""
    DELETED = "deleted"
    """The entry was deleted from its stream while it waited to be labeled; nothing of it is left."""
    LABELING_FAILED = "labeling_failed"
    """The labeler failed on it at every delivery."""
    TOO_MANY_DELIVERIES = "too_many_deliveries"
    """No worker finished it in `max_deliveries` deliveries: it may crash each worker that takes it."""
    UNKNOWN_INTERACTION = "unknown_interaction"
    """Feedback for an interaction that was not scored within the feedback window."""
    NOT_AGGREGATABLE = "not_aggregatable"
    """A metric event, or feedback, that the aggregator's state cannot take."""


class InvalidEntryError(ValueError):
    """A payload breaks the contract.

    Attributes:
        reason: the code for machines.
        detail: one sentence for people: field, value and remedy.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        # The message may quote the payload, and it reaches logs, dead letters and terminals.
        self.detail = printable(detail)
        super().__init__(self.detail)
        self.reason = reason
