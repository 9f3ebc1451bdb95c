"""Writes scores in the JSON format of RAGChecker, for tools that read it.

Source: amazon-science/RAGChecker, `ragchecker/container.py` and `metrics.py`: the names of fields and groups.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from ragtide_consumers.metrics.ragchecker import ragchecker_metrics
from ragtide_schemas import ClaimLabels, RagInteraction

GROUPS: Final = {
    "overall_metrics": ("precision", "recall", "f1"),
    "retriever_metrics": ("claim_recall", "context_precision"),
    "generator_metrics": (
        "context_utilization",
        "noise_sensitivity_in_relevant",
        "noise_sensitivity_in_irrelevant",
        "hallucination",
        "self_knowledge",
        "faithfulness",
    ),
}
"""RAGChecker's groups of metrics."""


def ragchecker_json(items: Sequence[tuple[RagInteraction, ClaimLabels]]) -> dict[str, Any]:
    """Return results and metrics as RAGChecker writes them: undefined is 0, means are percent with one decimal."""
    results = [_result(interaction, labels) for interaction, labels in items]
    means = {
        group: {name: round(100 * fmean(result["metrics"][name] for result in results), 1) for name in names}
        for group, names in GROUPS.items()
        if results
    }
    return {"results": results, "metrics": means}


def _result(interaction: RagInteraction, labels: ClaimLabels) -> dict[str, Any]:
    return {
        "query_id": interaction.interaction_id,
        "query": interaction.question,
        "gt_answer": interaction.reference_answer or "",
        "response": interaction.response,
        "retrieved_context": [
            {"doc_id": document.id or str(index), "text": document.text}
            for index, document in enumerate(interaction.documents)
        ],
        "response_claims": labels.response_claims,
        "gt_answer_claims": labels.reference_claims,
        "answer2response": labels.answer2response or [],
        "response2answer": labels.response2answer or [],
        "retrieved2response": labels.retrieved2response,
        "retrieved2answer": labels.retrieved2answer or [],
        "metrics": dict(ragchecker_metrics(labels, profile="ragchecker").scores),
    }


def write_ragchecker_json(path: Path, items: Sequence[tuple[RagInteraction, ClaimLabels]]) -> None:
    """Write results and metrics to a file."""
    path.write_text(json.dumps(ragchecker_json(items), ensure_ascii=False, indent=2), encoding="utf-8")
