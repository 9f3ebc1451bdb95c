"""The production client of the judge: it caches, paces, retries and accounts for calls, and keeps to the budget."""

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

import openai
import structlog
from redis import RedisError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.judge import JudgeSettings
from ragtide_runtime.telemetry.instruments import JudgeInstruments
from ragtide_runtime.telemetry.tracing import traced

from ...metrics.scores import AbsentReason
from ..remote.cache import Cache, content_key
from ..remote.pacing import MinuteLimits
from ..remote.spend import Reached, Reservation, Spend
from ..remote.state import JudgeState, StateReporter
from ..remote.usage import Usage
from .answers import Answer
from .counting import CallCounter
from .dialect import Message
from .endpoint import SHOWN_CHARS, Again, Endpoint, NoCompletion
from .errors import JudgeUnavailable, NoLabels, OverBudget
from .prices import MESSAGE_TOKENS, cost, estimated_tokens
from .prompts import Prompt
from .replies import is_completion, read_reply
from .transport import bounded_client

FIRST_WAIT_S: Final = 0.5
"""Seconds before the second attempt, on average; doubled each time."""

LONGEST_WAIT_S: Final = 30.0
"""Seconds between two attempts at most, unless the endpoint asks for more."""

USUAL_ANSWER_TOKENS: Final = 600
"""Tokens of an answer before any was seen, for what a call will probably cost."""

BUSY_S: Final = 15.0
"""Seconds after a 429 in which the endpoint counts as one that asks for fewer calls."""

FAILED_WAIT_S: Final = 15.0
"""Seconds before an interaction whose attempts all failed is tried again, while others are not kept back."""

log = structlog.get_logger("ragtide.judge")


def _any(answer: Answer) -> bool:
    del answer
    return True


class JudgeClient:
    """Asks a judge over the chat completions protocol.

    A call passes, in this order: the cache; the spend limit; the pause an endpoint asked for (Retry-After); the
    circuit breaker; calls and tokens a minute; calls at once. It is made with a timeout and, when it fails in a way
    that may pass, again after a jittered and growing wait. The key is in no message: what an endpoint says is cleaned
    of it.

    Args:
        settings: of the judge; the model is required.
        cache: where usable answers are kept.
        spend: the account of dollars that calls cost.
        instruments: count what is asked.

    Raises:
        ConfigurationError: no model, or no key for an endpoint that needs one.
    """

    def __init__(
        self, settings: JudgeSettings, *, cache: Cache, spend: Spend, instruments: JudgeInstruments | None = None
    ) -> None:
        if settings.model is None:
            raise ConfigurationError(
                "judge.model is not set: name the model to ask, such as RAGTIDE_JUDGE_MODEL=gpt-5-mini"
            )
        base_url = settings.base_url or os.environ.get("OPENAI_BASE_URL")
        given = settings.api_key.get_secret_value() if settings.api_key else os.environ.get("OPENAI_API_KEY")
        if not given and base_url is None:
            raise ConfigurationError(
                "the judge has no key: set OPENAI_API_KEY or RAGTIDE_JUDGE_API_KEY, or RAGTIDE_JUDGE_BASE_URL for "
                "an endpoint that needs none"
            )
        self.settings = settings
        self._client = openai.AsyncOpenAI(
            api_key=given or "none",
            base_url=base_url,
            max_retries=0,
            timeout=settings.timeout_s,
            http_client=bounded_client(),
        )
        self._base_url = str(self._client.base_url)
        self._endpoint = Endpoint(settings, urlsplit(self._base_url).hostname or "", secret=given or "")
        self._price = settings.prices.get(settings.model)
        self._cache = cache
        self._spend = spend
        self.at_once = self._endpoint.at_once
        self._a_minute = MinuteLimits(settings.requests_per_minute, settings.tokens_per_minute)
        self._answer_tokens = float(USUAL_ANSWER_TOKENS)
        self._random = random.Random()  # noqa: S311  # jitter is no secret
        self._counted = CallCounter(instruments or JudgeInstruments(), settings.model)
        self._over_budget = ""
        self.reporter: StateReporter | None = None
        """Shows the state to `ragtide doctor`, where there is a Redis."""
        self._counted.watch(
            breaker_open=lambda: self._endpoint.breaker.is_open, calls_allowed=lambda: self.at_once.limit
        )

    async def ask(
        self,
        prompt: Prompt,
        usage: Usage,
        corrections: Sequence[Message] = (),
        *,
        usable: Callable[[Answer], bool] = _any,
    ) -> Answer:
        """Return the judge's answer, and add its tokens and cost to `usage`.

        Args:
            prompt: what is asked.
            usage: counts tokens, dollars and what happened, whatever the outcome.
            corrections: messages after the prompt: an unusable answer, and what was wrong with it.
            usable: returns whether an answer holds labels; answers without any open the circuit breaker as failures do.

        Raises:
            JudgeUnavailable: it failed at every attempt, or is being left alone.
            JudgeMisconfigured: it refuses the key, the model or the address.
            OverBudget: a spend limit is reached.
            ContextTooLong: the prompt is longer than the model takes.
            NoLabels: the endpoint refuses this content, or answers it alone with something else than a completion.
        """
        match await self._cache.get(self._key(prompt)) if not corrections else None:
            case [str(text), str(finish)]:
                usage.counters["cache_hits"] += 1
                self._counted.found()
                return Answer(text, finish, from_cache=True)
        if self.reporter is not None:
            self.reporter.start()
        reservation = await self._reserve(prompt, corrections)
        spent = usage.cost_usd
        try:
            return await self._persistently(prompt, corrections, usage, usable)
        finally:
            await self._settle(reservation, usage.cost_usd - spent)

    async def keep(self, prompt: Prompt, answer: Answer) -> None:
        """Keep a usable answer, so that the same prompt costs nothing the next time."""
        if not answer.from_cache:
            await self._cache.put(self._key(prompt), [answer.text, answer.finish])

    async def aclose(self) -> None:
        """Close the connections."""
        if self.reporter is not None:
            await self.reporter.aclose()
        await self._client.close()

    def state(self) -> JudgeState:
        """Return how it gets on with the endpoint."""
        now = monotonic()
        return JudgeState(
            self.settings.model or "",
            left_alone=self._endpoint.breaker.is_open,
            asked_to_wait=now < self._endpoint.resume_at or now - self._endpoint.last_busy < BUSY_S,
            last_error=self._endpoint.last_error,
            over_budget=self._over_budget,
        )

    def _key(self, prompt: Prompt) -> str:
        # The dialect is left out on purpose: it is learned, and the same answer must be found before and after.
        return content_key(
            self._base_url,
            self.settings.model or "",
            repr(self.settings.temperature),
            prompt.version,
            prompt.rules,
            prompt.form,
            prompt.data,
        )

    def _prompt_tokens(self, prompt: Prompt, corrections: Sequence[Message]) -> int:
        return (
            estimated_tokens(prompt.rules)
            + estimated_tokens(prompt.data)
            + sum(estimated_tokens(message["content"]) for message in corrections)
            + MESSAGE_TOKENS
        )

    async def _reserve(self, prompt: Prompt, corrections: Sequence[Message]) -> Reservation:
        expected = 0.0
        if self._price is not None:
            expected = cost(
                self._price,
                prompt_tokens=self._prompt_tokens(prompt, corrections),
                completion_tokens=int(self._answer_tokens),
            )
        try:
            reserved = await self._spend.reserve(expected)
        except RedisError as error:
            raise JudgeUnavailable(f"the spend limit cannot be looked up ({error}): check Redis") from error
        self._over_budget = reserved.period if isinstance(reserved, Reached) else ""
        if isinstance(reserved, Reached):
            raise OverBudget(
                f"the judge's spend limit of the {reserved.period} is reached: raise it or wait for the next",
                reserved.resumes_in_s,
            )
        return reserved

    async def _settle(self, reservation: Reservation, cost_usd: float) -> None:
        try:
            await self._spend.settle(reservation, cost_usd)
        except RedisError as error:
            log.warning("a judge's cost could not be recorded; its estimate stays", error=str(error))

    async def _persistently(
        self, prompt: Prompt, corrections: Sequence[Message], usage: Usage, usable: Callable[[Answer], bool]
    ) -> Answer:
        answered = self._endpoint.answers
        try:
            async for attempt in AsyncRetrying(
                retry=retry_if_exception_type(Again),
                stop=stop_after_attempt(self.settings.attempts),
                wait=self._wait_s,
                reraise=True,
            ):
                with attempt:
                    if attempt.retry_state.attempt_number > 1:
                        usage.counters["judge_retries"] += 1
                    return await self._once(prompt, corrections, usage, usable)
        except Again as error:
            said = f"the judge failed {self.settings.attempts} times, last with: {error}; check the endpoint"
            if error.of_content and self._endpoint.answers > answered:  # others were answered meanwhile
                raise NoLabels(AbsentReason.JUDGE_UNUSABLE, said) from None
            raise JudgeUnavailable(said, self._endpoint.breaker.resumes_in_s or FAILED_WAIT_S) from None
        raise AssertionError("tenacity returns or raises")

    def _wait_s(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        longest = min(FIRST_WAIT_S * 2**state.attempt_number, LONGEST_WAIT_S)
        if isinstance(error, Again) and error.retry_after_s is not None:
            return error.retry_after_s + self._random.uniform(0.0, min(longest, 1.0))
        return self._random.uniform(0.0, longest)

    async def _once(
        self, prompt: Prompt, corrections: Sequence[Message], usage: Usage, usable: Callable[[Answer], bool]
    ) -> Answer:
        # Spread out a little, so that all who waited do not come back at once.
        if (left := self._endpoint.resume_at - monotonic()) > 0:
            await asyncio.sleep(left * self._random.uniform(1.0, 1.1))
        if self._a_minute.any:
            await self._a_minute.wait(self._prompt_tokens(prompt, corrections) + int(self._answer_tokens))
        async with self.at_once.slot():
            # Asked only now: many may have waited for a slot while the endpoint failed.
            if not self._endpoint.breaker.admits():
                raise JudgeUnavailable(
                    f"the judge is left alone for a while after many failures, last: {self._endpoint.last_error}; "
                    "check the endpoint",
                    self._endpoint.breaker.resumes_in_s,
                )
            return await self._call(prompt, corrections, usage, usable)

    async def _call(
        self, prompt: Prompt, corrections: Sequence[Message], usage: Usage, usable: Callable[[Answer], bool]
    ) -> Answer:
        usage.counters["judge_calls"] += 1
        parameters = self._endpoint.dialect.parameters(prompt, corrections)
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": self.settings.model or ""}
        with traced("ragtide judge call", "CLIENT", attributes) as span:
            started = monotonic()
            try:
                async with asyncio.timeout(self.settings.timeout_s):
                    # As the library documents for any endpoint: half the work of `chat.completions.create`, which walks
                    # through the whole request and builds models of the reply.
                    reply = await self._client.post("/chat/completions", cast_to=object, body=parameters)
                answer = self._read(reply, usage)
            except (openai.OpenAIError, TimeoutError, ValueError, RecursionError) as error:
                span.failed(self._counted.failed(error))
                raise self._endpoint.failed(error, parameters, monotonic() - started) from None
            except BaseException:
                self._endpoint.breaker.abandoned()
                raise
            latency_s = monotonic() - started
            self._counted.answered(latency_s)
            self._endpoint.answered(answer, usable, latency_s)
            span.tell(
                {
                    "gen_ai.usage.input_tokens": answer.prompt_tokens,
                    "gen_ai.usage.output_tokens": answer.completion_tokens,
                }
            )
            return answer

    def _read(self, reply: object, usage: Usage) -> Answer:
        answer = read_reply(reply, self._price)
        usage.prompt_tokens += answer.prompt_tokens
        usage.completion_tokens += answer.completion_tokens
        usage.cost_usd += answer.cost_usd
        self._counted.took(answer)
        if not is_completion(reply):
            raise NoCompletion(self._endpoint.clean(str(reply))[:SHOWN_CHARS])
        self._answer_tokens += 0.05 * (answer.completion_tokens - self._answer_tokens)
        return answer
