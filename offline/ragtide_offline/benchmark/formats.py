"""Reads labeled data of published benchmarks as interactions with gold scores.

Rows of RAGBench and interactions with gold scores are read as everywhere. The other formats are known by their fields.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from ragtide_producers import FileOptions, Row, UnreadableFileError, read_rows
from ragtide_producers.files.columns import Mapped
from ragtide_producers.files.formats import Record
from ragtide_producers.files.interactions import made_id, name_of, read_records, row_of
from ragtide_producers.files.labeled import is_ragbench
from ragtide_schemas import InvalidEntryError, RagInteraction

from .preferences import answer_of_pair, is_pair
from .spans import COMPLETE, spans_of_people

ADHERENCE: Final = "trace.adherence"
UTILIZATION: Final = "trace.context_utilization"

SOURCES: Final = "source_info.jsonl"
"""File of RAGTruth with the sources of the responses, beside `response.jsonl`."""

Fields = dict[str, Any]


def read_labeled(path: Path, columns: Mapped | None = None) -> Iterator[tuple[Row, Mapping[str, Any]]]:
    """Yield the rows of a labeled file, in order, each with its own fields; a pair of answers as two rows.

    A row with an unusable field has a problem that names it.

    Args:
        path: of the file.
        columns: columns of fields, as the user named them.

    Raises:
        UnreadableFileError: the file, or RAGTruth's file of sources beside it, cannot be read.
    """
    options = FileOptions(unnamed=name_of(path), columns=columns or {})
    first: Fields = next((record.fields for record in read_records(path, options) if record.fields is not None), {})
    convert = _converter(path, first)
    if convert is None and not is_pair(first) and not is_ragbench(first):
        yield from ((row, {}) for row in read_rows(path, options))
        return
    for record in read_records(path, options):
        fields = record.fields
        if fields is None:
            yield row_of(record, options), {}
        elif is_pair(fields):
            for place in (1, 2):
                yield _row(record, fields, partial(answer_of_pair, place=place), options), fields
        elif convert is None:
            yield row_of(record, options), fields
        else:
            yield _row(record, fields, convert, options), fields


def _row(record: Record, fields: Fields, convert: Callable[[Fields], Fields], options: FileOptions) -> Row:
    try:
        known = {"pipeline": options.unnamed, "interaction_id": made_id(record), **convert(fields)}
        row = Row(record.number, RagInteraction.from_fields(known))
    except InvalidEntryError as error:
        return Row(record.number, problem=error.detail)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        name = error.args[0] if isinstance(error, KeyError) else error
        return Row(record.number, problem=f"the field {name!r} is missing or has another form than in this benchmark")
    return row


def _converter(path: Path, fields: Fields) -> Callable[[Fields], Fields] | None:
    if "passage_sentences" in fields and "selected_sentence_ids" in fields:
        return _clapnq
    if "claims" in fields and "contexts" in fields:
        return _expertqa
    if {"passage", "answer", "label"} <= fields.keys():
        return _halubench
    if {"source_id", "labels", "response"} <= fields.keys():
        path = path.with_name(SOURCES)
        if not path.exists():
            raise UnreadableFileError(f"{path} is missing: RAGTruth has the passages of its responses in this file")
        rows = [record.fields for record in read_records(path, FileOptions()) if record.fields is not None]
        sources = {str(row["source_id"]): row for row in rows if "source_id" in row}
        return lambda row: _ragtruth(row, sources)
    return None


def _clapnq(row: Fields) -> Fields:
    sentences = [str(sentence) for sentence in row["passage_sentences"]]
    if not row["answer"]:
        return {"question": row["question"], "documents": [row["passage"]], "response": "", "gold_scores": {}}
    return {
        "question": row["question"],
        "documents": [{"text": row["passage"], "sentences": sentences}],
        "response": row["answer"],
        "gold_scores": {UTILIZATION: len({*row["selected_sentence_ids"]}) / len(sentences)},
        "segments": {"dataset": "clapnq"},
    }


def _expertqa(row: Fields) -> Fields:
    judged = [claim["support"] for claim in row["claims"] if claim["support"]]
    return {
        "question": row["question"],
        "documents": row["contexts"],
        "response": row["response"],
        "gold_scores": {ADHERENCE: float(all(support == COMPLETE for support in judged))} if judged else {},
        "segments": {"dataset": "expertqa, people"},
    }


def _halubench(row: Fields) -> Fields:
    verdicts = {"PASS": 1.0, "FAIL": 0.0}
    if row["label"] not in verdicts:
        raise ValueError("label")
    return {
        "question": row["question"],
        "documents": [row["passage"]],
        "response": row["answer"],
        "gold_scores": {ADHERENCE: verdicts[row["label"]]},
        "segments": {"dataset": str(row.get("source_ds") or "halubench")},
    }


def _ragtruth(row: Fields, sources: Mapping[str, Fields]) -> Fields:
    source = sources[str(row["source_id"])]
    info = source["source_info"]
    passages = info.get("passages", info) if isinstance(info, Mapping) else info
    return {
        "question": info["question"] if isinstance(info, Mapping) and "question" in info else str(source["prompt"]),
        "documents": [passages if isinstance(passages, str) else str(passages)],
        "response": row["response"],
        "gold_scores": {ADHERENCE: float(not spans_of_people(row))},
        "segments": {
            "dataset": str(source.get("task_type") or "ragtruth"),
            "model": str(row.get("model") or "unknown"),
        },
    }


JUDGES: Final[Mapping[str, tuple[str, str]]] = {
    "trulens_groundedness": ("trulens", ADHERENCE),
    "trulens_context_relevance": ("trulens", "trace.context_relevance"),
    "ragas_faithfulness": ("ragas", ADHERENCE),
    "ragas_context_relevance": ("ragas", "trace.context_relevance"),
    "gpt3_adherence": ("gpt3", ADHERENCE),
    "gpt3_context_relevance": ("gpt3", "trace.context_relevance"),
    "gpt35_utilization": ("gpt35", UTILIZATION),
}
"""Columns of RAGBench with scores of other judges: name of the judge and metric."""


def stored_judges(fields: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return the scores of other judges that a row has, by judge and metric."""
    return {
        JUDGES[name]: float(value)
        for name, value in fields.items()
        if name in JUDGES and isinstance(value, int | float) and 0 <= value <= 1
    }
