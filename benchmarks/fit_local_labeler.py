"""Fit the local labeler's model, and print how good it is, with intervals and beside constants and judges.

    python benchmarks/fit_local_labeler.py RAGBENCH.jsonl[.gz] [--clapnq FILE] [--expertqa FILE] [--before FILE]
        [--write]

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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import lightgbm
import numpy as np
from agreement import Table, auroc, calibration, error, rank_correlation
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ragtide_consumers.labelers.local.adjustment import STEEPEST
from ragtide_consumers.labelers.local.features import InteractionFeatures, extract
from ragtide_consumers.labelers.local.model import (
    LABELS,
    LOGISTIC,
    MODEL_FILE,
    SUMMARY_FEATURES,
    TOPIC,
    LocalModel,
    summarized,
)
from ragtide_consumers.labelers.local.rarity import RARITY_FILE
from ragtide_consumers.labelers.local.togetherness import TOGETHERNESS
from ragtide_consumers.labelers.local.trees import DEPTH
from ragtide_consumers.labelers.local.words import stem_of, tokens
from ragtide_consumers.text.sentences import located
from ragtide_offline.corruptions.interactions import random_of
from ragtide_offline.corruptions.negation import negated
from ragtide_offline.corruptions.texts import changed_numbers

FOLDS = 5
INNER_FOLDS = 3
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

PACKAGE = Path(__file__).parents[1] / "consumers/ragtide_consumers/labelers/local"

SHARES = {"relevance": "relevant", "utilization": "utilized"}
"""Label of the sentences whose share is a score."""

SOURCE = "RAGBench (Friel et al., arXiv:2407.11005; Galileo Technologies, CC BY 4.0; labels by GPT-4)"
COMMAND = "python benchmarks/fit_local_labeler.py RAGBENCH.jsonl.gz --write"

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


def together(supported: Sequence[float]) -> float:
    """Return the probability that all sentences are supported, as `expected_trace_metrics` does."""
    return float(np.prod(supported) ** len(supported) ** -TOGETHERNESS) if len(supported) else 1.0


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
    for name, change in (("changed numbers", lambda text: changed_numbers(text, rng)), ("negation", negated)):
        changed = [change(sentence) for sentence in answer]
        if any(changed):
            found[name] = version(
                question,
                documents,
                [new or old for new, old in zip(changed, answer, strict=True)],
                {"supported": supported * [new is None for new in changed]},
            )
    return found


def stacked(rows: Sequence[Labeled], label: str) -> tuple[Floats, Floats, Floats]:
    """Return features, labels and weights of all sentences; the weights' mean is 1."""
    spoilt = SPOILT_ANSWERS if label == "supported" else {"wrong answer": SPOILT["wrong answer"]}
    parts = [
        (lines_of(label, one.features), one.labels[label], weight)
        for row in rows
        for one, weight in row.versions(spoilt)
        if len(one.labels[label])
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
        (one.features.topics.T, one.own, weight)
        for row in rows
        for one, weight in row.versions(SPOILT_TOPICS)
        if one.own is not None and len(one.own) and one.features.topics is not None
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
    parts += [(one, np.zeros(len(one.weights)), SPOILT_ANSWERS[name]) for name, one in spoilt.items()]
    lines = np.concatenate([np.c_[standardized(one.lines) @ direction, one.lines[:, detected]] for one, _, _ in parts])
    labels = np.concatenate([truth for _, truth, _ in parts])
    weight = np.concatenate([share * one.weights for one, _, share in parts])
    own = constants(np.concatenate([one.subsets for one, _, _ in parts]))
    penalty = np.r_[0.0, np.full(len(detected), DETECTOR_PENALTY), np.zeros(own.shape[1])]
    slopes = logistic(np.c_[lines, own], labels, weight * len(weight) / weight.sum(), penalty)[: 1 + len(detected)]

    line = np.c_[z @ direction, clean.lines[:, detected]] @ slopes
    constant, length = logistic(np.c_[np.ones(len(line)), line], clean.adherent, weights, np.zeros(2))
    of_features = direction * slopes[0] * length / scale
    most = [max(float(one.lines[:, place].max()) for one, _, _ in parts) for place in detected]
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
            for name, one in (("", row.clean), *row.spoilt.items()):
                if not one.features.documents.shape[1]:
                    continue
                p = sentence_probabilities(coefficients, one.features)
                summary = summarized(one.features, **p)
                if not name or (name in SPOILT_ANSWERS and row.adherent):
                    summaries.setdefault(name, []).append((summary, row))
                for score, label in SHARES.items() if not name or name in SPOILT else ():
                    if label in one.labels:
                        more = float(one.labels[label].mean() - p[label].mean())
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


def predictions(rows: Sequence[Labeled], part: Callable[[Labeled], object]) -> dict[str, Floats]:
    """Return predicted and true scores, each row predicted by a model of those in other parts."""
    models: dict[object, LocalModel] = {}

    def model_of(row: Labeled) -> LocalModel:
        if part(row) not in models:
            models[part(row)] = LocalModel.read(fit([other for other in rows if part(other) != part(row)]))
        return models[part(row)]

    return scores_by(rows, model_of)


def scores_by(rows: Sequence[Labeled], model_of: Callable[[Labeled], LocalModel]) -> dict[str, Floats]:
    """Return predicted and true scores, each row predicted by its model.

    The names of the scores of spoilt rows begin with that of the corruption; NaN where it cannot be applied.
    """
    found: dict[str, list[float]] = {}
    for row in rows:
        model = model_of(row)
        labels = row.clean.labels
        # RAGBench stores 1 where nothing is relevant; our profile calls that absent, so it does not count.
        any_relevant = bool(labels["relevant"].any())
        values = {
            **predicted(model, row.clean),
            "true adherence": float(labels["supported"].all()),
            "true relevance": labels["relevant"].mean(),
            "true utilization": labels["utilized"].mean(),
            "true completeness": row.row["completeness_score"] if any_relevant else np.nan,
        }
        if not any_relevant:
            values["completeness"] = np.nan
        for name in (*SPOILT, *SPOILT_ANSWERS):
            spoilt = row.spoilt.get(name)
            for score in ("adherence", "relevance", "utilization", "match"):
                values[f"{name}: {score}"] = np.nan if spoilt is None else predicted(model, spoilt)[score]
        for name, value in values.items():
            found.setdefault(name, []).append(float(value))
    return {name: np.array(values) for name, values in found.items()}


def predicted(model: LocalModel, one: Version) -> dict[str, float]:
    """Return the scores of one version of a row."""
    labels = model.predict(one.features)
    relevant, utilized = np.array(labels.relevant), np.array(labels.utilized)
    return {
        "adherence": together(labels.supported),
        "relevance": float(relevant.mean()),
        "utilization": float(utilized.mean()),
        "completeness": float(relevant @ utilized / relevant.sum()) if relevant.any() else float("nan"),
        "match": float("nan") if one.features.match is None else one.features.match,
    }


SEEN = (
    ("broken retriever", "match"),
    ("broken retriever", "relevance"),
    ("wrong documents", "match"),
    ("wrong documents", "relevance"),
    ("half wrong documents", "match"),
    ("half wrong documents", "relevance"),
    ("wrong answer", "relevance"),
    ("wrong answer", "utilization"),
    ("wrong answer", "adherence"),
    ("foreign sentence", "adherence"),
    ("changed numbers", "adherence"),
    ("negation", "adherence"),
)
"""Corruptions, and the scores whose fall is measured."""


def spoilt_auroc(clean: Floats, spoilt: Floats) -> float:
    """Return the probability that a row's score is above that of a spoilt row."""
    return auroc(np.r_[clean, spoilt], np.r_[np.ones(len(clean)), np.zeros(len(spoilt))])


def report_spoilt(table: Table, found: dict[str, Floats]) -> None:
    """Print how often a row scores above its spoilt version."""
    for name, score in SEEN:
        table.line(f"{name}: {score}", spoilt_auroc, found[score], found[f"{name}: {score}"])


def report_differences(table: Table, found: dict[str, Floats], other: dict[str, Floats]) -> None:
    """Print the differences from another model's figures, on the same samples."""

    def more(clean: Floats, spoilt: Floats, clean_before: Floats, spoilt_before: Floats) -> float:
        return spoilt_auroc(clean, spoilt) - spoilt_auroc(clean_before, spoilt_before)

    def more_unsupported(now: Floats, before: Floats, bad: Floats) -> float:
        return auroc(-now, bad) - auroc(-before, bad)

    def more_error(now: Floats, before: Floats, truth: Floats) -> float:
        weights = np.ones(len(truth))
        return error(now, truth, weights) - error(before, truth, weights)

    for name, score in SEEN:
        if score != "match":
            spoilt = f"{name}: {score}"
            table.line(spoilt, more, found[score], found[spoilt], other[score], other[spoilt])
    bad = 1 - found["true adherence"]
    table.line("unsupported response, AUROC", more_unsupported, found["adherence"], other["adherence"], bad)
    for score in SHARES:
        table.line(f"{score}, RMSE", more_error, found[score], other[score], found[f"true {score}"])


FIFTHS = 5


def report_calibration(rows: Sequence[Labeled], found: dict[str, Floats]) -> None:
    """Print what was said and what was true of unsupported responses, by fifths of what was said in each subset."""
    subsets = np.array([row.subset for row in rows])
    fifths = []
    for subset in np.unique(subsets):
        chosen = np.flatnonzero(subsets == subset)
        said, true = 1 - found["adherence"][chosen], 1 - found["true adherence"][chosen]
        parts = np.array_split(np.argsort(said, kind="stable"), FIFTHS)
        fifths.append([(said[part].mean(), true[part].mean()) for part in parts])
    for title, values in zip(("unsupported, said by fifths", "  true"), np.mean(fifths, axis=0).T, strict=True):
        print(f"{title:<34}" + "".join(f"{value:>8.3f}" for value in values))


def stored(rows: Sequence[Labeled], name: str) -> Floats:
    """Return another judge's stored prediction for every row, NaN where there is none."""
    return np.array([np.nan if row.row.get(name) is None else float(row.row[name]) for row in rows])


def report_ragbench(rows: Sequence[Labeled], other: LocalModel | None) -> None:
    """Print the agreement with RAGBench's labels, and the differences from another model."""
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
    report_calibration(rows, moved)
    print("clean above spoilt, AUROC, fitted without that subset")
    report_spoilt(table, moved)
    if other is not None:
        print("the same minus that of the other model, which may have seen the subset")
        report_differences(table, moved, scores_by(rows, lambda _: other))
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


def written(model: dict[str, Any]) -> str:
    """Return the text of the package's file of the model, a tree on three lines."""
    stored: dict[str, Any] = {
        "source": SOURCE,
        "command": COMMAND,
        **model,
    }
    return json.dumps(stored, indent=1).replace("\n    ", "").replace("\n   ]", "]") + "\n"


def earlier_model(path: Path) -> LocalModel:
    """Return the model of an earlier version, to which every document is about the question."""
    return LocalModel.read({TOPIC: {"constant": STEEPEST}, **json.loads(path.read_text(encoding="utf-8"))})


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
    parser.add_argument(
        "--before", type=Path, help="model.json of an earlier version, to print the differences from it"
    )
    parser.add_argument("--write", action="store_true", help="write the model into the package")
    arguments = parser.parse_args()
    texts = read(arguments.ragbench)
    if arguments.write:
        rarity = {"source": SOURCE, "command": COMMAND, "rarity": rarities(texts)}
        (PACKAGE / RARITY_FILE).write_text(json.dumps(rarity, indent=1) + "\n", encoding="utf-8")
    rows = labeled(texts)
    model = fit(rows)
    if arguments.write:
        (PACKAGE / MODEL_FILE).write_text(written(model), encoding="utf-8")
    report_ragbench(rows, None if arguments.before is None else earlier_model(arguments.before))
    if arguments.clapnq is not None:
        report_clapnq(arguments.clapnq, LocalModel.read(model))
    if arguments.expertqa is not None:
        report_expertqa(arguments.expertqa, LocalModel.read(model))


if __name__ == "__main__":
    main()
