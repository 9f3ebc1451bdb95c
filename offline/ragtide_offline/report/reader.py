"""Reading an experiment for a report: all of its records, and the texts of the few answers that are shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from redis.asyncio import Redis

from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import settings_of_workspace
from ragtide_schemas import RagInteraction, Workspace
from ragtide_schemas.experiments import Order, Progress

from ..experiments.decisions import Judging
from ..experiments.ledger import Ledger
from ..experiments.reader import ExperimentReader
from ..experiments.results import Book

Texts = Mapping[tuple[str, int], RagInteraction]
"""Answers by config and place of the item."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An experiment as it was read."""

    info: Workspace
    progress: Progress
    book: Book
    orders: list[Order]
    """Orders that changed something."""
    refused: list[tuple[Order, str]]
    """Orders that changed nothing, with why."""
    judging: Judging | None = None
    """The race along the log."""


def streams_of(settings: Settings, info: Workspace) -> Streams:
    """Return the keys of an experiment."""
    return settings_of_workspace(settings, info).layout.all()[0]


async def read_experiment(redis: Redis, settings: Settings, info: Workspace) -> Judged:
    """Return an experiment with everything it has recorded so far.

    Raises:
        ConfigurationError: the run is none, or has not begun.
    """
    reader = ExperimentReader(redis, streams_of(settings, info), races=True)
    await reader.read()
    return Judged(info, reader.progress, reader.book, reader.orders, reader.refused, reader.judging)


async def read_texts(redis: Redis, settings: Settings, info: Workspace, wanted: Iterable[tuple[str, int]]) -> Texts:
    """Return answers of configs to items; those that are not, or no longer, on the stream are left out."""
    ledger = Ledger(redis, streams_of(settings, info), dedupe_window_s=settings.dedupe_window_s)
    found: dict[tuple[str, int], RagInteraction] = {}
    for config, item in wanted:
        answer = await ledger.answer(config, item)
        if answer is not None:
            found[config, item] = answer
    return found
