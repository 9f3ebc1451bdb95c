"""What is made from definitions: the page of metrics, published results and patterns of scores."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from ragtide_consumers.metrics.optional import optional_metrics
from ragtide_offline.score.reference_results import REFERENCE_RESULTS, ReferenceResult
from ragtide_schemas.criterion import built_in_criteria
from ragtide_schemas.diagnosis import PATTERNS
from ragtide_schemas.metric_definitions import RAGTIDE_METRICS
from ragtide_schemas.metrics import Direction, MetricDefinition

_FAMILIES = {
    "trace": "From sentence labels: R relevant and U utilized document sentences, of T.",
    "sentences": "Counts of the response's sentences, from a judge's or stored labels.",
    "ragchecker": "From claims of response and reference answer, and their entailments.",
    "similarity": "From the cosines of sentence vectors: the labeler `model` with `models.similarity`. Levels depend "
    "on the model, so there are no bands.",
    "judge": "Of the judge itself: `judge.repeat_share` is the share of interactions about which it is asked twice.",
    "retrieval": "Of every interaction, whichever labeler scored it.",
    "response": "Of every interaction, whichever labeler scored it.",
    "answer": "Numbers of the answer itself, of every interaction whose `usage` has them, whichever labeler scored it.",
    "agent": "Of runs: interactions with [calls of tools](metrics.md#calls-of-tools), each with numbers of its own.",
    "feedback": "Of every interaction that people rated, as gold scores; the labeler is `gold`.",
}

_BETTER = {Direction.HIGHER: "higher", Direction.LOWER: "lower", Direction.NEITHER: "neither"}


_METRICS = """\
[Metrics](metrics.md) explains the formulas. A metric whose needs are not met is absent with a
reason. Bands (acceptable, good, excellent) are rules of thumb and decide nothing."""

_CRITERIA = """\
Built-in criteria, which a judge answers if `[[judge.criteria]]` names them. Criteria of your own are metrics of the
family `criteria`. [Criteria](criteria.md) explains both."""

_OPTIONAL = """\
The setting `metrics` turns these on by their names: `metrics = ["retrieval.average_precision"]`."""

_PATTERNS = """\
Patterns that reports and alerts name ([Diagnosis](metrics.md#diagnosis))."""

_RESULTS = """\
From other data and other judges ([how to compare with them](trust.md#published-results))."""


@dataclass(frozen=True, slots=True)
class LabelerResult:
    """How well a labeler agreed with GPT-4's labels on RAGBench: mean over 7 subsets of the test splits."""

    name: str
    source: str
    auroc_unsupported: float | None = None
    relevance_rmse: float | None = None
    utilization_rmse: float | None = None


_TABLE: Final = "Friel et al., RAGBench (arXiv:2407.11005), results table"

LABELER_RESULTS: Final = (
    LabelerResult("DeBERTa-v3-large, fine-tuned", _TABLE, 0.771, 0.169, 0.109),
    LabelerResult("GPT-3.5 as judge", _TABLE, 0.579, 0.199, 0.126),
    LabelerResult("RAGAS", _TABLE, 0.613, 0.247),
    LabelerResult("TruLens", _TABLE, 0.630, 0.639),
    LabelerResult("a constant (train mean)", "computed from the rows of the same data set", 0.5, 0.206, 0.160),
)
"""Research targets for labelers."""


def metrics_page() -> str:
    """Return the page of all metrics, made from their definitions."""
    parts = ["# Every metric", _METRICS]
    for family, metrics in groupby(RAGTIDE_METRICS, key=lambda metric: metric.family):
        parts += [f"## {family}", _FAMILIES[family], _metric_table(metrics)]
    built_in = [criterion.definition() for criterion in built_in_criteria()]
    parts += ["## Criteria", _CRITERIA, _metric_table(built_in)]
    optional = [metric.definition for metric in optional_metrics().values()]
    parts += ["## Optional", _OPTIONAL, _metric_table(optional)]
    parts += ["## Patterns of scores", _PATTERNS, _patterns(), "## Published results", _RESULTS]
    for title, results in groupby(REFERENCE_RESULTS, key=lambda result: result.title):
        parts += _results(title, list(results))
    by = "**Labelers on RAGBench**, mean over 7 subsets of the test splits, against GPT-4's labels:"
    return _page([*parts, by, _labelers()])


def _patterns() -> str:
    rows = [
        (
            f"`{pattern.name}`",
            ", ".join(f"`{metric}` {quality}" for metric, quality in pattern.conditions.items()),
            pattern.meaning,
            pattern.advice,
        )
        for pattern in PATTERNS
    ]
    return _table(("pattern", "shown by", "meaning", "advice"), rows)


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _metric_table(metrics: Iterable[MetricDefinition]) -> str:
    header = ("metric", "definition", "meaning", "needs", "range", "better", "kind", "bands", "edges", "source")
    return _table(header, (_row(metric) for metric in metrics))


def _row(metric: MetricDefinition) -> Sequence[str]:
    bands = metric.bands
    return (
        f"`{metric.name}`",
        metric.definition,
        metric.meaning,
        ", ".join(metric.needs),
        f"{metric.lower:g} to {metric.upper:g}",
        _BETTER[metric.direction],
        metric.kind.value,
        "" if bands is None else f"{bands.minimum:g}, {bands.good:g}, {bands.excellent:g}",
        ", ".join(f"{edge:g}" for edge in metric.edges),
        metric.source,
    )


def _results(title: str, results: Sequence[ReferenceResult]) -> list[str]:
    metrics = list(results[0].means)
    rows = [
        (result.name, *(f"{100 * result.means[metric]:.1f}" for metric in metrics if metric in result.means))
        for result in results
    ]
    names = [metric.rpartition(".")[2].replace("_", " ") for metric in metrics]
    return [f"**{title}**, means in percent; {results[0].source}:", _table(("system", *names), rows)]


def _labelers() -> str:
    def figure(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    header = ("labeler", "unsupported response: AUROC", "relevance: RMSE", "utilization: RMSE", "source")
    rows = [
        (
            result.name,
            figure(result.auroc_unsupported),
            figure(result.relevance_rmse),
            figure(result.utilization_rmse),
            result.source,
        )
        for result in LABELER_RESULTS
    ]
    return _table(header, rows)
