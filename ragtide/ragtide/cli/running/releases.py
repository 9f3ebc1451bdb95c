"""The verdict on a release, read from Redis or from a service, once or until there is one."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import typer
from pydantic import TypeAdapter
from redis import RedisError
from redis.exceptions import RedisClusterException

from ragtide_aggregator.errors import DamagedFieldError, UnknownReleaseError
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.verdicts import VerdictQuestion, not_comparable, read_verdict
from ragtide_runtime.redis.failures import explained
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Headline, utc_now
from ragtide_schemas.release import Release

from . import VerdictLimits
from .redis import with_redis

if TYPE_CHECKING:
    from ragtide_runtime.service_client import ServiceClient

TIMEOUT_S: Final = 30.0
"""Seconds after which an answer of the service is given up."""

Read: TypeAlias = Callable[[], Awaitable[Release]]
"""Reads the verdict once. It raises `NotReadError`."""

_RELEASE: Final = TypeAdapter(Release)
_HEADLINES: Final = TypeAdapter(list[Headline])
_LENGTH: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


class NotReadError(Exception):
    """The verdict was not read.

    Attributes:
        is_mistake: whether the question must change; otherwise it may be answered later.
    """

    def __init__(self, sentence: str, *, is_mistake: bool = False) -> None:
        super().__init__(sentence)
        self.is_mistake = is_mistake


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a length.

    Raises: typer.BadParameter if it is none.

    >>> seconds_of("30s", "--every"), seconds_of("2h", "--until")
    (30.0, 7200.0)
    """
    match = _LENGTH.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no length: write 30s, 10m, 2h or 1d", param_hint=option)
    return float(match[1]) * _SECONDS[match[2]]


def question_of(pipeline: str, versions: tuple[str | None, str | None], limits: VerdictLimits) -> VerdictQuestion:
    """Return the question in the options of a command.

    Args:
        pipeline: the pipeline.
        versions: the old and the new one.
        limits: the other options.

    Raises: typer.BadParameter if it cannot be answered.
    """
    for option, value, most in (("--margin", limits.margin, 1e9), ("--alpha", limits.alpha, 0.5)):
        if value is not None and not 0 < value <= most:
            raise typer.BadParameter(
                f"{value:g} is out of range: give a number above 0, at most {most:g}", param_hint=option
            )
    try:
        return VerdictQuestion(pipeline, *versions, limits.metric or (), limits.margin, limits.alpha)
    except ValueError as error:
        raise typer.BadParameter(f"{error}", param_hint="--to") from None


def with_reader(
    settings: Settings, asked: VerdictQuestion, url: str | None, body: Callable[[Read], Awaitable[Release]]
) -> Release:
    """Run the body with what reads the verdict, from a service if its address is given, else from Redis."""
    if url is None:
        return with_redis(
            settings, lambda redis, handle: body(_redis_reader(Deployment(redis, settings), asked, handle))
        )
    from ragtide_runtime.service_client import ServiceClient, ServiceNames  # noqa: PLC0415 - only --url needs httpx2

    names = ServiceNames("--url", "RAGTIDE_MCP_TOKEN")
    service = ServiceClient(url, settings.mcp.token, names, timeout_s=TIMEOUT_S)

    async def run() -> Release:
        async with service:
            return await body(_service_reader(service, asked))

    return asyncio.run(run())


def _redis_reader(deployment: Deployment, asked: VerdictQuestion, handle: RedisHandle) -> Read:
    async def read() -> Release:
        try:
            return await read_verdict(deployment, asked)
        except UnknownReleaseError as error:
            raise NotReadError(f"{error}", is_mistake=error.what == "pipeline") from None
        except (RedisError, RedisClusterException, OSError) as error:
            raise NotReadError(f"{handle.description}: {explained(error)}") from None
        except DamagedFieldError:
            raise
        except ValueError as error:
            raise NotReadError(f"{error}", is_mistake=True) from None

    return read


def _service_reader(service: "ServiceClient", asked: VerdictQuestion) -> Read:
    from ragtide_runtime.service_client import ServiceError  # noqa: PLC0415 - as above

    query: dict[str, Any] = {
        "pipeline": asked.pipeline, "from": asked.from_version, "to": asked.to_version,
        "metric": asked.metrics, "margin": asked.margin, "alpha": asked.alpha,
    }  # fmt: skip

    async def read() -> Release:
        try:
            return await service.get("/v1/verdict", _RELEASE, **query)
        except ServiceError as error:
            is_mistake = error.status in (401, 403, 422)
            if error.status == 404:
                is_mistake = not await knows_pipeline()
            raise NotReadError(f"{error}", is_mistake=is_mistake) from None

    async def knows_pipeline() -> bool:
        try:
            headlines = await service.get("/v1/headlines", _HEADLINES, pipeline=asked.pipeline, last="all")
        except ServiceError:  # it ends at this moment
            return True
        return bool(headlines)

    return read


async def watch_release(
    read: Read, asked: VerdictQuestion, say: Callable[[str], None], *, until_s: float, every_s: float
) -> Release:
    """Return the release at its first verdict, or at the end of the time.

    A failure to read ends nothing once an answer came, because a service may restart.

    Args:
        read: reads the verdict.
        asked: the question, with both versions.
        say: takes a sentence whenever something changed.
        until_s: longest time, in seconds.
        every_s: seconds between two readings.

    Raises: typer.BadParameter if the first answer says that the question is a mistake.
    """
    end, news, answered = monotonic() + until_s, None, False
    while True:
        try:
            release = await read()
            answered = True
            state: object = (
                release.opened_at, release.verdict, release.reason, release.ended_at,
                frozenset((row.metric, row.labeler, row.verdict) for row in release.metrics),
            )  # fmt: skip
        except NotReadError as error:
            if error.is_mistake and not answered:
                raise typer.BadParameter(f"{error}") from None
            answered = answered or not error.is_mistake
            release = not_comparable(asked, f"{error}")
            state = sentence = f"waiting: {error}"
        else:
            sentence = release.sentence
        if state != news:
            say(f"{utc_now():%H:%M:%S} {sentence}")
            news = state
        left_s = end - monotonic()
        if release.verdict in ("worse", "not_worse") or left_s <= 0:
            return release
        await asyncio.sleep(min(every_s, left_s))


async def read_once(read: Read) -> Release:
    """Return the verdict at present.

    Raises: typer.BadParameter if it cannot be read.
    """
    try:
        return await read()
    except NotReadError as error:
        raise typer.BadParameter(f"{error}") from None
