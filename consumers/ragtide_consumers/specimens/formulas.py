"""The formulas of a specimen's scores, with the numbers of its labels filled in. No I/O.

A formula is shown only if its value is the recorded score, so no formula contradicts its score. Scores of an older
formula, or of an older labeler, are shown without one.
"""

from collections.abc import Iterator, Mapping
from math import isclose, prod
from statistics import fmean, pstdev
from typing import Final

from ragtide_schemas import METRICS, ClaimLabels, SentenceLabels, SentenceProbabilities, SpecimenLabeling

from ..metrics.ragchecker import RAGCHECKER
from ..metrics.trace import CAPSTONE_FULL_RELEVANCE, TOGETHERNESS, TRACE, supported_sentences

FOUR: Final = ("context_relevance", "context_utilization", "completeness", "adherence")

Filled = tuple[str, str, float]
"""Metric, its formula with numbers, and the value of that."""


def filled_formulas(labeling: SpecimenLabeling) -> dict[str, str]:
    """Return the formula of each score that follows from the labels, with numbers, such as `|R| / T = 2 / 5`."""
    formulas: dict[str, str] = {}
    for labels in labeling.labels:
        if isinstance(labels, SentenceLabels):
            filled = _capstone(labels) if "capstone" in labeling.profile.split("+") else _ragbench(labels)
        elif isinstance(labels, SentenceProbabilities):
            filled = _expected(labels)
        else:
            filled = _claim_formulas(labels, labeling.scores)
        formulas |= _agreeing_formulas(filled, labeling.scores)
    return formulas | _agreeing_formulas(_aggregates(labeling.scores), labeling.scores)


def _agreeing_formulas(filled: Iterator[Filled], scores: Mapping[str, float]) -> dict[str, str]:
    return {
        metric: text
        for metric, text, value in filled
        if metric in scores and isclose(value, scores[metric], rel_tol=1e-9, abs_tol=1e-9)
    }


def _ragbench(labels: SentenceLabels) -> Iterator[Filled]:
    total = labels.n_document_sentences
    relevant, utilized = frozenset(labels.relevant or ()), frozenset(labels.utilized or ())
    if total:
        yield _ratio(f"{TRACE}context_relevance", "|R| / T", len(relevant), total)
        yield _ratio(f"{TRACE}context_utilization", "|U| / T", len(utilized), total)
    if relevant:
        yield _ratio(f"{TRACE}completeness", "|R ∩ U| / |R|", len(relevant & utilized), len(relevant))
    yield from _support(labels)


def _capstone(labels: SentenceLabels) -> Iterator[Filled]:
    relevant, utilized = frozenset(labels.relevant or ()), frozenset(labels.utilized or ())
    r, u = len(labels.relevant or ()), len(labels.utilized or ())
    full = CAPSTONE_FULL_RELEVANCE
    yield f"{TRACE}context_relevance", f"min(1, |R| / {full}) = min(1, {r} / {full})", min(1.0, r / full)
    if relevant:
        yield f"{TRACE}context_utilization", f"min(1, |U| / |R|) = min(1, {u} / {r})", min(1.0, u / r)
        yield _ratio(f"{TRACE}completeness", "|R ∩ U| / |R|", len(relevant & utilized), len(relevant))
    yield from _support(labels)


def _support(labels: SentenceLabels) -> Iterator[Filled]:
    verdicts = supported_sentences(labels)
    if verdicts:
        n, supported = len(verdicts), sum(verdicts.values())
        words = f"{supported} of {n} response sentences are supported"
        yield f"{TRACE}adherence", f"1 if all, else 0: {words}", float(supported == n)
        yield _ratio(f"{TRACE}supported_fraction", "supported / response sentences", supported, n)


def _expected(labels: SentenceProbabilities) -> Iterator[Filled]:
    for name, letter, values in (
        ("context_relevance", "R", labels.relevant),
        ("context_utilization", "U", labels.utilized),
    ):
        if values:
            text = f"expected |{letter}| / T = {sum(values):.4g} / {len(values)}"
            yield f"{TRACE}{name}", text, fmean(values)
    supported = labels.supported
    if supported:
        n = len(supported)
        product = " × ".join(f"{value:.3g}" for value in supported[:6]) + " × …" * (n > 6)
        exponent = n**-TOGETHERNESS
        text = f"P(all {n} are supported) = ({product})^{exponent:.3g}"
        yield f"{TRACE}adherence", text, prod(supported) ** exponent
        text = f"expected supported / response sentences = {sum(supported):.4g} / {n}"
        yield f"{TRACE}supported_fraction", text, fmean(supported)


def _aggregates(scores: Mapping[str, float]) -> Iterator[Filled]:
    four = [scores[f"{TRACE}{name}"] for name in FOUR if f"{TRACE}{name}" in scores]
    if len(four) == len(FOUR):
        numbers = ", ".join(f"{score:.3g}" for score in four)
        yield f"{TRACE}average", f"mean of {numbers}", fmean(four)
        yield f"{TRACE}rmse_aggregation", f"standard deviation of {numbers}", pstdev(four)


_OF_RESPONSE: Final = (
    "precision",
    "noise_sensitivity_in_relevant",
    "noise_sensitivity_in_irrelevant",
    "hallucination",
    "self_knowledge",
    "faithfulness",
)
"""Metrics that are a share of the response claims."""


def _claim_formulas(labels: ClaimLabels, scores: Mapping[str, float]) -> Iterator[Filled]:
    response = len(labels.retrieved2response) or len(labels.answer2response or ())
    reference = len(labels.response2answer or ())
    rows = (*labels.retrieved2response, *(labels.retrieved2answer or ()))
    chunks = max(map(len, rows), default=0)
    recalled = sum("Entailment" in row for row in labels.retrieved2answer or ())
    sizes = dict.fromkeys(_OF_RESPONSE, response) | {"recall": reference, "claim_recall": reference}
    sizes |= {"context_precision": chunks, "context_utilization": recalled}
    for name, n in sizes.items():
        metric = f"{RAGCHECKER}{name}"
        if n and metric in scores:
            yield _ratio(metric, METRICS[metric].definition, round(scores[metric] * n), n)
    precision, recall = scores.get(f"{RAGCHECKER}precision"), scores.get(f"{RAGCHECKER}recall")
    if precision is not None and recall is not None and precision + recall:
        text = f"2 × {precision:.3g} × {recall:.3g} / ({precision:.3g} + {recall:.3g})"
        yield f"{RAGCHECKER}f1", text, 2 * precision * recall / (precision + recall)


def _ratio(metric: str, formula: str, part: int, whole: int) -> Filled:
    return metric, f"{formula} = {part} / {whole}", part / whole
