"""How well similarity by a sentence encoder finds unsupported responses, and its speed.

    python benchmarks/similarity.py MODEL_FOLDER RAGBENCH.jsonl [--clapnq FILE] [--expertqa FILE] [--int8 FILE]

The folder has the encoder's ONNX file (docs/scores/models.md). RAGBench's labels are by GPT-4; those of ClapNQ and
ExpertQA are by people. The local labeler stands beside it; it was fitted to rows of RAGBench, which flatters it there.
Intervals: 95%, percentiles of 2,000 seeded samples of rows within each subset.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import structlog
from agreement import Floats, Table, auroc, rank_correlation

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.models.labeler import ModelLabeler
from ragtide_consumers.labelers.models.loading import load_models
from ragtide_consumers.labelers.models.sentence_encoder import SentenceEncoder
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.text.sentences import cut
from ragtide_offline.benchmark.formats import read_labeled
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import SentenceProbabilities

SUPPORT: Final = "similarity.support"
MATCH: Final = "similarity.match"
ADHERENCE: Final = "trace.adherence"
RELEVANCE: Final = "trace.context_relevance"

PUBLISHED: Final = ("The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.")
"""Sentences of the quickstart of Sentence Transformers, whose cosines by all-MiniLM-L6-v2 are .6660, .1046, .1411."""

Rows = list[tuple[RagInteraction, Mapping[str, Any]]]


def read(path: Path) -> Rows:
    """Return the usable rows of a labeled file."""
    return [(row.interaction, fields) for row, fields in read_labeled(path) if row.interaction is not None]


def settings_of(folder: Path, file: str, **models: Any) -> Settings:
    return Settings.model_validate({"models": {"similarity": str(folder), "similarity_file": file, **models}})


async def encoder_of(folder: Path, file: str) -> SentenceEncoder:
    """Return the loaded encoder.

    Raises:
        ValueError: the settings name none.
    """
    found = (await load_models(settings_of(folder, file))).similarity
    if found is None:
        raise ValueError("the settings name no sentence encoder")
    return found


async def labeled(rows: Rows, folder: Path, file: str, **models: Any) -> tuple[list[Labeling], float]:
    """Return the labelings of rows, and the seconds of processor time of this process."""
    settings = settings_of(folder, file, **models)
    labeler = ModelLabeler(settings, await load_models(settings))
    slots = asyncio.Semaphore(16)

    async def label(interaction: RagInteraction) -> Labeling:
        async with slots:
            return await labeler.label(interaction)

    await label(rows[0][0])
    begun = time.process_time()
    found = await asyncio.gather(*(label(interaction) for interaction, _ in rows))
    took = time.process_time() - begun
    await labeler.aclose()
    return list(found), took


def n_sentences(rows: Rows) -> int:
    """Return how many different sentences the interactions have, each interaction by itself."""
    found = 0
    for interaction, _ in rows:
        sentences = cut(interaction)
        documents = [sentence for document in sentences.plain_documents for sentence in document]
        found += len({sentences.question, *sentences.plain_response, *documents})
    return found


def column(labelings: Sequence[Labeling], metric: str) -> Floats:
    """Return a score of each row; NaN where it is absent."""
    return np.array([labeling.scores.get(metric, np.nan) for labeling in labelings])


@patch("ragtide_consumers.labelers.models.sentence_encoder.VECTORS_MAX", 0)  # sentences come again, and all are read
async def report_files(rows: Rows, folder: Path, files: Mapping[str, str]) -> None:
    """Print speed and differences of the model's files."""
    print("| weights | files, MB | interactions a second | sentences a second | in other batches | from 32 bits |")
    print("|---|---|---|---|---|---|")
    count, first = n_sentences(rows), list[Labeling]()
    for title, file in files.items():
        found, took = await labeled(rows, folder, file)
        alone, _ = await labeled(rows[:25], folder, file, batch=1)
        common, _ = await labeled(rows[:25], folder, file, batch=64, batch_tokens=8192)
        first = first or found
        cells = [f"{megabytes(folder, file):.0f}", f"{len(rows) / took:.1f}", f"{count / took:.0f}"]
        cells += [f"{largest_difference(alone, common):.6f}", f"{largest_difference(first, found):.4f}"]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)
    print()


def megabytes(folder: Path, file: str) -> float:
    """Return the size of an ONNX file and the data beside it."""
    return sum(path.stat().st_size for path in folder.glob(f"{file}*")) / 1e6


def largest_difference(one: Sequence[Labeling], other: Sequence[Labeling]) -> float:
    """Return the largest absolute difference of a score."""
    return max(float(np.nanmax(abs(column(one, metric) - column(other, metric)))) for metric in (SUPPORT, MATCH))


def report_ragbench(rows: Rows, found: Sequence[Labeling]) -> None:
    """Print how well unsupported responses are found, and how relevance follows the match."""
    local = [LocalLabeler().label_now(interaction) for interaction, _ in rows]
    unsupported = np.array([1 - interaction.gold_scores.get(ADHERENCE, np.nan) for interaction, _ in rows])
    relevance = np.array([interaction.gold_scores.get(RELEVANCE, np.nan) for interaction, _ in rows])
    table = Table(np.array([str(fields["subset"]) for _, fields in rows]))
    table.header()
    table.line("unsupported: similarity.support", auroc, -column(found, SUPPORT), unsupported)
    table.line("unsupported: similarity.match", auroc, -column(found, MATCH), unsupported)
    table.line("unsupported: local adherence", auroc, -column(local, ADHERENCE), unsupported)
    table.line("relevance: similarity.match", rank_correlation, column(found, MATCH), relevance)
    table.line("relevance: local relevance", rank_correlation, column(local, RELEVANCE), relevance)


async def report_expertqa(rows: Rows, encoder: SentenceEncoder) -> None:
    """Print how well claims that experts did not find completely supported are found."""
    claims, missing, local = list[Floats](), list[Floats](), list[Floats]()
    for interaction, fields in rows:
        judged = [claim for claim in fields["claims"] if claim["support"]]
        documents = [sentence for document in cut(interaction).plain_documents for sentence in document]
        found = await encoder.similarities(interaction.question, [claim["claim"] for claim in judged], documents)
        if found is None or not judged:
            continue
        claims.append(-np.array(found.response))
        missing.append(np.array([float(claim["support"] != "Complete") for claim in judged]))
        texts = tuple(claim["claim"] for claim in judged)
        changes = {"response": " ".join(texts), "response_sentences": texts}
        (labels,) = LocalLabeler().label_now(interaction.model_copy(update=changes)).labels
        local.append(-np.array(labels.supported if isinstance(labels, SentenceProbabilities) else ()))
    table = Table(np.full(len(claims), "expertqa"))
    table.groups("claim not complete: best cosine", claims, missing)
    table.groups("claim not complete: local", local, missing)


async def report_clapnq(rows: Sequence[Mapping[str, Any]], encoder: SentenceEncoder) -> None:
    """Print how well questions without an answer, and sentences that people used, are found."""
    matches, answerable, cosines, used = list[float](), list[float](), list[Floats](), list[Floats]()
    for row in rows:
        sentences = [sentence for sentence in row["passage_sentences"] if sentence.strip()]
        found = await encoder.similarities(row["question"], [], sentences)
        if found is None:
            continue
        matches.append(found.question)
        answerable.append(float(row["answerable"]))
        if row["answerable"]:
            by_sentence = await encoder.similarities(row["question"], sentences, [row["question"]])
            cosines.append(np.array([] if by_sentence is None else by_sentence.response))
            chosen = {row["passage_sentences"][number] for number in row["selected_sentence_ids"]}
            used.append(np.array([float(sentence in chosen) for sentence in sentences]))
    whole = Table(np.full(len(matches), "clapnq"))
    whole.line("no answer: similarity.match", auroc, -np.array(matches), 1 - np.array(answerable))
    Table(np.full(len(cosines), "clapnq")).groups("sentence used: cosine to question", cosines, used)


async def report(options: argparse.Namespace) -> None:
    folder: Path = options.model
    encoder = await encoder_of(folder, options.file)
    print("# Similarity by a sentence encoder\n")
    print(f"Written by `benchmarks/similarity.py`. The model has the digest `{encoder.session.files.digest[:16]}`.")
    cosines = [await encoder.similarities(text, [], [other]) for text, other in _pairs(PUBLISHED)]
    values = ", ".join("" if found is None else f"{found.question:.4f}" for found in cosines)
    print("Cosines of the sentences of Sentence Transformers' quickstart, which has 0.6660, 0.1046 and 0.1411 for")
    print(f"all-MiniLM-L6-v2: {values}.\n")
    rows = read(options.ragbench)
    rows = rows[:: max(len(rows) // options.rows, 1)]
    some = rows[: options.speed]
    print(f"## Speed and batches\n\n{len(some)} rows of RAGBench, one thread, by seconds of processor time.\n")
    files = {"32 bits": options.file} | ({"8 bits, weights only": options.int8} if options.int8 else {})
    await report_files(some, folder, files)
    found, _ = await labeled(rows, folder, options.file)
    if options.write is not None:
        lines = [
            json.dumps({"interaction_id": row.interaction_id, "scores": dict(each.scores)})
            for (row, _), each in zip(rows, found, strict=True)
        ]
        await asyncio.to_thread(options.write.write_text, "\n".join(lines) + "\n")
    print(f"## RAGBench, {len(rows):,} rows, labels by GPT-4\n")
    print("AUROC, and Spearman's rank correlation for relevance.\n\n```text")
    report_ragbench(rows, found)
    print("```")
    if options.expertqa is not None:
        print("\n## ExpertQA, claims judged by experts\n\nAUROC.\n\n```text")
        await report_expertqa(read(options.expertqa), encoder)
        print("```")
    if options.clapnq is not None:
        print("\n## ClapNQ, sentences chosen by people\n\nAUROC.\n\n```text")
        await report_clapnq([fields for _, fields in read_labeled(options.clapnq)], encoder)
        print("```")
    await encoder.aclose()


def _pairs(texts: Sequence[str]) -> list[tuple[str, str]]:
    return [(text, other) for number, text in enumerate(texts) for other in texts[number + 1 :]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="folder of the encoder")
    parser.add_argument("ragbench", type=Path, help="JSON Lines of RAGBench rows")
    parser.add_argument("--file", default="model.onnx", help="its ONNX file")
    parser.add_argument("--int8", default="", help="its ONNX file with weights of eight bits")
    parser.add_argument("--write", type=Path, help="also write the scores of RAGBench's rows, as ragtide score does")
    parser.add_argument("--rows", type=int, default=600, help="rows of RAGBench, about, drawn evenly from the file")
    parser.add_argument("--speed", type=int, default=50, help="rows on which the speed is measured")
    parser.add_argument("--expertqa", type=Path)
    parser.add_argument("--clapnq", type=Path)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(report(parser.parse_args()))


if __name__ == "__main__":
    main()
