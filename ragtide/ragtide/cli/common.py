"""Shared by the commands: the options before the command, the Redis client, and the output."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from redis import RedisError
from redis.asyncio import Redis
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment

from ragtide_runtime.errors import RedisUnavailable
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.deployment import check_layout
from ragtide_runtime.redis.url import RedisHandle, redact, resolve_redis
from ragtide_runtime.settings.model import Settings, load_settings
from ragtide_schemas.printable import printable, printable_json

T = TypeVar("T")


UNLIMITED: Final = 10_000
"""Columns of a pipe or a file: a table then has all columns and whole names, and no line is wrapped."""


class SafeConsole(Console):
    """A console whose text cannot control the terminal. Styles and redrawing still work, because rich adds them.

    A pipe or a file has lines of any length, unless COLUMNS states a width.
    """

    @property
    def size(self) -> ConsoleDimensions:
        """The size of the terminal."""
        known = super().size
        stated = self._width is not None or self._environ.get("COLUMNS", "").isdigit()
        return known if stated or self.is_terminal else ConsoleDimensions(UNLIMITED, known.height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield segments in which characters that control a terminal are escaped."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, keep="\n\t"), style, control)


# Without markup and names of emoji, because a cell of a table may show a text that an application published.
out = SafeConsole(soft_wrap=False, markup=False, emoji=False)
err = SafeConsole(stderr=True, markup=False, emoji=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
SegmentsOption = Annotated[bool, typer.Option("--segments", help="Show segment values, too.")]
PipelineOption = Annotated[str | None, typer.Option(help="Only this pipeline.")]


class Role(StrEnum):
    """Roles of a deployment."""

    WORKER = "worker"
    AGGREGATOR = "aggregator"
    RECORDER = "recorder"


@dataclass(frozen=True, slots=True)
class Given:
    """The options given before the command."""

    redis_url: str | None = None
    prefix: str | None = None
    data_dir: Path | None = None
    partitions: int | None = None

    def settings(self, **more: object) -> Settings:
        """Return the settings; these options, and `more` options of the command, override environment and file."""
        given = {
            "redis_url": self.redis_url,
            "prefix": self.prefix,
            "data_dir": self.data_dir,
            "partitions": self.partitions,
            **more,
        }
        return load_settings(**{name: value for name, value in given.items() if value is not None})


def given(context: typer.Context) -> Given:
    """Return the options given before the command."""
    found = context.find_object(Given)
    return found if found is not None else Given()


def with_redis(
    settings: Settings,
    body: Callable[[Redis, RedisHandle], Awaitable[T]],
    *,
    any_layout: bool = False,
    convert: bool = False,
) -> T:
    """Run the body with a client of the Redis that the settings name, and return its result.

    Args:
        settings: of the deployment.
        body: coroutine function to run.
        any_layout: whether the deployment may have another layout than the settings.
        convert: whether an embedded server may convert the data of an older one (`resolve_redis`).

    Raises:
        ConfigurationError: the deployment has another layout than the settings.
        RedisUnavailable: Redis cannot be started or reached.
    """

    async def run(handle: RedisHandle) -> T:
        redis = connect_async(handle.url)
        try:
            if not any_layout:
                await check_layout(redis, settings.layout)
            return await body(redis, handle)
        finally:
            await redis.aclose()

    with resolve_redis(settings.redis_address, settings.data_dir, convert=convert) as handle:
        try:
            return asyncio.run(run(handle))
        except RedisError as error:
            raise RedisUnavailable(f"{redact(handle.url)}: {error}; check that Redis runs, then try again") from error


def warn(*sentences: str) -> None:
    """Print warnings on standard error."""
    for sentence in sentences:
        err.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one value as one line of JSON."""
    typer.echo(printable_json(value))
