"""The metrics of the steps of a pipeline, retrievers, rerankers and the generator: names and declarations. No I/O."""

from functools import lru_cache
from typing import Final, Literal, NamedTuple

from .declared import MetricDeclaration
from .metrics import Direction
from .retrieval_steps import STEP_NAMES_MAX

STEP_FAMILY: Final = "retrieval.step."
"""Beginning of the names of these metrics: `retrieval.step.bm25.relevance`."""

StepQuantity = Literal["relevance", "used_recall", "agreement", "order", "yield", "ranking", "focus"]
"""What is measured of a step."""

QUANTITIES: Final[tuple[StepQuantity, ...]] = (
    "relevance", "used_recall", "agreement", "order", "yield", "ranking", "focus",
)  # fmt: skip

ComponentKind = Literal["retriever", "reranker", "generator"]
"""Kind of a part of a pipeline that may fail by itself."""

GENERATOR: Final = "generator"
"""Name of the generator among the steps: it is no retrieval step, and has no name of its own."""

STEP_METRICS_MAX: Final = 5 * STEP_NAMES_MAX + 1
"""Metrics of the steps of one interaction: a retriever has five, a reranker four, and the generator one."""

VERSION: Final = "1"
"""Version of the formulas."""

_KINDS: Final[tuple[ComponentKind, ...]] = ("retriever", "reranker", "generator")
_MEANINGS: Final = {
    "relevance": "Share of relevant sentences among those of the documents of {name} that the generator got.",
    "used_recall": "Share of the sentences that the answer used which stand in documents of {name}.",
    "agreement": "Share of the documents of {name} that more than one retriever returned.",
    "order": "Share of the pairs of documents of {name} that the reranker left in the order of {name}.",
    "yield": "Share of the sentences that the generator got which are relevant and stand in documents of {name}.",
    "ranking": "Share of the pairs of documents, one more relevant than the other, that {name} put in the right order.",
    "focus": "Share of the document sentences that have less in common with the question than the answer has.",
}


class StepMetric(NamedTuple):
    """One metric of one step."""

    step: str
    """Name of the step."""
    quantity: StepQuantity

    @property
    def name(self) -> str:
        """Qualified name of the metric."""
        return f"{STEP_FAMILY}{self.step}.{self.quantity}"

    @classmethod
    def read(cls, metric: str) -> "StepMetric | None":
        """Return the metric of a step that has a name; None for other metrics.

        >>> StepMetric.read("retrieval.step.bm25.used_recall"), StepMetric.read("trace.adherence")
        (StepMetric(step='bm25', quantity='used_recall'), None)
        """
        if not metric.startswith(STEP_FAMILY):
            return None
        step, _, last = metric.removeprefix(STEP_FAMILY).rpartition(".")
        quantity = next((known for known in QUANTITIES if known == last), None)
        return None if quantity is None or not step else cls(step, quantity)


@lru_cache(maxsize=1_000)
def step_declaration(metric: StepMetric, kind: ComponentKind) -> MetricDeclaration:
    """Return the declaration of a metric of a step, for events.

    Its version has the kind of the step: numbers of a retriever and of a reranker of one name are not mixed.
    """
    return MetricDeclaration(
        version=f"{VERSION}-{kind}",
        lower=0.0,
        upper=1.0,
        direction=Direction.NEITHER if metric.quantity in ("agreement", "order") else Direction.HIGHER,
        meaning=_MEANINGS[metric.quantity].format(name=metric.step),
    )


def kind_of(version: str) -> ComponentKind | None:
    """Return the kind of the step in the version of its metrics; None for another version.

    >>> kind_of("1-reranker"), kind_of("1")
    ('reranker', None)
    """
    return next((kind for kind in _KINDS if version == f"{VERSION}-{kind}"), None)
