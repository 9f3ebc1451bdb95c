"""Rows of RAGBench and results of RAGChecker as rows with ragtide's own columns, and the labels that they have.

Source: Friel et al., RAGBench (arXiv:2407.11005), columns of `rungalileo/ragbench`; amazon-science/RAGChecker,
`ragchecker/container.py`.
"""

from collections.abc import Mapping
from typing import Any, Final

from ragtide_schemas import ClaimLabels, InvalidEntryError, SentenceLabels
from ragtide_schemas.errors import invalid

Row = Mapping[str, Any]

_MARKS: Final = ("documents_sentences", "sentence_support_information", "all_relevant_sentence_keys")
"""Columns that only a RAGBench row has."""
_MODEL: Final = "generation_model_name"
_BESIDE_MODEL: Final = ("dataset_name", "subset", "relevance_score", "adherence_score", "response_sentences")
"""Columns of a RAGBench row one of which must stand beside the model: other tools name a model, too."""
_RAGBENCH: Final = {
    "question": "question",
    "documents": "documents",
    "response": "response",
    "gold_scores.trace.context_relevance": "relevance_score",
    "gold_scores.trace.context_utilization": "utilization_score",
    "gold_scores.trace.completeness": "completeness_score",
    "gold_scores.trace.adherence": "adherence_score",
    "segments.model": _MODEL,
    "response_sentences": "response_sentences",
}
"""Column of RAGBench by our own."""
_TABLES: Final = ("answer2response", "response2answer", "retrieved2answer", "retrieved2response")
"""Columns of RAGChecker with the labels of claims."""
_OWN: Final = ("query_id", "query", "gt_answer", "response")
_CHUNK: Final = frozenset(("doc_id", "text"))


def labeled_row(row: Row) -> tuple[dict[str, Any], SentenceLabels | ClaimLabels | None] | None:
    """Return a row of RAGBench, or a result of RAGChecker, with our columns and its labels; None for another row.

    Raises:
        InvalidEntryError: the labels contradict each other, or have another form.
    """
    try:
        if is_ragbench(row):
            return ragbench_fields(row), _sentence_labels(row)
        return (_ragchecker_fields(row), _claim_labels(row)) if _is_ragchecker(row) else None
    except InvalidEntryError as error:
        raise InvalidEntryError(error.reason, f"its labels: {error.detail}") from None
    except (AttributeError, IndexError, KeyError, TypeError):
        raise invalid("its labels are not in RAGBench's form: give lists of [key, text] and of objects") from None


def is_ragbench(row: Row) -> bool:
    """Return whether a JSON object is a row of RAGBench."""
    by_model = _MODEL in row and any(name in row for name in _BESIDE_MODEL)
    return "pipeline" not in row and (by_model or any(mark in row for mark in _MARKS))


def dataset_of(row: Row) -> Any:
    """Return the name of a row's data set within RAGBench; None without one."""
    return row.get("subset") or row.get("dataset_name")


def row_id(row: Row) -> str:
    """Return the id of a RAGBench row; it contains the model, because some ids have answers of two models."""
    parts = ("ragbench", dataset_of(row), row.get("id"), row.get(_MODEL))
    return "-".join(str(part) for part in parts if part is not None)


def ragbench_fields(row: Row) -> dict[str, Any]:
    """Return a RAGBench row with our columns, among them its stored scores as gold scores.

    The stored completeness is 1 if no sentence is relevant. Such a value is left out, because it is undefined in the
    profile `ragbench`.
    """
    fields = {ours: row[its] for ours, its in _RAGBENCH.items() if row.get(its) is not None}
    for name, value in fields.items():
        if name.startswith("gold_scores.") and isinstance(value, bool):
            fields[name] = float(value)
    if not row.get("all_relevant_sentence_keys"):
        fields.pop("gold_scores.trace.completeness", None)
    # The stored scores were computed with the sentences of the data set.
    cuts, documents = row.get("documents_sentences"), fields.get("documents")
    if isinstance(cuts, list) and isinstance(documents, list) and len(cuts) == len(documents):
        cut = zip(documents, cuts, strict=True)
        fields["documents"] = [{"text": text, "sentences": _texts(sentences)} for text, sentences in cut]
    if isinstance(fields.get("response_sentences"), list):
        fields["response_sentences"] = _texts(fields["response_sentences"])
    own = {"interaction_id": row_id(row), "source": "ragbench"}
    return fields | own | ({"segments.dataset": str(dataset_of(row))} if dataset_of(row) else {})


def _texts(keyed: Any) -> list[Any]:
    return [pair[1] if isinstance(pair, list) and len(pair) == 2 else pair for pair in keyed]


def _sentence_labels(row: Row) -> SentenceLabels | None:
    documents, judged = row.get("documents_sentences"), row.get("sentence_support_information") or []
    relevant, utilized = row.get("all_relevant_sentence_keys"), row.get("all_utilized_sentence_keys")
    if documents is None or relevant is None or utilized is None:
        return None
    support = {item.get("response_sentence_key"): item for item in judged}
    return SentenceLabels.from_fields(
        {
            "relevant": relevant,
            "utilized": utilized,
            "support": {key: item.get("supporting_sentence_keys") or [] for key, item in support.items()},
            "fully_supported": {key: item.get("fully_supported") for key, item in support.items()},
            "unsupported": row.get("unsupported_response_sentence_keys"),
            "n_document_sentences": sum(len(document) for document in documents),
            "document_keys": [pair[0] for document in documents for pair in document],
            "response_keys": [pair[0] for pair in row.get("response_sentences") or []] or None,
        }
    )


def _is_ragchecker(row: Row) -> bool:
    if "query" not in row or "question" in row or "pipeline" in row:
        return False
    chunks = row.get("retrieved_context")
    if any(isinstance(row.get(name), list) for name in _TABLES):
        return True
    if "retrieved_context" in row:
        return isinstance(chunks, list) and all(isinstance(chunk, dict) and chunk.keys() <= _CHUNK for chunk in chunks)
    return row.keys() >= set(_OWN)


def _ragchecker_fields(result: Row) -> dict[str, Any]:
    fields: dict[str, Any] = {name: result[name] for name in _OWN if name in result} | {"source": "ragchecker"}
    chunks = result.get("retrieved_context")
    if isinstance(chunks, list):  # As documents of the schema all chunks stay: the labels are about all.
        fields["documents"] = [
            {"text": chunk.get("text"), "id": str(chunk["doc_id"])}
            if isinstance(chunk, dict) and chunk.get("doc_id") is not None
            else chunk
            for chunk in chunks
        ]
    return fields


def _claim_labels(result: Row) -> ClaimLabels | None:
    if result.get("retrieved2response") is None:
        return None
    tables = _TABLES if result.get("gt_answer") else ("retrieved2response",)
    claims = {"response_claims": "response_claims", "reference_claims": "gt_answer_claims"}
    lists = {ours: result[its] for ours, its in claims.items() if isinstance(result.get(its), list)}
    return ClaimLabels.from_fields({name: result[name] for name in tables if result.get(name) is not None} | lists)
