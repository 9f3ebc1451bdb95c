"""Turns results of RAGChecker, with or without labels, into interactions.

Source: amazon-science/RAGChecker, `ragchecker/container.py`.
"""

from typing import Any, Final

from ragtide_schemas import ClaimLabels, InvalidEntryError

_TABLES: Final = ("answer2response", "response2answer", "retrieved2answer", "retrieved2response")


_OWN: Final = frozenset(("query_id", "query", "gt_answer", "response"))
_CHUNK: Final = frozenset(("doc_id", "text"))


def is_ragchecker(fields: dict[str, Any]) -> bool:
    """Return whether a record is a result of RAGChecker: by its tables, its chunks, or all its other fields.

    Rows of many data sets have `query` and `query_id`.
    """
    if "query" not in fields or "question" in fields or "pipeline" in fields:
        return False
    chunks = fields.get("retrieved_context")
    if any(isinstance(fields.get(name), list) for name in _TABLES):
        return True
    if "retrieved_context" in fields:
        return isinstance(chunks, list) and all(isinstance(chunk, dict) and chunk.keys() <= _CHUNK for chunk in chunks)
    return fields.keys() >= _OWN


def interaction_fields(result: dict[str, Any], pipeline: str) -> dict[str, Any]:
    """Return the fields of an interaction for a result of RAGChecker; a field that the result lacks is missing."""
    chunks = result.get("retrieved_context")
    fields: dict[str, Any] = {"pipeline": pipeline, "source": "ragchecker"}
    if result.get("query_id") is not None:
        fields["interaction_id"] = str(result["query_id"])
    if result.get("gt_answer"):
        fields["reference_answer"] = result["gt_answer"]
    if isinstance(chunks, list):
        fields["documents"] = [_document(chunk) for chunk in chunks]
    return fields | {
        ours: result[its] for its, ours in (("query", "question"), ("response", "response")) if its in result
    }


def _document(chunk: Any) -> Any:
    if not isinstance(chunk, dict):
        return chunk
    document = {"text": chunk.get("text")}
    return document if chunk.get("doc_id") is None else {**document, "id": str(chunk["doc_id"])}


def claim_labels(result: dict[str, Any]) -> ClaimLabels | None:
    """Return the labels in a result; None if it has none.

    Raises:
        InvalidEntryError: the labels contradict each other.
    """
    if result.get("retrieved2response") is None:
        return None
    fields = {name: result[name] for name in _TABLES if result.get(name) is not None}
    if not result.get("gt_answer"):
        fields = {"retrieved2response": result["retrieved2response"]}
    for its, ours in (("response_claims", "response_claims"), ("gt_answer_claims", "reference_claims")):
        if isinstance(result.get(its), list):
            fields[ours] = result[its]
    try:
        return ClaimLabels.from_fields(fields)
    except InvalidEntryError as error:
        raise InvalidEntryError(error.reason, f"its labels: {error.detail}") from None
