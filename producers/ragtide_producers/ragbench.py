"""RAGBench rows as interactions, with the stored scores as gold scores."""

from typing import Any

_MARKS = ("documents_sentences", "sentence_support_information", "generation_model_name")
"""Columns that only a RAGBench row has."""

_GOLD = {
    "trace.context_relevance": "relevance_score",
    "trace.context_utilization": "utilization_score",
    "trace.completeness": "completeness_score",
    "trace.adherence": "adherence_score",
}


def is_ragbench_row(fields: dict[str, Any]) -> bool:
    """Return whether a JSON object is a row of RAGBench rather than an interaction."""
    return "pipeline" not in fields and any(mark in fields for mark in _MARKS)


def interaction_fields(row: dict[str, Any], pipeline: str) -> dict[str, Any]:
    """Return the fields of an interaction for a RAGBench row; what the row lacks is lacking here too.

    The stored completeness is 1 where no sentence is relevant; such a value is left out, because the profile
    `ragbench` leaves it undefined. Source: Friel et al., RAGBench (arXiv:2407.11005); columns of `rungalileo/ragbench`.
    """
    subset = row.get("subset") or row.get("dataset_name")
    gold = {metric: float(row[column]) for metric, column in _GOLD.items() if row.get(column) is not None}
    if not row.get("all_relevant_sentence_keys"):
        gold.pop("trace.completeness", None)
    fields: dict[str, Any] = {
        "interaction_id": "-".join(str(part) for part in ("ragbench", subset, row.get("id")) if part is not None),
        "pipeline": pipeline,
        "gold_scores": gold,
        "segments": {
            name: str(value)
            for name, value in (("dataset", subset), ("model", row.get("generation_model_name")))
            if value
        },
        "source": "ragbench",
    }
    fields |= {name: row[name] for name in ("question", "documents", "response") if name in row}
    # The stored scores count the data set's own sentences.
    if isinstance(row.get("response_sentences"), list):
        fields["response_sentences"] = _texts(row["response_sentences"])
    cuts, documents = row.get("documents_sentences"), fields.get("documents")
    if isinstance(cuts, list) and isinstance(documents, list) and len(cuts) == len(documents):
        fields["documents"] = [
            {"text": text, "sentences": _texts(sentences)} for text, sentences in zip(documents, cuts, strict=True)
        ]
    return fields


def _texts(keyed: list[Any]) -> list[Any]:
    """Return the texts of `[key, text]` pairs."""
    return [pair[1] if isinstance(pair, list) and len(pair) == 2 else pair for pair in keyed]
