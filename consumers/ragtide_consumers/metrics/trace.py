"""TRACe: computes scores from sentence labels. Pure formulas, one function for each profile.

Source: Friel et al., RAGBench (arXiv:2407.11005), section 3.2; docs/scores/metrics.md has the differences of the
profiles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from statistics import fmean, pstdev
from types import MappingProxyType
from typing import Final

from ragtide_schemas import SentenceLabels, SentenceProbabilities
from ragtide_schemas.suggestions import unknown

from ..text.keys import normalize_key, normalize_keys
from .scores import AbsentReason, MetricScores

TOGETHERNESS: Final = 0.72
"""Dependence of the sentences of one response: 0 for independent sentences, 1 if all are supported or none is."""

MARKED: Final = 0.5
"""Probability from which a sentence counts as used, or as supported, where a yes or no is needed."""

TRACE: Final = "trace."
"""Family of these metrics on the wire."""

SPECIAL_KEYS: Final = frozenset({"general", "supported_without_sentence", "well_known_fact", "numerical_reasoning"})
"""Support that a judge may name instead of a document sentence."""

SENTENCES: Final = "sentences."
"""Family of the counts of response sentences."""

MOST_COUNTED: Final = 100
"""Most sentences of a count, which is the end of the metric's range."""

CAPSTONE_FULL_RELEVANCE: Final = 20
"""Number of relevant sentences that the `capstone` profile takes as full relevance."""


_Value = float | AbsentReason


def trace_metrics(labels: SentenceLabels, *, profile: str = "ragbench") -> MetricScores:
    """Return the TRACe scores of one interaction, each in [0, 1].

    `context_relevance`, `context_utilization`, `completeness`, `adherence`, `supported_fraction`; `average` of the
    first four, and `rmse_aggregation`, their population standard deviation, in [0, 1/2].

    Args:
        labels: which sentences are relevant, utilized, supported.
        profile: `ragbench` (keys normalized, undefined values absent), `ragbench_raw` (reproduces the data set's stored
            scores bit for bit) or `capstone` (relevance against 20 sentences; for comparison with older results only).

    Raises: ValueError for an unknown profile.

    >>> labels = SentenceLabels(relevant=["0a", "0b"], utilized=["0a"], support={}, n_document_sentences=4)
    >>> dict(trace_metrics(labels).scores)["completeness"]
    0.5
    """
    if profile not in PROFILES:
        raise ValueError(unknown("profile", profile, list(PROFILES)))
    missing: set[str] = set()
    if labels.relevant is None:
        missing |= {"context_relevance", "completeness"}
    if labels.utilized is None:
        missing |= {"context_utilization", "completeness"}
    if not missing:
        return PROFILES[profile](labels)
    known = labels.model_copy(update={"relevant": labels.relevant or (), "utilized": labels.utilized or ()})
    return _withhold(PROFILES[profile](known), frozenset(missing), AbsentReason.INCOMPLETE_LABELS)


def withhold_support(metrics: MetricScores) -> MetricScores:
    """Return the scores of a response that refuses and claims nothing.

    Nothing in it can be supported or unsupported, so what is computed from support is absent, whatever a labeler says.
    """
    if metrics.absent.get("adherence") is not None:
        return metrics
    return replace(_withhold(metrics, frozenset({"adherence", "supported_fraction"}), AbsentReason.REFUSAL), counts={})


def withhold_relevance(metrics: MetricScores, reason: AbsentReason) -> MetricScores:
    """Return scores whose relevance is absent for a reason, and what is computed from it too."""
    return (
        metrics
        if "context_relevance" in metrics.absent
        else _withhold(metrics, frozenset({"context_relevance"}), reason)
    )


def _withhold(metrics: MetricScores, missing: frozenset[str], reason: AbsentReason) -> MetricScores:
    values: dict[str, _Value] = {
        **metrics.scores,
        **{name: AbsentReason(reason) for name, reason in metrics.absent.items()},
        **dict.fromkeys(missing, reason),
    }
    scores = _scores(
        relevance=values["context_relevance"],
        utilization=values["context_utilization"],
        completeness=values["completeness"],
        adherence=values["adherence"],
        supported_fraction=values["supported_fraction"],
        dropped_keys=metrics.dropped_keys,
    )
    return replace(scores, counts=metrics.counts)


def expected_trace_metrics(
    probabilities: SentenceProbabilities, *, togetherness: float = 0.0, completeness: bool = True
) -> MetricScores:
    """Return the expected TRACe scores of one interaction whose sentence labels are known as probabilities.

    Adherence is the probability that every response sentence is supported. Completeness is the ratio of expected
    counts, which has low confidence: it needs both labels right at once.

    Args:
        togetherness: dependence of the sentences of one response, in [0, 1]. The product of their n probabilities is
            raised to n^-togetherness: 0 means independent sentences, 1 gives their geometric mean.
        completeness: False withholds completeness as not accurate enough.
    """
    relevant, utilized, supported = probabilities.relevant, probabilities.utilized, probabilities.supported
    both = sum(r * u for r, u in zip(relevant, utilized, strict=True))
    mass = sum(relevant)
    complete: _Value = min(both / mass, 1.0) if mass > 0 else AbsentReason.NO_RELEVANT_SENTENCES
    return _scores(
        relevance=fmean(relevant) if relevant else AbsentReason.NO_DOCUMENT_SENTENCES,
        utilization=fmean(utilized) if utilized else AbsentReason.NO_DOCUMENT_SENTENCES,
        completeness=complete if completeness else AbsentReason.NOT_ACCURATE_ENOUGH,
        adherence=prod(supported) ** len(supported) ** -togetherness
        if supported
        else AbsentReason.NO_RESPONSE_SENTENCES,
        supported_fraction=fmean(supported) if supported else AbsentReason.NO_RESPONSE_SENTENCES,
    )


def all_absent(reason: AbsentReason) -> MetricScores:
    """Return no scores, and the same reason for every TRACe metric."""
    return _scores(
        relevance=reason, utilization=reason, completeness=reason, adherence=reason, supported_fraction=reason
    )


def _ragbench(labels: SentenceLabels) -> MetricScores:
    known = None if labels.document_keys is None else frozenset(normalize_keys(labels.document_keys))
    named = [frozenset(normalize_keys(keys or ())) for keys in (labels.relevant, labels.utilized)]
    supporting = [frozenset(normalize_keys(keys)) for keys in labels.support.values()]
    relevant, utilized = (_existing(keys, known) for keys in named)
    kept = [_existing(keys, known, SPECIAL_KEYS) for keys in supporting]
    support = dict(zip(map(normalize_key, labels.support), kept, strict=True))
    dropped = sum(map(len, named + supporting)) - sum(map(len, (relevant, utilized, *kept)))
    total = labels.n_document_sentences
    verdicts = _verdicts(labels, support)
    adherence: _Value
    fraction: _Value
    if isinstance(verdicts, AbsentReason):
        adherence = fraction = verdicts
    else:
        adherence, fraction = float(all(verdicts)), fmean(verdicts)
    scores = _scores(
        relevance=min(len(relevant) / total, 1.0) if total else AbsentReason.NO_DOCUMENT_SENTENCES,
        utilization=min(len(utilized) / total, 1.0) if total else AbsentReason.NO_DOCUMENT_SENTENCES,
        completeness=(len(relevant & utilized) / len(relevant) if relevant else AbsentReason.NO_RELEVANT_SENTENCES),
        adherence=adherence,
        supported_fraction=fraction,
        dropped_keys=dropped,
    )
    return replace(scores, counts=_counts(labels, support, verdicts))


def _counts(
    labels: SentenceLabels, support: Mapping[str, frozenset[str]], verdicts: list[bool] | AbsentReason
) -> dict[str, float]:
    sentences = _sentences(labels, support)
    if isinstance(verdicts, AbsentReason) or len(verdicts) != len(sentences):
        return {}
    fully = sum(verdicts)
    partially = sum(
        not verdict and bool(support.get(sentence)) for sentence, verdict in zip(sentences, verdicts, strict=True)
    )
    counts = {"fully_supported": fully, "partially_supported": partially}
    counts["unsupported"] = len(verdicts) - fully - partially
    return {name: float(min(count, MOST_COUNTED)) for name, count in counts.items()}


def _sentences(labels: SentenceLabels, support: Mapping[str, frozenset[str]]) -> Sequence[str]:
    if labels.response_keys is not None:
        return normalize_keys(labels.response_keys)
    return normalize_keys([*support, *labels.fully_supported, *(labels.unsupported or ())])


def _verdicts(labels: SentenceLabels, support: Mapping[str, frozenset[str]]) -> list[bool] | AbsentReason:
    # Otherwise a sentence is supported if it has a valid key and is not marked as partly supported.
    fully = {normalize_key(key): value for key, value in labels.fully_supported.items()}
    sentences = _sentences(labels, support)
    if labels.unsupported is not None:
        unsupported = normalize_keys(labels.unsupported)
        # A data set may list neither unsupported sentences nor sentences: then nothing is unsupported.
        return [sentence not in unsupported for sentence in sentences] or [True]
    if not sentences:
        return AbsentReason.NO_RESPONSE_SENTENCES
    if any(sentence not in support and sentence not in fully for sentence in sentences):
        return AbsentReason.INCOMPLETE_LABELS
    return [bool(support.get(sentence)) and fully.get(sentence) is not False for sentence in sentences]


def supported_sentences(labels: SentenceLabels) -> dict[str, bool]:
    """Return for each response sentence whether it is supported, by its key; nothing if a sentence has no verdict."""
    known = None if labels.document_keys is None else frozenset(normalize_keys(labels.document_keys))
    support = {
        normalize_key(key): _existing(frozenset(normalize_keys(keys)), known, SPECIAL_KEYS)
        for key, keys in labels.support.items()
    }
    verdicts, sentences = _verdicts(labels, support), _sentences(labels, support)
    if isinstance(verdicts, AbsentReason) or len(verdicts) != len(sentences):
        return {}
    return dict(zip(sentences, verdicts, strict=True))


def self_consistency(first: SentenceLabels, second: SentenceLabels) -> float | AbsentReason:
    """Return the share of response sentences with the same verdict in two answers, in [0, 1].

    A sentence without a verdict in one of the answers makes the value absent.

    >>> labels = SentenceLabels(relevant=(), utilized=(), support={"a": ["0a"], "b": []}, n_document_sentences=1)
    >>> self_consistency(labels, labels.model_copy(update={"support": {"a": ["0a"], "b": ["0a"]}}))
    0.5
    """
    verdicts, repeated = supported_sentences(first), supported_sentences(second)
    if not verdicts or verdicts.keys() != repeated.keys():
        return AbsentReason.INCOMPLETE_LABELS
    return sum(verdicts[sentence] is repeated[sentence] for sentence in verdicts) / len(verdicts)


def _ragbench_raw(labels: SentenceLabels) -> MetricScores:
    total, relevant, utilized = labels.n_document_sentences, set(labels.relevant or ()), set(labels.utilized or ())
    unsupported = labels.unsupported
    if unsupported is None:
        unsupported = tuple(key for key, keys in labels.support.items() if not keys)
    sentences = set(labels.support) | set(labels.fully_supported) | set(unsupported)
    return _scores(
        relevance=len(labels.relevant or ()) / total if total else AbsentReason.NO_DOCUMENT_SENTENCES,
        utilization=len(labels.utilized or ()) / total if total else AbsentReason.NO_DOCUMENT_SENTENCES,
        completeness=len(relevant & utilized) / len(labels.relevant) if labels.relevant else 1.0,
        adherence=float(not unsupported),
        supported_fraction=(
            1 - len(set(unsupported)) / len(sentences) if sentences else AbsentReason.NO_RESPONSE_SENTENCES
        ),
    )


def _capstone(labels: SentenceLabels) -> MetricScores:
    all_relevant, all_utilized = labels.relevant or (), labels.utilized or ()
    relevant, utilized = set(all_relevant), set(all_utilized)
    sentences = dict.fromkeys([*labels.support, *labels.fully_supported])
    fully = [labels.fully_supported.get(sentence) is True for sentence in sentences]
    nothing_missed = 0.0 if utilized else 1.0
    return _scores(
        relevance=min(1.0, len(all_relevant) / CAPSTONE_FULL_RELEVANCE),
        utilization=min(1.0, len(all_utilized) / len(all_relevant)) if all_relevant else 0.0,
        completeness=len(relevant & utilized) / len(relevant) if relevant else nothing_missed,
        adherence=float(all(fully)),
        supported_fraction=fmean(fully) if fully else AbsentReason.NO_RESPONSE_SENTENCES,
    )


PROFILES: Final[Mapping[str, Callable[[SentenceLabels], MetricScores]]] = MappingProxyType(
    {"ragbench": _ragbench, "ragbench_raw": _ragbench_raw, "capstone": _capstone}
)
"""Variants of the formulas by name; never mixed in one aggregate."""


def _scores(
    *,
    relevance: _Value,
    utilization: _Value,
    completeness: _Value,
    adherence: _Value,
    supported_fraction: _Value,
    dropped_keys: int = 0,
) -> MetricScores:
    four = {
        "context_relevance": relevance,
        "context_utilization": utilization,
        "completeness": completeness,
        "adherence": adherence,
    }
    present = [value for value in four.values() if not isinstance(value, AbsentReason)]
    whole = len(present) == len(four)
    values: dict[str, _Value] = {
        **four,
        "supported_fraction": supported_fraction,
        "average": fmean(present) if whole else _reason(four),
        "rmse_aggregation": pstdev(present) if whole else _reason(four),
    }
    return MetricScores(
        {name: value for name, value in values.items() if not isinstance(value, AbsentReason)},
        {name: value for name, value in values.items() if isinstance(value, AbsentReason)},
        dropped_keys,
    )


def _reason(four: Mapping[str, _Value]) -> AbsentReason:
    reasons = {value for value in four.values() if isinstance(value, AbsentReason)}
    everything = all(isinstance(value, AbsentReason) for value in four.values())
    return reasons.pop() if everything and len(reasons) == 1 else AbsentReason.PART_ABSENT


def _existing(keys: frozenset[str], known: frozenset[str] | None, also: frozenset[str] = frozenset()) -> frozenset[str]:
    return keys if known is None else keys & known | keys & also
