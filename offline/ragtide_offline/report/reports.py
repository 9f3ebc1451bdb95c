"""Reads the report of a workspace, or the comparison of two workspaces, and renders it as a page or as JSON."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

from pydantic import TypeAdapter
from redis.asyncio import Redis

from ragtide_aggregator.estimates.choices import chosen
from ragtide_aggregator.estimates.view import View
from ragtide_aggregator.events.keys import HIDDEN, UNBOUNDED, EstimateKey
from ragtide_aggregator.reading.deployment import Deployment
from ragtide_aggregator.reading.diagnoses import diagnoses
from ragtide_aggregator.state.state import AggregatorState
from ragtide_aggregator.statistics.means.moments import Moments
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.workspaces import get_workspace, settings_of_workspace
from ragtide_schemas import METRICS, Alert, Estimate, Workspace, utc_now
from ragtide_schemas.printable import escaped_json
from ragtide_schemas.suggestions import suggestion
from ragtide_web.look.amounts import number

from .comparing import (
    PAIRED,
    MetricDifference,
    Names,
    RunComparison,
    compare_experiments,
    compare_replays,
    confidence_each,
)
from .content import ExperimentReport
from .experiment import (
    ITEMS,
    chosen_items,
    experiment_report,
    read_experiment,
    read_texts,
    wanted_texts,
)
from .experiment_page import experiment_page
from .labelings import clustered_by, is_complete, labeling_differences, named_recording, read_scores
from .pages import ends, page

SENTENCES_MAX: Final = 4
"""Up to this number of pairs of configs each pair has a sentence of its own."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The report of a replay."""

    info: Workspace
    made_at: datetime
    estimates: Sequence[Estimate]
    diagnoses: Sequence[str]
    """One sentence for each diagnosis of the means of a pipeline or segment."""
    alerts: Sequence[Alert]


Report = ExperimentReport | ReplayReport | RunComparison


async def read_report(
    redis: Redis,
    settings: Settings,
    run: str,
    other_run: str | None = None,
    *,
    configs: Sequence[str] = (),
    confidence: float | None = None,
    items: int = ITEMS,
    recording: str | None = None,
    reference: str | None = None,
) -> tuple[Report, list[str]]:
    """Return the report, and a sentence for each kind of entry that was skipped because it cannot be read.

    Args:
        run: the workspace to report on.
        other_run: the workspace to compare it with.
        configs: pairs `A=B` of configs to compare; configs of the same name unless given.
        confidence: level of a comparison's intervals; the setting `confidence` unless given.
        items: number of items in each of the two lists: the worst and the disputed.
        recording: the recording that two compared replays of metric events have read.
        reference: data set whose published results are shown in the report of an experiment.

    Raises:
        ConfigurationError: there is no such workspace, or the two cannot be compared.
    """
    workspace = await get_workspace(redis, settings, run)
    if other_run is None:
        if workspace.kind == "experiment":
            state = await read_experiment(redis, settings, workspace)
            chosen = chosen_items(state, items)
            texts = await read_texts(redis, settings, workspace, wanted_texts(state, chain.from_iterable(chosen)))
            report = experiment_report(workspace, state, chosen, texts, published=reference)
            return report, []
        if reference is not None:
            raise ConfigurationError(f"{run} is a replay: published results stand beside an experiment's configs")
        deployment = Deployment(redis, settings_of_workspace(settings, workspace))
        alerts = await deployment.alerts()
        return replay_report(workspace, await deployment.estimates(), alerts), deployment.warnings()
    other = await get_workspace(redis, settings, other_run)
    if workspace.kind != other.kind:
        raise ConfigurationError(
            f"{workspace.run} is {_a(workspace)} and {other.run} is {_a(other)}: compare two workspaces of one kind"
        )
    level = settings.confidence if confidence is None else confidence
    if workspace.kind == "replay":
        return await _compare_replays(redis, settings, (workspace, other), configs, recording, confidence=level), []
    mine, theirs = [await read_experiment(redis, settings, info) for info in (workspace, other)]
    shown = ([status.config.name for status in state.shown] for state in (mine, theirs))
    names = _names(configs, (workspace, other), *shown)
    both = (workspace, mine), (other, theirs)
    return compare_experiments(*both, names, confidence=level, made_at=utc_now()), []


def page_of(report: Report) -> str:
    """Return a report as a page."""
    if isinstance(report, ExperimentReport):
        return experiment_page(report)
    return replay_page(report) if isinstance(report, ReplayReport) else comparison_page(report)


def fields_of(report: Report) -> dict[str, Any]:
    """Return a report as values that JSON can hold."""
    fields: dict[str, Any] = TypeAdapter(type(report)).dump_python(report, mode="json")
    return fields


def json_of(report: Report) -> str:
    """Return a report as JSON for a file."""
    return escaped_json(TypeAdapter(type(report)).dump_json(report, indent=2).decode()) + "\n"


async def _compare_replays(
    redis: Redis,
    settings: Settings,
    workspaces: tuple[Workspace, Workspace],
    configs: Sequence[str],
    recording: str | None,
    *,
    confidence: float,
) -> RunComparison:
    own = [settings_of_workspace(settings, workspace) for workspace in workspaces]
    states = [await Deployment(redis, settings_of_side).states() for settings_of_side in own]
    first, second = (moments_of(states_of_side) for states_of_side in states)
    names = _names(configs, workspaces, first, second)
    level = confidence_each(confidence, names)
    pairs = {}
    for pair in names:
        scores = [
            await read_scores(
                redis,
                settings_of_side.layout.all_of(name),
                name,
                workspace,
                named_recording(settings, workspace, recording),
                by=clustered_by(settings),
            )
            for workspace, settings_of_side, name in zip(workspaces, own, pair, strict=True)
        ]
        mine, theirs = scores
        if mine is None or theirs is None:
            continue
        closed = all(
            any(is_complete(side, state, name) for state in states_of_side)
            for side, states_of_side, name in zip((mine, theirs), states, pair, strict=True)
        )
        pairs[pair] = labeling_differences(mine, theirs, confidence=level, closed=closed)
    return compare_replays(
        (workspaces[0], first),
        (workspaces[1], second),
        names,
        pairs=pairs,
        confidence=confidence,
        made_at=utc_now(),
    )


def _names(
    configs: Sequence[str], workspaces: tuple[Workspace, Workspace], first: Collection[str], second: Collection[str]
) -> Names:
    if configs:
        try:
            return [names_given(text, first, second) for text in configs]
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
    matches = [(text[:cut], text[cut + 1 :]) for cut in cuts if text[:cut] in first and text[cut + 1 :] in second]
    if len(matches) != 1:
        pairs = (f"{config}={other}" for config in first for other in second)
        raise ValueError(f"{text!r} names no pair A=B of both{suggestion(text, pairs)}")
    return matches[0]


def _a(workspace: Workspace) -> str:
    return f"{'an' if workspace.kind == 'experiment' else 'a'} {workspace.kind}"


def comparison_page(report: RunComparison) -> str:
    """Return the comparison of two workspaces as a page."""
    return page(
        "comparison",
        {
            "report": report,
            "made_at": report.made_at,
            "verdicts": verdicts(report),
            "meaning": meaning(report),
            "things": _things(report),
        },
    )


def verdicts(report: RunComparison) -> list[str]:
    """Return a sentence for each pair of configs, or one sentence for many pairs; none for replays."""
    gaps = [gap for gap in report.gaps if gap.metric == report.metric]
    if len(gaps) <= SENTENCES_MAX:
        return [_sentence(report, gap) for gap in gaps]
    counts = Counter(gap.verdict for gap in gaps)
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common())
    return [
        f"Of {len(gaps):,} configs of {report.first.run} compared in {report.metric} with {report.second.run}: {said}."
    ]


def meaning(report: RunComparison) -> str:
    """Return what the intervals mean."""
    count = len({(gap.first, gap.second) for gap in report.gaps})
    together = f", so that the intervals of all {count:,} pairs hold together for each metric" if count > 1 else ""
    level = f"Intervals have the level {100 * report.confidence_each:.4g}%{together}. They are valid at every look."
    parts = [f"Each difference is {report.first.run} minus {report.second.run}.", level]
    methods = {gap.method for gap in report.gaps}
    if PAIRED in methods:
        experiments = report.first.kind == "experiment"
        parts.append(
            "Paired: item by item, on the items on which both have a score. The interval is a betting sequence."
            if experiments
            else "Paired: by interaction id, on the interactions on which both have a score."
        )
        if any(gap.difference.lower == gap.difference.upper for gap in report.gaps):
            items = _things(report)
            parts.append(
                f"A difference on all {items} of the data is exact for these {items}: its interval has no width."
            )
    if methods - {PAIRED}:
        parts.append(
            "Unpaired: the two share no items. The interval is that of a difference of two means, and needs far more "
            "items to show the same difference."
        )
    return " ".join(parts)


def _things(report: RunComparison) -> str:
    return "questions" if report.first.kind == "experiment" else "interactions"


def _sentence(report: RunComparison, gap: MetricDifference) -> str:
    first, second = (f"{gap.first} of {report.first.run}", f"{gap.second} of {report.second.run}")
    shown = f"{number(gap.difference.estimate)} ({ends(gap.difference, gap.n[0], _things(report))})"
    if gap.verdict == "undecided":
        return f"It is undecided whether {first} is better than {second} in {gap.metric}: {shown}."
    said = {"different": "different from", "equal": "equal to"}.get(gap.verdict, f"{gap.verdict} than")
    return f"{first} is {said} {second} in {gap.metric}: {shown}."


def replay_report(info: Workspace, estimates: Iterable[Estimate], alerts: Iterable[Alert]) -> ReplayReport:
    """Return the report of a replay.

    Args:
        info: its workspace.
        estimates: all estimates of its checkpoint.
        alerts: its alerts.
    """
    registered = {name: index for index, name in enumerate(METRICS)}
    ordered = sorted(
        chosen(estimates),
        key=lambda e: (e.pipeline, e.segment or "", registered.get(e.metric, len(registered)), e.metric),
    )
    sentences = [f"{where}: {diagnosis.sentence()}" for where, diagnosis in diagnoses(ordered)]
    return ReplayReport(info, utc_now(), ordered, sentences, sorted(alerts, key=lambda alert: alert.fired_at))


def replay_page(report: ReplayReport) -> str:
    """Return the report of a replay as a page."""
    return page("replay", {"report": report, "made_at": report.made_at})


def moments_of(states: Iterable[AggregatorState]) -> dict[str, dict[EstimateKey, Moments]]:
    """Return for every pipeline the moments of each measured metric."""
    by_pipeline: defaultdict[str, dict[EstimateKey, Moments]] = defaultdict(dict)
    for state in states:
        view = View(state)
        for row, key in enumerate(state.keys):
            if key.segment is None and not key.metric.startswith(HIDDEN) and key.metric not in UNBOUNDED:
                moments = view.moments([row])
                if moments.n[0]:
                    by_pipeline[key.pipeline][key.unscoped] = moments
    return dict(by_pipeline)
