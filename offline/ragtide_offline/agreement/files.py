"""Predictions and references out of files, joined by interaction."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ragtide_aggregator.statistics.agreement import Agreement, FamilyAgreement, agreement, family_agreement
from ragtide_aggregator.statistics.bootstrap import Floats
from ragtide_producers import FileOptions, read_rows
from ragtide_runtime.errors import RagtideError
from ragtide_schemas import InvalidEntryError, MetricDeclaration, definition_of
from ragtide_schemas.base import read_json_object

Key = tuple[str, str]
"""Pipeline and interaction id."""


class UnusablePredictionsError(RagtideError):
    """A file of predictions or of references cannot be used."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Scores of many interactions by one labeler."""

    labeler: str
    version: str
    profile: str
    scores: Mapping[Key, Mapping[str, float]]
    gold: Mapping[Key, Mapping[str, float]]
    """Gold scores in the same lines."""
    declared: Mapping[str, MetricDeclaration] = field(default_factory=dict)
    """Declarations of metrics that are not ragtide's own."""

    @property
    def name(self) -> str:
        """Who predicted, for tables."""
        return f"{self.labeler} {self.version} ({self.profile})"

    def value_range(self, metric: str) -> tuple[float, float]:
        """Return the range of a metric; 0 to 1 where nothing defines it."""
        definition = definition_of(metric, self.declared)
        return (0.0, 1.0) if definition is None else (definition.lower, definition.upper)


@dataclass(frozen=True, slots=True)
class Reference:
    """What predictions are compared with."""

    name: str
    scores: Mapping[Key, Mapping[str, float]]
    clusters: Mapping[Key, str] = field(default_factory=dict)
    """What an interaction belongs to, such as its question."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Predictions against a reference."""

    predictions: Predictions
    reference: str
    metrics: Mapping[str, Agreement]
    families: Mapping[str, FamilyAgreement]
    pairs: Mapping[str, tuple[Floats, Floats]]
    """Predicted and reference values by metric, for plots."""
    counts: Counter[str]
    """`matched`, `without_reference`, `without_prediction`, and by metric the `absent` ones."""

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as values that JSON can hold."""
        return {
            "labeler": self.predictions.labeler,
            "labeler_version": self.predictions.version,
            "profile": self.predictions.profile,
            "reference": self.reference,
            **{name: self.counts[name] for name in ("matched", "without_reference", "without_prediction")},
            "metrics": {
                metric: {**asdict(found), "absent": self.counts[f"absent {metric}"]}
                for metric, found in self.metrics.items()
            },
            "families": {family: asdict(found) for family, found in self.families.items()},
        }


def read_predictions(path: Path) -> list[Predictions]:
    """Return the predictions in a file of scores, apart by labeler, version and profile, in order of appearance.

    Raises:
        UnusablePredictionsError: the file cannot be read, a line is no score, or an interaction has two.
    """
    scores: dict[tuple[str, str, str], dict[Key, Mapping[str, float]]] = {}
    gold: dict[tuple[str, str, str], dict[Key, Mapping[str, float]]] = {}
    declared: dict[tuple[str, str, str], dict[str, MetricDeclaration]] = {}
    for number, line in _lines(path):
        who = tuple(str(line.get(name, "")) for name in ("labeler", "labeler_version", "profile"))
        key = _key(path, number, line)
        found = scores.setdefault((who[0], who[1], who[2]), {})
        if key in found:
            raise UnusablePredictionsError(
                f"{path}:{number}: interaction_id {key[1]} of pipeline {key[0]} was there before: give each one id"
            )
        found[key] = _numbers(path, number, line, "scores")
        _declare(path, number, line, declared.setdefault((who[0], who[1], who[2]), {}))
        if line.get("gold_scores"):
            gold.setdefault((who[0], who[1], who[2]), {})[key] = _numbers(path, number, line, "gold_scores")
    if not scores:
        raise UnusablePredictionsError(f"{path} holds no scores: give the output of ragtide score --json")
    return [Predictions(*who, found, gold.get(who, {}), declared[who]) for who, found in scores.items()]


def read_gold(path: Path) -> Reference:
    """Return gold scores: of interactions or data set rows, or of lines with `interaction_id` and `gold_scores`.

    Raises:
        UnusablePredictionsError: the file cannot be read or holds none.
    """
    scores: dict[Key, Mapping[str, float]] = {}
    clusters: dict[Key, str] = {}
    problems: list[str] = []
    for row in read_rows(path, FileOptions()):
        if row.interaction is None:
            problems.append(f"{path}:{row.line}: {row.problem}")
        elif row.interaction.gold_scores:
            key = row.interaction.pipeline, row.interaction.interaction_id
            scores[key], clusters[key] = row.interaction.gold_scores, row.interaction.question
    if scores and problems:
        raise UnusablePredictionsError(f"{problems[0]} ({len(problems)} such rows); mend or remove them")
    if not scores:
        for number, line in _lines(path):
            if line.get("gold_scores"):
                scores[_key(path, number, line)] = _numbers(path, number, line, "gold_scores")
    if not scores:
        raise UnusablePredictionsError(f"{path} holds no gold_scores: give interactions that have them")
    return Reference(str(path), scores, clusters)


def references_of(predictions: Predictions, gold: Path | None, against: Path | None) -> list[Reference]:
    """Return the references of predictions: scores of another labeler, a file of gold scores, or gold in the lines.

    Raises:
        UnusablePredictionsError: a file cannot be read, or has no scores.
    """
    if against is not None:
        return [Reference(other.name, other.scores) for other in read_predictions(against)]
    return [read_gold(gold) if gold is not None else Reference("the gold scores in the lines", predictions.gold)]


def compare(
    predictions: Predictions,
    reference: Reference,
    *,
    metrics: Sequence[str] = (),
    threshold: float = 0.5,
    confidence: float = 0.95,
    clustered: bool = False,
    seed: int = 0,
) -> Compared:
    """Return how well predictions agree with a reference, over the interactions both have.

    Raises:
        UnusablePredictionsError: they have no interaction or no metric in common.
    """
    reference = _with_pipelines(reference, predictions)
    keys = [key for key in predictions.scores if key in reference.scores]
    counts: Counter[str] = Counter(
        matched=len(keys),
        without_reference=len(predictions.scores) - len(keys),
        without_prediction=len(reference.scores) - len(keys),
    )
    known = {metric for key in keys for metric in reference.scores[key]}
    wanted = list(metrics) or sorted(known)
    unknown = [metric for metric in metrics if metric not in known]
    if unknown:
        raise UnusablePredictionsError(
            f"{reference.name} has no {', '.join(unknown)}: it has {', '.join(sorted(known)) or 'none'}"
        )
    clusters = np.array([reference.clusters.get(key, key[1]) for key in keys]) if clustered else None
    found: dict[str, Agreement] = {}
    pairs: dict[str, tuple[Floats, Floats]] = {}
    errors: dict[str, dict[str, Floats]] = {}
    for metric in wanted:
        lowest, highest = predictions.value_range(metric)
        predicted, true = _column(predictions.scores, keys, metric), _column(reference.scores, keys, metric)
        there = ~np.isnan(predicted) & ~np.isnan(true)
        counts[f"absent {metric}"] = int((~np.isnan(true) & ~there).sum())
        pairs[metric] = predicted[there], true[there]
        found[metric] = agreement(
            *pairs[metric],
            threshold=lowest + threshold * (highest - lowest),
            confidence=confidence,
            clusters=None if clusters is None else clusters[there],
            seed=seed,
        )
        if there.any():
            family = metric.rpartition(".")[0]
            errors.setdefault(family, {})[metric] = (predicted - true) / (highest - lowest)
    if not errors:
        raise UnusablePredictionsError(
            f"{predictions.name} and {reference.name} have no scores in common: they must name the same "
            "interaction_id, pipeline and metric"
        )
    families = {
        family: family_agreement(of, confidence=confidence, clusters=clusters, seed=seed)
        for family, of in errors.items()
    }
    return Compared(predictions, reference.name, found, families, pairs, counts)


def _declare(path: Path, number: int, line: dict[str, Any], known: dict[str, MetricDeclaration]) -> None:
    """Take on the declarations of a line.

    Raises:
        UnusablePredictionsError: one is malformed, or another line measures the metric in another way.
    """
    for metric, fields in (line.get("declared") or {}).items():
        try:
            declaration = MetricDeclaration.from_fields(fields)
        except InvalidEntryError as error:
            raise UnusablePredictionsError(f"{path}:{number}: declared.{metric}: {error.detail}") from None
        if known.setdefault(metric, declaration).measure != declaration.measure:
            raise UnusablePredictionsError(
                f"{path}:{number}: {metric} has another version or range than before: give each its own file"
            )


def _with_pipelines(reference: Reference, predictions: Predictions) -> Reference:
    """Return a reference whose lines without a pipeline have that of the one prediction with their id."""
    if all(pipeline for pipeline, _ in reference.scores):
        return reference
    by_id: dict[str, list[Key]] = {}
    for key in predictions.scores:
        by_id.setdefault(key[1], []).append(key)

    def whole(key: Key) -> Key:
        candidates = by_id.get(key[1], [])
        return candidates[0] if not key[0] and len(candidates) == 1 else key

    return Reference(
        reference.name,
        {whole(key): scores for key, scores in reference.scores.items()},
        {whole(key): cluster for key, cluster in reference.clusters.items()},
    )


def _column(scores: Mapping[Key, Mapping[str, float]], keys: list[Key], metric: str) -> Floats:
    """Return a metric's scores in the order of keys, NaN where it has none."""
    return np.array([scores[key].get(metric, np.nan) for key in keys], dtype=np.float64)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnusablePredictionsError(f"{path} cannot be read ({error.strerror}): correct the path") from None
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            try:
                yield number, read_json_object(line, None)
            except InvalidEntryError as error:
                raise UnusablePredictionsError(f"{path}:{number}: {error.detail}") from None


def _key(path: Path, number: int, line: dict[str, Any]) -> Key:
    identity = line.get("interaction_id")
    if not isinstance(identity, str):
        raise UnusablePredictionsError(f"{path}:{number}: interaction_id is missing: add it")
    return str(line.get("pipeline", "")), identity


def _numbers(path: Path, number: int, line: dict[str, Any], name: str) -> dict[str, float]:
    values = line.get(name)
    if not isinstance(values, dict):
        raise UnusablePredictionsError(f"{path}:{number}: {name} is missing: give an object of metrics and numbers")
    for metric, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnusablePredictionsError(f"{path}:{number}: {name}.{metric} is {str(value)[:40]!r}: give a number")
    return {str(metric): float(value) for metric, value in values.items()}
