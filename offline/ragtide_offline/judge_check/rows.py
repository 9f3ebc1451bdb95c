"""The rows of a judge check: estimates with intervals and a word, from the judge's answers to each item. Pure.

Every interval is about items: an item counts once, whatever the number of its sentences, and is compared with itself.
A judge that does not repeat itself has other answers to a changed item, too. Without an effect of the change they are
drawn as its answers to the unchanged item are, so the mean difference is 0 in expectation.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from ragtide_aggregator.statistics.comparisons.bootstrap import Floats, measured, resamples
from ragtide_aggregator.statistics.comparisons.paired import paired_difference_once
from ragtide_aggregator.statistics.intervals.intervals import Interval, interval
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_consumers.metrics.trace import SENTENCES, TRACE, self_consistency, trace_metrics
from ragtide_consumers.sentinels.answers import SUPPORTED, Answer, agreement_of, answer_of
from ragtide_schemas import SentenceLabels
from ragtide_schemas.criterion import Criterion
from ragtide_schemas.declared import definition_of

SMALL: Final = 0.1
"""Share of a metric's range up to which a difference is small, and a share of failures rare."""

TOLERATED: Final = 0.02
"""Share of the items that may fail: above it a failure is often."""

DERIVED: Final = frozenset({"trace.average", "trace.rmse_aggregation"})
"""Metrics that follow from the other metrics of TRACe."""

Variant = Literal["as_it_is", "asked_again", "documents_reversed", "criteria_reversed", "answer_repeated"]
"""How an item is asked about."""

CHANGES: Final[tuple[Variant, ...]] = ("documents_reversed", "criteria_reversed", "answer_repeated")
"""Variants in which something is changed that is not the quality."""

Verdict = Literal["steady", "unsteady", "stays", "slight", "moves", "rare", "often", "unclear", "not applicable"]


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One row of the table."""

    check: str
    """A variant, `answers` or `cost`."""
    measure: str
    metric: str | None = None
    mean: Interval[float | None, float | None] = Interval(None, None, None)  # noqa: RUF009 - it is immutable
    """Without an estimate if the check does not apply, and without ends where it has no interval."""
    n: int = 0
    """Number of items."""
    strategy: str | None = None
    """`wilson`, `student` or `bootstrap`: how the interval was made."""
    verdict: Verdict | None = None
    """None of a cost."""

    def as_dict(self) -> dict[str, Any]:
        """Return the row as values that JSON can hold, with the numbers of the interval among its fields."""
        fields = asdict(self)
        return {**fields.pop("mean"), **fields}


@dataclass(frozen=True, slots=True)
class ItemAnswers:
    """The judge's answers to one item."""

    documents: int
    labelings: Mapping[Variant, Labeling]

    def pair(self, variant: Variant) -> tuple[Labeling, Labeling] | None:
        """Return the answers to the item as it is and in a variant; None if one is missing, or neither has a score."""
        first, second = self.labelings.get("as_it_is"), self.labelings.get(variant)
        if first is None or second is None or not (first.scores or second.scores):
            return None
        return first, second


_ComparedScores = tuple[str, str | None, Sequence[tuple[float, float]], tuple[float, float]]
"""Two numbers of each item, compared in one row: measure, metric, the pairs, and the range of the numbers."""


def check_rows(
    items: Sequence[ItemAnswers],
    criteria: Sequence[Criterion],
    *,
    profile: str = "ragbench",
    confidence: float = 0.95,
    seed: int = 0,
) -> list[CheckRow]:
    """Return the rows of a check, in the order of the table.

    The verdict `moves` looks at all differences of the table at once: of a judge on which no change has an effect, a
    row says so in at most 1 - confidence of all checks.

    Args:
        items: answers to each item.
        criteria: that were asked.
        profile: variant of TRACe's formulas.
        confidence: level of each interval.
    """
    metrics = _compared_metrics(items)
    differences = {check: _differences(check, items, metrics, criteria, profile) for check in CHANGES}
    joint = 1 - (1 - confidence) / max(sum(map(len, differences.values())), 1)
    rows = _repetition_rows(items, metrics, confidence)
    for check, compared in differences.items():
        rows += [_difference_row(check, scores, confidence, joint) for scores in compared]
        if not compared:
            rows.append(CheckRow(check, "difference", verdict="not applicable"))
    return [*rows, *_failures(items, confidence), *_costs(items, confidence, seed)]


def _compared_metrics(items: Sequence[ItemAnswers]) -> dict[str, tuple[float, float]]:
    ranges: dict[str, tuple[float, float]] = {}
    for labeling in (labeling for item in items for labeling in item.labelings.values()):
        for metric in labeling.scores:
            definition = definition_of(metric, labeling.declared)
            if definition is not None and metric not in DERIVED and not metric.startswith(SENTENCES):
                ranges.setdefault(metric, (definition.lower, definition.upper))
    return {metric: ends for metric, ends in ranges.items() if ends[1] > ends[0]}


def _scores(items: Iterable[ItemAnswers], variant: Variant, metric: str) -> list[tuple[float, float]]:
    pairs = (item.pair(variant) for item in items)
    return [
        (second.scores[metric], first.scores[metric])
        for first, second in (pair for pair in pairs if pair is not None)
        if metric in first.scores and metric in second.scores
    ]


# --- Asked again ---


def _repetition_rows(
    items: Sequence[ItemAnswers], metrics: Mapping[str, tuple[float, float]], level: float
) -> list[CheckRow]:
    pairs = [pair for item in items if (pair := item.pair("asked_again")) is not None]
    verdicts = []
    for first, second in ((_sentences(a), _sentences(b)) for a, b in pairs):
        equal = None if first is None or second is None else self_consistency(first, second)
        if isinstance(equal, float):
            verdicts.append(equal)
    shared = [agreement_of(answer_of(first), answer_of(second)) for first, second in pairs]
    rows = [
        _share("asked_again", "equal_verdicts", verdicts, level, _steady(1 - SMALL)),
        _share("asked_again", "shared_labels", shared, level, _steady(1 - SMALL)),
    ]
    for metric, ends in metrics.items():
        sizes = [abs(again - first) for again, first in _scores(items, "asked_again", metric)]
        width = ends[1] - ends[0]
        verdict = _steady(SMALL * width, less_is_steadier=True)
        rows.append(
            _share("asked_again", "mean_absolute_difference", sizes, level, verdict, metric=metric, width=width)
        )
    return [row for row in rows if row.n] or [CheckRow("asked_again", "shared_labels", verdict="not applicable")]


def _steady(bound: float, *, less_is_steadier: bool = False) -> Callable[[float, float], Verdict]:
    def verdict(lower: float, upper: float) -> Verdict:
        best, worst = (upper <= bound, lower > bound) if less_is_steadier else (lower >= bound, upper < bound)
        return "steady" if best else "unsteady" if worst else "unclear"

    return verdict


def _share(
    check: str,
    measure: str,
    values: Sequence[float],
    level: float,
    verdict: Callable[[float, float], Verdict],
    *,
    metric: str | None = None,
    width: float = 1.0,
) -> CheckRow:
    if not values:
        return CheckRow(check, measure, metric, verdict="not applicable")
    mean = min(max(float(np.mean(values)), 0.0), width)
    ends = interval("wilson", mean=mean, n=len(values), confidence=level, value_range=(0.0, width))
    word = verdict(ends.lower, ends.upper)
    return CheckRow(check, measure, metric, ends, len(values), "wilson", word)


def _sentences(labeling: Labeling) -> SentenceLabels | None:
    return next((labels for labels in labeling.labels if isinstance(labels, SentenceLabels)), None)


# --- Changes that leave the quality as it is ---


def _differences(
    check: Variant,
    items: Sequence[ItemAnswers],
    metrics: Mapping[str, tuple[float, float]],
    criteria: Sequence[Criterion],
    profile: str,
) -> list[_ComparedScores]:
    if check == "criteria_reversed":
        of_criteria = {criterion.metric for criterion in criteria}
        metrics = {name: ends for name, ends in metrics.items() if name in of_criteria}
    if check == "answer_repeated":
        items = [_score_copies(item, profile) for item in items]
    compared: list[_ComparedScores] = [
        ("difference", metric, _scores(items, check, metric), ends) for metric, ends in metrics.items()
    ]
    if check == "documents_reversed":
        compared.append(("relevance_first_minus_last", None, _relevance_by_place(items), (0.0, 1.0)))
    compared.append(("changed_labels_beyond_asking_again", None, _changed_shares(items, check), (0.0, 1.0)))
    return [scores for scores in compared if scores[2]]


def _score_copies(item: ItemAnswers, profile: str) -> ItemAnswers:
    labeling = item.labelings.get("answer_repeated")
    labels = None if labeling is None else _sentences(labeling)
    if labeling is None or labels is None or labels.response_keys is None:
        return item
    half = len(labels.response_keys) // 2
    copies = []
    for keys in (labels.response_keys[:half], labels.response_keys[half:]):
        half_labels = {
            "support": {key: labels.support[key] for key in keys if key in labels.support},
            "response_keys": keys,
            "fully_supported": {key: labels.fully_supported.get(key) for key in keys},
        }
        metrics = trace_metrics(labels.model_copy(update=half_labels), profile=profile)
        copies.append(metrics.by_qualified_name(TRACE)[0])
    means = {
        metric: (copies[0][metric] + copies[1][metric]) / 2
        for metric in labeling.scores
        if metric in copies[0] and metric in copies[1]
    }
    scored = replace(labeling, scores={**labeling.scores, **means})
    return ItemAnswers(item.documents, {**item.labelings, "answer_repeated": scored})


def _changed_shares(items: Iterable[ItemAnswers], check: Variant) -> list[tuple[float, float]]:
    shares = []
    for item in items:
        changed, again = item.pair(check), item.pair("asked_again")
        if changed is not None and again is not None:
            first = answer_of(changed[0])
            second = _undo_change(answer_of(changed[1]), changed[0], check, item.documents)
            shares.append((1 - agreement_of(first, second), 1 - agreement_of(first, answer_of(again[1]))))
    return shares


_KEY: Final = re.compile("([0-9]+)([a-z]+)")


def _undo_change(answer: Answer, labeling: Labeling, check: Variant, documents: int) -> Answer:
    if check == "documents_reversed":
        return frozenset(_reverse_key(fact, documents) for fact in answer)
    if check == "answer_repeated":
        labels = _sentences(labeling)
        once = {f"{SUPPORTED}{key}" for key in (labels and labels.response_keys) or ()}
        return frozenset(fact for fact in answer if not fact.startswith(SUPPORTED) or fact in once)
    return answer


def _reverse_key(fact: str, documents: int) -> str:
    kind, _, key = fact.partition(":")
    match = _KEY.fullmatch(key) if kind in ("relevant", "used") else None
    return fact if match is None else f"{kind}:{documents - 1 - int(match[1])}{match[2]}"


def _relevance_by_place(items: Iterable[ItemAnswers]) -> list[tuple[float, float]]:
    pairs = []
    for item in items:
        pair = item.pair("documents_reversed")
        shares = [] if pair is None else [_relevant_share(labeling) for labeling in pair]
        places = [[share.get(place) for share in shares] for place in (0, item.documents - 1)]
        means = [sum(known) / 2 for place in places if len(known := [v for v in place if v is not None]) == 2]
        if len(means) == 2:
            pairs.append((means[0], means[1]))
    return pairs


def _relevant_share(labeling: Labeling) -> dict[int, float]:
    labels = _sentences(labeling)
    if labels is None or labels.relevant is None or labels.document_keys is None:
        return {}
    relevant = frozenset(labels.relevant)
    sentences: dict[int, list[bool]] = {}
    for key in labels.document_keys:
        if (match := _KEY.fullmatch(key)) is not None:
            sentences.setdefault(int(match[1]), []).append(key in relevant)
    return {place: sum(flags) / len(flags) for place, flags in sentences.items()}


def _difference_row(check: Variant, row: _ComparedScores, level: float, joint: float) -> CheckRow:
    measure, metric, pairs, value_range = row
    after, before = zip(*pairs, strict=True)
    alone = paired_difference_once(after, before, value_range=value_range, confidence=level)
    all_rows = paired_difference_once(after, before, value_range=value_range, confidence=joint)
    small = SMALL * (value_range[1] - value_range[0])
    is_small = -small <= alone.difference.lower and alone.difference.upper <= small
    word: Verdict
    if all_rows.difference.verdict != "undecided":
        word = "slight" if is_small else "moves"
    else:
        word = "stays" if is_small else "unclear"
    return CheckRow(check, measure, metric, alone.difference, alone.n, alone.strategy, word)


# --- Failures and costs ---


def _failures(items: Sequence[ItemAnswers], level: float) -> list[CheckRow]:
    firsts = [item.labelings["as_it_is"] for item in items if "as_it_is" in item.labelings]
    kinds: dict[str, Callable[[Labeling], bool]] = {
        "refused": lambda labeling: AbsentReason.JUDGE_REFUSED in labeling.absent.values(),
        "unusable": lambda labeling: AbsentReason.JUDGE_UNUSABLE in labeling.absent.values(),
        "corrected": lambda labeling: labeling.counters.get("judge_repairs", 0) > 0,
        "unknown_keys": lambda labeling: labeling.counters.get("dropped_keys", 0) > 0,
    }
    return [
        _share("answers", measure, [float(failed(labeling)) for labeling in firsts], level, _rare)
        for measure, failed in kinds.items()
    ]


def _rare(lower: float, upper: float) -> Verdict:
    return "often" if lower > TOLERATED else "rare" if upper <= SMALL else "unclear"


def _costs(items: Sequence[ItemAnswers], level: float, seed: int) -> list[CheckRow]:
    firsts = [item.labelings["as_it_is"] for item in items if "as_it_is" in item.labelings]
    every = [labeling for item in items for labeling in item.labelings.values()]
    numbers: dict[str, Callable[[Labeling], float]] = {
        "tokens": lambda labeling: float(labeling.prompt_tokens + labeling.completion_tokens),
        "cost_usd": lambda labeling: labeling.cost_usd,
    }
    means = [_mean_cost(f"{name}_per_item", np.array([*map(of, firsts)]), level, seed) for name, of in numbers.items()]
    totals = {name: Interval(sum(map(of, every)), None, None) for name, of in numbers.items()}
    return [*means, *(CheckRow("cost", name, mean=total, n=len(items)) for name, total in totals.items())]


def _mean_cost(measure: str, values: Floats, level: float, seed: int) -> CheckRow:
    samples = resamples(values.size, seed=seed) if values.size else []
    mean = measured(lambda places: float(values[places].mean()), values.size, samples, confidence=level)
    strategy = None if mean.lower is None else "bootstrap"
    ends = Interval(mean.value, mean.lower, mean.upper)
    return CheckRow("cost", measure, mean=ends, n=values.size, strategy=strategy)
