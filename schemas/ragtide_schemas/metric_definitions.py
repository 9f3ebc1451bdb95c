"""The definitions of ragtide's own metrics, in an immutable table.

Bands are rules of thumb for tables; no decision depends on them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .metrics import Bands, Direction, Kind, MetricDefinition

_RAGBENCH: Final = "Friel et al., RAGBench (arXiv:2407.11005), section 3"
_RAGCHECKER: Final = "Ru et al., RAGChecker (arXiv:2408.08067), section 3"
_CAPSTONE: Final = "CapStoneRAG10"

_SENTENCES: Final = ("document sentences",)
_RESPONSE: Final = ("response sentences",)
_RELEVANT: Final = ("document sentences", "a relevant one")
_ALL_FOUR: Final = ("document sentences", "a relevant one", "response sentences")


def _trace(
    name: str,
    definition: str,
    meaning: str,
    needs: tuple[str, ...],
    bands: Bands | None = None,
    *,
    source: str = _RAGBENCH,
) -> MetricDefinition:
    return MetricDefinition(
        f"trace.{name}", 0.0, 1.0, Direction.HIGHER, Kind.ALGEBRAIC, meaning, source, definition, needs, bands
    )


TRACE: Final = (
    _trace(
        "context_relevance",
        "|R| / T",
        "Share of the retrieved sentences relevant to the question.",
        _SENTENCES,
        Bands(0.2, 0.4, 0.7),
    ),
    _trace(
        "context_utilization",
        "|U| / T",
        "Share of the retrieved sentences that the response used.",
        _SENTENCES,
        Bands(0.1, 0.25, 0.5),
    ),
    _trace(
        "completeness",
        "|R ∩ U| / |R|",
        "Share of the relevant sentences that the response used.",
        _RELEVANT,
        Bands(0.4, 0.6, 0.8),
    ),
    _trace(
        "adherence",
        "1 if every response sentence is supported, else 0",
        "1 if every sentence of the response is supported by the documents (a probability from the local labeler).",
        _RESPONSE,
        Bands(0.7, 0.8, 0.9),
    ),
    _trace(
        "supported_fraction",
        "supported response sentences / response sentences",
        "Share of the response's sentences that are supported.",
        _RESPONSE,
        Bands(0.8, 0.9, 0.95),
    ),
    _trace(
        "average",
        "mean of relevance, utilization, completeness, adherence",
        "Mean of relevance, utilization, completeness and adherence of one interaction.",
        _ALL_FOUR,
        source=_CAPSTONE,
    ),
    MetricDefinition(
        "trace.rmse_aggregation",
        0.0,
        0.5,
        Direction.NEITHER,
        Kind.ALGEBRAIC,
        "Population standard deviation of the four TRACe scores of one interaction: their balance, not their quality.",
        f"{_CAPSTONE}; on real data it does not point to unsupported responses",
        "sqrt(mean((score - mean of the four)²))",
        _ALL_FOUR,
        # The bands of the two source documents, which contradict each other: 0.10/0.20/0.30 and 0.15/0.30.
        edges=(0.10, 0.15, 0.20, 0.30),
    ),
)
"""R relevant, U utilized document sentences, of T."""


def _count(name: str, definition: str, meaning: str) -> MetricDefinition:
    return MetricDefinition(
        f"sentences.{name}",
        0.0,
        1000.0,
        Direction.NEITHER,
        Kind.DISTRIBUTIVE,
        meaning,
        _CAPSTONE,
        definition,
        _RESPONSE,
    )


COUNTS: Final = (
    _count(
        "fully_supported",
        "response sentences with support and no verdict against it",
        "Number of fully supported sentences of the response; past 100 it says 100.",
    ),
    _count(
        "partially_supported",
        "response sentences with a supporting key and fully_supported = false",
        "Number of sentences of which only a part is supported.",
    ),
    _count(
        "unsupported",
        "response sentences without a supporting key",
        "Number of sentences that nothing supports.",
    ),
)
"""Of the response's sentences; published by a judge."""


def _claims(
    name: str,
    definition: str,
    meaning: str,
    needs: tuple[str, ...],
    bands: Bands | None = None,
    *,
    direction: Direction = Direction.HIGHER,
) -> MetricDefinition:
    return MetricDefinition(
        f"ragchecker.{name}", 0.0, 1.0, direction, Kind.ALGEBRAIC, meaning, _RAGCHECKER, definition, needs, bands
    )


_OF_RESPONSE: Final = ("response claims", "reference answer")
_OF_REFERENCE: Final = ("reference claims",)
_BOTH: Final = ("response claims", "reference claims")

RAGCHECKER: Final = (
    _claims(
        "precision",
        "mean over response claims of [entailed by the reference]",
        "Share of the response's claims that are correct.",
        _OF_RESPONSE,
        Bands(0.5, 0.6, 0.75),
    ),
    _claims(
        "recall",
        "mean over reference claims of [entailed by the response]",
        "Share of the reference answer's claims that the response makes.",
        _OF_REFERENCE,
        Bands(0.4, 0.5, 0.7),
    ),
    _claims(
        "f1",
        "2 precision recall / (precision + recall)",
        "Harmonic mean of precision and recall of one interaction.",
        _BOTH,
        Bands(0.4, 0.5, 0.7),
    ),
    _claims(
        "claim_recall",
        "mean over reference claims of [entailed by any document]",
        "Retriever: share of the reference answer's claims that the documents hold.",
        _OF_REFERENCE,
        Bands(0.6, 0.75, 0.9),
    ),
    _claims(
        "context_precision",
        "mean over documents of [entails any reference claim]",
        "Retriever: share of the documents that hold a claim of the reference answer.",
        ("reference claims", "documents"),
        Bands(0.3, 0.5, 0.7),
    ),
    _claims(
        "context_utilization",
        "recalled reference claims in the response / recalled reference claims",
        "Generator: share of the claims the documents hold that the response makes.",
        ("reference claims", "documents", "a recalled claim"),
        Bands(0.5, 0.6, 0.75),
    ),
    _claims(
        "noise_sensitivity_in_relevant",
        "mean over response claims of [wrong and entailed by a relevant document]",
        "Generator: share of its claims that are wrong and come from a relevant document.",
        _BOTH,
        Bands(0.35, 0.25, 0.15),
        direction=Direction.LOWER,
    ),
    _claims(
        "noise_sensitivity_in_irrelevant",
        "mean over response claims of [wrong and entailed by irrelevant documents only]",
        "Generator: share of its claims that are wrong and come from irrelevant documents.",
        _BOTH,
        Bands(0.1, 0.05, 0.02),
        direction=Direction.LOWER,
    ),
    _claims(
        "hallucination",
        "mean over response claims of [wrong and entailed by no document]",
        "Generator: share of its claims that are wrong and made up.",
        _OF_RESPONSE,
        Bands(0.15, 0.1, 0.05),
        direction=Direction.LOWER,
    ),
    _claims(
        "self_knowledge",
        "mean over response claims of [correct and entailed by no document]",
        "Generator: share of its claims that are correct and from its own knowledge.",
        _OF_RESPONSE,
        direction=Direction.NEITHER,
    ),
    _claims(
        "faithfulness",
        "mean over response claims of [entailed by any document]",
        "Generator: share of its claims that the documents hold.",
        ("response claims",),
        Bands(0.8, 0.9, 0.95),
    ),
)
"""Claims of response and reference answer, and the texts that entail them."""


def _outcome(name: str, definition: str, meaning: str) -> MetricDefinition:
    return MetricDefinition(
        name,
        0.0,
        1.0,
        Direction.LOWER,
        Kind.ALGEBRAIC,
        meaning,
        "ragtide",
        definition,
        needs=("nothing",),
        bands=Bands(0.2, 0.1, 0.02),
    )


EMPTY_RETRIEVAL: Final = _outcome(
    "retrieval.empty",
    "1 if there is no document, else 0",
    "Share of the interactions for which nothing was retrieved.",
)

EMPTY_RESPONSE: Final = _outcome(
    "response.empty",
    "1 if the response is empty or only white space, else 0",
    "Share of the interactions without a response, such as refusals and errors of tools.",
)

CLOSED_FAMILIES: Final = ("trace", "ragchecker", "sentences")
"""Families whose metrics are all known: a metric of the user's own has another family."""

OUTCOMES: Final = (EMPTY_RETRIEVAL, EMPTY_RESPONSE)
"""Of every interaction, whichever labeler scored it: they need no labels."""

RAGTIDE_METRICS: Final = (*TRACE, *COUNTS, *RAGCHECKER, *OUTCOMES)
"""Every metric ragtide computes itself, in the order of tables."""

METRICS: Final[Mapping[str, MetricDefinition]] = MappingProxyType({metric.name: metric for metric in RAGTIDE_METRICS})
"""The same by qualified name. Metrics of the user's own are not in it: events declare them (`declared.py`)."""
