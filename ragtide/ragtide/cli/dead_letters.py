"""`ragtide dead-letters`: shows entries that could not be used, or tries them again."""

from typing import Annotated

import typer
from redis.asyncio import Redis

from ragtide_runtime.redis.url import RedisHandle

from .common import JsonOption, err, out, print_json, warn, with_redis
from .reading_streams import read_dead_letters, retry_dead_letters
from .tables import dead_letters_table
from .workspace_option import WorkspaceOption, settings_with

dead_letters = typer.Typer(help="Show entries nobody could use, with the reason; or try them again.")


@dead_letters.callback(invoke_without_command=True)
def list_dead_letters(
    context: typer.Context,
    reason: Annotated[str | None, typer.Option(help="Only this reason, such as not_json.")] = None,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show entries nobody could use, with the reason; as JSON one object a line, payload included."""
    if context.invoked_subcommand is not None:
        return
    settings = settings_with(context, workspace)
    letters, unreadable = with_redis(settings, lambda redis, _: read_dead_letters(redis, settings, payloads=as_json))
    warn(unreadable.warning())
    found = [stored for stored in letters if reason in (None, stored.letter.reason)]
    if as_json:
        for stored in found:
            print_json({"id": stored.letter_id, "partition": stored.partition, **stored.letter.model_dump(mode="json")})
    else:
        out.print(dead_letters_table(found))


@dead_letters.command()
def retry(
    context: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of dead letters.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every dead letter.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Publish dead interactions again, after their cause was mended."""
    if bool(ids) == every:
        raise typer.BadParameter("give ids of dead letters, or --all")
    settings = settings_with(context, workspace)

    async def body(redis: Redis, _: RedisHandle) -> int:
        stored, unreadable = await read_dead_letters(redis, settings)
        wanted = [item for item in stored if every or item.letter_id in (ids or [])]
        retried = await retry_dead_letters(redis, settings, wanted, unreadable)
        warn(unreadable.warning())
        return retried

    err.print(f"{with_redis(settings, body):,} published again", highlight=False)
