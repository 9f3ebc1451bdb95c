"""Interprets the status and headers of an endpoint's HTTP replies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any, Final

LONGEST_RETRY_AFTER_S: Final = 300.0
"""Most seconds for which an endpoint's request to wait is obeyed."""


class FailureKind(Enum):
    """The meaning of a failed call for the calls after it."""

    FAILED = auto()
    """The endpoint is broken or slow. Failures in a row open the circuit breaker."""
    BUSY = auto()
    """The endpoint works and asks for fewer calls."""
    MISCONFIGURED = auto()
    """The endpoint refuses the key, the model or the address. The circuit breaker opens at once."""
    REFUSED = auto()
    """The endpoint refuses this question: its content if other questions were answered, else the form of all."""
    REPHRASED = auto()
    """The next attempt has a form that the endpoint may accept."""


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A failed call."""

    kind: FailureKind
    outcome: str
    """Name of the failure for Prometheus, such as `server_error`."""
    message: str
    """The endpoint's message, cleaned."""
    retry_after_s: float | None = None
    """Seconds to wait that the endpoint asks for; None if it names no time."""
    overloaded: bool = False
    """Whether the endpoint was too slow for the calls in flight."""
    of_content: bool = False
    """Whether the failure may be about this interaction alone."""
    final: Exception | None = None
    """The error to raise at once, because the endpoint works and this question is the problem."""
    remedy: str = "correct its key, model, address or quota, then restart"
    """The remedy of a refusal of all calls."""


def failure_of_status(
    status: int, headers: Mapping[str, str], message: str, *, clean: Callable[[str], str] = str
) -> CallFailure:
    """Return the failure that an HTTP status of 300 or more means.

    Args:
        message: message of the endpoint, cleaned.
        clean: removes secrets and control characters from a text of the endpoint.

    >>> failure_of_status(429, {"retry-after": "2"}, "slow down").kind
    <FailureKind.BUSY: 2>
    >>> failure_of_status(502, {}, "bad gateway").outcome
    'server_error'
    """
    if status == 429:
        return CallFailure(FailureKind.BUSY, "rate_limited", message, retry_after_s(headers), overloaded=True)
    if status < 400:
        message = f"it redirects to {clean(headers.get('location', 'nowhere'))[:200]} with status {status}"
        remedy = "correct its address, then restart"
        return CallFailure(FailureKind.MISCONFIGURED, "refused", message, remedy=remedy)
    if status in {401, 402, 403, 404}:
        return CallFailure(FailureKind.MISCONFIGURED, "refused", message)
    if status < 500 and status not in {408, 409}:
        return CallFailure(FailureKind.REFUSED, "refused", message)
    outcome = "server_error" if status >= 500 else "refused"
    return CallFailure(FailureKind.FAILED, outcome, message, retry_after_s(headers), overloaded=status in {503, 529})


def retry_after_s(headers: Any, *, longest_s: float = LONGEST_RETRY_AFTER_S) -> float | None:
    """Return the seconds to wait that an endpoint asks for: `retry-after-ms`, or `retry-after` as seconds or date.

    Args:
        longest_s: most seconds that are obeyed.

    >>> retry_after_s({"retry-after": "2"}), retry_after_s({}), retry_after_s({"retry-after-ms": "250"})
    (2.0, None, 0.25)
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            seconds = _seconds_until(value)
        if seconds >= 0:
            return min(seconds, longest_s)
    return None


def _seconds_until(date: str) -> float:
    try:
        return max((parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return -1.0
