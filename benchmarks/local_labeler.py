"""Measure how many interactions a second the local labeler takes on one core, cutting into sentences included.

    python benchmarks/local_labeler.py [--interactions 400] [--rounds 7]
    python benchmarks/local_labeler.py --languages          # by language, beside English in the same rounds

Five documents of 400 characters each, from the bundled demo's texts. Beside it, in the same rounds, the least such a
labeler has to do: cut the sentences and find the words once. The ratio is what to compare between machines.
"""

import argparse
import os
import re
import statistics
import time
from collections.abc import Callable

from languages import SAMPLES, rows_of

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.text.sentences import split_sentences
from ragtide_offline.demo import demo_interactions

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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interactions", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--languages", action="store_true", help="by language, on three paragraphs a row")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    labeler = LocalLabeler()
    if arguments.languages:
        by_language(labeler, arguments.rounds)
        return
    rows = interactions(arguments.interactions)
    rate(labeler.label_now, rows)
    rounds = [(rate(labeler.label_now, rows), rate(least, rows)) for _ in range(arguments.rounds)]
    labeled = statistics.median(speed for speed, _ in rounds)
    ratio = statistics.median(speed / other for speed, other in rounds)
    print(f"{DOCUMENTS} documents of {CHARS} characters, {len(rows)} interactions, {len(rounds)} rounds, one core")
    print(
        f"local labeler       {labeled:>8,.0f} interactions/s (median; {min(rounds)[0]:,.0f} to {max(rounds)[0]:,.0f})"
    )
    print(f"sentences and words {statistics.median(other for _, other in rounds):>8,.0f} interactions/s")
    print(f"ratio               {ratio:>8.2f}")


if __name__ == "__main__":
    main()
