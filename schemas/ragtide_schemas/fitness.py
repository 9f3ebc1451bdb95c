"""Purposes that the numbers of a labeler are fit for: data beside every number. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from .metric_definitions import METRICS
from .metrics import MetricDefinition
from .seen_failures import SEEN

Purpose = Literal["trend", "ranking", "threshold", "single items"]
"""A use of a number: `trend`, whether a mean rises or falls; `ranking`, which of two pipelines or configs is better;
`threshold`, whether a mean is above a limit; `single items`, whether the answer to a single question is good."""

PURPOSES: Final[tuple[Purpose, ...]] = ("trend", "ranking", "threshold", "single items")
"""All purposes, from the least to the most demanding."""


@dataclass(frozen=True, slots=True)
class KnownLabeler:
    """What the rest of ragtide knows of a labeler that comes with it. Another one needs a line here, and its class."""

    authority: int
    """Its place among labelers that score the same answers: people come first."""
    fit_for: tuple[Purpose, ...] = ()
    """Purposes of its numbers of metrics that come from labels; docs/scores/labelers.md has the measurements."""
    is_as_measured: bool = False
    """Whether you choose its model: the other purposes are open until its agreement with people is measured."""
    is_free: bool = False
    """Whether it makes no calls."""
    kind: Literal["LLM", "CODE"] | None = None
    """Kind of annotator, as OpenInference has it."""
    answers_criteria: bool = True
    """Whether it may answer criteria."""
    built_by: str | None = None
    """Its class, as `module:name`, if it is built in the same way as a labeler of users."""


KNOWN: Final[Mapping[str, KnownLabeler]] = {
    # Scores that people gave.
    "gold": KnownLabeler(0, PURPOSES),
    # They read meaning, but their level, and their verdict on one item, are as good as the model that you chose.
    "judge": KnownLabeler(1, PURPOSES[:2], is_as_measured=True, kind="LLM"),
    "nli": KnownLabeler(
        3,
        PURPOSES[:2],
        is_as_measured=True,
        kind="CODE",
        answers_criteria=False,
        built_by="ragtide_consumers.labelers.nli:NliLabeler",
    ),
    "model": KnownLabeler(3, PURPOSES[:2], is_as_measured=True, is_free=True, answers_criteria=False),
    # It compares words. Means move with quality, and are wrong by an amount that differs between domains.
    "local": KnownLabeler(4, PURPOSES[:2], is_free=True, kind="CODE"),
    "none": KnownLabeler(5),
}
"""Labelers by their name."""
_OWN: Final = KnownLabeler(2)
"""A labeler of your own."""


def authority(labeler: str) -> int:
    """Return the place of a labeler among those that score the same answers; the first measures what others predict.

    People come before a judge, then labelers of your own, models, and the comparison of words.

    >>> sorted(["local", "mine", "judge", "nli"], key=authority)
    ['judge', 'mine', 'nli', 'local']
    """
    return KNOWN.get(labeler, _OWN).authority


Stated = Mapping[str, tuple[Purpose, ...]]
"""Purposes by name of the labeler, as the setting `fit_for` states them."""

NOTHING: Final[Stated] = MappingProxyType({})


def fit_for(labeler: str, metric: str, stated: Stated = NOTHING) -> tuple[Purpose, ...] | None:
    """Return the purposes that a labeler's numbers of a metric are fit for; None if nothing is stated about them.

    Args:
        labeler: its name.
        metric: name of the metric.
        stated: purposes that the settings state, which hold for the labeler's own metrics too.

    >>> fit_for("local", "trace.adherence"), fit_for("local", "response.empty") == PURPOSES
    (('trend', 'ranking'), True)
    >>> fit_for("my_labeler", "trace.adherence") is None
    True
    >>> fit_for("my_labeler", "mine.polite", {"my_labeler": ("trend",)})
    ('trend',)
    """
    if _from_labels(metric):
        return stated.get(labeler) or KNOWN.get(labeler, _OWN).fit_for or None
    return PURPOSES if metric in METRICS else stated.get(labeler)


def certain_band(
    definition: MetricDefinition | None,
    labeler: str,
    numbers: tuple[float | None, float | None, float | None],
    stated: Stated = NOTHING,
) -> str | None:
    """Return the quality band of a mean; None where the data or the labeler do not support one.

    The whole interval must lie in one band, and the labeler must be fit for thresholds.

    Args:
        definition: of the metric; None for a metric without a definition.
        labeler: its name.
        numbers: lower end of the interval, mean, and upper end.
        stated: purposes that the settings state.

    >>> adherence = METRICS["trace.adherence"]
    >>> [certain_band(adherence, "gold", ends) for ends in ((0.96, 0.97, 0.98), (0.5, 0.97, 1.0))]
    ['excellent', None]
    >>> certain_band(adherence, "local", (0.96, 0.97, 0.98)) is None
    True
    """
    lower, mean, upper = numbers
    if definition is None or definition.bands is None or lower is None or mean is None or upper is None:
        return None
    band = definition.band(mean)
    if definition.band(lower) != band or definition.band(upper) != band:
        return None
    purposes = fit_for(labeler, definition.name, stated)
    return band if purposes is None or "threshold" in purposes else None


def fitness_of(labeler: str, metrics: Iterable[str], stated: Stated = NOTHING) -> str | None:
    """Return a phrase about those of the metrics that come from labels; None without any.

    >>> fitness_of("local", ["trace.adherence", "response.empty"]), fitness_of("local", ["response.empty"])
    ('fit for trend, ranking; not for threshold, single items', None)
    """
    return phrase_of(labeler, {metric: fit_for(labeler, metric, stated) for metric in metrics})


def phrase_of(labeler: str, purposes: Mapping[str, Sequence[Purpose] | None]) -> str | None:
    """Return a phrase about the purposes of metrics that come from labels; None without such a metric.

    Args:
        labeler: its name.
        purposes: by metric, in order; the first metric from labels decides, else the first of the labeler's own.
    """
    own = [metric for metric, fit in purposes.items() if metric not in METRICS and fit is not None]
    metric = next(iter([*filter(_from_labels, purposes), *own]), None)
    if metric is None:
        return None
    fit = purposes[metric]
    return in_words(fit, measured=(known := KNOWN.get(labeler, _OWN)).is_as_measured and fit == known.fit_for)


Sight = Literal["sees", "partly", "does not see", "absent for", "moves with"]
"""How a number follows a kind of failure: it may be absent, or move with a change that harms nothing."""

SIGHTS: Final[tuple[Sight, ...]] = ("sees", "partly", "does not see", "absent for", "moves with")

Failures = Mapping[Sight, Sequence[str]]
"""Kinds of failures, such as `wrong documents`, by how a number follows them."""


def failures_of(labeler: str, metric: str) -> Failures:
    """Return which failures a shipped labeler's numbers of a metric follow; empty if this was not measured.

    docs/scores/corruptions.md has the measurements.
    """
    seen = SEEN.get(labeler, {}).get(metric, {})
    return {sight: seen[sight] for sight in SIGHTS if sight in seen}


BROKEN_RETRIEVER: Final = "broken retriever"
"""The kind of failure in which the documents are those of another question, and the answer is taken from them."""


def misses(labeler: str, metric: str, failure: str) -> bool:
    """Return whether numbers that were measured do not follow a kind of failure, or only partly.

    >>> [misses("local", metric, BROKEN_RETRIEVER) for metric in ("retrieval.match", "trace.adherence", "own.f1")]
    [False, True, False]
    """
    failures = failures_of(labeler, metric)
    return bool(failures) and failure not in failures.get("sees", ())


def sees_of(labeler: str, metric: str) -> str | None:
    """Return a phrase about the failures that a shipped labeler's numbers of a metric follow; None if not measured."""
    return failures_in_words(failures_of(labeler, metric)) or None


def failures_in_words(failures: Failures) -> str:
    """Return a phrase about failures; empty without any.

    >>> failures_in_words({"sees": ["wrong documents", "foreign sentence"], "does not see": ["negation"]})
    'sees: wrong documents, foreign sentence; does not see: negation'
    """
    return "; ".join(f"{sight}: {', '.join(failures[sight])}" for sight in SIGHTS if failures.get(sight))


def _from_labels(metric: str) -> bool:
    return metric in METRICS and METRICS[metric].from_labels


def in_words(purposes: Sequence[Purpose] | None, *, measured: bool = False) -> str:
    """Return a phrase about purposes.

    Args:
        purposes: the stated ones; None if nothing is stated.
        measured: whether the other purposes are open until the agreement with people is measured.

    >>> in_words(("trend", "ranking"))
    'fit for trend, ranking; not for threshold, single items'
    >>> in_words(("trend", "ranking"), measured=True)
    'fit for trend, ranking; for threshold, single items measure its agreement first'
    >>> in_words(PURPOSES), in_words(None)
    ('fit for trend, ranking, threshold, single items', 'fit for: not stated')
    """
    if purposes is None:
        return "fit for: not stated"
    others = ", ".join(purpose for purpose in PURPOSES if purpose not in purposes)
    rest = f"; for {others} measure its agreement first" if measured else f"; not for {others}"
    return f"fit for {', '.join(purposes)}{rest if others else ''}"
