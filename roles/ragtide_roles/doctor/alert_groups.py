"""Findings of `ragtide doctor` about consumer groups of the alerts streams that no process reads."""

import shlex
from typing import Any, Final, cast

from redis import ResponseError
from redis.asyncio import Redis

from ragtide_runtime.redis.entry_ids import order
from ragtide_runtime.redis.failures import is_missing
from ragtide_runtime.redis.keys import RECORD_GROUP
from ragtide_runtime.redis.log import read_range
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.printable import printable

from .finding import Finding

FORGOTTEN_S: Final = 86_400
"""Age in seconds of the oldest alert that a group has not finished, from which on the group counts as forgotten."""

MOST: Final = 20
"""Most groups of a partition that are looked at: any client may create groups."""


async def alert_group_findings(redis: Redis, settings: Settings, now_ms: int) -> list[Finding]:
    """Return a warning for each group whose oldest unfinished alert is older than a day.

    Alerts that such a group has not finished are trimmed only above ten times `alert_cap`. The recorder's group has a
    finding of its own.

    Args:
        redis: client.
        settings: of the deployment.
        now_ms: Redis's clock.
    """
    findings: list[Finding] = []
    for streams in settings.layout.all():
        first = await read_range(redis, streams.alerts, count=1)
        if not first:
            continue
        for group in await _groups(redis, streams.alerts):
            oldest = await _oldest_unfinished(redis, streams.alerts, group, first[0].entry_id)
            age_s = 0.0 if oldest is None else (now_ms - order(oldest)[0]) / 1000
            if age_s > FORGOTTEN_S:
                name = group["name"].decode(errors="replace")
                command = shlex.join(["redis-cli", "XGROUP", "DESTROY", streams.alerts, name])
                findings.append(
                    Finding(
                        "warning",
                        f"partition {streams.partition}: group {printable(name)}",
                        f"its oldest unfinished alert is {age_s / FORGOTTEN_S:,.1f} days old",
                        f"start a process that reads the group; or remove the group: {printable(command)}",
                    )
                )
    return findings


async def _groups(redis: Redis, stream: str) -> list[dict[str, Any]]:
    try:
        groups = await redis.xinfo_groups(stream)
    except ResponseError as error:
        if not is_missing(error):
            raise
        return []  # the stream is gone meanwhile
    return [group for group in groups if group["name"] != RECORD_GROUP.encode()][:MOST]


async def _oldest_unfinished(redis: Redis, stream: str, group: dict[str, Any], first: str) -> str | None:
    """Return the id of the oldest entry, from `first` on, that a group has not finished; None if there is none."""
    found = []
    if group["pending"]:
        reply = await redis.xpending_range(stream, group["name"], min=first, max="+", count=1)
        found = [one["message_id"].decode() for one in cast("list[dict[str, Any]]", reply)]
    unread = await read_range(redis, stream, first=f"({group['last-delivered-id'].decode()}", count=1)
    return min([*found, *(entry.entry_id for entry in unread)], key=order, default=None)
