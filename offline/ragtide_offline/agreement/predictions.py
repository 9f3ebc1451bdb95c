"""Reads predictions and gold scores from files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtide_consumers.labelers.protocol import LabelerId
from ragtide_producers import FileOptions, read_rows
from ragtide_producers.files.formats import RecordError
from ragtide_producers.files.formats.text import lines_of
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

    labeler: LabelerId
    scores: Mapping[Key, Mapping[str, float]]
    gold: Mapping[Key, Mapping[str, float]]
    """Gold scores in the lines of the scores."""
    declared: Mapping[str, MetricDeclaration] = field(default_factory=dict)
    """Declarations of metrics that are not ragtide's own."""
    costs: Mapping[Key, float] = field(default_factory=dict)
    """US dollars for the scores of an interaction, where they were paid."""

    @property
    def name(self) -> str:
        """Name, version and profile of the labeler, for tables."""
        return f"{self.labeler.name} {self.labeler.version} ({self.labeler.profile})"

    def value_range(self, metric: str) -> tuple[float, float]:
        """Return the range of a metric; 0 to 1 if it has no definition."""
        definition = definition_of(metric, self.declared)
        return (0.0, 1.0) if definition is None else (definition.lower, definition.upper)


@dataclass(frozen=True, slots=True)
class ReferenceScores:
    """The scores with which predictions are compared."""

    name: str
    scores: Mapping[Key, Mapping[str, float]]
    clusters: Mapping[Key, str] = field(default_factory=dict)
    """The cluster of each interaction, such as its question."""


def read_predictions(path: Path) -> list[Predictions]:
    """Return the predictions in a file of scores, by labeler, version and profile, in order of appearance.

    Raises:
        UnusablePredictionsError: the file cannot be read, a line is not a score, or an interaction has two.
    """
    scores: dict[LabelerId, dict[Key, Mapping[str, float]]] = {}
    gold: dict[LabelerId, dict[Key, Mapping[str, float]]] = {}
    declared: dict[LabelerId, dict[str, MetricDeclaration]] = {}
    costs: dict[LabelerId, dict[Key, float]] = {}
    for number, line in _lines(path):
        labeler = LabelerId(*(str(line.get(name, "")) for name in ("labeler", "labeler_version", "profile")))
        key = _key(path, number, line)
        by_key = scores.setdefault(labeler, {})
        if key in by_key:
            raise UnusablePredictionsError(
                f"{path}:{number}: interaction_id {key[1]} of pipeline {key[0]} occurs twice: make ids unique"
            )
        by_key[key] = _numbers(path, number, line, "scores")
        _declare(path, number, line, declared.setdefault(labeler, {}))
        if line.get("cost_usd"):
            costs.setdefault(labeler, {})[key] = _number(path, number, "cost_usd", line["cost_usd"])
        if line.get("gold_scores"):
            gold.setdefault(labeler, {})[key] = _numbers(path, number, line, "gold_scores")
    if not scores:
        raise UnusablePredictionsError(f"{path} holds no scores: give the output of ragtide score --json")
    return [
        Predictions(labeler, by_key, gold.get(labeler, {}), declared[labeler], costs.get(labeler, {}))
        for labeler, by_key in scores.items()
    ]


def read_gold(path: Path) -> ReferenceScores:
    """Return the gold scores of interactions, of data set rows, or of lines with `interaction_id` and `gold_scores`.

    Raises:
        UnusablePredictionsError: the file cannot be read or has no gold scores.
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
        raise UnusablePredictionsError(f"{problems[0]} ({len(problems)} such rows); correct or remove them")
    if not scores:
        for number, line in _lines(path):
            if line.get("gold_scores"):
                scores[_key(path, number, line)] = _numbers(path, number, line, "gold_scores")
    if not scores:
        raise UnusablePredictionsError(f"{path} holds no gold_scores: give interactions that have them")
    return ReferenceScores(str(path), scores, clusters)


def references_of(predictions: Predictions, gold: Path | None, against: Path | None) -> list[ReferenceScores]:
    """Return the references of predictions, from the file of another labeler, a file of gold scores, or their lines.

    Raises:
        UnusablePredictionsError: a file cannot be read, or has no scores.
    """
    if against is not None:
        return [ReferenceScores(other.name, other.scores) for other in read_predictions(against)]
    return [read_gold(gold) if gold is not None else ReferenceScores("the gold scores in the lines", predictions.gold)]


def _declare(path: Path, number: int, line: dict[str, Any], known: dict[str, MetricDeclaration]) -> None:
    for metric, fields in (line.get("declared") or {}).items():
        try:
            declaration = MetricDeclaration.from_fields(fields)
        except InvalidEntryError as error:
            raise UnusablePredictionsError(f"{path}:{number}: declared.{metric}: {error.detail}") from None
        if known.setdefault(metric, declaration).measure != declaration.measure:
            raise UnusablePredictionsError(
                f"{path}:{number}: {metric} has another version or range than before: give each version its own file"
            )


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = list(lines_of(path))
    except RecordError as error:
        raise UnusablePredictionsError(f"{path}: {error}") from None
    except OSError as error:
        raise UnusablePredictionsError(f"{path} cannot be read ({error.strerror}): correct the path") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                fields = read_json_object(line, None)
            except InvalidEntryError as error:
                raise UnusablePredictionsError(f"{path}:{number}: {error.detail}") from None
            yield number, fields


def _key(path: Path, number: int, line: dict[str, Any]) -> Key:
    identity = line.get("interaction_id")
    if not isinstance(identity, str):
        raise UnusablePredictionsError(f"{path}:{number}: interaction_id is missing: add it")
    return str(line.get("pipeline", "")), identity


def _numbers(path: Path, number: int, line: dict[str, Any], name: str) -> dict[str, float]:
    values = line.get(name)
    if not isinstance(values, dict):
        raise UnusablePredictionsError(f"{path}:{number}: {name} is missing: give an object of metrics and numbers")
    return {str(metric): _number(path, number, f"{name}.{metric}", value) for metric, value in values.items()}


def _number(path: Path, number: int, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnusablePredictionsError(f"{path}:{number}: {name} is {str(value)[:40]!r}: give a number")
    return float(value)
