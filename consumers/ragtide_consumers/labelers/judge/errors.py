"""Why a judge gave no labels. None of them loses an interaction.

JudgeError
├── JudgeUnavailable       the endpoint fails or is left alone: try again later (a LabelerUnavailable)
│   └── JudgeMisconfigured it refuses the key, the model or the address: nothing helps but the operator
├── OverBudget             a spend limit is reached: wait, or let the local labeler score (a LabelerUnavailable)
├── ContextTooLong         the prompt is longer than the model takes: split it
└── NoLabels               it answered, and there are no labels in it: the metrics are absent, with the reason
"""

from ragtide_runtime.errors import RagtideError

from ...metrics.scores import AbsentReason
from ..unavailable import USUAL_WAIT_S, LabelerUnavailable


class JudgeError(RagtideError):
    """Base of the errors of a judge."""


class JudgeUnavailable(LabelerUnavailable, JudgeError):  # noqa: N818  # reads as the state it names
    """The endpoint failed at every attempt, or is being left alone after many failures."""

    def __init__(self, message: str, resume_in_s: float = USUAL_WAIT_S) -> None:
        super().__init__(resume_in_s, message)


class JudgeMisconfigured(JudgeUnavailable):
    """The endpoint refused the key, the model or the address."""


class OverBudget(LabelerUnavailable, JudgeError):  # noqa: N818  # reads as the state it names
    """A spend limit is reached."""

    def __init__(self, message: str, period_ends_in_s: float) -> None:
        # The limit may be raised before the period ends.
        super().__init__(min(period_ends_in_s, USUAL_WAIT_S), message)
        self.period_ends_in_s = period_ends_in_s


class ContextTooLong(JudgeError):  # noqa: N818  # reads as the state it names
    """The endpoint said that the prompt is longer than its model takes."""


class NoLabels(JudgeError):  # noqa: N818  # reads as the state it names
    """The judge refused, or gave no usable answer when asked again."""

    def __init__(self, reason: AbsentReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
