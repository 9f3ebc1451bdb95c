"""Puts interactions and feedback that Redis lost back into the live streams, from the recording that has them.

Redis loses the end of its streams when it is restored from an older copy. The recorder notices that, and marks its
entries after that end as void. An entry that was put back is recorded again, so it is not put back twice; until then
Redis knows its id.
"""

import asyncio
from dataclasses import asdict, dataclass
from typing import Any, Final

from redis.asyncio import Redis

from ragtide_producers.publishing.batch_publisher import publish_commands
from ragtide_producers.publishing.routes import FeedbackRoute, InteractionRoute, Publication, PublishCommand
from ragtide_runtime.processes.waiting import Backoff, sleep_or_stop
from ragtide_runtime.recordings import EntryKind, Recording
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Feedback, RagInteraction

BATCH: Final = 100
"""Most items of one round trip."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Counts of items that were put back."""

    interactions: int = 0
    """Interactions that are in their stream again; workers label them."""
    known: int = 0
    """Interactions whose ids Redis knew: an application, or an earlier try, had published them again."""
    feedback: int = 0
    """Feedback items that are in their stream again. One that is there twice becomes a dead letter."""
    left: int = 0
    """Items that are still to be put back, because the restoring was stopped."""

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as JSON fields."""
        return asdict(self)


async def restore_lost(redis: Redis, settings: Settings, recording: Recording, stop: asyncio.Event) -> Restored:
    """Publish what Redis lost, each item once, and wait for room where a stream is full.

    Args:
        redis: client of the deployment.
        stop: ends it between two batches; the same call continues later.

    Raises:
        UnreadableRecordingError: a file is missing or damaged.
        redis.RedisError: Redis does not answer; the same call continues later.
    """
    interactions, feedback = InteractionRoute.of(settings), FeedbackRoute(settings.layout)
    lost = [entry.model for kind in (EntryKind.INTERACTIONS, EntryKind.FEEDBACK) for entry in recording.lost(kind)]
    waiting = [interactions.command(model) for model in lost if isinstance(model, RagInteraction)]
    answers = [feedback.command(model) for model in lost if isinstance(model, Feedback)]
    published = await _publish(redis, interactions, waiting, stop)
    # Feedback comes after its interaction, for which it waits.
    answered = await _publish(redis, feedback, answers, stop) if len(published) == len(waiting) else []
    added = sum(publication.added for publication in published)
    left = len(waiting) - len(published) + len(answers) - len(answered)
    return Restored(added, len(published) - added, len(answered), left)


async def _publish(
    redis: Redis, route: InteractionRoute | FeedbackRoute, commands: list[PublishCommand], stop: asyncio.Event
) -> list[Publication]:
    publications: list[Publication] = []
    pause = Backoff()
    while commands and not stop.is_set():
        batch, commands = commands[:BATCH], commands[BATCH:]
        outcomes = await publish_commands(redis, route, batch)
        publications += [outcome for outcome in outcomes if outcome is not None]
        full = [command for command, outcome in zip(batch, outcomes, strict=True) if outcome is None]
        commands = full + commands
        if full and await sleep_or_stop(stop, pause.pause_s()):
            break
        if not full:
            pause.succeeded()
    return publications
