"""Fit the local labeler's coefficients, and print how good it is, with intervals and beside constants and judges.

    python benchmarks/fit_local_labeler.py RAGBENCH.jsonl [--clapnq FILE] [--expertqa FILE] [--write]

Fitted on RAGBench rows with their own sentence cuts (CC BY 4.0; only coefficients go into the package). Every subset,
and every row in it but for its `sample_weight`, counts the same, however many sentences it has. Logistic regression
with a quadratic penalty that is chosen, by another five folds, inside the rows it is fitted on. The table predicts
each row from the four fifths of the questions it is not in; ClapNQ and ExpertQA (people's labels) are never fitted on.
Intervals: 95%, percentiles of 2,000 seeded samples of questions within each subset.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from agreement import Table, auroc, calibration, error, rank_correlation
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

from ragtide_consumers.labelers.local.features import DOCUMENT_FEATURES, RESPONSE_FEATURES, extract
from ragtide_consumers.text.sentences import split_sentences

FOLDS = 5
PENALTIES = (1.0, 3.0, 10.0, 30.0)

SWAPPED_WEIGHT = 0.1
"""Weight, against a row's own answer, of another question's answer to it, whose sentences count as unsupported.

GPT-4 labeled hardly any answer without overlap, so without these an answer about something else would score high.
"""

USED = {
    "relevant": ("question", "in_response", "words", "document_question", "document_rank", "copied"),
    "utilized": (
        "in_response",
        "of_response",
        "words",
        "document_question",
        "document_response",
        "document_rank",
        "document_sentences",
    ),
    "supported": ("best", "pairs", "words", "response_best", "new_names"),
}
"""Features of each label; found by adding and dropping features on these rows, so they know a little of every fold."""

COEFFICIENTS = Path(__file__).parents[1] / "consumers/ragtide_consumers/local/coefficients.py"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Labeled:
    """One row: features and labels of its sentences."""

    row: dict[str, Any]
    fold: int
    inner_fold: int
    weight: float
    features: dict[str, Floats]
    """For each label one line per sentence."""
    labels: dict[str, Floats]
    swapped: Floats
    """Features of the sentences of another question's answer."""

    @property
    def subset(self) -> str:
        """Name of the row's subset."""
        return str(self.row["subset"])


@dataclass(frozen=True, slots=True)
class Model:
    """The result of fitting."""

    coefficients: dict[str, Floats]
    """By label, the constant first."""
    togetherness: float
    penalties: dict[str, float] = field(default_factory=dict)

    def probabilities(self, label: str, features: Floats) -> Floats:
        """Return the probability of a label for each sentence."""
        return np.asarray(expit(features @ self.coefficients[label]))

    def adherence(self, features: Floats) -> float:
        """Return the probability that every sentence is supported."""
        return together(self.probabilities("supported", features), self.togetherness)


def together(supported: Floats, togetherness: float) -> float:
    """Return the probability that all sentences are supported, as `expected_trace_metrics` does."""
    return float(supported.prod() ** len(supported) ** -togetherness) if len(supported) else 1.0


def columns(label: str, features: Floats) -> Floats:
    """Return the features that a label uses, one line per sentence, the constant first."""
    names = RESPONSE_FEATURES if label == "supported" else DOCUMENT_FEATURES
    return features[[names.index(name) for name in ("constant", *USED[label])]].T


def fold_of(question: str, salt: str) -> int:
    """Return the fold of a question."""
    return int.from_bytes(blake2b((salt + question).encode(), digest_size=4).digest(), "big") % FOLDS


def labeled(rows: Sequence[dict[str, Any]]) -> list[Labeled]:
    """Return features and labels of all rows, by their own sentence cuts; each lends the one before it its answer."""
    mass: dict[str, float] = {}
    for row in rows:
        mass[row["subset"]] = mass.get(row["subset"], 0.0) + row["sample_weight"]
    found = []
    for number, row in enumerate(rows):
        keys = [key for document in row["documents_sentences"] for key, _ in document]
        answer_keys = [key for key, _ in row["response_sentences"]]
        documents = [[text for _, text in document] for document in row["documents_sentences"]]
        other = rows[(number + 1) % len(rows)]["response_sentences"]
        own = extract(row["question"], documents, [text for _, text in row["response_sentences"]])
        swapped = extract(row["question"], documents, [text for _, text in other])
        named = {name: {key.strip(". ").lower() for key in row[name]} for name in row if name.endswith("_keys")}
        found.append(
            Labeled(
                row=row,
                fold=fold_of(row["question"], ""),
                inner_fold=fold_of(row["question"], "inner "),
                weight=row["sample_weight"] / mass[row["subset"]],
                features={
                    "relevant": columns("relevant", own.documents),
                    "utilized": columns("utilized", own.documents),
                    "supported": columns("supported", own.response),
                },
                labels={
                    "relevant": np.array([float(key in named["all_relevant_sentence_keys"]) for key in keys]),
                    "utilized": np.array([float(key in named["all_utilized_sentence_keys"]) for key in keys]),
                    "supported": np.array(
                        [float(key not in named["unsupported_response_sentence_keys"]) for key in answer_keys]
                    ),
                },
                swapped=columns("supported", swapped.response),
            )
        )
    return found


def stacked(rows: Sequence[Labeled], label: str) -> tuple[Floats, Floats, Floats]:
    """Return features, labels and weights of all sentences; the weights' mean is 1."""
    parts = [(row.features[label], row.labels[label], row.weight) for row in rows]
    if label == "supported":
        parts += [(row.swapped, np.zeros(len(row.swapped)), SWAPPED_WEIGHT * row.weight) for row in rows]
    parts = [part for part in parts if len(part[1])]
    x = np.concatenate([part for part, _, _ in parts])
    y = np.concatenate([labels for _, labels, _ in parts])
    weights = np.concatenate([np.full(len(labels), weight / len(labels)) for _, labels, weight in parts])
    return x, y, weights * len(weights) / weights.sum()


def fit_one(rows: Sequence[Labeled], label: str, penalty: float) -> Floats:
    """Return the coefficients that make one kind of label the most likely; the penalty is on standardized features."""
    x, y, weights = stacked(rows, label)
    mean = weights @ x[:, 1:] / weights.sum()
    scale = np.sqrt(weights @ (x[:, 1:] - mean) ** 2 / weights.sum()) + 1e-9
    z = np.c_[np.ones(len(x)), (x[:, 1:] - mean) / scale]

    def loss(beta: Floats) -> tuple[float, Floats]:
        logits = z @ beta
        value = float(weights @ (np.logaddexp(0, logits) - y * logits) + penalty * (beta[1:] @ beta[1:]))
        slope = z.T @ (weights * (expit(logits) - y)) + 2 * penalty * np.r_[0.0, beta[1:]]
        return value, slope

    beta = np.asarray(minimize(loss, np.zeros(z.shape[1]), jac=True, method="L-BFGS-B").x)
    slopes = beta[1:] / scale
    return np.asarray(np.r_[beta[0] - slopes @ mean, slopes])


def log_loss(rows: Sequence[Labeled], label: str, beta: Floats) -> float:
    """Return the weighted log loss of the sentences' labels."""
    x, y, weights = stacked(rows, label)
    logits = x @ beta
    return float(weights @ (np.logaddexp(0, logits) - y * logits))


def fit(rows: Sequence[Labeled]) -> Model:
    """Return the model fitted to rows; penalties and togetherness come from folds inside these rows."""
    inner = [
        ([row for row in rows if row.inner_fold != fold], [row for row in rows if row.inner_fold == fold])
        for fold in range(FOLDS)
    ]
    penalties = {}
    for label in USED:
        losses = [sum(log_loss(test, label, fit_one(train, label, p)) for train, test in inner) for p in PENALTIES]
        penalties[label] = PENALTIES[int(np.argmin(losses))]
    held_out = [
        (row.weight, float(row.labels["supported"].all()), expit(row.features["supported"] @ beta))
        for train, test in inner
        for beta in [fit_one(train, "supported", penalties["supported"])]
        for row in test
        if len(row.labels["supported"])
    ]

    def adherence_loss(togetherness: float) -> float:
        guess = np.clip([together(p, togetherness) for _, _, p in held_out], 1e-9, 1 - 1e-9)
        truth = np.array([y for _, y, _ in held_out])
        weights = np.array([w for w, _, _ in held_out])
        return -float(weights @ (truth * np.log(guess) + (1 - truth) * np.log(1 - guess)))

    return Model(
        coefficients={label: fit_one(rows, label, penalties[label]) for label in USED},
        togetherness=float(minimize_scalar(adherence_loss, bounds=(0.0, 1.0), method="bounded").x),
        penalties=penalties,
    )


def predictions(rows: Sequence[Labeled], same_fold: Callable[[Labeled, Labeled], bool]) -> dict[str, Floats]:
    """Return predicted and true scores, each row predicted by a model of those that are not in the same fold."""
    found: dict[str, list[float]] = {}
    models: dict[tuple[int, ...], Model] = {}
    for row in rows:
        training = tuple(number for number, other in enumerate(rows) if not same_fold(row, other))
        if training not in models:
            models[training] = fit([rows[number] for number in training])
        model = models[training]
        relevant = model.probabilities("relevant", row.features["relevant"])
        utilized = model.probabilities("utilized", row.features["utilized"])
        # RAGBench stores 1 where nothing is relevant; our profile calls that absent, so it does not count.
        any_relevant = bool(row.labels["relevant"].any())
        for name, value in (
            ("adherence", model.adherence(row.features["supported"])),
            ("relevance", relevant.mean()),
            ("utilization", utilized.mean()),
            ("completeness", float(relevant @ utilized / relevant.sum()) if any_relevant else np.nan),
            ("swapped", model.adherence(row.swapped)),
            ("true adherence", float(row.labels["supported"].all())),
            ("true relevance", row.labels["relevant"].mean()),
            ("true utilization", row.labels["utilized"].mean()),
            ("true completeness", row.row["completeness_score"] if any_relevant else np.nan),
        ):
            found.setdefault(name, []).append(float(value))
    return {name: np.array(values) for name, values in found.items()}


def stored(rows: Sequence[Labeled], name: str) -> Floats:
    """Return another judge's stored prediction for every row, NaN where there is none."""
    return np.array([np.nan if row.row.get(name) is None else float(row.row[name]) for row in rows])


def report_ragbench(rows: Sequence[Labeled]) -> None:
    """Print the agreement with RAGBench's labels."""
    subsets = np.array([row.subset for row in rows])
    weights = np.array([row.weight for row in rows])
    found = predictions(rows, lambda row, other: row.fold == other.fold)
    moved = predictions(rows, lambda row, other: row.subset == other.subset)
    table = Table(subsets)
    table.header()
    bad = 1 - found["true adherence"]
    table.line("unsupported response, AUROC", auroc, -found["adherence"], bad)
    table.line("  fitted without that subset", auroc, -moved["adherence"], bad)
    for judge in ("gpt3_adherence", "ragas_faithfulness", "trulens_groundedness"):
        table.judge(f"  {judge}", auroc, -stored(rows, judge), bad, ours=-found["adherence"])
    table.line("adherence, Brier score", calibration, found["adherence"], found["true adherence"], weights)
    table.constant("  constant: subset's mean", calibration, found["true adherence"], weights)
    table.line("adherence, mean predicted", lambda p, _, w: float(p @ w / w.sum()), found["adherence"], bad, weights)
    table.line("  true", lambda p, _, w: float(p @ w / w.sum()), found["true adherence"], bad, weights)
    table.line("  of swapped answers", lambda p, _, w: float(p @ w / w.sum()), found["swapped"], bad, weights)
    judges = {
        "relevance": ("gpt3_context_relevance", "ragas_context_relevance", "trulens_context_relevance"),
        "utilization": ("gpt35_utilization",),
        "completeness": (),
    }
    for name, names in judges.items():
        truth = found[f"true {name}"]
        table.line(f"{name}, RMSE", error, found[name], truth, weights)
        table.constant("  constant: subset's mean", error, truth, weights)
        table.line("  fitted without that subset", error, moved[name], truth, weights)
        for judge in names:
            table.judge(f"  {judge}", error, stored(rows, judge), truth, weights, ours=found[name])
        table.line(f"{name}, Spearman", rank_correlation, found[name], truth)
        table.line("  fitted without that subset", rank_correlation, moved[name], truth)
        for judge in names:
            table.judge(f"  {judge}", rank_correlation, stored(rows, judge), truth, ours=found[name])


def report_clapnq(path: Path, model: Model) -> None:
    """Print how well utilized sentences are found in ClapNQ's answerable questions; labels by people."""
    scores, truths = [], []
    for row in read(path):
        if row["answerable"]:
            features = extract(row["question"], [row["passage_sentences"]], split_sentences(row["answer"])).documents
            scores.append(model.probabilities("utilized", columns("utilized", features)))
            chosen = set(row["selected_sentence_ids"])
            truths.append(np.array([float(number in chosen) for number in range(len(row["passage_sentences"]))]))
    table = Table(np.full(len(scores), "clapnq"))
    table.groups("ClapNQ: utilized sentence, AUROC", scores, truths)


def report_expertqa(path: Path, model: Model) -> None:
    """Print how well ExpertQA's claims and responses that are not wholly supported are found; labels by people."""
    claims, bad_claims, responses, bad_responses, counts = [], [], [], [], []
    for row in read(path):
        documents = [split_sentences(text) for text in row["contexts"]]
        judged = [claim for claim in row["claims"] if claim["support"]]
        if not judged:
            continue
        features = extract(row["question"], documents, [claim["claim"] for claim in judged]).response
        claims.append(-model.probabilities("supported", columns("supported", features)))
        bad_claims.append(np.array([float(claim["support"] != "Complete") for claim in judged]))
        whole = extract(row["question"], documents, split_sentences(row["response"])).response
        responses.append(-model.adherence(columns("supported", whole)))
        bad_responses.append(float(bad_claims[-1].any()))
        counts.append(float(len(judged)))
    table = Table(np.full(len(claims), "expertqa"))
    table.groups("ExpertQA: claim not complete, AUROC", claims, bad_claims)
    table.line("ExpertQA: response with one, AUROC", auroc, np.array(responses), np.array(bad_responses))
    table.line("  number of claims alone", auroc, np.array(counts), np.array(bad_responses))


def module(model: Model) -> str:
    """Return the text of the module of coefficients."""
    lines = [
        '"""Coefficients of the local labeler, by feature (`features.py`).',
        "",
        "Written by `python benchmarks/fit_local_labeler.py RAGBENCH.jsonl --write` from 200 RAGBench rows (Friel et",
        "al., arXiv:2407.11005; Galileo Technologies, CC BY 4.0; labels by GPT-4). Do not edit.",
        '"""',
        "",
        "from collections.abc import Mapping",
        "from typing import Final",
        "",
    ]
    meanings = {
        "relevant": "That a document sentence is relevant to the question.",
        "utilized": "That the response used a document sentence.",
        "supported": "That the documents support a response sentence.",
    }
    for label, meaning in meanings.items():
        lines.append(f"{label.upper()}: Final[Mapping[str, float]] = {{")
        names = ("constant", *USED[label])
        lines += [
            f'    "{name}": {value:.4f},' for name, value in zip(names, model.coefficients[label].tolist(), strict=True)
        ]
        lines += ["}", f'"""{meaning} Penalty {model.penalties[label]:g}."""', ""]
    lines.append(f"TOGETHERNESS: Final = {model.togetherness:.2f}")
    lines.append('"""How much the sentences of one response stand or fall together: 0 not at all, 1 wholly."""')
    return "\n".join(lines) + "\n"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    """Fit, and print the report and the coefficients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ragbench", type=Path, help="JSON Lines of RAGBench rows with sentence labels")
    parser.add_argument("--clapnq", type=Path, help="JSON Lines of ClapNQ rows")
    parser.add_argument("--expertqa", type=Path, help="JSON Lines of ExpertQA rows")
    parser.add_argument("--write", action="store_true", help="write the coefficients into the package")
    arguments = parser.parse_args()
    rows = labeled(read(arguments.ragbench))
    model = fit(rows)
    report_ragbench(rows)
    if arguments.clapnq is not None:
        report_clapnq(arguments.clapnq, model)
    if arguments.expertqa is not None:
        report_expertqa(arguments.expertqa, model)
    if arguments.write:
        COEFFICIENTS.write_text(module(model), encoding="utf-8")
    else:
        print("\n" + module(model))


if __name__ == "__main__":
    main()
