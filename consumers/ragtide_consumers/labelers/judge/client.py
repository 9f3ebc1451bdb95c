"""The judge's client: it sends prompts through the cache, the spend limit and the endpoint's limits."""

import os
from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.answers import USUAL
from ragtide_runtime.outside.proxies import proxy_of
from ragtide_runtime.settings.model import Settings

from ...metrics.scores import AbsentReason
from ...text.splitting import estimated_tokens
from ..remote.access import Access
from ..remote.cache import Cache, NoCache, content_key
from ..remote.endpoint import EndpointInfo
from ..remote.errors import ContextTooLong
from ..remote.posting import Poster
from ..remote.spend import Spend
from ..remote.telemetry import EndpointTelemetry
from ..remote.usage import Usage
from .answers import JudgeAnswer
from .chat_call import ChatCall
from .completions import read_reply
from .costs import MESSAGE_TOKENS, OPENAI_URL, BatchRequest, PlannedCalls, price_of
from .dialect import Dialect, Message
from .prompts import Prompt, variant_of

if TYPE_CHECKING:
    import openai

FIRST_ANSWER_TOKENS: Final = 600
"""Expected tokens of an answer before the first answer."""


FILE_BYTES: Final = 4 * 2**30
"""Most bytes of a file of answers; it is read line by line."""

SMALLEST_BUDGET: Final = 200
"""Tokens of documents in one call below which a context is not split further."""


class JudgeClient:
    """Calls a judge over the chat completions protocol. No message holds its key.

    Args:
        settings: of the process; the judge's model is required.
        redis: holds cache, spend and state for all processes; without it each process has its own.
        telemetry: counts calls.
        answers: without Redis, a file that caches answers for later processes; None caches in memory.
        account: counts the dollars of this run, beside the account of the deployment.

    Raises:
        ConfigurationError: no model, no key for an endpoint that needs one, or a spend limit without a price.
    """

    def __init__(
        self,
        settings: Settings,
        redis: Redis | None,
        telemetry: EndpointTelemetry,
        answers: Path | None = None,
        account: Spend | None = None,
    ) -> None:
        judge = settings.judge
        if judge.model is None:
            raise ConfigurationError("judge.model is not set: name the model, such as RAGTIDE_JUDGE_MODEL=gpt-5-mini")
        base_url, key = judge.url, judge.key
        if not key and base_url is None:
            raise ConfigurationError(
                "the judge has no key: set OPENAI_API_KEY or RAGTIDE_JUDGE_API_KEY, or RAGTIDE_JUDGE_BASE_URL for "
                "an endpoint that needs none"
            )
        self.settings = judge
        self.variant = variant_of(judge)
        """Variant of the prompts."""
        self._given_key = key
        address = base_url or OPENAI_URL
        self._base_url = address if address.endswith("/") else f"{address}/"
        self._poster = Poster(f"{self._base_url}chat/completions", _headers(self._base_url, key))
        self._dialect = Dialect(judge, urlsplit(self._base_url).hostname or "")
        self._price = price_of(judge)
        if judge.spend_is_limited and self._price is None:
            raise ConfigurationError(
                f"judge has a spend limit and no price for {judge.model}: add the price under judge.prices, in dollars "
                "per million tokens"
            )
        info = EndpointInfo(
            name="judge",
            model=judge.model,
            subject="the judge",
            secret=key or "",
            refused=AbsentReason.JUDGE_REFUSED,
            unusable=AbsentReason.JUDGE_UNUSABLE,
        )
        self._access = Access(
            info,
            judge,
            settings,
            redis,
            telemetry,
            tokens_per_minute=judge.tokens_per_minute,
            answers=answers,
            account=account,
        )
        self._cache: Cache = self._access.cache
        self._answer_tokens = float(FIRST_ANSWER_TOKENS)
        self._remembered = False
        self._access.adapted = lambda: self._dialect.adapted

    async def ask(
        self,
        prompt: Prompt,
        usage: Usage,
        corrections: Sequence[Message] = (),
        *,
        usable: Callable[[JudgeAnswer], bool] = lambda _: True,
        raised: bool = False,
    ) -> JudgeAnswer:
        """Return the judge's answer, and add its tokens and cost to `usage`.

        Args:
            prompt: the question.
            usage: counts tokens, dollars and calls, whatever the outcome.
            corrections: messages after the prompt: an unusable answer, and its faults.
            usable: returns whether an answer holds labels; answers without labels count as failures of the endpoint.
            raised: whether the answer before was cut off at its limit, so that this one may be longer.

        Raises:
            EndpointUnavailable: the judge failed at every attempt, or its circuit breaker is open.
            EndpointMisconfigured: the judge refuses the key, the model or the address.
            OverBudget: a spend limit is reached.
            ContextTooLong: the prompt is longer than the model takes.
            NoLabels: the endpoint refuses this content, or gives an unusable reply to it alone.
        """
        await self._remember()
        prompt_tokens = _prompt_tokens(prompt, corrections)
        self._check_window(prompt_tokens, corrects=bool(corrections))
        match None if corrections else await self._cache.get(self._key(prompt)):
            case [str(text), str(finish)]:
                usage.counters["cache_hits"] += 1
                self._access.found(self._probable_usd(prompt_tokens, estimated_tokens(text)))
                return JudgeAnswer(text, finish, from_cache=True)

        # A longer answer than the one that was cut off is expected, so that the spend limit has room for it.
        expected = max(int(self._answer_tokens), self._dialect.answer_tokens(prompt_tokens) if raised else 0)
        call = ChatCall(
            poster=self._poster,
            access=self._access,
            dialect=self._dialect,
            price=self._price,
            prompt=prompt,
            corrections=corrections,
            usage=usage,
            usable=usable,
            prompt_tokens=prompt_tokens,
            answer_tokens=lambda: max(int(self._answer_tokens), expected),
            raised=raised,
        )
        answer = await self._access.ask(call, usage, expected_usd=self._probable_usd(prompt_tokens, expected))
        self._answer_tokens += 0.05 * (answer.completion_tokens - self._answer_tokens)
        if raised and answer.finish != "length":
            self._dialect.needs(self._dialect.answer_tokens(prompt_tokens, raised=True))
        if self._dialect.succeeded():
            await self._cache.put(self._memory_key, self._dialect.memory)
        return answer

    def answer_limit(self, prompt: Prompt, *, raised: bool = False) -> int | None:
        """Return the most tokens of an answer, as it is or once raised; None if the endpoint takes no limit."""
        return self._dialect.answer_tokens(_prompt_tokens(prompt, ()), raised=raised) if self._dialect.limits else None

    async def _remember(self) -> None:
        if not self._remembered:
            self._remembered = True
            self._dialect.remember(await self._cache.get(self._memory_key))

    @property
    def _memory_key(self) -> str:
        return content_key("dialect", self._base_url, self.settings.model or "")

    async def keep(self, prompt: Prompt, answer: JudgeAnswer) -> None:
        """Store a usable answer in the cache, so that the same prompt costs nothing the next time."""
        if not answer.from_cache:
            await self._cache.put(self._key(prompt), [answer.text, answer.finish])

    async def cached_answer(self, prompt: Prompt) -> JudgeAnswer | None:
        """Return the cached answer to a prompt; None if there is none."""
        await self._remember()
        match await self._cache.get(self._key(prompt)):
            case [str(text), str(finish)]:
                return JudgeAnswer(text, finish, from_cache=True)
        return None

    def batch_request(self, prompt: Prompt) -> BatchRequest:
        """Return a prompt as a request of a batch, whose answer belongs into the cache under its key."""
        prompt_tokens = _prompt_tokens(prompt, ())
        expected_usd = self._probable_usd(prompt_tokens, int(self._answer_tokens))
        return BatchRequest(self._key(prompt), self._dialect.parameters(prompt, (), prompt_tokens), expected_usd)

    async def take(self, key: str, reply: object) -> JudgeAnswer | None:
        """Store the answer in a reply of a batch, and return it; None if the reply is a refusal or no completion."""
        answer = read_reply(reply, self._price)
        if answer.fault is not None or not answer.text or answer.refusal is not None:
            return None
        await self._cache.put(key, [answer.text, answer.finish])
        return answer

    @property
    def address(self) -> str:
        """Address of the endpoint."""
        return self._base_url

    @property
    def account(self) -> Spend:
        """The account of the spend limit."""
        return self._access.account

    def clean(self, text: str) -> str:
        """Return a text of the endpoint without the key, on one line."""
        return self._access.endpoint.clean(text)

    def unbounded_client(self) -> "openai.AsyncOpenAI":
        """Return a client of the same endpoint for files, which may be large; the caller closes it."""
        import openai  # noqa: PLC0415 - an import of a second, for batches only

        from ragtide_runtime.outside.httpx_transport import bounded_transport  # noqa: PLC0415 - the same

        transport = bounded_transport(
            proxy_of(self._base_url),
            lambda request: FILE_BYTES if request.url.path.endswith("/content") else USUAL.bytes,
        )
        return openai.AsyncOpenAI(
            api_key=self._given_key or "none",
            base_url=self._base_url,
            max_retries=5,
            http_client=openai.DefaultAsyncHttpxClient(transport=transport, trust_env=False),
        )

    async def planned_calls(self, prompt: Prompt) -> PlannedCalls:
        """Return the cost of asking, without a call: nothing if the answer is in the cache."""
        if await self._cache.get(self._key(prompt)) is not None:
            return PlannedCalls(cached=1)
        sent, answered = (
            _prompt_tokens(prompt, ()),
            min(prompt.probable_answer_tokens, self.settings.most_answer_tokens),
        )
        price = self._price
        usd = None if price is None else price.cost_usd(prompt_tokens=sent, completion_tokens=answered)
        return PlannedCalls(1, 0, sent, answered, 0.0 if usd is None else usd)

    @property
    def has_price(self) -> bool:
        """Whether the price of the model is known."""
        return self._price is not None

    def document_tokens(self, prompt: Callable[[], Prompt]) -> int:
        """Return the tokens of documents that one call takes, by estimate.

        Args:
            prompt: returns the prompt without documents; it is called if the window is known.

        Raises:
            ContextTooLong: the rest of the prompt leaves no room for documents in the model's window.
        """
        dialect = self._dialect
        if dialect.window is None:
            return self.settings.context_tokens
        room = dialect.window - dialect.reserved_answer - dialect.tokens(_prompt_tokens(prompt(), ()))
        if room < SMALLEST_BUDGET:
            source = "judge.window_tokens" if self.settings.window_tokens else "the endpoint"
            raise ContextTooLong(
                f"question, response and rules leave {max(room, 0):,} of the {dialect.window:,} tokens of {source} for "
                'documents: set judge.prompt to "short" or "keys", or judge.window_tokens if the model takes more'
            )
        # As many tokens by estimate as take this room by the endpoint's count.
        return min(self.settings.context_tokens, int(room * 1000 / dialect.tokens(1000)))

    def _check_window(self, prompt_tokens: int, *, corrects: bool) -> None:
        window, tokens = self._dialect.window, self._dialect.tokens(prompt_tokens)
        # A correction may use the space reserved for the answer; otherwise the unusable answer would stand.
        rest = 0 if corrects else self._dialect.reserved_answer
        if window is not None and tokens + rest > window:
            raise ContextTooLong(
                f"the prompt has about {tokens:,} tokens and the window {window:,}: set judge.window_tokens if the "
                "model takes more"
            )

    def without_cache(self) -> "JudgeClient":
        """Return a client of the same endpoint, limits and account that neither reads nor stores cached answers.

        It shares the connections, so it is not closed.
        """
        client = copy(self)
        client._cache = NoCache()
        return client

    async def aclose(self) -> None:
        """Close the connections."""
        await self._access.aclose()
        await self._poster.aclose()

    def _key(self, prompt: Prompt) -> str:
        # The dialect is no part of the key: it is learned, and an answer must be found before and after that.
        return content_key(
            self._base_url,
            self.settings.model or "",
            repr(self.settings.temperature),
            prompt.version,
            prompt.rules,
            prompt.form,
            prompt.data,
        )

    def _probable_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        if self._price is None:
            return 0.0
        return self._price.cost_usd(prompt_tokens=prompt_tokens, completion_tokens=answer_tokens) or 0.0


def _prompt_tokens(prompt: Prompt, corrections: Sequence[Message]) -> int:
    return (
        _tokens_of_rules(prompt.rules)
        + _tokens_of_rules(prompt.form)
        + estimated_tokens(prompt.data)
        + sum(estimated_tokens(message["content"]) for message in corrections)
        + MESSAGE_TOKENS
    )


@lru_cache(maxsize=1024)  # rules with the criteria of a sample are many
def _tokens_of_rules(text: str) -> int:
    return estimated_tokens(text)


def _headers(address: str, key: str | None) -> dict[str, str]:
    headers = {
        name: value
        for name, variable in (("OpenAI-Organization", "OPENAI_ORG_ID"), ("OpenAI-Project", "OPENAI_PROJECT_ID"))
        if (value := os.environ.get(variable))
    }
    # An address may have a name and a password of its own.
    return headers if urlsplit(address).username else {"authorization": f"Bearer {key or 'none'}", **headers}
