"""The fit of the local labeler's model to labeled rows; `fit_local_labeler.py` reports how good it is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lightgbm
import numpy as np
from labeled_rows import INNER_FOLDS, Floats, Labeled
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ragtide_consumers.labelers.local.features import InteractionFeatures
from ragtide_consumers.labelers.local.model import LABELS, LOGISTIC, SUMMARY_FEATURES, TOPIC, summary_features
from ragtide_consumers.labelers.local.trees import DEPTH
from ragtide_consumers.labelers.local.words import stem_of, tokens

PENALTY = 17.0
TOPIC_PENALTY = 1.0

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

WIDTHS = 6.0
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

DETECTORS = ("most response denied", "most response new_numbers", "most response away")
"""Features of a row that show what hardly any of GPT-4's labels is about, and spoilt answers have."""

DETECTOR_PENALTY = 1.0

SPOILT = {
    "wrong answer": 0.1,
    "broken retriever": 0.03,
    "wrong documents": 0.03,
    "half wrong documents": 0.03,
}
"""Weights of spoilt rows, against the rows themselves, in the fit of relevance and utilization.

RAGBench has no row whose documents were retrieved for another question, and hardly any answer without overlap.
"""

SPOILT_ANSWERS = {"wrong answer": 0.3, "foreign sentence": 0.1, "changed numbers": 0.1, "negation": 0.03}
"""Weights of rows with spoilt answers, which are not supported, in the fit of adherence."""

SPOILT_TOPICS = {"wrong documents": 0.3, "half wrong documents": 0.3}
"""Weights of rows with wrong documents in the fit of the topic of documents."""

FREQUENT = 300
"""Stems whose rarity is stored: those that stand in most documents."""

SHARES = {"relevance": "relevant", "utilization": "utilized"}
"""Label of the sentences whose share is a score."""


def lines_of(label: str, features: InteractionFeatures) -> Floats:
    """Return the features of the sentences that have a label, one line per sentence."""
    return (features.response if label == "supported" else features.documents).T


def sentence_probabilities(coefficients: dict[str, Floats], features: InteractionFeatures) -> dict[str, Floats]:
    """Return the probability of each label for each sentence, before any correction."""
    found = {label: np.asarray(expit(lines_of(label, features) @ coefficients[label])) for label in LABELS}
    if features.topics is not None:
        topics = expit(features.topics.T @ coefficients[TOPIC])
        found["relevant"] = found["relevant"] * np.repeat(topics, features.lengths)
    return found


def stacked(rows: Sequence[Labeled], label: str) -> tuple[Floats, Floats, Floats]:
    """Return features, labels and weights of all sentences; the weights' mean is 1."""
    spoilt = SPOILT_ANSWERS if label == "supported" else {"wrong answer": SPOILT["wrong answer"]}
    parts = [
        (lines_of(label, version.features), version.labels[label], weight)
        for row in rows
        for version, weight in row.versions(spoilt)
        if len(version.labels[label])
    ]
    return joined(parts)


def joined(parts: Sequence[tuple[Floats, Floats, float]]) -> tuple[Floats, Floats, Floats]:
    """Return lines, labels and weights of all parts, each of which has a weight; the weights' mean is 1."""
    x = np.concatenate([lines for lines, _, _ in parts])
    y = np.concatenate([labels for _, labels, _ in parts])
    weights = np.concatenate([np.full(len(labels), weight / len(labels)) for _, labels, weight in parts])
    return x, y, weights * len(weights) / weights.sum()


def fit_one(rows: Sequence[Labeled], label: str) -> Floats:
    """Return the coefficients that make one kind of label the most likely; the penalty is on standardized features."""
    return fitted_logistic(*stacked(rows, label), PENALTY)


def fit_topic(rows: Sequence[Labeled]) -> Floats:
    """Return the coefficients of the probability that a document was retrieved for the question."""
    parts = [
        (version.features.topics.T, version.own, weight)
        for row in rows
        for version, weight in row.versions(SPOILT_TOPICS)
        if version.own is not None and len(version.own) and version.features.topics is not None
    ]
    return fitted_logistic(*joined(parts), TOPIC_PENALTY)


def fitted_logistic(x: Floats, y: Floats, weights: Floats, penalty: float) -> Floats:
    """Return the coefficients of features, of which the first is 1; the penalty is on standardized features."""
    mean = weights @ x[:, 1:] / weights.sum()
    scale = np.sqrt(weights @ (x[:, 1:] - mean) ** 2 / weights.sum()) + 1e-9
    z = np.c_[np.ones(len(x)), (x[:, 1:] - mean) / scale]
    beta = logistic(z, y, weights, np.r_[0.0, np.full(z.shape[1] - 1, penalty)])
    slopes = beta[1:] / scale
    return np.asarray(np.r_[beta[0] - slopes @ mean, slopes])


def fit_probabilities(rows: Sequence[Labeled]) -> dict[str, Floats]:
    """Return the coefficients of the probabilities of all labels, and of the topic."""
    return {**{label: fit_one(rows, label) for label in LABELS}, TOPIC: fit_topic(rows)}


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


@dataclass(frozen=True, slots=True)
class Summaries:
    """Summaries of versions of rows, one line each, with the rows' subsets, weights and adherence."""

    lines: Floats
    subsets: NDArray[np.str_]
    weights: Floats
    adherent: Floats


def fitted_adherence(clean: Summaries, spoilt: Mapping[str, Summaries]) -> dict[str, Any]:
    """Return the constant, and coefficient and limits of each feature, that predict adherence from summaries.

    The direction of `ADHERENCE_FEATURES` is fitted to GPT-4's labels, with a constant for each subset. Its length and
    the coefficients of `DETECTORS` are fitted to these and to spoilt answers of rows that are adherent, again with a
    constant for each subset. The length and the constant of the sum are fitted to GPT-4's labels alone, so that the
    probabilities are right for answers that are not spoilt.
    """
    places = [SUMMARY_FEATURES.index(name) for name in ADHERENCE_FEATURES]
    detected = [SUMMARY_FEATURES.index(name) for name in DETECTORS]
    weights = clean.weights * len(clean.weights) / clean.weights.sum()
    x = clean.lines[:, places]
    mean = weights @ x / weights.sum()
    scale = np.sqrt(weights @ (x - mean) ** 2 / weights.sum()) + 1e-9

    def standardized(lines: Floats) -> Floats:
        return np.asarray(np.clip((lines[:, places] - mean) / scale, -WIDTHS, WIDTHS))

    z = standardized(clean.lines)
    own = constants(clean.subsets)
    penalty = np.r_[np.full(len(places), ADHERENCE_PENALTY), np.zeros(own.shape[1])]
    direction = logistic(np.c_[z, own], clean.adherent, weights, penalty)[: len(places)]
    direction /= (z @ direction).std()

    parts = [(clean, clean.adherent, 1.0)]
    parts += [(summaries, np.zeros(len(summaries.weights)), SPOILT_ANSWERS[name]) for name, summaries in spoilt.items()]
    lines = np.concatenate(
        [np.c_[standardized(summaries.lines) @ direction, summaries.lines[:, detected]] for summaries, _, _ in parts]
    )
    labels = np.concatenate([truth for _, truth, _ in parts])
    weight = np.concatenate([share * summaries.weights for summaries, _, share in parts])
    own = constants(np.concatenate([summaries.subsets for summaries, _, _ in parts]))
    penalty = np.r_[0.0, np.full(len(detected), DETECTOR_PENALTY), np.zeros(own.shape[1])]
    slopes = logistic(np.c_[lines, own], labels, weight * len(weight) / weight.sum(), penalty)[: 1 + len(detected)]

    line = np.c_[z @ direction, clean.lines[:, detected]] @ slopes
    constant, length = logistic(np.c_[np.ones(len(line)), line], clean.adherent, weights, np.zeros(2))
    of_features = direction * slopes[0] * length / scale
    most = [max(float(summaries.lines[:, place].max()) for summaries, _, _ in parts) for place in detected]
    return {
        "constant": round(float(constant - of_features @ mean), 4),
        **{
            name: [round(float(number), 5) for number in (slope, at - WIDTHS * width, at + WIDTHS * width)]
            for name, slope, at, width in zip(ADHERENCE_FEATURES, of_features, mean, scale, strict=True)
        },
        **{
            name: [round(float(slope * length), 5), 0.0, round(highest, 5)]
            for name, slope, highest in zip(DETECTORS, slopes[1:], most, strict=True)
        },
    }


def constants(subsets: NDArray[np.str_]) -> Floats:
    """Return a column for each subset: 1 for its rows."""
    return np.asarray(subsets[:, None] == np.unique(subsets), np.float64)


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
    summaries: dict[str, list[tuple[Floats, Labeled]]] = {}
    shares: dict[str, list[tuple[Floats, float, float]]] = {score: [] for score in SHARES}
    for fold in range(INNER_FOLDS):
        coefficients = fit_probabilities([row for row in rows if row.inner_fold != fold])
        for row in rows:
            if row.inner_fold != fold:
                continue
            for name, version in (("", row.clean), *row.spoilt.items()):
                if not version.features.documents.shape[1]:
                    continue
                p = sentence_probabilities(coefficients, version.features)
                summary = summary_features(version.features, **p)
                if not name or (name in SPOILT_ANSWERS and row.adherent):
                    summaries.setdefault(name, []).append((summary, row))
                for score, label in SHARES.items() if not name or name in SPOILT else ():
                    if label in version.labels:
                        more = float(version.labels[label].mean() - p[label].mean())
                        shares[score].append((summary, more, row.weight * (SPOILT[name] if name else 1.0)))
    found: dict[str, Any] = {}
    for label, beta in fit_probabilities(rows).items():
        found[label] = {name: round(value, 4) for name, value in zip(LOGISTIC[label], beta.tolist(), strict=True)}
    whole = {
        name: Summaries(
            np.array([summary for summary, _ in kept]),
            np.array([row.subset for _, row in kept]),
            np.array([row.weight for _, row in kept]),
            np.array([float(row.adherent) for _, row in kept]),
        )
        for name, kept in summaries.items()
    }
    found["adherence"] = fitted_adherence(whole.pop(""), whole)
    for score, parts in shares.items():
        weights = np.array([weight for _, _, weight in parts])
        missing = np.array([value for _, value, _ in parts])
        lines = np.array([line for line, _, _ in parts])
        found[score] = boosted(lines, missing, weights * len(weights) / weights.sum())
    return found


def rarities(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the rarity of the stems that stand in most documents; each subset counts the same."""
    share: dict[str, float] = {}
    subsets = {row["subset"] for row in rows}
    for subset in subsets:
        texts = [text for row in rows if row["subset"] == subset for text in row["documents"]]
        counts = Counter(stem for text in texts for stem in {stem_of(word) for word in tokens(text)} if stem)
        for stem, count in counts.items():
            share[stem] = share.get(stem, 0.0) + count / len(texts) / len(subsets)
    frequent = sorted(share, key=lambda stem: (-share[stem], stem))[:FREQUENT]
    return {stem: round(float(np.log1p((1.001 - share[stem]) / (share[stem] + 0.001))), 3) for stem in frequent}
