"""Errors of a labeler that calls a remote endpoint. No interaction is lost by them.

LabelerUnavailable
├── EndpointUnavailable        the endpoint fails, or its circuit breaker is open: try again later
│   └── EndpointMisconfigured  it refuses the key, the model or the address: the operator must correct them
└── OverBudget                 a spend limit is reached: wait, or let another labeler score
ContextTooLong                 the question is longer than the endpoint takes: split it
NoLabels                       the endpoint answered without labels: the metrics are absent, with the reason
"""

from ragtide_runtime.errors import RagtideError

from ...metrics.scores import AbsentReason
from ..protocol import USUAL_WAIT_S, LabelerUnavailable


class EndpointUnavailable(LabelerUnavailable):
    """The endpoint failed at every attempt, or its circuit breaker is open after many failures."""

    def __init__(self, message: str, resume_in_s: float = USUAL_WAIT_S) -> None:
        super().__init__(resume_in_s, message)


class EndpointMisconfigured(EndpointUnavailable):
    """The endpoint refused the key, the model or the address."""


class OverBudget(LabelerUnavailable):
    """A spend limit is reached."""

    def __init__(self, message: str, period_ends_in_s: float) -> None:
        # The limit may be raised before the period ends.
        super().__init__(min(period_ends_in_s, USUAL_WAIT_S), message)


class ContextTooLong(RagtideError):  # noqa: N818  # reads as the state it names
    """The endpoint said that the question is longer than its model takes."""


class NoLabels(RagtideError):  # noqa: N818  # reads as the state it names
    """The endpoint refused the content of one interaction, or gave no usable answer to it."""

    def __init__(self, reason: AbsentReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
