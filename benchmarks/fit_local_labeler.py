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
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from agreement import Table, auroc, calibration, error, rank_correlation
from labeled_rows import Floats, Labeled, Version, labeled, read
from local_labeler_model import SHARES, SPOILT, SPOILT_ANSWERS, fit, rarities

from ragtide_consumers.labelers.local.adjustment import STEEPEST
from ragtide_consumers.labelers.local.features import extract
from ragtide_consumers.labelers.local.model import MODEL_FILE, TOPIC, LocalModel
from ragtide_consumers.labelers.local.overlap import RARITY_FILE
from ragtide_consumers.metrics.trace import TOGETHERNESS
from ragtide_consumers.text.sentences import locate_sentences

PACKAGE = Path(__file__).parents[1] / "consumers/ragtide_consumers/labelers/local"

SOURCE = "RAGBench (Friel et al., arXiv:2407.11005; Galileo Technologies, CC BY 4.0; labels by GPT-4)"
COMMAND = "python benchmarks/fit_local_labeler.py RAGBENCH.jsonl.gz --write"


def together(supported: Sequence[float]) -> float:
    """Return the probability that all sentences are supported, as `expected_trace_metrics` does."""
    return float(np.prod(supported) ** len(supported) ** -TOGETHERNESS) if len(supported) else 1.0


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
    return [found.plain for found in locate_sentences(response, answer=True)]


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
        documents = [[found.plain for found in locate_sentences(text)] for text in row["contexts"]]
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


def file_text(model: dict[str, Any]) -> str:
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
        (PACKAGE / MODEL_FILE).write_text(file_text(model), encoding="utf-8")
    report_ragbench(rows, None if arguments.before is None else earlier_model(arguments.before))
    if arguments.clapnq is not None:
        report_clapnq(arguments.clapnq, LocalModel.read(model))
    if arguments.expertqa is not None:
        report_expertqa(arguments.expertqa, LocalModel.read(model))


if __name__ == "__main__":
    main()
