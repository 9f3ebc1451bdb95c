"""Measure how many interactions a second the local labeler takes on one core, cutting into sentences included.

    python benchmarks/local_labeler.py [--interactions 400] [--rounds 7] [--record]
    python benchmarks/local_labeler.py --languages          # by language, beside English in the same rounds

Five documents of 400 characters each, from the bundled demo's texts, none of which the process has kept. Beside it, in
the same rounds, the least such a labeler has to do: cut the sentences and find the words once. The ratio is what to
compare between machines. Then the demo's own documents as real traffic retrieves them, by a law of Zipf (the second
most frequent document half as often as the first), with and without what is kept of documents.

Then the cost of a label by the length of its documents. With `--record` this is all that is measured. It becomes that
of the unit costs of `ragtide capacity`, the words of every page that states it, and measured/label_cost.md.
"""

import argparse
import os
import random
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from growing.label_cost import ROWS, label_cost, measured_us, write_unit_costs
from growing.unit_costs import machine
from languages import SAMPLES, rows_of

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.text import sentences
from ragtide_consumers.text.kept_documents import KeptDocuments
from ragtide_consumers.text.sentences import split_sentences
from ragtide_offline.capacity.unit_costs import SHIPPED, read_unit_costs
from ragtide_offline.demo import demo_interactions
from ragtide_schemas import utc_now

LABEL_COST = Path(__file__).parent / "measured" / "label_cost.md"
DOCUMENTS = 5
CHARS = 400

_WORD = re.compile(r"\w+")


def interactions(count: int) -> list[RagInteraction]:
    """Return interactions with real questions and answers, and documents of exactly the stated size."""
    rows = demo_interactions()
    pool = " ".join(document.text for row in rows for document in row.documents)
    size = DOCUMENTS * CHARS
    found = []
    for number in range(count):
        row = rows[number % len(rows)]
        start = number * size % (len(pool) - size)
        texts = [pool[at : at + CHARS] for at in range(start, start + size, CHARS)]
        found.append(RagInteraction(pipeline="bench", question=row.question, documents=texts, response=row.response))
    return found


def repeated(count: int) -> list[RagInteraction]:
    """Return interactions with the demo's questions, answers and documents; documents are drawn by a law of Zipf."""
    rows = demo_interactions()
    pool = list({document.text: document for row in rows for document in row.documents}.values())
    draw = random.Random(3)
    draw.shuffle(pool)
    shares = [1 / (rank + 1) for rank in range(len(pool))]
    return [
        RagInteraction(
            pipeline="bench",
            question=rows[number % len(rows)].question,
            documents=draw.choices(pool, shares, k=DOCUMENTS),
            response=rows[number % len(rows)].response,
        )
        for number in range(count)
    ]


def rate_with(kept: KeptDocuments, work: Callable[[RagInteraction], object], rows: list[RagInteraction]) -> float:
    """Return interactions per second of processor time in a process that keeps these documents."""
    sentences.KEPT = kept  # type: ignore[attr-defined]
    return rate(work, rows)


def least(row: RagInteraction) -> None:
    """Cut the sentences and find their words."""
    for text in (*(document.text for document in row.documents), row.response):
        for sentence in split_sentences(text):
            _WORD.findall(sentence.lower())


def rate(work: Callable[[RagInteraction], object], rows: list[RagInteraction]) -> float:
    """Return interactions per second of processor time."""
    started = time.process_time()
    for row in rows:
        work(row)
    return len(rows) / (time.process_time() - started)


def by_language(labeler: LocalLabeler, rounds: int) -> None:
    """Print for each sample in tests/data/multilingual the median rate, as a share of that of the English one."""
    samples = {path.stem: rows_of(path) for path in sorted(SAMPLES.glob("*.json"))}
    for rows in samples.values():
        rate(labeler.label_now, rows)
    rates = [{name: rate(labeler.label_now, rows) for name, rows in samples.items()} for _ in range(rounds)]
    for name in samples:
        share = statistics.median(found[name] / found["en"] for found in rates)
        print(f"{name} {share:.2f}")


def record(rounds: int) -> None:
    """Measure the cost of a label by length, and write it wherever it is stated."""
    points = measured_us(rounds)
    cost = label_cost(points)
    costs = read_unit_costs(SHIPPED)
    write_unit_costs(costs.model_copy(update={"labelers_us": {**costs.labelers_us, "local": cost}}))
    measured = (
        f"Written by `make speed ARGS=--record` (`benchmarks/local_labeler.py`) on {utc_now():%Y-%m-%d}: {machine()}. "
        f"Processor time, the least of {rounds} rounds, of {ROWS} interactions of each size with the bundled questions "
        "and answers, in a process that has seen none of the documents.\n"
    )
    lines = [
        "# The cost of a label of the local labeler\n",
        measured,
        f"A label takes {cost.in_words()}. `ragtide capacity` computes with it.\n",
        "| documents | KiB of each | measured, µs | by this sum, µs |\n|---|---|---|---|",
        *(
            f"| {documents} | {kib:g} | {us:,.0f} | {cost.of(documents, documents * kib):,.0f} |"
            for (documents, kib), us in points.items()
        ),
    ]
    LABEL_COST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"a label takes {cost.in_words()}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--record", action="store_true", help="write the cost of a label by length")
    parser.add_argument("--languages", action="store_true", help="by language, on three paragraphs a row")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if arguments.record:
        record(arguments.rounds)
        return
    labeler = LocalLabeler()
    if arguments.languages:
        by_language(labeler, arguments.rounds)
        return
    rows = interactions(arguments.interactions)
    rate(labeler.label_now, rows)
    rounds = [(rate_with(KeptDocuments(), labeler.label_now, rows), rate(least, rows)) for _ in range(arguments.rounds)]
    labeled = statistics.median(speed for speed, _ in rounds)
    ratio = statistics.median(speed / other for speed, other in rounds)
    print(f"{DOCUMENTS} documents of {CHARS} characters, {len(rows)} interactions, {len(rounds)} rounds, one core")
    print(
        f"local labeler       {labeled:>8,.0f} interactions/s (median; {min(rounds)[0]:,.0f} to {max(rounds)[0]:,.0f})"
    )
    print(f"sentences and words {statistics.median(other for _, other in rounds):>8,.0f} interactions/s")
    print(f"ratio               {ratio:>8.2f}")
    rows = repeated(arguments.interactions)
    gains = []
    for _ in range(arguments.rounds):
        kept = KeptDocuments()
        kept_rate = rate_with(kept, labeler.label_now, rows)
        gains.append(kept_rate / rate_with(KeptDocuments(most=0), labeler.label_now, rows))
    share = kept.n_found / (kept.n_found + kept.n_cut)
    print(
        f"repeated documents  {statistics.median(gains):>8.2f} times as fast as without those that are kept "
        f"({min(gains):.2f} to {max(gains):.2f}); {share:.0%} of the documents were kept"
    )
    print(f"a label takes {label_cost(measured_us(arguments.rounds)).in_words()}")


if __name__ == "__main__":
    main()
