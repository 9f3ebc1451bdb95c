"""`ragtide dead-letters`: shows the dead letters, or publishes them again."""

from collections import deque
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from redis.asyncio import Redis
from rich.console import RenderableType
from rich.text import Text

from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_producers.publishing.retrying import Retrier
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.redis.url import RedisHandle
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Reason
from ragtide_schemas.suggestions import unknown

from .command_groups import command_group
from .common import JsonOption
from .console import err, out, print_json, warn
from .fitting import Column, fitted
from .with_redis import with_redis
from .workspace_option import WorkspaceOption, settings_with

dead_letters = command_group(
    "Show entries that could not be used, or publish them again. Without a command it shows the newest."
)

SHOWN: Final = 1000
"""Most dead letters in the table; `--json` prints all."""

DETAIL_CHARS: Final = 1000
"""Most characters of the detail in the table; `--json` prints all."""


@dead_letters.callback(invoke_without_command=True)
def list_dead_letters(
    context: typer.Context,
    reason: Annotated[str | None, typer.Option(help="Only this reason, such as not_json.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the newest entries that could not be used; with --json all of them with payload, one per line."""
    if context.invoked_subcommand is not None:
        return
    known = [one.value for one in Reason]
    if reason is not None and reason not in known:
        raise typer.BadParameter(unknown("reason", reason, known), param_hint="--reason")
    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> tuple[int, list[StoredDeadLetter]]:
        deployment = Deployment(redis, settings)
        newest: deque[StoredDeadLetter] = deque(maxlen=SHOWN)
        count = 0
        async for stored in deployment.dead_letters():
            letter = stored.letter
            if reason not in (None, letter.reason):
                continue
            count += 1
            if as_json:
                print_json({"id": stored.letter_id, "partition": stored.partition, **letter.model_dump(mode="json")})
            else:
                newest.append(stored.without_payload())
        warn(*deployment.warnings())
        return count, list(newest)

    count, newest = with_redis(settings, body)
    if as_json:
        return
    out.print(letters_table(newest, out.width))
    if count > len(newest):
        err.print(f"These are the newest {len(newest):,} of {count:,}; --json prints all.", highlight=False)


@dead_letters.command()
def retry(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of dead letters.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Publish every dead letter again.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Publish dead interactions and feedback again, after you have corrected the cause."""
    if bool(ids) == every:
        raise typer.BadParameter("give ids of dead letters, or --all")
    settings = settings_with(context, workspace)
    retried = with_redis(settings, lambda redis, _: _retried(redis, settings, ids))
    err.print(f"{retried:,} published again", highlight=False)


async def _retried(redis: Redis, settings: Settings, ids: list[str] | None) -> int:
    deployment, retrier = Deployment(redis, settings), Retrier(redis)
    retried = 0
    async for stored in deployment.dead_letters(ids):
        streams = Streams(settings.prefix, stored.partition)
        try:
            retried += await retrier.retry(streams, stored.letter_id, stored.letter)
        except ValueError as error:
            deployment.unreadable_dead_letters.add(f"{stored.letter_id} of {streams.dead_letters}", error)
    warn(*deployment.warnings())
    return retried


def letters_table(letters: Sequence[StoredDeadLetter], width: int) -> RenderableType:
    """Return dead letters as a table, or the sentence that there are none; a long detail is below its row."""
    if not letters:
        return Text("No dead letters.", style="green")
    columns = [
        Column("id", [stored.letter_id for stored in letters]),
        Column("failed at", [f"{stored.letter.failed_at:%Y-%m-%d %H:%M:%S}" for stored in letters]),
        Column("reason", [Text(stored.letter.reason, style="red") for stored in letters]),
        Column("deliveries", [f"{stored.letter.deliveries:,}" for stored in letters], right=True),
        Column("detail", [_shortened(stored.letter.detail) for stored in letters], yields=1, stacks=True),
    ]
    return fitted(columns, width)


def _shortened(detail: str) -> str:
    return detail if len(detail) <= DETAIL_CHARS else f"{detail[: DETAIL_CHARS - 3]}..."
