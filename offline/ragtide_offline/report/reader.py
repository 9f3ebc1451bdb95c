"""Reading an experiment for a report: its whole state, and the texts of the few answers that are shown."""

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
    """An experiment that a report is about."""

    info: Workspace
    state: ExperimentState


async def read_experiment(redis: Redis, settings: Settings, info: Workspace) -> ReportedExperiment:
    """Return an experiment with everything it has recorded so far.

    Raises:
        ConfigurationError: the run is no experiment, or has not begun.
    """
    reader = ExperimentReader(redis, streams_of(settings, info))
    await reader.read()
    return ReportedExperiment(info, reader.state)


async def read_texts(redis: Redis, settings: Settings, info: Workspace, wanted: Iterable[tuple[str, int]]) -> Texts:
    """Return answers of configs to items, without those that are not on the stream."""
    executions = ExecutionLog(redis, streams_of(settings, info), dedupe_window_s=settings.dedupe_window_s)
    found: dict[tuple[str, int], RagInteraction] = {}
    for config, item in wanted:
        answer = await executions.answer(config, item)
        if answer is not None:
            found[config, item] = answer
    return found
