"""The processor time in which a prompt of 200 kB is compared with 200 documents, alone and in a trace.

    python benchmarks/given_texts.py [--rounds 30]

The documents are of 1 kB, of random words. All of them stand in the prompt, none does, each second was cut to a half,
all were cut, and, with letters that are not ASCII, all of them again. Then the documents of a trace are read that has
the prompt and a retrieval of the documents, with spans whose attributes were read before. Printed: the best and the
median of the rounds.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ragtide_producers.shapes.given_texts import given_texts
from ragtide_producers.shapes.literals import UnreadableError
from ragtide_producers.traces.content import answer_of, documents_in, question_of
from ragtide_producers.traces.grouping import SpanGroup, groups_of
from ragtide_producers.traces.span import Span
from ragtide_producers.traces.tree import Tree

DOCUMENTS: Final = 200
CHARS: Final = 1_000
QUESTION: Final = "What do the documents say about it?"
ANSWER: Final = "They say that the tower was built in 1889."
KIND: Final = "openinference.span.kind"


def drawn(rng: random.Random, vocabulary: list[str]) -> str:
    """Return a document of sentences."""
    text = ""
    while len(text) < CHARS:
        text += " ".join(rng.choices(vocabulary, k=rng.randint(6, 16))).capitalize() + ". "
    return text[:CHARS].strip()


def group_of(prompt: str, texts: Sequence[str]) -> SpanGroup:
    """Return the spans of a chain that retrieves texts and sends a prompt, with their contents read."""
    retrieved = {f"retrieval.documents.{at}.document.content": text for at, text in enumerate(texts)}
    messages = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": prompt}
    asked = {"input.value": QUESTION}
    attributes = (
        {KIND: "CHAIN", **asked, "output.value": ANSWER},
        {KIND: "RETRIEVER", **asked, **retrieved},
        {KIND: "LLM", **messages, "llm.output_messages.0.message.content": ANSWER},
    )
    spans = [
        Span("1" * 32, f"{at + 1:016x}", f"{1:016x}" if at else None, "step", at, 10 - at, attributes=given)
        for at, given in enumerate(attributes)
    ]
    (group,) = groups_of(Tree(spans))
    _ = question_of(group, ("input",)), answer_of(group, ("output",))
    _ = [call.prompt for call in group.calls], [retrieval.documents for retrieval in group.retrievals]
    return group


def documents_of(group: SpanGroup) -> int:
    """Return the number of the documents of an interaction, 0 if it is refused."""
    try:
        return len(documents_in(group, QUESTION, ANSWER).documents or ())
    except UnreadableError:
        return 0


def show(name: str, rounds: int, prepared: Callable[[], Callable[[], int]]) -> None:
    """Print how long something took that is prepared in each round."""
    times, found = [], 0
    for _ in range(rounds):
        run = prepared()
        started = time.process_time()
        found = run()
        times.append((time.process_time() - started) * 1e3)
    print(f"| {name} | {found} | {min(times):.1f} | {statistics.median(times):.1f} |")


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
    prompts = {
        name: "Answer by these documents:\n" + "\n\n".join(given) + f"\n\nQuestion: {QUESTION}"
        for name, (given, _) in cases.items()
    }
    for name, (_, texts) in cases.items():
        show(name, rounds, partial(partial, _found, prompts[name], texts))
    print("\nThe documents of a trace, whose spans were read before:\n")
    print("| 200 documents of 1 kB | documents | best, ms | median, ms |\n|---|---|---|---|")
    for name, (_, texts) in cases.items():
        show(name, rounds, partial(_prepared, prompts[name], texts))


def _found(prompt: str, texts: Sequence[str]) -> int:
    return len(given_texts([prompt], texts, [QUESTION]))


def _prepared(prompt: str, texts: Sequence[str]) -> Callable[[], int]:
    return partial(documents_of, group_of(prompt, texts))


if __name__ == "__main__":
    main()
