"""Which labeler the settings mean, built with all it needs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.judge_settings import JudgeSettings
from ragtide_runtime.settings import Settings
from ragtide_schemas import RagInteraction

from .cascade import CascadeLabeler
from .judge.cache import Cache, MemoryCache, NoCache, RedisCache
from .judge.client import JudgeClient
from .judge.labeler import JudgeLabeler, metrics_of
from .judge.spend import MemorySpend, NoSpendLimit, RedisSpend, Spend
from .labeler import Labeler, Labeling
from .local.labeler import LocalLabeler
from .metrics.custom import WithMetrics
from .metrics.ragchecker import PROFILES as CLAIM_PROFILES
from .metrics.trace import PROFILES as TRACE_PROFILES
from .plugins import custom_labeler, custom_metrics, installed_labelers

BUILT_IN: Final = ("local", "judge", "cascade")
"""Labelers that come with ragtide."""


class Bounded:
    """A labeler of the user's own that may not take for ever."""

    def __init__(self, labeler: Labeler, timeout_s: float) -> None:
        self._labeler = labeler
        self._timeout_s = timeout_s
        self.name, self.version, self.profile = labeler.name, labeler.version, labeler.profile

    async def label(self, interaction: RagInteraction) -> Labeling:
        """Return its scores.

        Raises:
            TimeoutError: it took too long.
        """
        async with asyncio.timeout(self._timeout_s):
            return await self._labeler.label(interaction)


@asynccontextmanager
async def labeler_of(settings: Settings, redis: Redis | None, *, patient: bool = True) -> AsyncIterator[Labeler]:
    """Give the labeler that the settings name, with the user's own metrics, and close it in the end.

    Args:
        settings: name it and hold what it needs.
        redis: where a judge's cache and spend limit are shared; without one they are this process's own.
        patient: whether a judge that cannot be asked is waited for, as in a worker, or raises.

    Raises:
        ConfigurationError: there is none of that name, or what it needs is missing.
    """
    labeler, client = _built(settings, redis, patient=patient)
    metrics = custom_metrics(settings)
    try:
        yield WithMetrics(labeler, metrics) if metrics else labeler
    finally:
        if client is not None:
            await client.aclose()


def _built(settings: Settings, redis: Redis | None, *, patient: bool) -> tuple[Labeler, JudgeClient | None]:
    if settings.labeler == "local":
        return LocalLabeler(), None
    if settings.labeler in BUILT_IN:
        client = judge_client(settings, redis)
        judge = _judge(settings, client, patient=patient)
        return (judge if settings.labeler == "judge" else _cascade(settings, judge)), client
    labeler = custom_labeler(settings.labeler, settings)
    if labeler is None:
        names = ", ".join([*BUILT_IN, *installed_labelers()])
        raise ConfigurationError(
            f"labeler is {settings.labeler!r}, which is unknown: set RAGTIDE_LABELER to {names}, or to module:attribute"
        )
    return Bounded(labeler, settings.label_timeout_s), None


def judge_client(settings: Settings, redis: Redis | None) -> JudgeClient:
    """Return the client of the judge.

    Raises:
        ConfigurationError: the model or the key is missing.
    """
    judge = settings.judge
    limited = judge.spend_per_hour_usd is not None or judge.spend_per_day_usd is not None
    cache: Cache = NoCache()
    spend: Spend = NoSpendLimit()
    if judge.cache_ttl_s > 0:
        cache = MemoryCache() if redis is None else RedisCache(redis, settings.prefix, judge.cache_ttl_s)
    if limited:
        spend = MemorySpend(judge) if redis is None else RedisSpend(redis, settings.prefix, judge)
    return JudgeClient(judge, cache=cache, spend=spend)


def _judge(settings: Settings, client: JudgeClient, *, patient: bool) -> JudgeLabeler:
    for name, profile, known in (
        ("profile", settings.profile, TRACE_PROFILES),
        ("claim_profile", settings.claim_profile, CLAIM_PROFILES),
    ):
        if profile not in known:
            raise ConfigurationError(f"{name} is {profile!r}, which is unknown: use one of {', '.join(known)}")
    cascade = settings.labeler == "cascade"
    if cascade:
        patient = patient and settings.cascade.when_unavailable == "wait"
    fallback = LocalLabeler() if settings.judge.over_budget == "local" and not cascade else None
    return JudgeLabeler(
        client, profile=settings.profile, claim_profile=settings.claim_profile, fallback=fallback, patient=patient
    )


def _cascade(settings: Settings, judge: Labeler) -> CascadeLabeler:
    metrics = tuple(metric for family in _families(settings.judge) for metric in metrics_of(family))
    return CascadeLabeler(LocalLabeler(), judge, settings.cascade, judge_metrics=metrics)


def _families(judge: JudgeSettings) -> tuple[str, ...]:
    return tuple(dict.fromkeys(judge.families))
