"""Reads the report of a workspace, or the comparison of two workspaces, and renders it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from redis.asyncio import Redis

from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace, settings_of_workspace
from ragtide_schemas import Workspace, utc_now
from ragtide_schemas.printable import escaped_json
from ragtide_schemas.suggestions import suggestion

from .comparing import (
    Names,
    RunComparison,
    compare_experiments,
    compare_replays,
    confidence_each,
)
from .comparison_page import comparison_page
from .content import ExperimentReport
from .experiment import ITEMS, chosen_items, experiment_report, wanted_texts
from .experiment_page import experiment_page
from .labelings import clustered_by, is_complete, named_recording, paired, read_scores
from .pages import Format
from .reader import ReportedExperiment, read_experiment, read_texts
from .replays import ReplayReport, moments_of, replay_page, replay_report

Report = ExperimentReport | ReplayReport | RunComparison


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The workspace to report on, or the two to compare."""

    workspace: str
    other: str | None = None
    configs: Sequence[str] = ()
    """Pairs `A=B` of configs to compare; configs of the same name unless given."""
    confidence: float | None = None
    """Level of a comparison's intervals; the setting `confidence` unless given."""
    items: int = ITEMS
    """Number of items in each of the two lists: the worst and the disputed."""
    recording: str | None = None
    """The recording that two compared replays of metric events have read."""
    reference: str | None = None
    """Data set whose published results are shown in the report of an experiment."""


class _ComparedReplay(NamedTuple):
    """One of two compared replays."""

    workspace: Workspace
    settings: Settings
    states: Sequence[AggregatorState]


async def read_report(redis: Redis, settings: Settings, request: ReportRequest) -> tuple[Report, list[str]]:
    """Return the report, and a sentence for each kind of entry that was skipped because it cannot be read.

    Raises:
        ConfigurationError: there is no such workspace, or the two cannot be compared.
    """
    workspace = await get_workspace(redis, settings, request.workspace)
    if request.other is None:
        return await _read_one(redis, settings, workspace, request)
    other = await get_workspace(redis, settings, request.other)
    if workspace.kind != other.kind:
        raise ConfigurationError(
            f"{workspace.run} is {_a(workspace)} and {other.run} is {_a(other)}: compare two workspaces of one kind"
        )
    if workspace.kind == "replay":
        return await _compare_replays(redis, settings, (workspace, other), request), []
    mine, theirs = [await read_experiment(redis, settings, one) for one in (workspace, other)]
    names = _names(request, (workspace, other), _configs(mine), _configs(theirs))
    confidence = _confidence(settings, request)
    return compare_experiments(mine, theirs, names, confidence=confidence, made_at=utc_now()), []


def page_of(report: Report, layout: Format) -> str:
    """Return a report as a page."""
    if isinstance(report, ExperimentReport):
        return experiment_page(report, layout)
    return replay_page(report, layout) if isinstance(report, ReplayReport) else comparison_page(report, layout)


def fields_of(report: Report) -> dict[str, Any]:
    """Return a report as values that JSON can hold."""
    fields: dict[str, Any] = TypeAdapter(type(report)).dump_python(report, mode="json")
    return fields


def json_of(report: Report) -> str:
    """Return a report as JSON for a file."""
    return escaped_json(TypeAdapter(type(report)).dump_json(report, indent=2).decode()) + "\n"


async def _read_one(
    redis: Redis, settings: Settings, workspace: Workspace, request: ReportRequest
) -> tuple[Report, list[str]]:
    if workspace.kind == "experiment":
        experiment = await read_experiment(redis, settings, workspace)
        chosen = chosen_items(experiment, request.items)
        texts = await read_texts(redis, settings, workspace, wanted_texts(experiment, chosen))
        report = experiment_report(experiment, chosen, texts, published=request.reference, fit_for=settings.fit_for)
        return report, []
    if request.reference is not None:
        raise ConfigurationError(f"{workspace.run} is a replay: published results stand beside an experiment's configs")
    deployment = Deployment(redis, settings_of_workspace(settings, workspace))
    alerts = await deployment.alerts()
    return replay_report(workspace, await deployment.estimates(), alerts), deployment.warnings()


async def _compare_replays(
    redis: Redis, settings: Settings, workspaces: tuple[Workspace, Workspace], request: ReportRequest
) -> RunComparison:
    sides = []
    for workspace in workspaces:
        own = settings_of_workspace(settings, workspace)
        sides.append(_ComparedReplay(workspace, own, await Deployment(redis, own).states()))
    first, second = (moments_of(side.states) for side in sides)
    names = _names(request, workspaces, first, second)
    confidence = _confidence(settings, request)
    each = confidence_each(confidence, names)
    pairs = {}
    for pair in names:
        scores = [
            await read_scores(
                redis,
                side.settings.layout.all_of(name),
                name,
                side.workspace,
                named_recording(settings, side.workspace, request.recording),
                by=clustered_by(settings),
            )
            for side, name in zip(sides, pair, strict=True)
        ]
        mine, theirs = scores
        if mine is None or theirs is None:
            continue
        closed = all(
            any(is_complete(of, state, name) for state in side.states)
            for of, side, name in zip((mine, theirs), sides, pair, strict=True)
        )
        pairs[pair] = paired(mine, theirs, confidence=each, closed=closed)
    return compare_replays(
        (workspaces[0], first),
        (workspaces[1], second),
        names,
        pairs=pairs,
        confidence=confidence,
        made_at=utc_now(),
    )


def _confidence(settings: Settings, request: ReportRequest) -> float:
    return settings.confidence if request.confidence is None else request.confidence


def _configs(experiment: ReportedExperiment) -> list[str]:
    return [one.config.name for one in experiment.state.shown]


def _names(
    request: ReportRequest, workspaces: tuple[Workspace, Workspace], first: Collection[str], second: Collection[str]
) -> Names:
    """Return the pairs of names to compare.

    Raises:
        ConfigurationError: a name is unknown, or the two have no name in common.
    """
    if request.configs:
        try:
            return [names_given(text, first, second) for text in request.configs]
        except ValueError as error:
            raise ConfigurationError(f"--config {error}") from None
    same = [(name, name) for name in first if name in second]
    if not same:
        mine, theirs = (", ".join(names) or "empty" for names in (first, second))
        raise ConfigurationError(
            f"{workspaces[0].run} ({mine}) and {workspaces[1].run} ({theirs}) have no name in common: "
            "name the pairs with --config A=B"
        )
    return same


def names_given(text: str, first: Collection[str], second: Collection[str]) -> tuple[str, str]:
    """Return the two names in `A=B`; a name may contain `=`.

    Raises: ValueError if no pair matches, or several do.

    >>> names_given("top_k=2=top_k=4", ["top_k=2"], ["top_k=4"])
    ('top_k=2', 'top_k=4')
    """
    cuts = [index for index, letter in enumerate(text) if letter == "="]
    found = [(text[:cut], text[cut + 1 :]) for cut in cuts if text[:cut] in first and text[cut + 1 :] in second]
    if len(found) != 1:
        pairs = (f"{one}={other}" for one in first for other in second)
        raise ValueError(f"{text!r} names no pair A=B of both{suggestion(text, pairs)}")
    return found[0]


def _a(workspace: Workspace) -> str:
    return f"{'an' if workspace.kind == 'experiment' else 'a'} {workspace.kind}"
