"""What the judge of a traffic costs, and the interactions of which traffic is made."""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Final

from pydantic import SecretStr

from ragtide_producers.files.interactions import Row
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction
from ragtide_schemas.criterion import built_in_criteria

from ..demo import demo_interactions
from ..runs import planned_cost
from .planning import PlannedTraffic
from .unit_costs import KIB

EXAMPLES: Final = 20
"""Interactions over which tokens are averaged."""
DAY_S: Final = 86_400
MONTH_DAYS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeBill:
    """The calls of a judge, by estimate, without those that faults of answers add."""

    calls: float
    """Calls in a second."""
    prompt_tokens: float
    """Tokens sent in a second."""
    completion_tokens: float
    """Tokens answered in a second."""
    usd_a_day: float | None
    """US dollars; None if the price is not known."""

    @property
    def usd_a_month(self) -> float | None:
        """US dollars for 30 days; None if the price is not known."""
        return None if self.usd_a_day is None else MONTH_DAYS * self.usd_a_day

    def as_dict(self) -> dict[str, float | None]:
        """Return the bill as JSON fields."""
        return {**asdict(self), "usd_a_month": self.usd_a_month}


async def judge_bill(traffic: PlannedTraffic, settings: Settings) -> JudgeBill:
    """Return what the judge of the settings costs; nothing is asked.

    Every criterion counts, at its rate, for all pipelines and segments.

    Raises:
        ConfigurationError: no model is named.
    """
    if settings.judge.model is None:
        raise ConfigurationError("the judge has no model: give --judge-model, or set judge.model")
    examples = example_interactions(EXAMPLES, documents=round(traffic.documents), kib=traffic.document_kib)
    rows = [Row(number, interaction) for number, interaction in enumerate(examples, 1)]
    # No call is made, so any key will do.
    everywhere = {"pipelines": ("*",), "segments": {}}
    criteria = tuple(criterion.model_copy(update=everywhere) for criterion in settings.judge.criteria)
    changes = {"api_key": settings.judge.api_key or SecretStr("none"), "criteria": criteria}
    judge = settings.judge.model_copy(update=changes)
    plan = await planned_cost(settings.with_labeler("judge").model_copy(update={"judge": judge}), rows)
    each = traffic.rate * traffic.judge_share / plan.rows
    return JudgeBill(
        calls=each * plan.calls.calls,
        prompt_tokens=each * plan.calls.prompt_tokens,
        completion_tokens=each * plan.calls.completion_tokens,
        usd_a_day=DAY_S * each * plan.calls.cost_usd if plan.has_price else None,
    )


async def usd_of_judgement(
    settings: Settings, metric: str, pipeline: str | None, *, documents: float, kib: float
) -> float | None:
    """Return the US dollars of one interaction's calls of the judge; None without a model or a price.

    Args:
        metric: that is judged: if it is a criterion, it is asked.
        pipeline: of the interaction, for the other criteria that are asked of it; None for all of them.
        kib: KiB of text of each document.
    """
    if settings.judge.model is None:
        return None
    known = {criterion.metric: criterion for criterion in (*built_in_criteria(), *settings.judge.criteria)}
    others = [
        criterion
        for criterion in settings.judge.criteria
        if criterion.metric != metric
        and (pipeline is None or any(fnmatchcase(pipeline, pattern) for pattern in criterion.pipelines))
    ]
    criteria = (*others, *([known[metric].asked_of_all()] if metric in known else []))
    asking = settings.model_copy(update={"judge": settings.judge.model_copy(update={"criteria": criteria})})
    traffic = PlannedTraffic(rate=1.0, documents=documents, document_kib=kib, judge_share=1.0)
    bill = await judge_bill(traffic, asking)
    return None if bill.usd_a_day is None else bill.usd_a_day / DAY_S


def example_interactions(
    count: int, *, documents: int = 5, kib: float = 1.0, pipelines: int = 10, first: int = 0
) -> list[RagInteraction]:
    """Return interactions whose documents have text of real sentences; no two documents are the same.

    Args:
        count: number of interactions.
        documents: of each.
        kib: KiB of text of each document.
        pipelines: number of pipelines, which take turns.
        first: number of the first interaction, so that ids differ between calls.
    """
    rows = demo_interactions()
    sentences = itertools.cycle([document.text for row in rows for document in row.documents])
    return [
        RagInteraction(
            interaction_id=f"i{number}",
            pipeline=f"pipeline-{number % pipelines}",
            question=f"{rows[number % len(rows)].question} ({number})",
            documents=[_text(sentences, round(kib * KIB), f"({number}.{place})") for place in range(documents)],
            response=rows[number % len(rows)].response,
        )
        for number in range(first, first + count)
    ]


def _text(sentences: Iterator[str], size: int, mark: str) -> str:
    parts, length = [mark], len(mark)
    while length < size:
        sentence = next(sentences)
        parts.append(sentence)
        length += len(sentence) + 1
    return " ".join(parts)[:size].strip() or mark
