"""Why a judge gave no labels. None of them loses an interaction: what each leads to is decided in `labeler.py`.

JudgeError
├── JudgeUnavailable       the endpoint fails or is left alone: try again later
│   └── JudgeMisconfigured it refuses the key, the model or the address: nothing helps but the operator
├── OverBudget             a spend limit is reached: wait, or let the local labeler score
└── NoLabels               it answered, and there are no labels in it: the metrics are absent, with the reason
"""

from ragtide_runtime.errors import RagtideError

from ..metrics.scores import AbsentReason


class JudgeError(RagtideError):
    """Base of what goes wrong with a judge."""


class JudgeUnavailable(JudgeError):  # noqa: N818  # reads as the state it names
    """The endpoint failed at every attempt, or is being left alone after many failures."""


class JudgeMisconfigured(JudgeUnavailable):
    """The endpoint refused the key, the model or the address."""


class OverBudget(JudgeError):  # noqa: N818  # reads as the state it names
    """A spend limit is reached."""

    def __init__(self, message: str, resumes_in_s: float) -> None:
        super().__init__(message)
        self.resumes_in_s = resumes_in_s


class ContextTooLong(JudgeError):  # noqa: N818  # reads as the state it names
    """The endpoint said that the prompt is longer than its model takes."""


class NoLabels(JudgeError):  # noqa: N818  # reads as the state it names
    """The judge refused, or gave no usable answer when asked again."""

    def __init__(self, reason: AbsentReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
