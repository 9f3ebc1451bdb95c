"""The metrics of the steps of a pipeline (retrievers, rerankers, generator) and of its tools: names and declarations.

No I/O.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from .declared import MetricDeclaration
from .limits import STEPS_MAX
from .metrics import DefaultRule, Direction, Kind
from .retrieval_steps import STEP_NAMES_MAX

STEP_FAMILY: Final = "retrieval.step."
"""Beginning of the names of these metrics: `retrieval.step.bm25.relevance`."""

TOOL_FAMILY: Final = "tool."
"""Beginning of the names of the metrics of calls: `tool.search.used`."""

ALL_TOOLS: Final = f"{TOOL_FAMILY}*."
"""Beginning of the metric of a rule that watches a number of every tool: `tool.*.failed`."""

StepQuantity = Literal["relevance", "used_recall", "agreement", "order", "yield", "ranking", "focus"]
"""What is measured of a step."""

QUANTITIES: Final[tuple[StepQuantity, ...]] = (
    "relevance", "used_recall", "agreement", "order", "yield", "ranking", "focus",
)  # fmt: skip

ToolQuantity = Literal["calls", "used", "relevant", "wasted", "repeated", "failed", "empty", "latency_s", "yield"]
"""What is measured of the calls of a tool in one run."""

TOOL_LATENCY_MAX_S: Final = 60.0
"""Seconds as which a longer call counts."""

ComponentKind = Literal["retriever", "reranker", "tool", "generator"]
"""Kind of a part of a pipeline that may fail by itself."""

GENERATOR: Final = "generator"
"""Name of the generator among the steps: it is no retrieval step, and has no name of its own."""

STEP_METRICS_MAX: Final = 5 * STEP_NAMES_MAX + 1
"""Metrics of the steps of one interaction: a retriever has five, a reranker four, and the generator one."""

VERSION: Final = "1"
"""Version of the formulas."""

_KINDS: Final[tuple[ComponentKind, ...]] = ("retriever", "reranker", "tool", "generator")
_MEANINGS: Final = {
    "relevance": "Share of relevant sentences among those of the documents of {name} that the generator got.",
    "used_recall": "Share of the sentences that the answer used which stand in documents of {name}.",
    "agreement": "Share of the documents of {name} that more than one retriever returned.",
    "order": "Share of the pairs of documents of {name} that the reranker left in the order of {name}.",
    "yield": "Share of the sentences that the generator got which are relevant and stand in documents of {name}.",
    "ranking": "Share of the pairs of documents, one more relevant than the other, that {name} put in the right order.",
    "focus": "Share of the document sentences that have less in common with the question than the answer has.",
}


_TOOL_MEANINGS: Final[dict[ToolQuantity, tuple[Direction, str]]] = {
    "calls": (Direction.NEITHER, "Number of calls of {name} in a run that calls it."),
    "used": (Direction.HIGHER, "Share of the calls of {name} that looked for documents whose result the answer uses."),
    "relevant": (Direction.HIGHER, "Share of the calls of {name} that looked for documents with a relevant result."),
    "wasted": (
        Direction.LOWER,
        "Share of the calls of {name} that failed, or found nothing relevant or used.",
    ),
    "repeated": (Direction.LOWER, "Share of the calls of {name} with the arguments of an earlier call."),
    "failed": (Direction.LOWER, "Share of the calls of {name} that failed."),
    "empty": (Direction.LOWER, "Share of the calls of {name} that looked for documents and found none."),
    "latency_s": (Direction.LOWER, "Mean seconds of a call of {name}; past 60 it says 60."),
    "yield": (Direction.HIGHER, "Share of relevant sentences in the results of {name} in the first round."),
}
TOOL_QUANTITIES: Final[tuple[ToolQuantity, ...]] = tuple(_TOOL_MEANINGS)

TOOL_RULES: Final[Mapping[ToolQuantity, DefaultRule]] = {
    "failed": DefaultRule("tools-failed", severity="info"),
    "empty": DefaultRule("tools-empty", severity="info"),
    "used": DefaultRule("tools-used", "!local", min_effect=0.05, severity="info"),
}
"""The rules in force by default on numbers of every tool."""

_TOOL_UPPERS: Final[dict[ToolQuantity, float]] = {"calls": float(STEPS_MAX), "latency_s": TOOL_LATENCY_MAX_S}


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


class ToolMetric(NamedTuple):
    """One metric of the calls of one tool."""

    tool: str
    """Name of its calls."""
    quantity: ToolQuantity

    @property
    def name(self) -> str:
        """Qualified name of the metric."""
        return f"{TOOL_FAMILY}{self.tool}.{self.quantity}"

    @classmethod
    def read(cls, metric: str) -> "ToolMetric | None":
        """Return the metric of a tool that has a name; None for other metrics.

        >>> ToolMetric.read("tool.search.latency_s"), ToolMetric.read("tool.search.mine")
        (ToolMetric(tool='search', quantity='latency_s'), None)
        """
        if not metric.startswith(TOOL_FAMILY):
            return None
        tool, _, last = metric.removeprefix(TOOL_FAMILY).rpartition(".")
        quantity = next((known for known in TOOL_QUANTITIES if known == last), None)
        return None if quantity is None or not tool else cls(tool, quantity)


@lru_cache(maxsize=1_000)
def tool_declaration(metric: ToolMetric) -> MetricDeclaration:
    """Return the declaration of a metric of a tool, for events."""
    direction, meaning = _TOOL_MEANINGS[metric.quantity]
    return MetricDeclaration(
        version=f"{VERSION}-tool",
        lower=0.0,
        upper=_TOOL_UPPERS.get(metric.quantity, 1.0),
        direction=direction,
        kind=Kind.DISTRIBUTIVE if metric.quantity == "calls" else Kind.ALGEBRAIC,
        meaning=meaning.format(name=metric.tool),
    )


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
