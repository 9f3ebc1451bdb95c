"""Tables of dead letters, workspaces, silences, and the contents of a recording."""

from collections.abc import Sequence
from typing import Final

from redis.asyncio import Redis
from rich.console import RenderableType
from rich.text import Text

from ragtide_aggregator.reading.dead_letters import StoredDeadLetter
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_consumers.notify.silences import Silence
from ragtide_producers.publishing.retrying import Retrier
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Workspace

from .console import warn
from .fitting import Column, fitted

SHOWN: Final = 1000
"""Most dead letters in the table; `--json` prints all."""


DETAIL_CHARS: Final = 1000
"""Most characters of the detail in the table; `--json` prints all."""


async def retry_letters(redis: Redis, settings: Settings, ids: list[str] | None) -> int:
    """Publish dead letters again, and return their number."""
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


async def forget_letters(redis: Redis, settings: Settings, interaction_id: str, pipeline: str | None) -> int:
    """Delete the dead letters about an interaction, and return their number."""
    deployment = Deployment(redis, settings)
    forgotten = 0
    async for stored in deployment.dead_letters():
        letter = stored.letter
        if letter.is_about(interaction_id) and (pipeline is None or letter.pipeline in (None, pipeline)):
            forgotten += await redis.xdel(Streams(settings.prefix, stored.partition).dead_letters, stored.letter_id)
    return forgotten


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


def workspaces_table(found: Sequence[Workspace], width: int) -> RenderableType:
    """Return workspaces as a table; a long source is below its row."""
    sizes = ["" if workspace.population_size is None else f"{workspace.population_size:,}" for workspace in found]
    columns = [
        Column("workspace", [workspace.run for workspace in found]),
        Column("kind", [workspace.kind for workspace in found]),
        Column("began", [f"{workspace.created_at:%Y-%m-%d %H:%M}" for workspace in found]),
        Column("size", sizes, right=True),
        Column("source", [workspace.source for workspace in found], yields=1, stacks=True),
    ]
    return fitted(columns, width)


def matched_alerts(one: Silence) -> str:
    """Return the patterns of a silence in words."""
    patterns = {name: getattr(one, name) for name in ("pipeline", "rule", "metric", "segment")}
    return " ".join(f"{name}={text}" for name, text in patterns.items() if text not in ("*", None)) or "all"
