"""Runs of a labeler over rows in the terminal: their price before the first call, and their progress."""

import asyncio
from contextlib import aclosing
from math import inf
from typing import Any

from ragtide_offline.runs import CostPlan, LabelerRun
from ragtide_runtime.errors import ConfigurationError

from .console import err, out, print_json, warn
from .progress import cost_note, progress_bar


def planned(plan: CostPlan) -> str:
    """Return the cost of a run in sentences."""
    calls = plan.calls
    found = [f"{plan.labeler}: {plan.rows:,} rows, {calls.calls:,} calls, {calls.cached:,} answers from the cache."]
    if calls.calls:
        found.append(f"About {calls.prompt_tokens:,} tokens sent, {calls.completion_tokens:,} answered.")
        digits = 2 if calls.cost_usd >= 0.01 else 4
        found.append(
            f"About ${calls.cost_usd:,.{digits}f}, without answers that are asked for again because of a fault."
            if plan.has_price
            else "The price of the model is not known: set it under judge.prices."
        )
    return "\n".join(found)


def show_plan(plan: CostPlan, *, as_json: bool = False) -> None:
    """Print the cost of a run."""
    if as_json:
        print_json(plan.as_dict())
    else:
        out.print(planned(plan), markup=False, highlight=False)


def refuse_cost(plan: CostPlan, max_cost_usd: float, name: str, fewer: str) -> None:
    """Print what a run would cost.

    Args:
        plan: of the run.
        max_cost_usd: most US dollars.
        name: of the run, such as check.
        fewer: what makes the run cheaper, as words of the error.

    Raises:
        ConfigurationError: it may cost more than allowed, or the price is not known.
    """
    err.print(planned(plan), markup=False, highlight=False)
    if plan.calls.calls and not plan.has_price:
        raise ConfigurationError(
            "the price of the model is not known, so --max-cost-usd cannot be kept: set it under judge.prices, for a "
            "model of your own with input = 0 and output = 0"
        )
    if plan.calls.cost_usd > max_cost_usd:
        raise ConfigurationError(
            f"the {name} would cost about ${plan.calls.cost_usd:,.2f}, and --max-cost-usd is {max_cost_usd:g}: give "
            f"{fewer}, or a higher --max-cost-usd"
        )


def label_rows(
    run: LabelerRun[Any], title: str = "labeling", *, total: int | None = None, max_cost_usd: float = inf
) -> None:
    """Label the rows of a run with a progress bar.

    It stops when it has cost more than `max_cost_usd`, because answers that are asked for again cost more than planned.
    """

    async def label() -> None:
        done = 0
        async with aclosing(run.run()) as steps:
            async for _ in steps:
                done += 1
                cost_usd = run.result.cost_usd
                advance(done, cost_note(cost_usd, done, total))
                if cost_usd > max_cost_usd:
                    warn(f"stopped after {done:,} rows: they cost ${cost_usd:,.2f}, more than --max-cost-usd")
                    return

    with progress_bar(title, total) as advance:
        asyncio.run(label())


def finish_run(run: LabelerRun[Any], confidence: float) -> None:
    """Print the problems of a run, and compute its tables with a progress bar."""
    warn(*run.result.problems)
    with progress_bar("comparing", None) as advance:
        for done, _ in enumerate(run.finish(confidence), 1):
            advance(done)


def names_in(text: str | None) -> list[str]:
    """Return the names in a list that is separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]
