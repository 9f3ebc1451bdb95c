"""Reads an experiment for a report: its whole state, and the texts of the answers that the report shows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from redis.asyncio import Redis

from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction, Workspace

from ..experiments.execution_log import ExecutionLog
from ..experiments.reader import ExperimentReader, streams_of
from ..experiments.state import ExperimentState

Texts = Mapping[tuple[str, int], RagInteraction]
"""Answers by config and index of the item."""


@dataclass(frozen=True, slots=True)
class ReportedExperiment:
    """An experiment as a report reads it."""

    info: Workspace
    state: ExperimentState


async def read_experiment(redis: Redis, settings: Settings, info: Workspace) -> ReportedExperiment:
    """Return an experiment with all its results so far.

    Raises:
        ConfigurationError: the workspace is no experiment, or its experiment has not begun.
    """
    reader = ExperimentReader(redis, streams_of(settings, info))
    await reader.read()
    return ReportedExperiment(info, reader.state)


async def read_texts(redis: Redis, settings: Settings, info: Workspace, wanted: Iterable[tuple[str, int]]) -> Texts:
    """Return the answers, by config and index of the item, that are still on the stream."""
    executions = ExecutionLog(redis, streams_of(settings, info), dedupe_window_s=settings.dedupe_window_s)
    found: dict[tuple[str, int], RagInteraction] = {}
    for config, item in wanted:
        answer = await executions.answer(config, item)
        if answer is not None:
            found[config, item] = answer
    return found
