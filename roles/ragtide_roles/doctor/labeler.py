"""The findings of `ragtide doctor` about the labeler: whether a worker could start, and the languages it knows."""

from redis.asyncio import Redis

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

from .finding import Finding, Level


async def labeler_findings(redis: Redis, settings: Settings, workers: int) -> list[Finding]:
    """Return a finding if no worker could start with these settings, such as a judge without a model.

    If the local labeler scores, a finding names the languages that it knows.

    Args:
        redis: client.
        settings: of this process.
        workers: number of workers that run. They have settings of their own, so with a worker it is a warning only.
    """
    from ragtide_consumers.labelers.local.labeler import LANGUAGES  # noqa: PLC0415 - the other checks need no labeler
    from ragtide_consumers.labelers.registry import labeler_of  # noqa: PLC0415

    try:
        async with labeler_of(settings, redis):
            falls_back = settings.labeler == "judge" and settings.judge.over_budget == "local"
            if "local" not in settings.labelers and not falls_back:
                return []
            known = ", ".join(LANGUAGES.values())
            return [Finding("ok", "local labeler", f"scores {known}; other languages are language_not_supported")]
    except ConfigurationError as error:
        level: Level = "warning" if workers else "problem"
        return [Finding(level, f"labeler {settings.labeler}", f"no worker starts with these settings: {error}")]
