"""`ragtide judge`: shows what the judge of the settings sees, before anyone trusts it."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ragtide_offline.benchmark.corruptions import CorruptionRun
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.telemetry.logs import configure_logging

from .benchmark_tables import planned
from .command_groups import command_group
from .common import JsonOption, given
from .console import err
from .corruption_tables import measure_corruptions, names_in

judge = command_group("Show what your judge sees, for a stated cost.", no_args_is_help=True)


@judge.callback()
def _group() -> None:
    """Show what your judge sees, for a stated cost."""


@judge.command()
def check(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Files of interactions; no true scores are needed.")],
    rows: Annotated[int, typer.Option(min=1, help="Rows that are drawn, evenly from the subsets.")] = 40,
    max_cost_usd: Annotated[
        float, typer.Option("--max-cost-usd", min=0, help="Most US dollars; a check that may cost more does not begin.")
    ] = 1.0,
    only: Annotated[
        str | None, typer.Option(help="Only these corruptions, separated by commas, such as 'negation,HTML'.")
    ] = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the drawn rows, of corruptions and of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show which failures your judge sees: rows are spoilt in known ways and judged before and after.

    It is ragtide benchmark --corruptions with the judge, on a sample. The cost is stated before the first call. Answers
    are kept in data_dir and paid for once.
    """
    settings = given(context).settings(labeler="judge")
    configure_logging("error" if settings.log_level == "info" else settings.log_level)
    run = CorruptionRun(names_in(only), seed)
    plan = asyncio.run(run.plan(settings, files, sample=rows))
    err.print(planned(plan), markup=False, highlight=False)
    if plan.calls.calls and not plan.has_price:
        raise ConfigurationError(
            "the price of the model is not known, so --max-cost-usd cannot be kept: set it under judge.prices, for a "
            "model of your own with input = 0 and output = 0"
        )
    if plan.calls.cost_usd > max_cost_usd:
        raise ConfigurationError(
            f"the check would cost about ${plan.calls.cost_usd:,.2f}, and --max-cost-usd is {max_cost_usd:g}: give "
            "fewer --rows, some corruptions with --only, or a higher --max-cost-usd"
        )
    measure_corruptions(
        run, settings, files, sample=rows, confidence=confidence, max_cost_usd=max_cost_usd, as_json=as_json
    )
