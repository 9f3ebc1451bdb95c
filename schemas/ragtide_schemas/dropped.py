"""The reasons why items are dropped before they are labeled: the fields of the hash `dropped`, which has counts."""

from enum import StrEnum


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
