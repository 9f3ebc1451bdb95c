"""A labeler's access to its endpoint: cache, spend limit, paced calls, and the state that `ragtide doctor` shows."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import structlog
from redis import RedisError
from redis.asyncio import Redis

from ragtide_runtime.calls.endpoint_states import EndpointState
from ragtide_runtime.redis.keys import Streams, deployment_prefix, workspace_of
from ragtide_runtime.settings.labelers import RemoteSettings
from ragtide_runtime.settings.model import Settings

from .cache import Cache, MemoryCache, NoCache, RedisCache
from .endpoint import Call, Endpoint, EndpointInfo, Reply
from .errors import EndpointUnavailable, OverBudget
from .file_cache import FileCache
from .spend import RUN, FileSpend, LimitReached, NoSpendLimit, RedisSpend, Spend
from .state import StateReporter
from .telemetry import EndpointTelemetry
from .usage import Usage

log = structlog.get_logger("ragtide.labeler")


class Access:
    """Calls one endpoint, with the cache, limits and state that the settings give it.

    Args:
        info: names of the endpoint.
        remote: its limits.
        redis: holds cache, spend and state for all processes; without it each process has its own.
        telemetry: counts calls.
        tokens_per_minute: most tokens that one worker sends and requests.
        answers: without Redis, a file that caches answers for later processes; None caches in memory.
        account: counts the dollars of this run, beside the account of the deployment.
    """

    def __init__(
        self,
        info: EndpointInfo,
        remote: RemoteSettings,
        settings: Settings,
        redis: Redis | None,
        telemetry: EndpointTelemetry,
        *,
        tokens_per_minute: float | None = None,
        answers: Path | None = None,
        account: Spend | None = None,
    ) -> None:
        name = info.name
        self._info = info
        self.telemetry = telemetry.of(info.model, "live" if workspace_of(settings.prefix) is None else "runs")
        self.endpoint = Endpoint(info, remote, self.telemetry, tokens_per_minute=tokens_per_minute)
        self.cache = _cache(name, remote, settings, redis, answers)
        self._spend = _spend(name, remote, settings, redis)
        self._accounts = [self._spend] if account is None else [account, self._spend]
        self._over_budget = ""
        self.adapted: Callable[[], str] = lambda: ""
        """Returns what the endpoint is asked for less, in words."""
        self._reporter = (
            None
            if redis is None
            else StateReporter(
                redis, settings.prefix, name, self.state, counts=self.telemetry.counts, evaluator=settings.evaluator
            )
        )

    @property
    def account(self) -> Spend:
        """The account of the spend limit."""
        return self._spend

    async def ask(self, call: Call[Reply], usage: Usage, *, expected_usd: float = 0.0) -> Reply:
        """Return the reply to a call, within the spend limit.

        Args:
            call: the question; it adds its cost to `usage` when a reply comes.
            usage: counts tokens, dollars and calls of the interaction, whatever the outcome.
            expected_usd: the probable cost.

        Raises:
            OverBudget: a spend limit is reached.
            EndpointUnavailable: the endpoint cannot be called now (`Endpoint.call`).
            NoLabels: there are no labels for this interaction (`Endpoint.call`).
            ContextTooLong: the question is longer than the endpoint takes.
        """
        if self._reporter is not None:
            self._reporter.start()
        async with AsyncExitStack() as stack:
            for account in self._accounts:
                await stack.enter_async_context(self._reserve_cost(account, usage, expected_usd))
            return await self.endpoint.call(call, usage.counters)

    def found(self, saved_usd: float) -> None:
        """Count an answer from the cache.

        Args:
            saved_usd: probable price of the call that was not made; 0 if no price is known.
        """
        if self._reporter is not None:
            self._reporter.start()
        self.telemetry.found(saved_usd)

    @asynccontextmanager
    async def _reserve_cost(self, account: Spend, usage: Usage, expected_usd: float) -> AsyncIterator[None]:
        """Reserve the probable cost for the body of a `with`, then correct it to the real cost."""
        try:
            reserved = await account.reserve(expected_usd)
        except RedisError as error:
            raise EndpointUnavailable(f"the spend limit cannot be read ({error}): check Redis") from error
        self._over_budget = reserved.period if isinstance(reserved, LimitReached) else ""
        if isinstance(reserved, LimitReached):
            if reserved.period == RUN:
                raise OverBudget("the limit of cost of this run is reached: raise it", reserved.resumes_in_s)
            raise OverBudget(
                f"{self._info.subject}'s spend limit of the {reserved.period} is reached: raise it, or wait for the "
                f"next {reserved.period}",
                reserved.resumes_in_s,
            )
        before = usage.cost_usd
        try:
            yield
        finally:
            try:
                await account.settle(reserved, usage.cost_usd - before)
            except RedisError as error:
                log.warning(
                    "a cost could not be recorded; its estimate stays", endpoint=self._info.name, error=str(error)
                )

    def state(self) -> EndpointState:
        """Return the state of the endpoint, as this process sees it."""
        return EndpointState(
            self._info.name,
            self._info.model,
            paused=self.endpoint.breaker.is_open,
            busy=self.endpoint.asks_for_fewer_calls,
            last_error=self.endpoint.last_error,
            over_budget=self._over_budget,
            adapted=self.adapted(),
            in_flight=self.endpoint.in_flight.in_flight,
            calls_allowed=self.endpoint.in_flight.limit,
        )

    async def aclose(self) -> None:
        """Remove the state from Redis, and close the file of answers."""
        if isinstance(self.cache, FileCache):
            self.cache.close()
        if self._reporter is not None:
            await self._reporter.aclose()


def _cache(name: str, remote: RemoteSettings, settings: Settings, redis: Redis | None, answers: Path | None) -> Cache:
    if remote.cache_ttl_s <= 0:
        return NoCache()
    # An offline run reuses the deployment's cached answers instead of asking again.
    key = partial(Streams(deployment_prefix(settings.prefix), 0).labeler_cache, name)
    if redis is not None:
        return RedisCache(redis, key, remote.cache_ttl_s)
    return MemoryCache() if answers is None else FileCache(answers, name, remote.cache_ttl_s)


def _spend(name: str, remote: RemoteSettings, settings: Settings, redis: Redis | None) -> Spend:
    if remote.spend_per_hour_usd is None and remote.spend_per_day_usd is None:
        return NoSpendLimit()
    if redis is None:
        return FileSpend(settings.data_dir, remote, name=name)
    account = settings.evaluator.account if name == "judge" and settings.evaluator is not None else name
    return RedisSpend(redis, settings.prefix, remote, name=account, effect=_effect(name, settings))


def _effect(name: str, settings: Settings) -> str:
    """Return the effect of a reached spend limit in a cascade, in words; empty for the effect in the settings."""
    cascade = settings.cascade
    sampled = settings.labeler == "cascade" and name in (cascade.reference, cascade.middle)
    if not sampled:
        return ""
    if cascade.when_unavailable == "wait":
        return f"{cascade.proxy} continues to score, and the sample of the {name} waits for the next period"
    return (
        f"{cascade.proxy} continues to score every interaction, and the sample has no scores of the {name} until the "
        "next period"
    )
