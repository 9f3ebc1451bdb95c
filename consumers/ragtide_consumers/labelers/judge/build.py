"""The judge and the cascade that settings mean, built with cache, spend limit and fallback."""

from functools import partial

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.redis.keys import Streams, deployment_prefix
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.instruments import JudgeInstruments

from ...metrics.ragchecker import PROFILES as CLAIM_PROFILES
from ...metrics.trace import PROFILES as TRACE_PROFILES
from ..cascade import CascadeLabeler
from ..local.labeler import LocalLabeler
from ..protocol import Labeler
from ..remote.cache import Cache, MemoryCache, NoCache, RedisCache
from ..remote.spend import NoSpendLimit, RedisSpend, Spend
from ..remote.spend_file import FileSpend
from ..remote.state import StateReporter
from .client import JudgeClient
from .labeler import JudgeLabeler, metrics_of


def judge_of(
    settings: Settings, redis: Redis | None, *, patient: bool, instruments: JudgeInstruments | None = None
) -> Labeler:
    """Return the labeler `judge` or `cascade`, to be closed in the end.

    In a cascade that is not `patient` the judge is skipped while it is unavailable, whatever the settings say.

    Raises:
        ConfigurationError: the model or the key is missing, or a profile is unknown.
    """
    for name, profile, known in (
        ("profile", settings.profile, TRACE_PROFILES),
        ("claim_profile", settings.claim_profile, CLAIM_PROFILES),
    ):
        if profile not in known:
            raise ConfigurationError(f"{name} is {profile!r}, which is unknown: use one of {', '.join(known)}")
    client = _client(settings, redis, instruments)
    build = partial(JudgeLabeler, client, profile=settings.profile, claim_profile=settings.claim_profile)
    if settings.labeler == "judge":
        fallback = LocalLabeler() if settings.judge.over_budget == "local" else None
        return build(fallback=fallback)
    # In a cascade the local labeler has scored already: over budget, the judge is waited for or skipped.
    judge = build()
    wait = patient and settings.cascade.when_unavailable == "wait"
    metrics = tuple(metric for family in dict.fromkeys(settings.judge.families) for metric in metrics_of(family))
    return CascadeLabeler(LocalLabeler(), judge, settings.cascade, judge_metrics=metrics, wait=wait)


def _client(settings: Settings, redis: Redis | None, instruments: JudgeInstruments | None) -> JudgeClient:
    judge = settings.judge
    limited = judge.spend_per_hour_usd is not None or judge.spend_per_day_usd is not None
    cache: Cache = NoCache()
    spend: Spend = NoSpendLimit()
    if judge.cache_ttl_s > 0:
        # An offline run reuses the deployment's cached answers instead of asking again.
        cached = Streams(deployment_prefix(settings.prefix), 0).judge_cache
        cache = MemoryCache() if redis is None else RedisCache(redis, cached, judge.cache_ttl_s)
    if limited:
        spend = FileSpend(settings.data_dir, judge) if redis is None else RedisSpend(redis, settings.prefix, judge)
    client = JudgeClient(judge, cache=cache, spend=spend, instruments=instruments)
    if redis is not None:
        client.reporter = StateReporter(redis, settings.prefix, client.state)
    return client
