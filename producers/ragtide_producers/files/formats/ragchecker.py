"""The JSON of RAGChecker, with or without labels: `{"results": [{"query_id": ..., "query": ...}, ...]}`.

Rows of other tools may stand in such a list, too.

Source: amazon-science/RAGChecker, `ragchecker/container.py`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ragtide_schemas import ClaimLabels, InvalidEntryError

from .record import Record, RecordError

LISTS: Final = ("results", "testCases", "test_cases", "records", "examples", "data")
"""Names of the list of rows in one JSON object: of RAGChecker, and of exports of other tools."""

_TABLES: Final = ("answer2response", "response2answer", "retrieved2answer", "retrieved2response")


def records(path: Path) -> Iterator[Record]:
    """Yield every result; the whole file is in memory at once, because it is one JSON value.

    Raises:
        RecordError: the file is not JSON with a list `results`.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecordError(f"the file is not JSON ({error}): correct it, or name a file of JSON Lines .jsonl") from None
    lists = (content.get(name) for name in LISTS) if isinstance(content, dict) else (content,)
    results = next((found for found in lists if isinstance(found, list)), None)
    if results is None:
        raise RecordError("the file has no list results: give RAGChecker's JSON, a JSON list, or JSON Lines as .jsonl")
    for number, result in enumerate(results, start=1):
        if isinstance(result, dict):
            yield Record(number, result, json.dumps(result, sort_keys=True).encode())
        else:
            yield Record(number, problem=f"it is {str(result)[:60]!r}: give an object")


def is_ragchecker(fields: dict[str, Any]) -> bool:
    """Return whether a record is a result of RAGChecker."""
    own = ("retrieved_context", "gt_answer", "query_id")
    return "query" in fields and "question" not in fields and any(name in fields for name in own)


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
