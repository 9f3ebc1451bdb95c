"""The processor time in which a prompt of 200 kB is compared with 200 documents.

    python benchmarks/given_texts.py [--rounds 30]

The documents are of 1 kB, of random words. All of them stand in the prompt, none does, each second was cut to a half,
all were cut, and, with letters that are not ASCII, all of them again. Printed: the best and the median of the rounds.
"""

import argparse
import random
import statistics
import time
from typing import Final

from ragtide_producers.shapes.given_texts import given_texts

DOCUMENTS: Final = 200
CHARS: Final = 1_000
QUESTION: Final = "What do the documents say about it?"


def drawn(rng: random.Random, vocabulary: list[str]) -> str:
    """Return a document of sentences."""
    text = ""
    while len(text) < CHARS:
        text += " ".join(rng.choices(vocabulary, k=rng.randint(6, 16))).capitalize() + ". "
    return text[:CHARS].strip()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    rng = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(5_000)]
    documents = [drawn(rng, vocabulary) for _ in range(DOCUMENTS)]
    others = [drawn(rng, vocabulary) for _ in range(DOCUMENTS)]
    accented = [text.replace("e", "é") for text in documents]
    cases = {
        "all documents stand in the prompt": (documents, documents),
        "none of them does": (documents, others),
        "a half of them does": (documents, [*documents[::2], *others[::2]]),
        "each second was cut to a half": ([text[: CHARS >> at % 2] for at, text in enumerate(documents)], documents),
        "all were cut to two thirds": ([text[: CHARS * 2 // 3] for text in documents], documents),
        "all stand there, in letters that are not ASCII": (accented, accented),
    }
    print("# Retrieved texts in a prompt\n")
    print("Written by `make giventexts` (`benchmarks/given_texts.py`): processor time on this machine in which")
    print(f"a prompt of 200 kB is compared with 200 documents, in {rounds} rounds.\n")
    print("| 200 documents of 1 kB | found | best, ms | median, ms |\n|---|---|---|---|")
    for name, (given, texts) in cases.items():
        prompt = "Answer by these documents:\n" + "\n\n".join(given) + f"\n\nQuestion: {QUESTION}"
        times = []
        for _ in range(rounds):
            started = time.process_time()
            found = given_texts([prompt], texts, [QUESTION])
            times.append((time.process_time() - started) * 1e3)
        print(f"| {name} | {len(found)} | {min(times):.1f} | {statistics.median(times):.1f} |")


if __name__ == "__main__":
    main()
