"""Fit the local labeler's coefficients, and say by cross-validation how good they are.

    python benchmarks/fit_local_labeler.py path/to/ragbench_dev.jsonl

Rows of RAGBench with their own sentence cuts; each sentence weighs as much as its row's `sample_weight`. Logistic
regression with a small quadratic penalty. Five folds over questions; reported per subset and as the mean of subsets.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from scipy.stats import rankdata, spearmanr

from ragtide_consumers.local.labeler import Features, extract

PENALTY = 1.0
FOLDS = 5

SWAPPED_WEIGHT = 0.1
"""Weight, against a row's own answer, of another question's answer to it, whose sentences count as unsupported.

GPT-4 labeled hardly any answer without overlap, so without these an answer about something else would score high.
"""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Labeled:
    """One row: its features and its true labels."""

    subset: str
    fold: int
    weight: float
    documents: Floats
    response: Floats
    relevant: Floats
    utilized: Floats
    supported: Floats
    swapped: Floats
    """Features of the sentences of another question's answer."""


def labeled(row: dict[str, Any], other: dict[str, Any]) -> Labeled:
    """Return a row's features and labels, by the row's own sentence cuts; `other` lends the answer to swap in."""
    keys = [key for document in row["documents_sentences"] for key, _ in document]
    answer_keys = [key for key, _ in row["response_sentences"]]
    documents = [[text for _, text in document] for document in row["documents_sentences"]]
    features = extract(row["question"], documents, [text for _, text in row["response_sentences"]])
    swapped = extract(row["question"], documents, [text for _, text in other["response_sentences"]])
    clean = {name: {key.strip(". ").lower() for key in row[name]} for name in row if name.endswith("_keys")}
    return Labeled(
        subset=row["subset"],
        fold=int.from_bytes(blake2b(row["question"].encode(), digest_size=4).digest(), "big") % FOLDS,
        weight=row["sample_weight"],
        documents=np.array(features.documents),
        response=np.array(features.response),
        relevant=np.array([float(key in clean["all_relevant_sentence_keys"]) for key in keys]),
        utilized=np.array([float(key in clean["all_utilized_sentence_keys"]) for key in keys]),
        supported=np.array([float(key not in clean["unsupported_response_sentence_keys"]) for key in answer_keys]),
        swapped=np.array(swapped.response),
    )


def fit(rows: list[Labeled], features: str, label: str) -> Floats:
    """Return the coefficients that make one kind of label the most likely."""
    parts = [(getattr(row, features), getattr(row, label), row.weight) for row in rows]
    if label == "supported":
        parts += [(row.swapped, np.zeros(len(row.swapped)), SWAPPED_WEIGHT * row.weight) for row in rows]
    x = np.concatenate([part for part, _, _ in parts])
    y = np.concatenate([labels for _, labels, _ in parts])
    weights = np.concatenate([np.full(len(labels), weight) for _, labels, weight in parts])
    weights = weights * len(weights) / weights.sum()

    def loss(beta: Floats) -> tuple[float, Floats]:
        logits = x @ beta
        value = float(weights @ (np.logaddexp(0, logits) - y * logits) + PENALTY * (beta[1:] @ beta[1:]))
        slope = x.T @ (weights * (expit(logits) - y)) + 2 * PENALTY * np.r_[0.0, beta[1:]]
        return value, slope

    return np.asarray(minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B").x)


def auroc(scores: Floats, positive: Floats) -> float:
    """Return the probability that a positive scores above a negative, ties counted half."""
    ranks = rankdata(scores)
    n, m = positive.sum(), (1 - positive).sum()
    return float((ranks[positive == 1].sum() - n * (n + 1) / 2) / (n * m))


def predictions(rows: list[Labeled]) -> list[dict[str, float]]:
    """Return predicted and true values of every row, each predicted from the other folds."""
    found: list[dict[str, float]] = [{} for _ in rows]
    for fold in range(FOLDS):
        training = [row for row in rows if row.fold != fold]
        relevant, utilized, supported = (
            fit(training, "documents", "relevant"),
            fit(training, "documents", "utilized"),
            fit(training, "response", "supported"),
        )
        for row, values in zip(rows, found, strict=True):
            if row.fold == fold:
                values["adherence"] = prod(expit(row.response @ supported).tolist())
                values["relevance"] = float(expit(row.documents @ relevant).mean())
                values["utilization"] = float(expit(row.documents @ utilized).mean())
                values["true adherence"] = float(row.supported.all())
                values["true relevance"] = float(row.relevant.mean())
                values["true utilization"] = float(row.utilized.mean())
    return found


def togetherness(rows: list[Labeled], predicted: list[dict[str, float]]) -> float:
    """Return the togetherness of sentences that makes the true adherence the most likely."""
    weights = np.array([row.weight for row in rows])
    truth = np.array([values["true adherence"] for values in predicted])
    product = np.clip([values["adherence"] for values in predicted], 1e-12, 1 - 1e-12)
    n = np.array([len(row.response) for row in rows])

    def loss(power: float) -> float:
        guess = np.clip(product ** (n**-power), 1e-12, 1 - 1e-12)
        return -float(weights @ (truth * np.log(guess) + (1 - truth) * np.log(1 - guess)))

    return float(minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded").x)


def report(rows: list[Labeled], predicted: list[dict[str, float]]) -> None:
    """Print how good the predictions are, per subset and as the mean of subsets, beside the constant baseline."""
    table: dict[str, list[float]] = defaultdict(list)
    for subset in sorted({row.subset for row in rows}):
        chosen = [values for row, values in zip(rows, predicted, strict=True) if row.subset == subset]
        weights = np.array([row.weight for row in rows if row.subset == subset])
        weights /= weights.sum()
        column = {name: np.array([values[name] for values in chosen]) for name in chosen[0]}
        table["unsupported response: AUROC"].append(auroc(-column["adherence"], 1 - column["true adherence"]))
        table["adherence: mean predicted"].append(float(weights @ column["adherence"]))
        table["adherence: mean true"].append(float(weights @ column["true adherence"]))
        for name in ("relevance", "utilization"):
            truth, guess = column[f"true {name}"], column[name]
            table[f"{name}: RMSE"].append(float(np.sqrt(weights @ (guess - truth) ** 2)))
            table[f"{name}: RMSE of a constant"].append(float(np.sqrt(weights @ (truth - weights @ truth) ** 2)))
            table[f"{name}: Spearman"].append(float(spearmanr(guess, truth).statistic))
    print(f"{'':<34}{'mean':>8}  " + "".join(f"{subset:>10}" for subset in sorted({row.subset for row in rows})))
    for name, values in table.items():
        print(f"{name:<34}{np.mean(values):>8.3f}  " + "".join(f"{value:>10.3f}" for value in values))


def main() -> None:
    """Fit, print the coefficients and the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="JSON Lines of RAGBench rows with sentence labels")
    with parser.parse_args().rows.open(encoding="utf-8") as file:
        raw = [json.loads(line) for line in file]
    rows = [labeled(row, raw[(number + 1) % len(raw)]) for number, row in enumerate(raw)]
    predicted = predictions(rows)
    power = togetherness(rows, predicted)
    for row, values in zip(rows, predicted, strict=True):
        values["adherence"] **= len(row.response) ** -power
    report(rows, predicted)
    for name, features, label in (
        ("SUPPORTED", "response", "supported"),
        ("RELEVANT", "documents", "relevant"),
        ("UTILIZED", "documents", "utilized"),
    ):
        coefficients: Features = tuple(round(float(value), 4) for value in fit(rows, features, label))
        print(f"{name} = {coefficients}")
    print(f"TOGETHERNESS = {power:.2f}")


if __name__ == "__main__":
    main()
