"""Fit the local labeler's model, and print how good it is, with intervals and beside constants and judges.

    python benchmarks/fit_local_labeler.py RAGBENCH.jsonl[.gz] [--clapnq FILE] [--expertqa FILE] [--write]

Needs lightgbm. Fitted on RAGBench rows with their own sentence cuts (CC BY 4.0; only numbers go into the package).
Every subset, and every row in it but for its `sample_weight`, counts the same, however many sentences it has. Logistic
regressions predict the sentences; trees correct the shares of relevant and utilized sentences, and are fitted to rows
whose sentences were predicted without them. Adherence is predicted by a regression on a few features of the whole row,
with a strong penalty, and with a constant for each subset so that it learns differences within subsets. The table
predicts each row from the four fifths of the questions it is not in, and "fitted without that subset" from the other
subsets; ClapNQ and ExpertQA (people's labels) are never fitted
on. Intervals: 95%, percentiles of 2,000 seeded samples of questions within each subset.
"""

import argparse
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from agreement import Table, auroc, calibration, error, rank_correlation
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ragtide_consumers.labelers.local.features import InteractionFeatures, extract
from ragtide_consumers.labelers.local.model import LABELS, MODEL_FILE, SUMMARY_FEATURES, LocalModel, summarized
from ragtide_consumers.labelers.local.togetherness import TOGETHERNESS
from ragtide_consumers.labelers.local.trees import DEPTH
from ragtide_consumers.text.sentences import located

FOLDS = 5
INNER_FOLDS = 3
PENALTY = 17.0

ADHERENCE_PENALTY = 10_000.0
"""So strong that coefficients have little but the sign and the relative size of their features' own slopes."""

ADHERENCE_FEATURES = (
    "least response best",
    "mean response best",
    "mean response response_best",
    "mean response pairs",
    "mean response jump",
    "mean response new_names",
    "most response new_words",
    "mean response sentences",
    "mean document question_rank",
    "most document best_of",
)
"""Features of a row that predict adherence. More features, and trees, were worse on left-out subsets."""

WIDTHS = 4.0
"""Standard deviations from the mean to which features of adherence are limited."""

TREES = {
    "objective": "regression",
    "learning_rate": 0.05,
    "max_depth": DEPTH,
    "num_leaves": 6,
    "min_data_in_leaf": 60,
    "lambda_l2": 20.0,
    "bagging_fraction": 0.6,
    "bagging_freq": 1,
    "feature_fraction": 0.3,
    "max_bin": 31,
    "verbose": -1,
    "num_threads": 1,
    "deterministic": True,
}
ROUNDS = 60
SEEDS = (0,)

SWAPPED_WEIGHT = 0.1
"""Weight, against a row's own answer, of another question's answer to it, which is not supported and uses no sentence.

GPT-4 labeled hardly any answer without overlap, so without these an answer about something else would score high.
"""

MODEL = Path(__file__).parents[1] / "consumers/ragtide_consumers/labelers/local" / MODEL_FILE

SHARES = {"relevance": "relevant", "utilization": "utilized"}
"""Label of the sentences whose share is a score."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Labeled:
    """One row: features and labels of its sentences."""

    row: dict[str, Any]
    fold: int
    inner_fold: int
    weight: float
    features: InteractionFeatures
    labels: dict[str, Floats]
    swapped: InteractionFeatures
    """Features with another question's answer in the place of the row's own."""

    @property
    def subset(self) -> str:
        """Name of the row's subset."""
        return str(self.row["subset"])


def lines_of(label: str, features: InteractionFeatures) -> Floats:
    """Return the features of the sentences that have a label, one line per sentence."""
    return (features.response if label == "supported" else features.documents).T


def sentence_probabilities(coefficients: dict[str, Floats], features: InteractionFeatures) -> dict[str, Floats]:
    """Return the probability of each label for each sentence, before any correction."""
    return {label: np.asarray(expit(lines_of(label, features) @ beta)) for label, beta in coefficients.items()}


def together(supported: Sequence[float]) -> float:
    """Return the probability that all sentences are supported, as `expected_trace_metrics` does."""
    return float(np.prod(supported) ** len(supported) ** -TOGETHERNESS) if len(supported) else 1.0


def fold_of(question: str, salt: str) -> int:
    """Return the fold of a question."""
    number = int.from_bytes(blake2b((salt + question).encode(), digest_size=4).digest(), "big")
    return number % FOLDS


def labeled(rows: Sequence[dict[str, Any]]) -> list[Labeled]:
    """Return features and labels of all rows, by their own sentence cuts, also with another answer of the subset."""
    mass: dict[str, float] = {}
    for row in rows:
        mass[row["subset"]] = mass.get(row["subset"], 0.0) + row["sample_weight"]
    found = []
    for number, row in enumerate(rows):
        keys = [key for document in row["documents_sentences"] for key, _ in document]
        answer_keys = [key for key, _ in row["response_sentences"]]
        documents = [[text for _, text in document] for document in row["documents_sentences"]]
        other = next(
            another["response_sentences"]
            for another in (*rows[number + 1 :], *rows[: number + 1])
            if (another["subset"] == row["subset"] and another["question"] != row["question"]) or another is row
        )
        own = extract(row["question"], documents, [text for _, text in row["response_sentences"]])
        swapped = extract(row["question"], documents, [text for _, text in other])
        named = {name: {key.strip(". ").lower() for key in row[name]} for name in row if name.endswith("_keys")}
        found.append(
            Labeled(
                row=row,
                fold=fold_of(row["question"], ""),
                inner_fold=fold_of(row["question"], "inner ") % INNER_FOLDS,
                weight=row["sample_weight"] / mass[row["subset"]],
                features=own,
                labels={
                    "relevant": np.array([float(key in named["all_relevant_sentence_keys"]) for key in keys]),
                    "utilized": np.array([float(key in named["all_utilized_sentence_keys"]) for key in keys]),
                    "supported": np.array(
                        [float(key not in named["unsupported_response_sentence_keys"]) for key in answer_keys]
                    ),
                },
                swapped=swapped,
            )
        )
    return found


def stacked(rows: Sequence[Labeled], label: str) -> tuple[Floats, Floats, Floats]:
    """Return features, labels and weights of all sentences; the weights' mean is 1."""
    parts = [(lines_of(label, row.features), row.labels[label], row.weight) for row in rows]
    if label != "relevant":
        swapped = [(lines_of(label, row.swapped), SWAPPED_WEIGHT * row.weight) for row in rows]
        parts += [(lines, np.zeros(len(lines)), weight) for lines, weight in swapped]
    parts = [part for part in parts if len(part[1])]
    x = np.concatenate([part for part, _, _ in parts])
    y = np.concatenate([labels for _, labels, _ in parts])
    weights = np.concatenate([np.full(len(labels), weight / len(labels)) for _, labels, weight in parts])
    return x, y, weights * len(weights) / weights.sum()


def fit_one(rows: Sequence[Labeled], label: str) -> Floats:
    """Return the coefficients that make one kind of label the most likely; the penalty is on standardized features."""
    x, y, weights = stacked(rows, label)
    mean = weights @ x[:, 1:] / weights.sum()
    scale = np.sqrt(weights @ (x[:, 1:] - mean) ** 2 / weights.sum()) + 1e-9
    z = np.c_[np.ones(len(x)), (x[:, 1:] - mean) / scale]

    beta = logistic(z, y, weights, np.r_[0.0, np.full(z.shape[1] - 1, PENALTY)])
    slopes = beta[1:] / scale
    return np.asarray(np.r_[beta[0] - slopes @ mean, slopes])


def boosted(x: Floats, y: Floats, weights: Floats) -> dict[str, Any]:
    """Return trees that predict y from the summaries x, in the form that the package stores."""
    features, thresholds, values = [], [], []
    for seed in SEEDS:
        data = lightgbm.Dataset(x, y, weight=weights)
        fitted = lightgbm.train({**TREES, "seed": seed}, data, ROUNDS).dump_model()
        for tree in fitted["tree_info"]:
            nodes = [tree["tree_structure"]]
            for _ in range(DEPTH):
                nodes += [
                    node.get(f"{side}_child", node)
                    for node in nodes[-(len(nodes) // 2 + 1) :]
                    for side in ("left", "right")
                ]
            inner, leaves = nodes[: 2**DEPTH - 1], nodes[2**DEPTH - 1 :]
            features.append([SUMMARY_FEATURES[node.get("split_feature", 0)] for node in inner])
            thresholds.append([None if "threshold" not in node else round(node["threshold"], 6) for node in inner])
            values.append([round(node["leaf_value"] / len(SEEDS), 7) for node in leaves])
    return {"features": features, "thresholds": thresholds, "values": values}


def fitted_adherence(rows: Sequence[Labeled], summaries: Floats, swapped: Floats) -> dict[str, Any]:
    """Return the constant, and coefficient and limits of each feature, that predict adherence from summaries.

    The direction is fitted with a constant for each subset. Its length and the one constant are fitted afterwards, also
    to rows with another question's answer, which count as not adherent.
    """
    places = [SUMMARY_FEATURES.index(name) for name in ADHERENCE_FEATURES]
    x, y = summaries[:, places], np.array([float(row.labels["supported"].all()) for row in rows])
    weights = np.array([row.weight for row in rows])
    weights *= len(rows) / weights.sum()
    mean = weights @ x / weights.sum()
    scale = np.sqrt(weights @ (x - mean) ** 2 / weights.sum()) + 1e-9
    subsets = np.array([row.subset for row in rows])
    own = (subsets[:, None] == np.unique(subsets)).astype(float)
    z = np.clip((x - mean) / scale, -WIDTHS, WIDTHS)
    penalty = np.r_[np.full(len(places), ADHERENCE_PENALTY), np.zeros(own.shape[1])]
    direction = logistic(np.c_[z, own], y, weights, penalty)[: len(places)]
    other = np.clip((swapped[:, places] - mean) / scale, -WIDTHS, WIDTHS)
    line = np.r_[z @ direction, other @ direction]
    constant, length = logistic(
        np.c_[np.ones(len(line)), line / line.std()],
        np.r_[y, np.zeros(len(rows))],
        np.r_[weights, SWAPPED_WEIGHT * weights],
        np.zeros(2),
    )
    slopes = direction * length / line.std() / scale
    return {
        "constant": round(float(constant - slopes @ mean), 4),
        **{
            name: [round(float(number), 5) for number in (slope, at - WIDTHS * width, at + WIDTHS * width)]
            for name, slope, at, width in zip(ADHERENCE_FEATURES, slopes, mean, scale, strict=True)
        },
    }


def logistic(z: Floats, y: Floats, weights: Floats, penalty: Floats) -> Floats:
    """Return the coefficients that make labels the most likely, less a penalty on the square of each coefficient."""

    def loss(beta: Floats) -> tuple[float, Floats]:
        logits = z @ beta
        value = float(weights @ (np.logaddexp(0, logits) - y * logits) + penalty @ (beta * beta))
        return value, z.T @ (weights * (expit(logits) - y)) + 2 * penalty * beta

    return np.asarray(minimize(loss, np.zeros(z.shape[1]), jac=True, method="L-BFGS-B").x)


def fit(rows: Sequence[Labeled]) -> dict[str, Any]:
    """Return the model fitted to rows, as the package stores it.

    The parts that see a whole row see its sentences as logistic functions of the other rows predict them.
    """
    summaries: list[Floats] = []
    swapped: list[Floats] = []
    kept: list[Labeled] = []
    shares: list[tuple[float, float, float]] = []
    for fold in range(INNER_FOLDS):
        others = [row for row in rows if row.inner_fold != fold]
        coefficients = {label: fit_one(others, label) for label in LABELS}
        for row in rows:
            if row.inner_fold == fold and row.features.documents.shape[1]:
                p = sentence_probabilities(coefficients, row.features)
                other = sentence_probabilities(coefficients, row.swapped)
                summaries.append(summarized(row.features, **p))
                swapped.append(summarized(row.swapped, **other))
                kept.append(row)
                relevant, utilized = (float(row.labels[label].mean() - p[label].mean()) for label in SHARES.values())
                shares.append((relevant, utilized, -float(other["utilized"].mean())))
    weights = np.array([row.weight for row in kept])
    weights *= len(weights) / weights.sum()
    own, other_answers = np.array(summaries), np.array(swapped)
    more_relevant, more_utilized, more_swapped = np.array(shares).T
    found: dict[str, Any] = {}
    for label, names in LABELS.items():
        found[label] = {name: round(value, 4) for name, value in zip(names, fit_one(rows, label).tolist(), strict=True)}
    found["adherence"] = fitted_adherence(kept, own, other_answers)
    found["relevance"] = boosted(own, more_relevant, weights)
    found["utilization"] = boosted(
        np.r_[own, other_answers], np.r_[more_utilized, more_swapped], np.r_[weights, SWAPPED_WEIGHT * weights]
    )
    return found


def predictions(rows: Sequence[Labeled], part: Callable[[Labeled], object]) -> dict[str, Floats]:
    """Return predicted and true scores, each row predicted by a model of those in other parts."""
    found: dict[str, list[float]] = {}
    models: dict[object, LocalModel] = {}
    for row in rows:
        if part(row) not in models:
            models[part(row)] = LocalModel.read(fit([other for other in rows if part(other) != part(row)]))
        model = models[part(row)]
        labels = model.predict(row.features)
        relevant, utilized = np.array(labels.relevant), np.array(labels.utilized)
        # RAGBench stores 1 where nothing is relevant; our profile calls that absent, so it does not count.
        any_relevant = bool(row.labels["relevant"].any())
        for name, value in (
            ("adherence", together(labels.supported)),
            ("relevance", relevant.mean()),
            ("utilization", utilized.mean()),
            ("completeness", float(relevant @ utilized / relevant.sum()) if any_relevant else np.nan),
            ("swapped", together(model.predict(row.swapped).supported)),
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
    found = predictions(rows, lambda row: row.fold)
    moved = predictions(rows, lambda row: row.subset)
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


def claims_of(response: str) -> list[str]:
    """Return the sentences of a response as the labeler compares them."""
    return [found.plain for found in located(response, answer=True)]


def report_clapnq(path: Path, model: LocalModel) -> None:
    """Print how well utilized sentences are found in ClapNQ's answerable questions; labels by people."""
    scores, truths = [], []
    for row in read(path):
        if row["answerable"]:
            features = extract(row["question"], [row["passage_sentences"]], claims_of(row["answer"]))
            scores.append(np.array(model.predict(features).utilized))
            chosen = set(row["selected_sentence_ids"])
            truths.append(np.array([float(number in chosen) for number in range(len(row["passage_sentences"]))]))
    table = Table(np.full(len(scores), "clapnq"))
    table.groups("ClapNQ: utilized sentence, AUROC", scores, truths)


def report_expertqa(path: Path, model: LocalModel) -> None:
    """Print how well ExpertQA's claims and responses that are not wholly supported are found; labels by people."""
    claims, bad_claims, responses, bad_responses, counts = [], [], [], [], []
    for row in read(path):
        documents = [[found.plain for found in located(text)] for text in row["contexts"]]
        judged = [claim for claim in row["claims"] if claim["support"]]
        if not judged:
            continue
        features = extract(row["question"], documents, [claim["claim"] for claim in judged])
        claims.append(-np.array(model.predict(features).supported))
        bad_claims.append(np.array([float(claim["support"] != "Complete") for claim in judged]))
        whole = extract(row["question"], documents, claims_of(row["response"]))
        responses.append(-together(model.predict(whole).supported))
        bad_responses.append(float(bad_claims[-1].any()))
        counts.append(float(len(judged)))
    table = Table(np.full(len(claims), "expertqa"))
    table.groups("ExpertQA: claim not complete, AUROC", claims, bad_claims)
    table.line("ExpertQA: response with one, AUROC", auroc, np.array(responses), np.array(bad_responses))
    table.line("  number of claims alone", auroc, np.array(counts), np.array(bad_responses))


def written(model: dict[str, Any]) -> str:
    """Return the text of the package's file of the model, a tree on three lines."""
    stored: dict[str, Any] = {
        "source": "RAGBench (Friel et al., arXiv:2407.11005; Galileo Technologies, CC BY 4.0; labels by GPT-4)",
        "command": "python benchmarks/fit_local_labeler.py RAGBENCH.jsonl.gz --write",
        **model,
    }
    return json.dumps(stored, indent=1).replace("\n    ", "").replace("\n   ]", "]") + "\n"


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON Lines file, compressed or not."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return [json.loads(line) for line in text.splitlines()]


def main() -> None:
    """Fit, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ragbench", type=Path, help="JSON Lines of RAGBench rows with sentence labels")
    parser.add_argument("--clapnq", type=Path, help="JSON Lines of ClapNQ rows")
    parser.add_argument("--expertqa", type=Path, help="JSON Lines of ExpertQA rows")
    parser.add_argument("--write", action="store_true", help="write the model into the package")
    arguments = parser.parse_args()
    rows = labeled(read(arguments.ragbench))
    model = fit(rows)
    if arguments.write:
        MODEL.write_text(written(model), encoding="utf-8")
    report_ragbench(rows)
    if arguments.clapnq is not None:
        report_clapnq(arguments.clapnq, LocalModel.read(model))
    if arguments.expertqa is not None:
        report_expertqa(arguments.expertqa, LocalModel.read(model))


if __name__ == "__main__":
    main()
