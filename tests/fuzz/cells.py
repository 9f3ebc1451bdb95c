"""Cells and files of documents as tools write them: read as the truth or refused by name, never as other documents."""

import csv
import gzip
import io
import json
import pprint
import random
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from ragtide_producers import FileOptions, UnreadableFileError, read_rows

WORDS: Final = (
    "opening hours", "it's", 'the "tower"', "closed, on Monday", "1889", "made of iron;", "Öffnung", "9 to 5", "🙂",
    "a\ttab", "two\nlines", "back\\slash", "[1]", "(see p. 4)", "{x}", "nan", "None of them",
    "e.g.", "No results", "=", "x=1",
)  # fmt: skip
TEXT_KEYS: Final = ("page_content", "text", "content", "chunk", "passage", "body", "snippet", "contents", "chunk_text")
MISSING: Final = (None, "", "  ", "nan", "None", "null", "<NA>", float("nan"))
QUESTION, ANSWER = "When is it open?", "It is open from 9 to 5."

Spoilt = tuple[Any, bool | None]
"""A value of the column: True if it must be read, False if a refusal is right, too, None if it must be refused."""


def check(seed: int) -> None:
    """Read what a tool would write of known documents, and compare."""
    rng = random.Random(seed)
    texts = [_text(rng) for _ in range(rng.choice((1, 1, 2, 2, 3, 5, 9)))]
    value, surely = rng.choice(KINDS)(rng, texts)
    name, content, asked = _file(rng, value)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            rows = list(read_rows(path, FileOptions(unnamed="x")))
        except UnreadableFileError as error:
            raise AssertionError(f"{name}: {error}: {content[:300]!r}") from None
    assert len(rows) == 1, (name, content[:300])
    (row,) = rows
    if row.interaction is None:
        assert not surely, (name, row.problem, content[:300])
        assert asked in _name(row.problem or ""), row.problem
        return
    assert surely is not None, ("read what cannot be read", name, row.interaction.documents, content[:300])
    found = [document.text for document in row.interaction.documents]
    assert [_plain(text) for text in found] == [_plain(text) for text in texts], (name, found, texts, content[:300])
    assert (row.interaction.question, row.interaction.response) == (QUESTION, ANSWER)


def _text(rng: random.Random) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 6))]
    text = f"Text {rng.randint(0, 99)} {' '.join(words)}."
    return text.strip()


def _name(text: str) -> str:
    return text.lower().replace(" ", "_")


def _plain(text: str) -> str:
    return " ".join(text.split())


def _json(rng: random.Random, texts: list[str]) -> Spoilt:
    return json.dumps(texts, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 1))), True


def _python(rng: random.Random, texts: list[str]) -> Spoilt:
    value: Any = texts if rng.random() < 0.7 else tuple(texts)
    return repr(value), True


def _numpy(rng: random.Random, texts: list[str]) -> Spoilt:
    array = np.array(texts, dtype=object if rng.random() < 0.6 else None)
    with np.printoptions(linewidth=rng.choice((20, 75, 1000)), threshold=100_000):
        return rng.choice((str, repr))(array), not any(text[-1:].isspace() for text in texts)


def _numpy_scalars(rng: random.Random, texts: list[str]) -> Spoilt:
    return repr(list(np.array(texts))), True


def _elided(rng: random.Random, texts: list[str]) -> Spoilt:
    with np.printoptions(threshold=2, edgeitems=1):
        array = np.array([*texts, "a", "b", "c", "d"], dtype=object)
        return rng.choice((str, repr))(array), None


def _cut(rng: random.Random, texts: list[str]) -> Spoilt:
    whole = rng.choice((json.dumps(texts), repr(texts), f"[{', '.join(texts)}]"))
    return f"{whole[: rng.randint(8, max(8, len(whole) - 3))]}...", None


def _unquoted(rng: random.Random, texts: list[str]) -> Spoilt:
    return f"[{', '.join(texts).replace('[1]', '')}]", None


def _printed(rng: random.Random, texts: list[str]) -> Spoilt:
    return pprint.pformat(texts, width=rng.choice((20, 60, 200))), False


def _series(rng: random.Random, texts: list[str]) -> Spoilt:
    lines = [f"{place}    {text}" for place, text in enumerate(texts)]
    return "\n".join([*lines, rng.choice(("dtype: object", "Name: contexts, dtype: object"))]), None


def _doubled(rng: random.Random, texts: list[str]) -> Spoilt:
    return json.dumps(texts).replace('"', '""'), False


def _nested(rng: random.Random, texts: list[str]) -> Spoilt:
    one = rng.choice(
        (json.dumps(json.dumps(texts)), json.dumps([json.dumps(texts)]), repr([texts]), repr([repr(texts)]))
    )
    return one, True


def _objects(rng: random.Random, texts: list[str]) -> Spoilt:
    key = rng.choice(TEXT_KEYS)
    items: list[Any] = [{key: text} for text in texts]
    kind = rng.randint(0, 7)
    for place, item in enumerate(items):
        if rng.random() < 0.5:
            item["id"] = f"d{place}"
        if rng.random() < 0.5:
            item["score"] = round(rng.random(), 3)
    if kind == 1:
        items = [{"node": item, "score": 0.5} for item in items]
    elif kind == 2:
        items = [{"lc": 1, "type": "constructor", "id": ["langchain", "Document"], "kwargs": item} for item in items]
    elif kind == 3:
        items = [{"_id": str(place), "_score": 1.5, "_source": item} for place, item in enumerate(items)]
    elif kind == 4:
        items = [{"id": str(place), "score": 0.5, "metadata": item} for place, item in enumerate(items)]
    elif kind == 5:
        items = [{"document": f"guide{place}.pdf", **item} for place, item in enumerate(items)]
    elif kind == 6:
        items = [{"payload": item, "id": place, "score": 0.25} for place, item in enumerate(items)]
    value: Any = items
    if kind == 3 and rng.random() < 0.5:
        value = {"took": 3, "hits": {"total": {"value": len(items)}, "hits": items}}
    elif kind == 4 and rng.random() < 0.5:
        value = {"matches": items, "namespace": ""}
    elif rng.random() < 0.2:
        value = {rng.choice(("documents", "results", "docs", "source_documents")): items}
    return rng.choice((lambda v: v, json.dumps, repr))(value), True


def _columns(rng: random.Random, texts: list[str]) -> Spoilt:
    size = len(texts)
    table: dict[str, Any] = rng.choice(
        (
            {"passage_text": texts, "is_selected": [0] * size, "url": [f"u{place}" for place in range(size)]},
            {"text": texts, "score": [0.5] * size},
            {"title": [f"T{place}" for place in range(size)], "sentences": [_sentences(rng, text) for text in texts]},
            {"title": [f"T{place}" for place in range(size)], "content": [_sentences(rng, text) for text in texts]},
            {"ids": [[str(place) for place in range(size)]], "documents": [texts], "distances": [[0.1] * size]},
            {"ids": [str(place) for place in range(size)], "documents": texts, "metadatas": [{}] * size},
            {"id": list(range(size)), "content": texts},
        )
    )
    if rng.random() < 0.3 and all(isinstance(column, list) and column for column in table.values()):
        flat = {name: column for name, column in table.items() if not isinstance(column[0], list | dict)}
        if len(flat) == len(table):
            return repr({name: np.array(column, dtype=object) for name, column in table.items()}), False
    return rng.choice((lambda v: v, json.dumps, repr))(table), True


def _sentences(rng: random.Random, text: str) -> list[str]:
    words = text.split(" ")
    place = rng.randint(0, len(words) - 1)
    parts = [" ".join(words[:place]), " ".join(words[place:])]
    return (
        [part for part in parts if part.strip()]
        if rng.random() < 0.5
        else [parts[0], f" {parts[1]}"]
        if parts[0]
        else [text]
    )


def _titled(rng: random.Random, texts: list[str]) -> Spoilt:
    value = [[f"T{place}", _sentences(rng, text)] for place, text in enumerate(texts)]
    return rng.choice((lambda v: v, json.dumps, repr))(value), True


def _with_missing(rng: random.Random, texts: list[str]) -> Spoilt:
    items: list[Any] = list(texts)
    for _ in range(rng.randint(1, 3)):
        items.insert(rng.randint(0, len(items)), rng.choice(MISSING))
    return (json.dumps(items), True) if rng.random() < 0.5 else (repr(items), True)


def _plain_list(rng: random.Random, texts: list[str]) -> Spoilt:
    return list(texts), True


def _one_text(rng: random.Random, texts: list[str]) -> Spoilt:
    del texts[1:]
    return texts[0], True


def _lists_in_a_list(rng: random.Random, texts: list[str]) -> Spoilt:
    value = [[text, "more"] for text in texts] + [["third"]]
    return rng.choice((lambda v: v, json.dumps, repr))(value), None


def _nothing(rng: random.Random, texts: list[str]) -> Spoilt:
    texts.clear()
    words = (
        "nan",
        "NaN",
        "None",
        "null",
        "NULL",
        "NA",
        "N/A",
        "<NA>",
        '"null"',
        "",
        " ",
        "[]",
        "{}",
        "No results found.",
    )
    return rng.choice(words), True


def _ids(rng: random.Random, texts: list[str]) -> Spoilt:
    value = rng.choice(([1, 2], [{"id": "a", "score": 0.5}], [0.5], {"ids": ["a", "b"]}))
    return rng.choice((lambda v: v, json.dumps))(value), None


KINDS: Final = (
    _json, _python, _numpy, _numpy_scalars, _elided, _cut, _unquoted, _printed, _series, _doubled, _nested, _objects,
    _columns, _titled, _with_missing, _plain_list, _one_text, _lists_in_a_list, _nothing, _ids,
)  # fmt: skip


def _file(rng: random.Random, value: Any) -> tuple[str, bytes, str]:
    """Return the name and the bytes of a file with one row, and the column of the documents."""
    column = rng.choice(("contexts", "retrieved_contexts", "retrieval_context", "context", "passages", "documents"))
    question = rng.choice(("question", "query", "user_input", "input"))
    answer = rng.choice(("answer", "response", "actual_output", "prediction"))
    row = {question: QUESTION, column: value, answer: ANSWER}
    if rng.random() < 0.2:
        row["query_id"] = rng.randint(1, 10**6)
    if rng.random() < 0.2:
        row["notes"] = rng.choice(("x", 3, None))
    if isinstance(value, str) and rng.random() < 0.7:
        name, text = _csv(rng, row)
    elif rng.random() < 0.6:
        name, text = "answers.jsonl", json.dumps(row) + "\n"
    else:
        name, text = "answers.json", _table(rng, row)
    return _encoded(rng, name, text, column)


def _encoded(rng: random.Random, name: str, text: str, column: str) -> tuple[str, bytes, str]:
    content = text.encode(rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16")))
    if rng.random() < 0.15:
        return f"{name}.gz", gzip.compress(content, 1), column
    return name, content, column


def _csv(rng: random.Random, row: dict[str, Any]) -> tuple[str, str]:
    separator = rng.choice((",", ",", ";", "\t", "|"))
    names = list(row)
    if rng.random() < 0.3:
        names = [rng.choice((f" {name} ", name.title().replace("_", " "), name.upper())) for name in names]
    lines = io.StringIO()
    writer = csv.writer(lines, delimiter=separator, lineterminator=rng.choice(("\n", "\r\n")))
    writer.writerow(names)
    writer.writerow(["" if cell is None else cell for cell in row.values()])
    head = f"sep={separator}\n" if rng.random() < 0.1 and separator != "\t" else ""
    return "answers.tsv" if separator == "\t" and rng.random() < 0.5 else "answers.csv", head + lines.getvalue()


def _table(rng: random.Random, row: dict[str, Any]) -> str:
    return json.dumps(
        rng.choice(
            (
                [row],
                {"data": [row]},
                {name: {"0": value} for name, value in row.items()},
                {name: [value] for name, value in row.items()},
                {"0": row},
                {"columns": list(row), "index": [0], "data": [list(row.values())]},
                row,
            )
        )
    )
