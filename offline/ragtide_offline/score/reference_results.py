"""Published results, to be shown beside your own. They have other data and other judges, so they are no goal."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ragtide_schemas.suggestions import unknown


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """Published scores of one system: mean by qualified metric name, in the metric's own unit."""

    name: str
    dataset: str
    """Name of the data set without spaces and commas, as `--reference` takes it."""
    part: str
    """What of the data set was measured; empty for all of it."""
    source: str
    means: Mapping[str, float]

    @property
    def title(self) -> str:
        """The data set, with the part that was measured."""
        return f"{self.dataset}, {self.part}" if self.part else self.dataset


_RAGCHECKER_ORDER: Final = (
    "precision", "recall", "f1", "claim_recall", "context_precision", "context_utilization",
    "noise_sensitivity_in_relevant", "noise_sensitivity_in_irrelevant", "hallucination", "self_knowledge",
    "faithfulness",
)  # fmt: skip


def _ragchecker(system: str, dataset: str, part: str, table: str, *percent: float) -> ReferenceResult:
    means = {f"ragchecker.{name}": value / 100 for name, value in zip(_RAGCHECKER_ORDER, percent, strict=True)}
    return ReferenceResult(system, dataset, part, f"Ru et al., RAGChecker (arXiv:2408.08067), {table}", means)


REFERENCE_RESULTS: Final = (
    *(
        _ragchecker(system, "ClapNQ", "", "table 6", *percent)
        for system, *percent in (
            ("BM25 + GPT-4", 56.9, 50.0, 46.7, 81.1, 41.3, 56.4, 29.4, 5.9, 7.5, 2.2, 90.3),
            ("BM25 + Llama3-8B", 49.6, 48.6, 42.2, 81.1, 41.3, 55.2, 31.9, 7.5, 10.8, 2.0, 87.2),
            ("BM25 + Llama3-70B", 56.9, 48.7, 45.3, 81.1, 41.3, 55.7, 30.1, 7.1, 5.9, 1.6, 92.4),
            ("BM25 + Mixtral-8x7B", 47.9, 49.6, 42.1, 81.1, 41.3, 55.8, 36.9, 7.3, 6.9, 2.3, 90.9),
            ("E5-Mistral + GPT-4", 59.7, 51.1, 47.9, 81.5, 43.6, 59.9, 31.1, 3.8, 5.4, 2.3, 92.3),
            ("E5-Mistral + Llama3-8B", 50.4, 50.9, 43.5, 81.5, 43.6, 59.4, 33.2, 6.4, 10.0, 1.5, 88.5),
            ("E5-Mistral + Llama3-70B", 58.7, 52.8, 48.1, 81.5, 43.6, 61.4, 32.0, 5.1, 4.2, 2.1, 93.7),
            ("E5-Mistral + Mixtral-8x7B", 51.1, 54.4, 45.7, 81.5, 43.6, 63.2, 37.0, 5.2, 5.5, 1.5, 93.0),
        )
    ),
    *(
        _ragchecker(system, "RAGChecker", "10 domains", "table 3", *percent)
        for system, *percent in (
            ("BM25 + GPT-4", 61.0, 49.7, 50.3, 74.0, 52.3, 61.4, 26.2, 4.1, 8.7, 3.4, 87.9),
            ("E5-Mistral + GPT-4", 62.0, 53.0, 52.7, 83.5, 61.8, 60.4, 28.9, 3.5, 5.7, 1.4, 92.9),
            ("E5-Mistral + Llama3-70B", 60.6, 50.4, 50.2, 83.5, 61.8, 57.6, 31.7, 4.3, 3.3, 0.8, 95.9),
        )
    ),
    ReferenceResult(
        "answers of GPT-3.5, Claude-3-Haiku and others",
        "RAGBench",
        "7 subsets",
        "means of the stored labels of 5,877 rows of Friel et al., RAGBench (arXiv:2407.11005)",
        {
            "trace.context_relevance": 0.296,
            "trace.context_utilization": 0.212,
            "trace.completeness": 0.724,
            "trace.adherence": 4953 / 5877,
        },
    ),
)
"""Published means, by system and data set."""


def reference_results(dataset: str | None = None) -> list[ReferenceResult]:
    """Return published results, of one data set or of all; capital letters of a name do not matter.

    Raises:
        ValueError: there is none of that data set.
    """
    wanted = None if dataset is None else dataset.casefold()
    results = [result for result in REFERENCE_RESULTS if wanted in {None, result.dataset.casefold()}]
    if not results:
        known = [result.dataset for result in REFERENCE_RESULTS]
        raise ValueError(unknown("published result for", dataset or "", known))
    return results
