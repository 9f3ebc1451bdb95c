"""`ragtide silence`: silences alerts for a while, and acknowledges them."""

import getpass
from datetime import timedelta
from typing import Annotated

import typer
from pydantic import ValidationError
from redis.asyncio import Redis

from ragtide_consumers.notify.silences import (
    Silence,
    add_silence,
    new_silence_id,
    read_silences,
    remove_silence,
)
from ragtide_runtime.redis.url import RedisHandle
from ragtide_schemas import utc_now
from ragtide_schemas.alert_rule import duration_ms
from ragtide_schemas.base import describe

from .command_groups import command_group
from .common import JsonOption, given
from .console import err, out, print_json
from .fitting import Column, fitted
from .with_redis import with_redis

silence = command_group(
    "Silence alerts for a while, or list the silences. Silenced alerts still fire and are shown, but are not told."
)


@silence.callback(invoke_without_command=True)
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show the silences that hold now, the first to end first; with --json as a list."""
    if context.invoked_subcommand is not None:
        return
    settings = given(context).settings()
    found = with_redis(settings, lambda redis, _: read_silences(redis, settings.prefix))
    found = [one for one in found if one.until > utc_now()]
    if as_json:
        print_json([one.model_dump(mode="json") for one in found])
    elif not found:
        err.print("No silences: ragtide silence add sets one.")
    else:
        columns = [
            Column("id", [one.id for one in found]),
            Column("until", [f"{one.until:%Y-%m-%d %H:%M}" for one in found]),
            Column("alerts", [_matched(one) for one in found]),
            Column("by", [one.by for one in found]),
            Column("reason", [one.reason for one in found], yields=1, stacks=True),
        ]
        out.print(fitted(columns, out.width))


def _matched(one: Silence) -> str:
    patterns = {name: getattr(one, name) for name in ("pipeline", "rule", "metric", "segment")}
    return " ".join(f"{name}={text}" for name, text in patterns.items() if text not in ("*", None)) or "all"


@silence.command()
def add(
    context: typer.Context,
    pipeline: Annotated[str, typer.Option(help="Shell-style pattern of pipelines.")] = "*",
    rule: Annotated[str, typer.Option(help="Shell-style pattern of rules.")] = "*",
    metric: Annotated[str, typer.Option(help="Shell-style pattern of metrics.")] = "*",
    segment: Annotated[str | None, typer.Option(help="Shell-style pattern of segment values, such as lang=*.")] = None,
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="Length, such as 30m, 2h or 1d.")] = "2h",
    by: Annotated[str | None, typer.Option(help="Your name; default: the user of this machine.")] = None,
    reason: Annotated[str, typer.Option(help="Reason, for other people.")] = "",
) -> None:
    """Silence the alerts that match every pattern. It prints the id of the silence."""
    settings, now = given(context).settings(), utc_now()
    try:
        length = timedelta(milliseconds=duration_ms(duration))
        one = Silence(
            id=new_silence_id(),
            pipeline=pipeline,
            rule=rule,
            metric=metric,
            segment=segment,
            until=now + length,
            by=by or user_name(),
            reason=reason,
            created_at=now,
        )
    except ValidationError as error:
        raise typer.BadParameter(describe(error)) from None
    except (ValueError, KeyError, OverflowError):
        raise typer.BadParameter(f"{duration!r} is no length: write 30m, 2h or 1d", param_hint="--for") from None

    async def body(redis: Redis, _: RedisHandle) -> None:
        await add_silence(redis, settings.prefix, one)

    try:
        with_redis(settings, body)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    out.print(one.id, highlight=False)
    err.print(f"silent until {one.until:%Y-%m-%d %H:%M} UTC: {_matched(one)}", markup=False, highlight=False)


@silence.command()
def remove(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of silences.")],
) -> None:
    """End silences. Alerts that fire and were not told are told now."""
    settings = given(context).settings()
    missing = []
    for one in ids:
        removed = with_redis(settings, lambda redis, _, one=one: remove_silence(redis, settings.prefix, one))  # type: ignore[misc]
        if not removed:
            missing.append(one)
    if missing:
        raise typer.BadParameter(f"there is no silence {', '.join(missing)}: ragtide silence lists them")


def user_name() -> str:
    """Return the name of the user of this machine; `unknown` if it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
