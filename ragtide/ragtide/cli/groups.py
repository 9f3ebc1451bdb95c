"""Groups estimates by scope and labeler, with a heading and the metrics without values; reads and prints nothing."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.text import Text

from ragtide_schemas import METRICS, Estimate, Headline
from ragtide_schemas.fitness import phrase_of
from ragtide_schemas.suggestions import unknown

from .fitting import shortened

NO_MEASURE: Final = frozenset({"not_accurate_enough", "not_labeled", "language_not_supported"})
"""Reasons of absence that lie in the labeler, not in the interaction."""


CONSEQUENCE: Final = "part_absent"
"""The reason of a metric that is computed from an absent metric."""


REASONS_SHOWN: Final = 3
"""Most reasons of absence after a number of absences."""


REASON_CHARS: Final = 40
"""Most characters of a reason."""


ESTIMATOR_NAMES: Final = {"prediction_powered": "prediction-powered", "mean": "mean", "weighted": "weighted"}
"""Names of estimators on screens, in the order of rows: the recommended estimator first."""


PROMPT: Final = re.compile(r"[a-z]+\.[0-9]+")
"""A prompt with its version, in the version of a remote labeler."""


class GroupKey(NamedTuple):
    """Estimates with one key are about the same interactions, scored by one version of a labeler."""

    pipeline: str
    run: str | None
    segment: str | None
    labeler: str
    labeler_version: str
    profile: str


@dataclass(frozen=True, slots=True)
class EstimateGroup:
    """Estimates of one scope and labeler, in reading order."""

    key: GroupKey
    title: tuple[str, ...]
    """Scope and labeler in words."""
    measured: Sequence[Estimate]
    """Estimates with values."""
    unmeasured: Sequence[Estimate]
    """Estimates without a value."""


def whole_pipelines(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return the estimates that are not of a segment value."""
    return [estimate for estimate in estimates if estimate.segment is None]


def group_key(estimate: Estimate) -> GroupKey:
    """Return the scope and the labeler of an estimate."""
    return GroupKey(*(getattr(estimate, name) for name in GroupKey._fields))


def short_name(metric: str) -> str:
    """Return a metric's name without the family `trace`; other families stay, because two may use one name.

    >>> short_name("trace.adherence"), short_name("rmse.trace.adherence"), short_name("retrieval.empty")
    ('adherence', 'rmse.adherence', 'retrieval.empty')
    """
    return metric.removeprefix("trace.").replace(".trace", "")


def in_reading_order(estimates: Iterable[Estimate]) -> list[Estimate]:
    """Return estimates by scope, then by labeler, then in the order of the registry of metrics.

    Of the labelers of a scope, the reference labeler of a sample comes first. Of the estimators of a metric, the
    prediction-powered mean comes first when it has an interval.
    """
    found = [*estimates]
    registered = {name: place for place, name in enumerate(METRICS)}
    references = {group_key(estimate) for estimate in found if estimate.estimator != "mean"}
    estimators = [*ESTIMATOR_NAMES]

    def key(estimate: Estimate) -> tuple[object, ...]:
        group = group_key(estimate)
        ready = estimate.estimator != "prediction_powered" or estimate.has_interval
        return (
            group.pipeline,
            group.run or "",
            group.segment or "",
            group not in references,
            group[3:],
            registered.get(estimate.metric, len(registered)),
            estimate.metric,
            estimate.metric_version or "",
            not ready,
            estimators.index(estimate.estimator),
        )

    return sorted(found, key=key)


def groups_of(estimates: Iterable[Estimate]) -> list[EstimateGroup]:
    """Return the groups of estimates in reading order."""
    members: dict[GroupKey, list[Estimate]] = {}
    for estimate in in_reading_order(estimates):
        members.setdefault(group_key(estimate), []).append(estimate)
    titles = _titles(members)
    return [
        EstimateGroup(
            key,
            titles[key],
            [estimate for estimate in found if estimate.n],
            [estimate for estimate in found if not estimate.n],
        )
        for key, found in members.items()
    ]


def _titles(keys: Iterable[GroupKey]) -> dict[GroupKey, tuple[str, ...]]:
    """Return scope and labeler of each group; two versions of one labeler have their versions as names."""
    short = {key: (*_scope(key), labeler_title(key.labeler, key.labeler_version, key.profile)) for key in keys}
    count = Counter(short.values())
    return {
        key: title if count[title] == 1 else (*title[:-1], f"{title[-1]} version {key.labeler_version}")
        for key, title in short.items()
    }


def _scope(key: GroupKey) -> tuple[str, str]:
    pipeline = key.pipeline if key.run is None else f"{key.pipeline} ({key.run})"
    return pipeline, key.segment or "all"


def labeler_title(labeler: str, version: str, profile: str) -> str:
    """Return a labeler with its model and the variant of the formulas.

    >>> labeler_title("judge", "gpt-5-mini/trace.3/s1", "ragbench"), labeler_title("local", "2-s1", "ragbench")
    ('judge gpt-5-mini (ragbench)', 'local (ragbench)')
    """
    model = _model(version)
    return f"{labeler} {model} ({profile})" if model else f"{labeler} ({profile})"


def _model(version: str) -> str:
    """Return the model in the version of a remote labeler, which comes before its first prompt; otherwise nothing."""
    parts = version.split("/")
    prompts = (place for place, part in enumerate(parts) if place and PROMPT.fullmatch(part))
    return "/".join(parts[: next(prompts, 0)])


def fitness_line(group: EstimateGroup) -> Text | None:
    """Return a phrase about the purposes that the numbers of a whole pipeline are fit for; None if none is labeled."""
    found = (
        None
        if group.key.segment
        else phrase_of(group.key.labeler, {estimate.metric: estimate.fit_for for estimate in group.measured})
    )
    return None if found is None else Text(found, style="bright_black")


def unmeasured_line(group: EstimateGroup) -> Text | None:
    """Return a sentence about the metrics of a group without a value, with the reasons; None if all have values."""
    never = [
        estimate
        for estimate in group.unmeasured
        if _reasons(estimate) and _reasons(estimate) <= NO_MEASURE | {CONSEQUENCE}
    ]
    waiting = [estimate for estimate in group.unmeasured if estimate not in never]
    sentences = []
    if never:
        sentences.append(f"{_count(never, 'not measured by this labeler')}: {_by_reason(never)}")
    if waiting:
        sentences.append(f"{_count(waiting, 'without a value')}: {_by_count(waiting)}")
    return Text("; ".join(sentences), style="yellow" if waiting else "bright_black") if sentences else None


def _count(found: Sequence[Estimate], state: str) -> str:
    return f"{len(found)} {'metric is' if len(found) == 1 else 'metrics are'} {state}"


def _reasons(estimate: Estimate) -> set[str]:
    return set(estimate.absent)


def _by_reason(found: Sequence[Estimate]) -> str:
    causes = {reason for estimate in found for reason in estimate.absent} - {CONSEQUENCE} or {CONSEQUENCE}
    if len(causes) == 1:
        return f"{', '.join(short_name(estimate.metric_name) for estimate in found)}: {causes.pop()}"
    return ", ".join(f"{short_name(estimate.metric_name)} ({', '.join(estimate.absent)})" for estimate in found)


def _by_count(found: Sequence[Estimate]) -> str:
    """Return names with numbers of absences; metrics with the same absences are named together."""
    named: dict[str, list[str]] = {}
    for estimate in found:
        named.setdefault(absent_text(estimate) or "no interaction yet", []).append(short_name(estimate.metric_name))
    return "; ".join(f"{', '.join(names)} ({absences})" for absences, names in named.items())


def absent_text(estimate: Estimate) -> str:
    """Return the number of interactions without the metric, with the most frequent reasons; empty if there are none."""
    if not estimate.n_absent:
        return ""
    # A labeler of a user's own may give any text as its reason.
    reasons = [
        (shortened(reason.strip(), REASON_CHARS) or "no reason", count) for reason, count in estimate.absent.items()
    ]
    shown = [reason if len(reasons) == 1 else f"{reason} {count:,}" for reason, count in reasons[:REASONS_SHOWN]]
    more = [f"{len(reasons) - REASONS_SHOWN} more reasons"] if len(reasons) > REASONS_SHOWN else []
    return f"{estimate.n_absent:,} absent{': ' if shown else ''}{', '.join([*shown, *more])}"


def unmet_option(everything: Sequence[Estimate] | Sequence[Headline], **given: str | None) -> str | None:
    """Return a sentence about the option that matches no estimate; None if there are no estimates.

    Args:
        everything: estimates, or headlines.
        given: the options by the name of their field.
    """
    if not everything:
        return None
    for kind, name in given.items():
        known = {str(value) for each in everything if (value := getattr(each, kind)) is not None}
        if kind == "labeler":
            known |= {other for each in everything for other in getattr(each, "other_labelers", ())}
        if name is not None and name not in known:
            return unknown(kind, name, known)
    return "no estimate matches all of these options together: leave one out"
