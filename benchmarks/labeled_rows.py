"""RAGBench rows for the fit of the local labeler: features and labels of their sentences, as they are and spoilt."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtide_consumers.labelers.local.features import InteractionFeatures, extract
from ragtide_offline.corruptions.interactions import random_of
from ragtide_offline.corruptions.negation import negate
from ragtide_offline.corruptions.texts import change_numbers

FOLDS = 5
INNER_FOLDS = 3

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Version:
    """One row as it is, or spoilt in one way."""

    features: InteractionFeatures
    labels: Mapping[str, Floats]
    """Labels of the sentences; a kind that is not known is missing."""
    own: Floats | None = None
    """By document with a sentence: whether it is of the row's own question; None if that is not of interest."""


@dataclass(frozen=True, slots=True)
class Labeled:
    """One row: features and labels of its sentences, as it is and spoilt."""

    row: dict[str, Any]
    fold: int
    inner_fold: int
    weight: float
    clean: Version
    spoilt: Mapping[str, Version]

    @property
    def subset(self) -> str:
        """Name of the row's subset."""
        return str(self.row["subset"])

    @property
    def adherent(self) -> bool:
        """Whether every sentence of the row's own answer is supported."""
        return bool(self.clean.labels["supported"].all())

    def versions(self, weights: Mapping[str, float]) -> Iterator[tuple[Version, float]]:
        """Yield the row with its weight, and its spoilt versions with theirs."""
        yield self.clean, self.weight
        for name, weight in weights.items():
            if name in self.spoilt:
                yield self.spoilt[name], weight * self.weight


def fold_of(question: str, salt: str) -> int:
    """Return the fold of a question."""
    number = int.from_bytes(blake2b((salt + question).encode(), digest_size=4).digest(), "big")
    return number % FOLDS


def labeled(rows: Sequence[dict[str, Any]]) -> list[Labeled]:
    """Return features and labels of all rows, by their own sentence cuts, as they are and spoilt."""
    mass: dict[str, float] = {}
    for row in rows:
        mass[row["subset"]] = mass.get(row["subset"], 0.0) + row["sample_weight"]
    found = []
    for row in rows:
        keys = [key for document in row["documents_sentences"] for key, _ in document]
        answer_keys = [key for key, _ in row["response_sentences"]]
        named = {name: {key.strip(". ").lower() for key in row[name]} for name in row if name.endswith("_keys")}
        labels = {
            "relevant": np.array([float(key in named["all_relevant_sentence_keys"]) for key in keys]),
            "utilized": np.array([float(key in named["all_utilized_sentence_keys"]) for key in keys]),
            "supported": np.array(
                [float(key not in named["unsupported_response_sentence_keys"]) for key in answer_keys]
            ),
        }
        rng = random_of(row["id"], "fit", 0)
        found.append(
            Labeled(
                row=row,
                fold=fold_of(row["question"], ""),
                inner_fold=fold_of(row["question"], "inner ") % INNER_FOLDS,
                weight=row["sample_weight"] / mass[row["subset"]],
                clean=version(row["question"], texts_of(row), answer_of(row), labels, own=1.0),
                spoilt=spoilt_versions(row, other_row(row, rows, rng), labels, rng),
            )
        )
    return found


def texts_of(row: dict[str, Any]) -> list[list[str]]:
    """Return the sentences of each document."""
    return [[text for _, text in document] for document in row["documents_sentences"]]


def answer_of(row: dict[str, Any]) -> list[str]:
    """Return the sentences of the answer."""
    return [text for _, text in row["response_sentences"]]


def version(
    question: str,
    documents: Sequence[Sequence[str]],
    answer: Sequence[str],
    labels: Mapping[str, Floats],
    own: float | Sequence[float] | None = None,
) -> Version:
    """Return features and labels of one version of a row."""
    features = extract(question, documents, answer)
    if own is None:
        return Version(features, labels)
    each = np.full(len(documents), own) if isinstance(own, float) else np.array(own)
    return Version(features, labels, each[[bool(document) for document in documents]])


def other_row(row: dict[str, Any], rows: Sequence[dict[str, Any]], rng: Random) -> dict[str, Any]:
    """Return a random row of the subset with another question and no document in common."""
    texts = {*row["documents"]}
    for other in rng.sample(rows, len(rows)):
        if (
            other["subset"] == row["subset"]
            and other["question"] != row["question"]
            and texts.isdisjoint(other["documents"])
        ):
            return other
    raise ValueError(f"{row['id']} has no other row in {row['subset']}")


def spoilt_versions(
    row: dict[str, Any], other: dict[str, Any], labels: Mapping[str, Floats], rng: Random
) -> dict[str, Version]:
    """Return the versions of a row that the fit and its report need, by name of the corruption."""
    question, documents, answer = row["question"], texts_of(row), answer_of(row)
    wrong, wrong_answer = texts_of(other), answer_of(other)
    relevant, supported = labels["relevant"], labels["supported"]
    none = np.zeros(sum(map(len, wrong)))
    found = {
        "wrong answer": version(
            question,
            documents,
            wrong_answer,
            {"relevant": relevant, "utilized": np.zeros(len(relevant)), "supported": np.zeros(len(wrong_answer))},
        ),
        "broken retriever": version(question, wrong, wrong_answer, {"relevant": none}),
        "wrong documents": version(question, wrong, answer, {"relevant": none, "utilized": none}, own=0.0),
    }
    if len(documents) > 1:
        mixed, own = [*documents], [1.0] * len(documents)
        for place, document in zip(rng.sample(range(len(documents)), len(documents) // 2), wrong, strict=False):
            mixed[place], own[place] = document, 0.0
        ends = np.cumsum([len(document) for document in documents])[:-1]
        kept = {
            label: np.concatenate(
                [
                    part if mine else np.zeros(len(document))
                    for part, mine, document in zip(np.split(labels[label], ends), own, mixed, strict=True)
                ]
            )
            for label in ("relevant", "utilized")
        }
        found["half wrong documents"] = version(question, mixed, answer, kept, own=own)
    if wrong_answer:
        found["foreign sentence"] = version(
            question, documents, [*answer, rng.choice(wrong_answer)], {"supported": np.r_[supported, 0.0]}
        )
    for name, change in (("changed numbers", lambda text: change_numbers(text, rng)), ("negation", negate)):
        changed = [change(sentence) for sentence in answer]
        if any(changed):
            found[name] = version(
                question,
                documents,
                [new or old for new, old in zip(changed, answer, strict=True)],
                {"supported": supported * [new is None for new in changed]},
            )
    return found


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON Lines file, compressed or not."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return [json.loads(line) for line in text.splitlines()]
