"""Measure by language which failures the local labeler's numbers follow, on questions and paragraphs of public data.

    python benchmarks/languages.py                      # the samples in tests/data/multilingual
    python benchmarks/languages.py pl.json fa.json      # other files in the format of SQuAD, named by their language
    python benchmarks/languages.py --sample xquad.de.json --to tests/data/multilingual/de.json

A row is a question, three documents and a response: the sentence of its paragraph that has the answer. The documents
are this paragraph, another one of the same article if there is one, and one of another article. Each row is spoilt and
compared with itself; a figure is the AUROC of clean against spoilt rows, 0.5 if the number does not move.
A line ends with whether the language passes the bar (`BAR` below): a language that does may be in
`LANGUAGES` of consumers/ragtide_consumers/labelers/local/labeler.py.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from ragtide import LocalLabeler, RagInteraction
from ragtide_aggregator.statistics.comparisons.agreement import auroc
from ragtide_aggregator.statistics.comparisons.bootstrap import Measured
from ragtide_consumers.labelers.local import labeler as local
from ragtide_consumers.text.sentences import locate_sentences
from ragtide_offline.benchmark.figures import Floats, SubsetScores, figure_of, question_digest
from ragtide_offline.corruptions.interactions import CORRUPTIONS, spoil

SAMPLES: Final = Path(__file__).parents[1] / "tests" / "data" / "multilingual"
ROWS: Final = 48
"""Rows of a sample: about two paragraphs of each of 24 articles."""
LONGEST: Final = 1200
"""Characters of the longest paragraph of a sample."""

FIGURES: Final = (
    ("broken retriever", "retrieval.match"),
    ("broken retriever", "trace.context_relevance"),
    ("wrong documents", "trace.context_relevance"),
    ("wrong documents", "trace.adherence"),
    ("wrong answer", "trace.context_utilization"),
    ("wrong answer", "trace.adherence"),
    ("foreign sentence", "trace.adherence"),
    ("changed numbers", "trace.adherence"),
)
"""What is printed: a corruption and a metric that should see it."""

BAR: Final = {
    ("broken retriever", "retrieval.match"): 0.9,
    ("wrong documents", "trace.adherence"): 0.95,
    ("wrong answer", "trace.adherence"): 0.95,
    ("wrong answer", "trace.context_utilization"): 0.75,
    ("foreign sentence", "trace.adherence"): 0.95,
}
"""Least AUROC of a language that the labeler scores."""
MOST_ABSENT: Final = 0.05
"""Largest share of rows without scores of such a language: their language was not recognized."""


def articles(path: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the title and the paragraphs of each article of a file in the format of SQuAD, or in a flat form of it."""
    data = json.loads(path.read_text(encoding="utf-8"))
    for number, article in enumerate(data["data"] if isinstance(data, dict) else data):
        paragraphs = article.get("paragraphs", [article])
        parts = [
            part
            for paragraph in paragraphs
            for part in _parts(paragraph["context"], [*map(_plain, paragraph.get("qas", [paragraph]))])
        ]
        yield article.get("title") or str(number), parts


def _parts(context: str, questions: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a paragraph and its questions. A long one is a whole article, whose lines are its paragraphs."""
    if len(context) <= LONGEST:
        yield {"context": context, "qas": questions}
        return
    start = 0
    for line in context.split("\n"):
        asked_here = []
        for asked in questions:
            answers = [{**answer, "answer_start": answer["answer_start"] - start} for answer in asked["answers"]]
            if answers and 0 <= answers[0]["answer_start"] < len(line):
                asked_here.append({**asked, "answers": answers})
        yield {"context": line, "qas": asked_here}
        start += len(line) + 1


def _plain(asked: dict[str, Any]) -> dict[str, Any]:
    """Return a question with its answers, and no other field; the answers of a flat file are lists by field."""
    answers = asked.get("answers") or []
    if isinstance(answers, dict):
        pairs = zip(answers["text"], answers["answer_start"], strict=True)
        answers = [{"text": text, "answer_start": start} for text, start in pairs]
    answers = [{"text": answer["text"], "answer_start": answer["answer_start"]} for answer in answers]
    return {"id": asked.get("id"), "question": asked["question"], "answers": answers}


def answer_sentence(paragraph: str, asked: dict[str, Any]) -> str | None:
    """Return the sentence of a paragraph that has the first answer of a question; None without one."""
    if not asked["answers"]:
        return None
    answer = asked["answers"][0]
    start, text = answer["answer_start"], answer["text"]
    if paragraph[start : start + len(text)] != text:
        start = paragraph.find(text)
    inside = [found for found in locate_sentences(paragraph) if found.start <= start < found.end]
    return paragraph[inside[0].start : inside[0].end] if inside and start >= 0 else None


def sample(path: Path) -> dict[str, Any]:
    """Return a sample of a file, in the format of SQuAD: articles evenly from the file, one question a paragraph."""
    found = [(title, [part for part in parts if len(part["context"]) <= LONGEST]) for title, parts in articles(path)]
    found = [(title, parts) for title, parts in found if parts]
    each = min(2, max(len(parts) for _, parts in found))
    step = max(len(found) * each // ROWS, 1)
    chosen, rows = [], 0
    for title, parts in [*found[::step], *(found[place] for place in range(len(found)) if place % step)]:
        paragraphs: list[dict[str, Any]] = []
        for part in parts:
            asked = next((asked for asked in part["qas"] if answer_sentence(part["context"], asked)), None)
            if asked is not None and len(paragraphs) < 2 and rows < ROWS:
                paragraphs.append({"context": part["context"], "qas": [asked | {"answers": asked["answers"][:1]}]})
                rows += 1
        if paragraphs:
            chosen.append({"title": title, "paragraphs": paragraphs})
    return {"data": chosen}


def rows_of(path: Path) -> list[RagInteraction]:
    """Return a row for each paragraph of a file, with its first question that has an answer."""
    found = []
    for title, parts in articles(path):
        for part in parts:
            for asked in part["qas"]:
                response = answer_sentence(part["context"], asked)
                if response is not None:
                    found.append((title, part["context"], asked["question"], response))
                    break
    rng = Random(0)
    rows = []
    for number, (title, paragraph, question, response) in enumerate(found):
        siblings = [text for other, text, _, _ in found if other == title and text != paragraph]
        strangers = [text for other, text, _, _ in found if other != title]
        documents = [paragraph, *rng.sample(siblings, min(1, len(siblings)))]
        documents += rng.sample(strangers, 3 - len(documents))
        rng.shuffle(documents)
        rows.append(
            RagInteraction(
                interaction_id=f"{path.stem}-{number}",
                pipeline="languages",
                question=question,
                documents=documents,
                response=response,
            )
        )
    return rows


def figures_of(labeler: LocalLabeler, rows: Sequence[RagInteraction]) -> tuple[float, list[Measured | None]]:
    """Return the share of clean rows without scores, and by pair in `FIGURES` the AUROC; None without the metric."""
    clean = [labeler.label_now(row).scores for row in rows]
    after = {
        name: [
            None if other is None else labeler.label_now(other).scores
            for other in (spoilt_of(name, row, rows) for row in rows)
        ]
        for name in dict.fromkeys(name for name, _ in FIGURES)
    }
    found: list[Measured | None] = []
    for name, metric in FIGURES:
        pairs = [
            (before[metric], later[metric], question_digest(row.question))
            for row, before, later in zip(rows, clean, after[name], strict=True)
            if later is not None and metric in before and metric in later
        ]
        if not pairs:
            found.append(None)
            continue
        before_all, after_all, questions = (np.array(column) for column in zip(*pairs, strict=True))
        subset = SubsetScores(after_all, before_all, questions, {})
        found.append(figure_of("AUROC", _clean_is_higher, {"all": subset}, 0.95, 0).mean)
    return sum(not scores for scores in clean) / len(rows), found


def spoilt_of(name: str, row: RagInteraction, rows: Sequence[RagInteraction]) -> RagInteraction | None:
    """Return a row spoilt in a way."""
    return spoil(CORRUPTIONS[name], row, rows)


def _clean_is_higher(after: Floats, clean: Floats) -> float:
    return auroc(np.concatenate([clean, after]), np.arange(2 * len(clean)) < len(clean))


def passes(absent: float, figures: Sequence[Measured | None]) -> bool:
    """Return whether a language passes the bar."""
    reached = {pair: figure.value for pair, figure in zip(FIGURES, figures, strict=True) if figure is not None}
    return absent <= MOST_ABSENT and all((reached.get(pair) or 0.0) >= least for pair, least in BAR.items())


def main() -> None:
    """Measure and print a Markdown table, or write a sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", type=Path, help="files in the format of SQuAD; the name begins with the language"
    )
    parser.add_argument("--rows", type=int, default=300, help="most rows of a file")
    parser.add_argument("--sample", type=Path, help="write a sample of this file")
    parser.add_argument("--to", type=Path, help="the sample's file")
    arguments = parser.parse_args()
    if arguments.sample is not None:
        lines = [json.dumps(article, ensure_ascii=False) for article in sample(arguments.sample)["data"]]
        arguments.to.write_text('{"data": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
        return
    labeler = LocalLabeler()
    measured: list[list[str]] = []
    for path in arguments.files or sorted(SAMPLES.glob("*.json")):
        code = path.stem[:2]
        # A language that the labeler does not score yet is measured as if it did.
        name = local.LANGUAGES.setdefault(code, code)
        rows = rows_of(path)[: arguments.rows]
        absent, figures = figures_of(labeler, rows)
        passed = "yes" if passes(absent, figures) else "no"
        measured.append([name, str(len(rows)), f"{absent:.0%}", *map(_cell, figures), passed])
        print(name, file=sys.stderr)
    heads = ["language", "rows", "absent", *(f"{name}: {metric.split('.')[-1]}" for name, metric in FIGURES), "passes"]
    columns = [column for column in zip(heads, *sorted(measured), strict=True) if any(column[1:])]
    head, *body = zip(*columns, strict=True)
    for line in [head, ["---"] * len(head), *body]:
        print(f"| {' | '.join(line)} |")


def _cell(figure: Measured | None) -> str:
    if figure is None or figure.value is None or figure.lower is None:
        return ""
    if figure.lower == figure.upper:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} ({figure.lower:.3f} to {figure.upper:.3f})"


if __name__ == "__main__":
    main()
