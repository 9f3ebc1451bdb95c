"""Turns rows of RAGBench into interactions, with the stored scores as gold scores."""

from typing import Any

from ragtide_schemas import InvalidEntryError, Reason, SentenceLabels

_MARKS = ("documents_sentences", "sentence_support_information", "all_relevant_sentence_keys")
"""Columns that only a RAGBench row has."""
_MODEL = "generation_model_name"
_BESIDE_MODEL = ("dataset_name", "subset", "relevance_score", "adherence_score", "response_sentences")
"""Columns of a RAGBench row one of which must stand beside the model: other tools name a model, too."""

_GOLD = {
    "trace.context_relevance": "relevance_score",
    "trace.context_utilization": "utilization_score",
    "trace.completeness": "completeness_score",
    "trace.adherence": "adherence_score",
}


def is_ragbench_row(fields: dict[str, Any]) -> bool:
    """Return whether a JSON object is a row of RAGBench."""
    if "pipeline" in fields:
        return False
    by_model = _MODEL in fields and any(name in fields for name in _BESIDE_MODEL)
    return by_model or any(mark in fields for mark in _MARKS)


def dataset_of(row: dict[str, Any]) -> Any:
    """Return the name of a row's data set within RAGBench; None without one."""
    return row.get("subset") or row.get("dataset_name")


def row_id(row: dict[str, Any]) -> str:
    """Return the id of a RAGBench row; it contains the model, because some ids have answers of two models."""
    parts = ("ragbench", dataset_of(row), row.get("id"), row.get("generation_model_name"))
    return "-".join(str(part) for part in parts if part is not None)


def interaction_fields(row: dict[str, Any], pipeline: str) -> dict[str, Any]:
    """Return the fields of an interaction for a RAGBench row; a field that the row lacks is missing.

    The stored completeness is 1 if no sentence is relevant. Such a value is left out, because it is undefined in the
    profile `ragbench`. Source: Friel et al., RAGBench (arXiv:2407.11005); columns of `rungalileo/ragbench`.
    """
    subset, model = dataset_of(row), row.get("generation_model_name")
    gold = {metric: float(row[column]) for metric, column in _GOLD.items() if row.get(column) is not None}
    if not row.get("all_relevant_sentence_keys"):
        gold.pop("trace.completeness", None)
    fields: dict[str, Any] = {
        "interaction_id": row_id(row),
        "pipeline": pipeline,
        "gold_scores": gold,
        "segments": {name: str(value) for name, value in (("dataset", subset), ("model", model)) if value},
        "source": "ragbench",
    }
    fields |= {name: row[name] for name in ("question", "documents", "response") if name in row}
    # The stored scores were computed with the sentences of the data set.
    if isinstance(row.get("response_sentences"), list):
        fields["response_sentences"] = _texts(row["response_sentences"])
    cuts, documents = row.get("documents_sentences"), fields.get("documents")
    if isinstance(cuts, list) and isinstance(documents, list) and len(cuts) == len(documents):
        fields["documents"] = [
            {"text": text, "sentences": _texts(sentences)} for text, sentences in zip(documents, cuts, strict=True)
        ]
    return fields


def sentence_labels(row: dict[str, Any]) -> SentenceLabels | None:
    """Return the unchanged labels of a RAGBench row; None if it has none.

    Raises:
        InvalidEntryError: the labels do not have the form of RAGBench.
    """
    names = ("documents_sentences", "all_relevant_sentence_keys", "all_utilized_sentence_keys")
    if any(row.get(name) is None for name in names):
        return None
    try:
        return SentenceLabels.from_fields(_label_fields(row))
    except InvalidEntryError as error:
        raise InvalidEntryError(error.reason, f"its labels: {error.detail}") from None
    except (AttributeError, IndexError, TypeError):
        raise InvalidEntryError(
            Reason.INVALID, "its labels are not in RAGBench's form: give lists of [key, text] and of objects"
        ) from None


def _label_fields(row: dict[str, Any]) -> dict[str, Any]:
    judged = {item.get("response_sentence_key"): item for item in row.get("sentence_support_information") or []}
    return {
        "relevant": row["all_relevant_sentence_keys"],
        "utilized": row["all_utilized_sentence_keys"],
        "support": {key: item.get("supporting_sentence_keys") or [] for key, item in judged.items()},
        "fully_supported": {key: item.get("fully_supported") for key, item in judged.items()},
        "unsupported": row.get("unsupported_response_sentence_keys"),
        "n_document_sentences": sum(len(document) for document in row["documents_sentences"]),
        "document_keys": [pair[0] for document in row["documents_sentences"] for pair in document],
        "response_keys": [pair[0] for pair in row.get("response_sentences") or []] or None,
    }


def _texts(keyed: list[Any]) -> list[Any]:
    return [pair[1] if isinstance(pair, list) and len(pair) == 2 else pair for pair in keyed]
