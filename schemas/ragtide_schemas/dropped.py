"""Why an interaction was dropped before it was labeled: the fields of the hash `dropped`, whose values are counts."""

from enum import StrEnum


class Dropped(StrEnum):
    """Why an interaction never got as far as a worker."""

    DROP_NEW = "drop_new"
    """The stream was full, and the policy is to drop new interactions."""
    SAMPLE = "sample"
    """The stream was filling up, and the policy is to keep a sample."""
    QUEUE_FULL = "queue_full"
    """The queue in the producer's process was full."""
    UNSENT = "unsent"
    """The producer was closed, or its process ended, before Redis took it."""
    INVALID = "invalid"
    """It was no interaction, or larger than one entry may be."""
    CAPPED = "capped"
    """It was in the stream and the hard cap trimmed it before it was labeled."""
    FEEDBACK = "feedback"
    """No interaction but feedback, which a producer could not send."""
    ALERTS = "alerts"
    """No interaction but an alert, which the hard cap trimmed before it was recorded."""
