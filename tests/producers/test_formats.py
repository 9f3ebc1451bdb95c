"""Every format reads the same interactions as every other; bad rows are named and stop nothing."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import threading
import zipfile
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.support.names import NAME_CHARACTERS

from ragtide import ClaimLabels, RagInteraction, SentenceLabels
from ragtide_producers import FileOptions, UnreadableFileError, count_rows, read_rows
from ragtide_producers.files.formats import text
from ragtide_producers.files.values import MISSING
from ragtide_schemas.limits import COUNTER_MAX

DATA = Path(__file__).parents[1] / "data"
TEXT = st.text(NAME_CHARACTERS, min_size=1, max_size=40).filter(lambda text: text.strip() and text not in MISSING)
INTERACTION = st.fixed_dictionaries(
    {
        "interaction_id": st.uuids().map(str),
        "pipeline": st.sampled_from(["shop", "help"]),
        "occurred_at": st.just("2026-11-21T10:00:00Z"),
        "question": TEXT,
        "documents": st.lists(TEXT, max_size=3),
        "response": TEXT | st.just(""),
        "gold_scores": st.dictionaries(st.just("trace.adherence"), st.sampled_from([0.0, 0.5, 1.0])),
        "segments": st.dictionaries(st.sampled_from(["lang", "tier"]), st.sampled_from(["de", "gold"])),
    },
    optional={
        "reference_answer": TEXT,
        "session_id": TEXT,
        "turn": st.integers(0, COUNTER_MAX),
        "user_id": TEXT,
        "cluster": TEXT,
    },
)


def interactions(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows = list(read_rows(path, FileOptions(**options)))
    assert [row.problem for row in rows if row.problem] == []
    return [row.interaction.model_dump() for row in rows if row.interaction is not None]


def untimed(interaction: RagInteraction) -> dict[str, Any]:
    return interaction.model_dump(exclude={"occurred_at"})


def only_texts(value: object) -> str:
    """Return the id of a parameter: compressed bytes are other ones in each process."""
    return value if isinstance(value, str) else ""


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    flat = []
    for row in rows:
        cells = {name: value for name, value in row.items() if name not in {"documents", "gold_scores", "segments"}}
        cells["documents"] = json.dumps(row["documents"])
        cells |= {
            f"{table}.{name}": value for table in ("gold_scores", "segments") for name, value in row[table].items()
        }
        flat.append(cells)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in flat for name in row)))
        writer.writeheader()
        writer.writerows(flat)
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    schema = pa.schema(
        [(name, pa.string()) for name in ("interaction_id", "pipeline", "occurred_at", "question", "response")]
        + [(name, pa.string()) for name in ("reference_answer", "session_id", "user_id", "cluster")]
        + [("turn", pa.int64()), ("documents", pa.list_(pa.string()))]
        + [("gold_scores", pa.map_(pa.string(), pa.float64())), ("segments", pa.map_(pa.string(), pa.string()))]
    )
    maps = [{**row, **{name: list(row[name].items()) for name in ("gold_scores", "segments")}} for row in rows]
    pq.write_table(pa.Table.from_pylist(maps, schema), path, row_group_size=3)
    return path


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(INTERACTION, min_size=1, max_size=8, unique_by=lambda row: str(row["interaction_id"])))
def test_the_same_interactions_come_out_of_every_format(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    # In a cell nothing tells such a word from a missing value.
    assume(not any(str(value).strip() in MISSING - {""} for row in rows for value in row.values()))
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    array = tmp_path / "rows.json"
    array.write_text(json.dumps(rows), encoding="utf-8")
    expected = interactions(lines)
    assert len(expected) == len(rows)
    assert interactions(write_csv(tmp_path / "rows.csv", rows)) == expected
    assert interactions(write_parquet(tmp_path / "rows.parquet", rows)) == expected
    assert interactions(array) == expected


def test_rows_are_counted_where_that_is_cheap(tmp_path: Path) -> None:
    rows = [{"question": "q", "documents": ["d"], "response": "r", "gold_scores": {}, "segments": {}}] * 5
    lines = tmp_path / "rows.jsonl"
    lines.write_text("\n\n".join(json.dumps(row) for row in rows))
    assert count_rows(lines, FileOptions()) == 5
    assert count_rows(write_parquet(tmp_path / "rows.parquet", rows), FileOptions()) == 5
    assert count_rows(write_csv(tmp_path / "rows.csv", rows), FileOptions()) is None


def test_documents_of_a_csv_may_be_columns_or_one_text(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('question,documents.0,documents.1,response\n"q, with comma",first,"second\nline",r\n')
    (one,) = interactions(file, pipeline="p")
    assert [document["text"] for document in one["documents"]] == ["first", "second\nline"]
    file.write_text("question\tdocuments\tresponse\nq\tone text\tr\n")
    (one,) = interactions(file.rename(tmp_path / "rows.tsv"), pipeline="p")
    assert [document["text"] for document in one["documents"]] == ["one text"]


def test_columns_of_a_csv_are_covariates(tmp_path: Path) -> None:
    file = tmp_path / "few.csv"
    file.write_text("question,documents,response,covariates.difficulty,covariates.score\nq,d,r,0.25,nan\n")
    (row,) = read_rows(file, FileOptions(pipeline="p"))
    assert row.interaction is not None
    assert row.interaction.covariates == {"difficulty": 0.25}


def test_columns_with_the_name_of_a_table_are_its_values_in_every_format(tmp_path: Path) -> None:
    row = {"question": "q", "documents": ["d"], "response": "r", "segments.lang": "de", "usage.latency_ms": 1500,
           "gold_scores.trace.adherence": 1, "metadata": {"a": 1}, "metadata.b.c": "x", "history": "None"}  # fmt: skip
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (one,) = interactions(tmp_path / "rows.jsonl", pipeline="p")
    assert (one["segments"], one["gold_scores"]) == ({"lang": "de"}, {"trace.adherence": 1.0})
    assert (one["metadata"], one["usage"]["latency_s"]) == ({"a": 1, "b.c": "x"}, 1.5)
    assert one["history"] is None


@pytest.mark.parametrize(("turn", "problem"), [("1.5", "turn is '1.5'"), ("first", "turn is 'first'")])
def test_a_turn_of_a_csv_is_a_whole_number(turn: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"question,documents,response,turn\nq,d,r,{turn}\nq,d,r,\n")
    bad, good = read_rows(file, FileOptions(pipeline="p"))
    assert problem in (bad.problem or "")
    assert good.interaction is not None
    assert good.interaction.turn is None


def test_bad_cells_of_a_csv_are_named_by_line_and_the_others_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(
        "question,documents,response,gold_scores.trace.adherence\n"
        "q,d,r,1\n"
        "q,d,r,meh\n"
        "q,[broken,r,\n"
        "q,d,,1\n"
        "q,d,r,1,more\n"
        "q,d,r,\n"
    )
    rows = list(read_rows(file, FileOptions(pipeline="p")))
    assert [row.line for row in rows if row.interaction is not None] == [2, 5, 7]
    assert [row.interaction.response for row in rows if row.interaction is not None] == ["r", "", "r"]
    problems = {row.line: row.problem or "" for row in rows if row.problem}
    assert problems[3].startswith("gold_scores.trace.adherence")
    assert "'[broken': it begins a list" in problems[4]
    assert "more cells than the header" in problems[6]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"question\n\xff\n", "not UTF-8 CSV"),
        ("a.csv", b"", "no header"),
        ("a.parquet", b"not parquet at all", "not Parquet"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b'{"lines": []}', "no rows"),
        ("a.jsonl", b"<html>\n<p>noise\n" * 50, "no objects of JSON"),
        ("a.jsonl", b"%PDF-1.7\n%", "a PDF"),
        ("a.jsonl", bytes(range(8)) * 9, "no text"),
        ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:-9], "cannot be decompressed"),
        ("a.csv.xz", lzma.compress(b"question\n")[:-9], "cannot be decompressed"),
        ("a.jsonl.bz2", b"plain text", "cannot be decompressed"),
        ("a.csv.zst", pa.compress(b"question\n" * 99, codec="zstd", asbytes=True)[:-3], "cannot be decompressed"),
        ("a.jsonl.gz", gzip.compress(gzip.compress(b'{"a": 1}')), "compressed twice"),
        ("a.jsonl.br", b"\x1b\x5f\x00\xf8", "brotli"),
        ("a.csv.snappy", b"\xe0\x01\xf0\x10question", "snappy"),
        ("a.jsonl.sz", b"\xff\x06\x00\x00sNaPpY", "snappy"),
        ("a.jsonl.Z", b"\x1f\x9d\x90{", "compress"),
        ("a.jsonl.7z", b"7z\xbc\xaf\x27\x1c", "7z"),
        ("a.tar.gz", gzip.compress(b"a.jsonl"), "tar"),
        ("a.zip", b"PK\x03\x04 and no more", "a zip that cannot be read"),
    ],
    ids=only_texts,
)
def test_a_file_that_is_not_of_its_format_is_a_clear_error(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableFileError, match=said):
        list(read_rows(tmp_path / name, FileOptions()))


ROWS: list[dict[str, Any]] = [
    {"pipeline": "p", "question": f"q{number}", "documents": ["d\u00e9"], "response": "r"} for number in range(3)
]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
CELLS = "pipeline,question,documents,response\n" + "".join(f"p,q{number},d\u00e9,r\n" for number in range(3))
INDENTED = "\n".join(json.dumps(row, indent=2) for row in ROWS)


def zipped(*contents: bytes) -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, content in enumerate(contents):
                archive.writestr(f"{number}.jsonl", content)
        return file.getvalue()


def test_a_zip_of_several_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(zipped(LINES.encode(), LINES.encode()))
    with pytest.raises(UnreadableFileError, match="several files"):
        list(read_rows(tmp_path / "a.csv", FileOptions()))


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "lzma": lambda content: lzma.compress(content, format=lzma.FORMAT_ALONE),
    "zip": zipped,
    "zst": lambda content: bytes(pa.compress(content, codec="zstd", asbytes=True)),
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *[(f"a.{kind}.{ending}", pack(text.encode())) for ending, pack in PACKERS.items()
          for kind, text in (("jsonl", LINES), ("csv", CELLS), ("json", json.dumps(ROWS)))],
        *[(f"unnamed-{ending}.jsonl", pack(LINES.encode())) for ending, pack in PACKERS.items()],
        ("indented.jsonl", INDENTED.encode()),
        ("sequence.jsonl", ("\x1e" + LINES.replace("\n", "\n\x1e")[:-1]).encode()),
        ("sequence.json", "".join("\x1e" + json.dumps(row, indent=1) + "\n" for row in ROWS).encode()),
        ("joined.jsonl", LINES.replace("\n", "").encode()),
        ("returns.jsonl", LINES.replace("\n", "\r").encode()),
        ("returns.csv", CELLS.replace("\n", "\r").encode()),
        ("pages.json", "".join(json.dumps({"data": [row], "limit": 1}) for row in ROWS).encode()),
        ("marked.jsonl", LINES.encode("utf-16")),
        ("wide.csv", CELLS.encode("utf-16-be")),
        ("wide.jsonl", LINES.encode("utf-16-le")),
        ("cells.txt", CELLS.encode()),
    ],
    ids=only_texts,
)  # fmt: skip
def test_texts_are_read_however_they_are_packed_or_separated(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    found = interactions(tmp_path / name)
    assert [(one["question"], one["documents"][0]["text"]) for one in found] == [(f"q{n}", "d\u00e9") for n in range(3)]


def test_a_file_that_decompresses_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "UNPACKED_MAX", 100_000)
    (tmp_path / "a.jsonl.bz2").write_bytes(bz2.compress(b'{"a": "' + b"x" * 10_000_000))
    with pytest.raises(UnreadableFileError, match="times its size"):
        list(read_rows(tmp_path / "a.jsonl.bz2", FileOptions()))


def test_a_long_line_is_kept_in_part_and_the_next_one_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "LINE_MAX_BYTES", 100)
    (tmp_path / "a.jsonl").write_text('{"a": "' + "x" * 950 + '"}\n{"b": 1}\n')
    assert [len(line) for line in text.lines_of(tmp_path / "a.jsonl")] == [100, 9]


def test_a_pipe_is_read_once_and_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(LINES.encode()),))
    writer.start()
    assert count_rows(pipe, FileOptions()) == 3
    assert len(interactions(pipe)) == 3
    writer.join()


def test_the_separator_of_a_csv_is_chosen_after_the_map(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('frage;treffer;reply, "short"\nWarum, wer; "t, 1" ;r\n')
    mapped = {"question": "frage", "documents": "treffer", "response": 'reply, "short"'}
    (one,) = interactions(file, pipeline="p", columns=mapped)
    assert (one["question"], one["response"]) == ("Warum, wer", "r")


def test_a_format_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("{}")
    with pytest.raises(UnreadableFileError, match="There are: jsonl, csv, parquet, json"):
        list(read_rows(tmp_path / "a.txt", FileOptions(format="xml")))


def test_a_ragbench_row_brings_its_sentences_its_scores_and_its_labels(tmp_path: Path) -> None:
    lines = DATA / "ragbench" / "ragbench_sample.jsonl"
    rows = list(read_rows(lines, FileOptions()))
    stored = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    table = pa.Table.from_pylist(stored)
    pq.write_table(table, tmp_path / "rows.parquet")
    again = list(read_rows(tmp_path / "rows.parquet", FileOptions()))
    for row, other, raw in zip(rows, again, stored, strict=True):
        assert row.interaction is not None
        assert other.interaction is not None
        assert other.interaction.model_dump(exclude={"occurred_at"}) == row.interaction.model_dump(
            exclude={"occurred_at"}
        )
        (labels,) = row.labels
        assert isinstance(labels, SentenceLabels)
        assert labels.relevant == tuple(raw["all_relevant_sentence_keys"])
        assert labels.n_document_sentences == sum(len(document) for document in raw["documents_sentences"])
        assert other.labels == row.labels
        given = row.interaction.documents[0].sentences
        assert given == tuple(text for _, text in raw["documents_sentences"][0])


def test_a_ragbench_row_whose_labels_are_broken_is_a_problem_and_not_a_crash(tmp_path: Path) -> None:
    raw = json.loads((DATA / "ragbench" / "ragbench_sample.jsonl").read_text(encoding="utf-8").splitlines()[0])
    for change in (
        {"documents_sentences": [3]},
        {"documents_sentences": [[["0a"]], "x"]},
        {"sentence_support_information": ["x"]},
        {"all_relevant_sentence_keys": 7},
        {"relevance_score": "x"},
    ):
        file = tmp_path / "rows.jsonl"
        file.write_text(json.dumps(raw | change))
        (row,) = read_rows(file, FileOptions())
        assert row.problem is not None or row.interaction is not None


def test_ragcheckers_json_brings_reference_answers_and_labels() -> None:
    plain = list(read_rows(DATA / "ragchecker-example" / "checking_inputs.json", FileOptions()))
    labeled = list(read_rows(DATA / "ragchecker-example" / "checking_outputs.json", FileOptions(pipeline="mine")))
    assert [row.labels for row in plain] == [(), ()]
    for row in (*plain, *labeled):
        assert row.interaction is not None
        assert row.interaction.reference_answer
        assert row.interaction.documents[0].id == "000"
    assert {row.interaction.pipeline for row in labeled if row.interaction} == {"mine"}
    (labels,) = labeled[0].labels
    assert isinstance(labels, ClaimLabels)
    assert labels.response_claims is not None
    assert labels.response_claims[0] == ("Nile", "is", "longest river in the world")


def test_ragchecker_labels_that_do_not_fit_are_a_problem_of_their_result(tmp_path: Path) -> None:
    content = json.loads((DATA / "ragchecker-example" / "checking_outputs.json").read_text(encoding="utf-8"))
    content["results"][0]["answer2response"].pop()
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(content))
    bad, good = read_rows(file, FileOptions())
    assert bad.problem is not None
    assert "its labels: " in bad.problem
    assert "one row per claim" in bad.problem
    assert good.interaction is not None


def exploded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "contexts": text} for row in rows for text in row["contexts"]]


WHOLE: list[dict[str, Any]] = [
    {"query_id": "a", "question": "q?", "contexts": ["one", "two", "three"], "answer": "r"},
    {"query_id": "b", "question": "q?", "contexts": ["four"], "answer": "r"},
    {"query_id": "c", "question": "p?", "contexts": ["one", "five"], "answer": "s"},
]


def told(path: Path) -> list[Any]:
    """Return the texts of the documents of each row, or its problem."""
    rows = list(read_rows(path, FileOptions(pipeline="p")))
    return [[one.text for one in row.interaction.documents] if row.interaction else row.problem for row in rows]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "json"])
@pytest.mark.parametrize("named_by", ["id", "index", "rank"])
def test_rows_of_one_chunk_each_are_one_answer(ending: str, named_by: str, tmp_path: Path) -> None:
    rows = exploded(WHOLE)
    for number, row in enumerate(rows):
        own = row if named_by == "id" else {"rank": number} if named_by == "rank" else {"": row["query_id"]}
        rows[number] = {**own, **{name: row[name] for name in ("question", "contexts", "answer")}}
    if named_by == "rank":
        del rows[3]  # nothing but an id or an index separates it from the rows before it
    file = tmp_path / f"rows.{ending}"
    if ending == "csv":
        with file.open("w", newline="") as content:
            writer = csv.DictWriter(content, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    else:
        file.write_text(json.dumps(rows) if ending == "json" else "\n".join(map(json.dumps, rows)))
    expected = [row["contexts"] for row in WHOLE]
    assert told(file) == ([expected[0], expected[2]] if named_by == "rank" else expected)


def test_what_belongs_to_a_chunk_stays_with_it(tmp_path: Path) -> None:
    facts = [
        {"rank": 1, "score": 0.9, "doc_id": 7, "source": "x.md"},
        {"rank": 2, "score": 0.4, "doc_id": 8, "source": "y.md"},
    ]
    rows = [{**row, **fact} for row, fact in zip(exploded(WHOLE[2:]), facts, strict=True)]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    (one,) = interactions(file, pipeline="p")
    assert [(document["id"], document["score"]) for document in one["documents"]] == [("7", 0.9), ("8", 0.4)]
    assert one["metadata"]["chunk_source"] == ["x.md", "y.md"]


def test_a_chunk_whose_answer_is_uncertain_is_named_and_never_lost(tmp_path: Path) -> None:
    one, two, _, four, *_ = exploded(WHOLE)
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, [one, four, two, {**two, "model": "m"}])))
    first, second, apart, other = told(file)
    assert (first, second) == (["one"], ["four"])
    assert "'a' came before" in apart
    assert "'a' came before" in other
    for row in (one, two):
        del row["query_id"]
    file.write_text("\n".join(map(json.dumps, [one, two])))
    assert "up to row 2" in told(file)[0]


def test_chunks_stand_in_the_order_of_their_ranks(tmp_path: Path) -> None:
    rows = [{**row, "rank": rank} for row, rank in zip(exploded(WHOLE[:1]), (3, 1, 2), strict=True)]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert told(file) == [["two", "three", "one"]]


def test_chunks_of_one_answer_that_differ_in_another_column_are_refused_with_its_name(tmp_path: Path) -> None:
    rows = [{**row, "weather": number} for number, row in enumerate(exploded(WHOLE[:1]))]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert len(told(file)) == 3
    assert all("weather" in problem for problem in told(file))


def test_rows_of_one_document_that_differ_otherwise_stay_apart(tmp_path: Path) -> None:
    rows = [{**row, "answer": str(number)} for number, row in enumerate(exploded(WHOLE))]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    assert len(told(file)) == len(rows)
    assert len({json.dumps(found) for found in told(file)}) == 5


TEXTS = ["It was built in 1889.", "It is tall.", "It is in Paris."]
ASKED: dict[str, Any] = {"question": "When was it built?", "answer": "In 1889."}
CHUNKS = [{"id": f"c{number}", "content": text, "similarity": 0.5} for number, text in enumerate(TEXTS)]
RESOURCES = [
    {"position": number, "segment_id": f"s{number}", "score": 0.5, "content": text} for number, text in enumerate(TEXTS)
]
SEARCHED = {
    "chunk_search_results": [{"id": str(number), "score": 0.6, "text": text} for number, text in enumerate(TEXTS[:2])],
    "graph_search_results": [],
    "web_search_results": [{"title": "t", "link": "https://example.com", "snippet": TEXTS[2]}],
}
GRAPH = {
    "reports": [{"id": "1", "title": "t", "content": TEXTS[0]}],
    "entities": [{"id": "1", "entity": "tower", "description": TEXTS[1]}],
    "claims": [],
    "sources": [{"id": "3", "text": TEXTS[2]}],
}
TABLES: list[dict[str, Any]] = [
    {"columns": ["id", "text"], "data": [[number, text] for number, text in enumerate(TEXTS)]},
    {"id": {"0": "a", "1": "b", "2": "c"}, "text": {str(number): text for number, text in enumerate(TEXTS)}},
]
MARKED = [f"deepeval_source=s{number}.md,deepeval_context={text}" for number, text in enumerate(TEXTS)]
EXPORTS: dict[str, Any] = {
    "deepeval": {
        "input": "When was it built?",
        "actual_output": "In 1889.",
        "retrieval_context": TEXTS,
        "context": ["x"],
    },
    "deepeval, run": {
        "testCases": [{"input": "When was it built?", "actualOutput": "In 1889.", "retrievalContext": TEXTS}]
    },
    "deepeval, sources": {"input": "When was it built?", "actual_output": "In 1889.", "retrieval_context": MARKED},
    "deepeval, joined sources": {**ASKED, "retrieval_context": "|".join(MARKED)},
    "ragflow": {**ASKED, "reference": {"total": 3, "chunks": CHUNKS, "doc_aggs": [{"doc_name": "a.pdf", "count": 3}]}},
    "ragflow, stream": {
        **ASKED,
        "reference": {"chunks": {str(9 - n): one for n, one in enumerate(CHUNKS)}, "doc_aggs": {}},
    },
    "ragflow, list": {**ASKED, "reference": CHUNKS},
    "ragflow, reply": {"question": ASKED["question"], "data": {"answer": "In 1889.", "reference": {"chunks": CHUNKS}}},
    "dify, messages": {
        "data": [
            {
                "id": "m",
                "inputs": {},
                "query": "When was it built?",
                "answer": "In 1889.",
                "retriever_resources": RESOURCES,
            }
        ],
        "limit": 20,
    },
    "dify, message": {**ASKED, "metadata": {"usage": {"total_tokens": 3}, "retriever_resources": RESOURCES}},
    "autorag": {
        "qid": "q",
        "query": "When was it built?",
        "retrieved_contents": TEXTS,
        "retrieve_scores": [0.9, 0.8, 0.7],
        "generated_texts": "In 1889.",
        "generation_gt": ["1889"],
    },
    "r2r": {
        "query": "When was it built?",
        "results": {"generated_answer": "In 1889.", "search_results": SEARCHED, "completion": "In 1889."},
    },
    "graphrag": {"query": "When was it built?", "response": "In 1889.", "context_data": GRAPH},
    **{
        f"graphrag, table {n}": {**ASKED, "context_data": {"sources": table, "claims": []}}
        for n, table in enumerate(TABLES)
    },
    "flashrag": {
        "id": "t",
        "question": "When was it built?",
        "golden_answers": ["1889"],
        "output": {
            "retrieval_result": [{"id": "1", "contents": text} for text in TEXTS],
            "raw_pred": "So: in 1889.",
            "pred": "In 1889.",
        },
    },
    "mlflow": {
        "columns": ["inputs", "outputs", "retrieved_context"],
        "data": [["When was it built?", "In 1889.", [{"content": text, "doc_uri": "u"} for text in TEXTS]]],
    },
    "mlflow, chat": {
        "request": json.dumps({"messages": [{"role": "user", "content": "When was it built?"}]}),
        "response": json.dumps({"choices": [{"message": {"role": "assistant", "content": "In 1889."}}]}),
        "retrieved_context": TEXTS,
    },
    "lightrag": {
        "query": "When was it built?",
        "response": "In 1889.",
        "references": [
            {"reference_id": "1", "file_path": "a", "content": TEXTS[:2]},
            {"reference_id": "2", "file_path": "b", "content": TEXTS[2:]},
        ],
    },
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_of_another_tool_is_read_whole(name: str, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    export = EXPORTS[name]
    file.write_text(json.dumps(export if "data" in export or "testCases" in export else [export]))
    (one,) = interactions(file, pipeline="p")
    assert [document["text"] for document in one["documents"]] == TEXTS
    assert (one["question"], one["response"]) == ("When was it built?", "In 1889.")
    assert one["reference_answer"] in (None, "1889")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        *[({"input": "q", "actual_output": "r", "retrieval_context": mark.join(TEXTS)}, repr(mark)) for mark in "|;"],
        *[({**ASKED, "contexts": mark.join(TEXTS)}, "a JSON list of texts")
          for mark in (";", "|", "; ", "|||", "[SEP]", "\n---\n", "\n\n-----\n\n", "\n***\n")],
        ({**ASKED, "context": "Document 1: It is tall.\n\nDocument 2: It is old."}, "a JSON list of texts"),
        ({**ASKED, "references": [{"reference_id": "1", "file_path": "a.pdf"}]}, "objects with text"),
        ({**ASKED, "references": ["1889", "in 1889"]}, "documents is missing"),
        ({"request": "q", "response": "r", "spans": [{"name": "retrieve"}]}, "of a trace are in its spans"),
    ],
)  # fmt: skip
def test_an_export_whose_documents_are_uncertain_is_refused_with_the_cause(
    row: dict[str, Any], said: str, tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (problem,) = told(tmp_path / "rows.jsonl")
    assert said in problem


@pytest.mark.parametrize(
    "text",
    [
        "It opened in May; it closed in June. Parts: valves, pumps; filters.",
        "| part | note |\n|---|---|\n| pump | It is old. | \n",
        "Pumps\n-----\nThey are old.\n\nFilters\n=======\nThey are new.",
        "---\ntitle: Pumps\n---\nThey are old.",
        "Document 1 of the contract says so.",
    ],
)
def test_one_text_of_prose_or_of_a_table_is_one_document(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({**ASKED, "context": text}))
    assert told(tmp_path / "rows.jsonl") == [[text.strip()]]


@pytest.mark.parametrize("reference", [{}, {"total": 0, "chunks": [], "doc_aggs": []}])
def test_a_reference_without_chunks_is_an_empty_retrieval(reference: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({**ASKED, "reference": reference}))
    assert told(tmp_path / "rows.jsonl") == [[]]


def parquet_row(path: Path, **columns: pa.Array) -> Any:
    """Return the one row of a file with these columns beside a question, a response and documents."""
    given = {"question": pa.array(["q"]), "response": pa.array(["r"]), "documents": pa.array([["d"]])}
    pq.write_table(pa.table(given | columns), path / "rows.parquet")
    (row,) = read_rows(path / "rows.parquet", FileOptions(pipeline="p"))
    return row


SMALL = UUID(int=7)


@pytest.mark.parametrize(
    ("name", "column", "expected"),
    [
        ("response", pa.array(["caf\u00e9".encode()]), "caf\u00e9"),
        ("response", pa.array(["r"], pa.string_view()), "r"),
        ("response", pa.array(["r"]).dictionary_encode(), "r"),
        ("response", pa.array([Decimal(1889)]), "1889"),
        ("response", pa.array([date(1889, 3, 31)]), "1889-03-31"),
        ("interaction_id", pa.array([SMALL.bytes], pa.binary(16)), str(SMALL)),
        ("interaction_id", pa.array([SMALL.bytes], pa.uuid()), str(SMALL)),
        ("interaction_id", pa.array([b"sixteen letters!"], pa.binary(16)), "sixteen letters!"),
        ("segments", pa.array([[("lang", "de")]], pa.map_(pa.string(), pa.string())), {"lang": "de"}),
        ("metadata", pa.array([{"when": date(2026, 1, 2), "x": None}]), {"when": "2026-01-02"}),
        ("metadata", pa.array([{"a": [{"b": [("c", 1)]}]}], pa.struct([("a", pa.list_(pa.struct(
            [("b", pa.map_(pa.string(), pa.int64()))])))])), {"a": [{"b": {"c": 1}}]}),
    ],
)  # fmt: skip
def test_a_column_of_any_type_of_parquet_has_its_plain_value(
    name: str, column: pa.Array, expected: Any, tmp_path: Path
) -> None:
    row = parquet_row(tmp_path, **{name: column})
    assert row.problem is None
    assert getattr(row.interaction, name) == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[b"d1", b"d2"]]),
        pa.array([["d1", "d2"]], pa.large_list(pa.large_string())),
        pa.array([[{"text": "d1", "score": float("nan")}, {"text": "d2", "score": None}]]),
        pa.array([[[("text", "d1")], [("text", "d2")]]], pa.list_(pa.map_(pa.string(), pa.string()))),
    ],
)
def test_documents_of_parquet_may_be_nested_in_any_way(column: pa.Array, tmp_path: Path) -> None:
    row = parquet_row(tmp_path, documents=column)
    assert [document.text for document in row.interaction.documents] == ["d1", "d2"]


def test_bytes_that_are_no_text_cost_a_row_only_where_the_text_must_stand(tmp_path: Path) -> None:
    assert parquet_row(tmp_path, image=pa.array([b"\xff\xd8"])).problem is None
    assert (
        parquet_row(tmp_path, extra=pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))).problem is None
    )
    assert "response" in parquet_row(tmp_path, response=pa.array([b"\xff\xd8"])).problem


def test_a_value_without_meaning_in_one_row_never_costs_another(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [json.dumps({"question": "q", "contexts": ["d"], "answer": "r", "x": number}) for number in range(3)]
    bad = (rows[1].replace('"r"', '"\\ud83d"'), rows[1].replace('"r"', "NaN"), rows[1].replace("1}", "NaN}"))
    for row in bad:
        file.write_text("\n".join([rows[0], row, rows[2]]))
        first, _, last = told(file)
        assert first == last == ["d"]
        array = tmp_path / "rows.json"
        array.write_text("[" + ",".join([rows[0], row, rows[2]]) + "]")
        assert [told(array)[0], told(array)[2]] == [["d"], ["d"]]


def test_citations_and_raw_results_beside_the_documents_are_metadata(tmp_path: Path) -> None:
    raw = {"references": [{"title": "t", "url": "u"}], "search_results": [{"url": "u"}], "request": "/ask?v=1"}
    (tmp_path / "rows.jsonl").write_text(json.dumps({"query": "q", "contexts": ["d"], "answer": "r", **raw}))
    (one,) = interactions(tmp_path / "rows.jsonl", pipeline="p")
    assert (one["question"], one["documents"][0]["text"], one["metadata"]) == ("q", "d", raw)
