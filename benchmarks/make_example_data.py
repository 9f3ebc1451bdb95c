"""Make the documents and questions of `examples/bm25_rag` from data sets that may be passed on.

    python benchmarks/make_example_data.py RAGBENCH.jsonl CLAPNQ.jsonl examples/bm25_rag

Documents: every passage of the HotpotQA and HAGRID rows of RAGBench and of ClapNQ, each once. Questions: ClapNQ's
answerable ones with their human answers, and RAGBench's where the stored response is labeled as fully supported and
says something; a language model wrote those, which the segment `answered_by` tells.
"""

import json
import re
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

SUBSETS = ("hotpotqa", "hagrid")

SAYS_NOTHING = re.compile(r"\b(not|no|cannot)\b.*\b(mention|provid|specif|stated|information|determin|answer|context)")

# Natural Questions splits words from punctuation; people do not write so.
UNSPLIT = (
    (re.compile(r"`` ?| ?''"), '"'),
    (re.compile(r" ([.,;:?!%)\]])"), r"\1"),
    (re.compile(r"([(\[$]) "), r"\1"),
    (re.compile(r" ('s|'re|'ve|'ll|n't)\b"), r"\1"),
    (re.compile(r"(?<=\w) - (?=\w)"), "-"),
    (re.compile(r"\s+"), " "),
)


def rows(path: str) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def unsplit(text: str) -> str:
    """Return a text as people write it."""
    for pattern, replacement in UNSPLIT:
        text = pattern.sub(replacement, text)
    return text.strip()


class Documents:
    """Passages by their text, each under one id."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, ...], str] = {}

    def add(self, prefix: str, sentences: list[str]) -> str:
        """Return the id of a passage, which is added if it is new."""
        key = tuple(sentence for sentence in map(unsplit, sentences) if sentence)
        return self._ids.setdefault(key, f"{prefix}-{len(self._ids):03}")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the documents in the order they were added."""
        return ({"id": name, "sentences": list(sentences)} for sentences, name in self._ids.items())


def from_clapnq(path: str, documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield ClapNQ's answerable questions; passages of the others are documents too."""
    for row in rows(path):
        name = documents.add("clapnq", row["passage_sentences"])
        if row["answerable"]:
            yield {
                "id": f"clapnq-{row['id']}",
                "question": row["question"],
                "reference_answer": unsplit(row["answer"]),
                "gold_documents": [name],
                "segments": {"dataset": "clapnq", "answered_by": "people"},
            }


def from_ragbench(path: str, documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield RAGBench's questions with a stored response that is supported and says something."""
    seen: set[str] = set()
    for row in rows(path):
        if row["subset"] not in SUBSETS:
            continue
        names = [documents.add(row["subset"], [text for _, text in cut]) for cut in row["documents_sentences"]]
        used = sorted({int(re.match(r"\d+", key)[0]) for key in row["all_utilized_sentence_keys"]})  # type: ignore[index]
        supported = row["adherence_score"] and used and not SAYS_NOTHING.search(row["response"])
        if supported and row["question"] not in seen:
            seen.add(row["question"])
            yield {
                "id": f"{row['subset']}-{row['id'].removeprefix('hagrid_')}",
                "question": row["question"],
                "reference_answer": unsplit(row["response"]),
                "gold_documents": [names[index] for index in used],
                "segments": {"dataset": row["subset"], "answered_by": "model"},
            }


def write(path: Path, found: list[dict[str, Any]]) -> None:
    """Write objects as JSON Lines."""
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in found), encoding="utf-8")


def main() -> None:
    """Write `documents.jsonl` and `questions.jsonl`, the questions in an order that mixes the data sets."""
    ragbench, clapnq, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    documents = Documents()
    questions = [*from_clapnq(clapnq, documents), *from_ragbench(ragbench, documents)]
    questions.sort(key=lambda each: blake2b(each["id"].encode(), digest_size=8).digest())
    write(folder / "documents.jsonl", list(documents))
    write(folder / "questions.jsonl", questions)


if __name__ == "__main__":
    main()
