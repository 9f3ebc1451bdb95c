"""Builds the judge from the settings."""

from pathlib import Path

from redis.asyncio import Redis

from ragtide_runtime.settings.model import Settings

from ...redaction.redaction import Redaction
from ..profiles import check_profiles
from ..protocol import Labeler
from ..remote.telemetry import EndpointTelemetry
from .client import JudgeClient
from .labeler import JudgeLabeler
from .redacting import PromptRedaction


def judge_of(
    settings: Settings,
    redis: Redis | None,
    telemetry: EndpointTelemetry,
    *,
    fallback: Labeler | None,
    answers: Path | None = None,
) -> JudgeLabeler:
    """Return the judge; the caller closes it.

    Args:
        settings: of the process.
        redis: holds cache, spend and state for all processes; without it each process has its own.
        telemetry: counts calls.
        fallback: labeler that scores while a spend limit is reached; None makes interactions wait.
        answers: without Redis, a file that caches answers for later processes; None caches in memory.

    Raises:
        ConfigurationError: the model or the key is missing, a profile is unknown, or the function that redacts cannot
            be loaded.
    """
    check_profiles(settings)
    redaction = PromptRedaction(Redaction.of("judge", settings.judge, patterns_here=True))
    client = JudgeClient(settings, redis, telemetry, answers)
    return JudgeLabeler(
        client,
        redaction,
        profile=settings.profile,
        claim_profile=settings.claim_profile,
        fallback=fallback,
    )
