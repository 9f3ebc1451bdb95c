"""Counting the judge's calls for Prometheus."""

from collections.abc import Callable

import openai

from ragtide_runtime.telemetry.instruments import JudgeInstruments

from .answers import Answer


def outcome_of(error: Exception) -> str:
    """Return the name of a failed call's kind.

    One of `rate_limited`, `timeout`, `server_error` (5xx), `refused` (any other status), `no_connection` and
    `unreadable`.
    """
    kinds: tuple[tuple[type[Exception], str], ...] = (
        (openai.RateLimitError, "rate_limited"),
        (TimeoutError, "timeout"),
        (openai.APITimeoutError, "timeout"),
        (openai.InternalServerError, "server_error"),
        (openai.APIStatusError, "refused"),
        (openai.APIConnectionError, "no_connection"),
    )
    return next((name for kind, name in kinds if isinstance(error, kind)), "unreadable")


class CallCounter:
    """Counts the calls of one model."""

    def __init__(self, instruments: JudgeInstruments, model: str) -> None:
        self._instruments = instruments
        self._model = model

    def watch(self, *, breaker_open: Callable[[], bool], calls_allowed: Callable[[], int]) -> None:
        """Show the breaker and the calls that are allowed at once, as they are when scraped."""
        self._instruments.breaker_open.labels(self._model).set_function(breaker_open)
        self._instruments.calls_allowed.labels(self._model).set_function(calls_allowed)

    def found(self) -> None:
        """Count an answer from the cache."""
        self._instruments.cache_hits.labels(self._model).inc()

    def answered(self, latency_s: float) -> None:
        """Count a call that was answered."""
        self._instruments.calls.labels(self._model, "answered").inc()
        self._instruments.call_seconds.labels(self._model).observe(latency_s)

    def failed(self, error: Exception) -> str:
        """Count a call that failed, and return how."""
        outcome = outcome_of(error)
        self._instruments.calls.labels(self._model, outcome).inc()
        return outcome

    def took(self, answer: Answer) -> None:
        """Count the tokens and cost of an answer."""
        self._instruments.tokens.labels(self._model, "prompt").inc(answer.prompt_tokens)
        self._instruments.tokens.labels(self._model, "completion").inc(answer.completion_tokens)
        self._instruments.cost_usd.labels(self._model).inc(answer.cost_usd)
