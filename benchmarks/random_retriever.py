"""Whether an experiment finds that BM25 is better than random documents: by metric, for three styles of answers.

    python benchmarks/random_retriever.py [--questions 146]

The documents and questions are those of examples/bm25_rag. Both retrievers pass three whole documents. The answer
comes from these documents only: `extracted` takes the three sentences that fit the question best, `first sentences`
the first two of the first document, `copied` the whole first document. So only the retriever differs, and a metric
that reads documents and answer finds nothing wrong.

By style there is one experiment, without stops, whose leaderboard is printed: the means with 95% intervals for other
questions like these, and the leaderboard's warning. A second table has BM25 with more and more documents. Seeded.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from math import nan
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from ragtide import Experiment, LocalLabeler, RagInteraction, read_items
from ragtide_offline.experiments.board import Board
from ragtide_runtime.redis.server.embedded import EmbeddedRedis

EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "bm25_rag"
TOP_K: Final = 3
RETRIEVERS: Final = ("bm25", "random")
STYLES: Final = ("extracted", "first sentences", "copied")
DECIDES: Final = "trace.context_utilization"
METRICS: Final = ("retrieval.match", "trace.context_relevance", "trace.context_utilization", "trace.adherence")


def example() -> Any:
    """Return the module of the example, which lies beside its data and in no package."""
    name = "bm25_rag_example"
    loader = SourceFileLoader(name, str(EXAMPLE / "rag.py"))
    module = sys.modules[name] = module_from_spec(ModuleSpec(name, loader, origin=loader.path))
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


RAG: Final = example()


def answer(question: str, *, retriever: str, style: str) -> tuple[list[str], str]:
    """Return three documents for a question, and an answer made of them.

    Args:
        question: what is asked.
        retriever: one of `RETRIEVERS`; random documents depend on the question only.
        style: one of `STYLES`.
    """
    whole = RAG.index(0)
    if retriever == "bm25":
        chunks = [chunk for chunk, _ in RAG.retrieve(question, whole, TOP_K)]
    else:
        chunks = Random(question).sample(whole.chunks, TOP_K)
    if style == "extracted":
        said: Sequence[str] = RAG.extract(question, chunks, 3, whole.rarity)
    else:
        said = chunks[0].sentences if style == "copied" else chunks[0].sentences[:2]
    return [chunk.text for chunk in chunks], " ".join(said)


def leaderboard(redis_url: str, style: str, questions: int, metric: str = DECIDES, *, race: bool = False) -> Board:
    """Return the leaderboard of both retrievers with a style of answers.

    Args:
        redis_url: Redis of the experiment.
        style: one of `STYLES`.
        questions: their number.
        metric: of the experiment.
        race: whether the loser is stopped.
    """
    items = [item.question for item in read_items(EXAMPLE / "questions.jsonl")][:questions]
    return Experiment(
        f"{style.replace(' ', '-')}-{metric.partition('.')[2].replace('_', '-')}",
        answer,
        data=items,
        metric=metric,
        configs={name: {"retriever": name, "style": style} for name in RETRIEVERS},
        race={"enabled": race},
        intervals={"strategy": "betting", "use_fpc": False},
        redis_url=redis_url,
    ).run()


def with_more_documents(questions: int) -> list[list[float]]:
    """Return means of BM25 with 1, 2, 4 and 8 whole documents: of found right documents, and of three metrics."""
    labeler = LocalLabeler()
    found = []
    for count in (1, 2, 4, 8):
        rows: list[list[float]] = []
        for item in read_items(EXAMPLE / "questions.jsonl")[:questions]:
            documents, response = RAG.answer(item.question, top_k=count, chunk_sentences=0, answer_sentences=3)
            fields = {"pipeline": "bm25", "question": item.question, "documents": documents, "response": response}
            scores = labeler.label_now(RagInteraction.from_fields(fields)).scores
            right = not {document["id"] for document in documents}.isdisjoint(item.metadata["gold_documents"])
            rows.append([right, *(scores.get(metric, nan) for metric in METRICS[:3])])
        found.append([float(count), *np.nanmean(rows, axis=0)])
    return found


def main() -> None:
    """Run the experiments and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=146)
    questions = parser.parse_args().questions
    with TemporaryDirectory() as folder, EmbeddedRedis.open(Path(folder)) as server:
        boards = {style: leaderboard(server.url, style, questions) for style in STYLES}
    print("# BM25 against random documents\n\nWritten by `python benchmarks/random_retriever.py`.\n")
    print(f"Local labeler `{LocalLabeler.version}`, {questions} questions. Better: intervals do not overlap.\n")
    print("| answers | metric | BM25 | random documents | better |\n|---|---|---|---|---|")
    for style, board in boards.items():
        rows = {row.name: row for row in board.rows}
        for metric in METRICS:
            bm25, other = (rows[name].estimates[metric] for name in RETRIEVERS)
            cells = [f"{at.estimate:.3f} ({at.lower:.3f} to {at.upper:.3f})" for at in (bm25, other)]
            better = "BM25" if bm25.lower > other.upper else "random" if other.lower > bm25.upper else "undecided"
            print(f"| {style} | `{metric}` | {' | '.join(cells)} | {better} |")
    print(f"\nThe leaderboard by `{DECIDES}` warns:\n")
    for warning in dict.fromkeys(board.warning for board in boards.values()):
        print(f"> {warning}")
    print("\n## More documents\n\nBM25 with `top_k` whole documents, answers of three sentences:\n")
    names = " | ".join(f"`{metric}`" for metric in METRICS[:3])
    print(f"| top_k | a right document is among them | {names} |\n|---|---|---|---|---|")
    for count, right, *means in with_more_documents(questions):
        print(f"| {count:.0f} | {right:.0%} | {' | '.join(f'{value:.3f}' for value in means)} |")


if __name__ == "__main__":
    main()
