"""Criteria that a replay asks about a recording: by name, and their price before the first call."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Final

import typer

from ragtide_offline.replay.plan import ReplayPlan, settings_of_replay
from ragtide_offline.replay.publishing import RecordedInteractions
from ragtide_offline.replay.selection import count_selected
from ragtide_offline.runs import planned_cost
from ragtide_offline.sessions import session_criteria, with_sessions
from ragtide_producers import Row
from ragtide_runtime.recordings import EntryKind
from ragtide_runtime.settings.labelers import check_criteria
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.criterion import Criterion

from .console import err, out, print_json

PLANNED: Final = 2_000
"""Most interactions whose calls are planned one by one; the price of more is that of these, in proportion."""


def criteria_named(settings: Settings, names: Sequence[str]) -> tuple[Criterion, ...]:
    """Return criteria of the settings, of the store, or built-in ones, by name.

    Raises:
        typer.BadParameter: there is none of a name, or they cannot be asked together.
    """
    if not names:
        return ()
    from .criteria_views import find_criterion  # noqa: PLC0415 - reads estimates too

    found = tuple(find_criterion(settings, name) for name in names)
    try:
        check_criteria(found)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--criterion") from None
    return found


def show_backfill(settings: Settings, plan: ReplayPlan, *, as_json: bool) -> None:
    """Print the calls, tokens and price of asking criteria about a recording, by estimate.

    Raises:
        ConfigurationError: a setting of the judge is missing or wrong, or no interaction is selected.
    """
    total = count_selected(plan.recording, EntryKind.INTERACTIONS, plan.selection, ("pipeline",)).total
    trial = settings_of_replay(settings, plan.info(settings, total))
    price = asyncio.run(planned_cost(trial, _rows(plan, trial), keeps_answers=False))
    planned = min(total, PLANNED)
    scale = total / max(planned, 1)
    figures = {name: value * scale for name, value in asdict(price.calls).items()}
    figures["cost_usd"] = figures["cost_usd"] if price.has_price else None
    if as_json:
        print_json({"interactions": total, "planned": planned, **figures})
        return
    shown = "an unknown price (judge.prices)" if not price.has_price else f"about ${figures['cost_usd']:,.4f}"
    out.print(
        f"{total:,} interactions: {figures['calls']:,.0f} calls, {figures['prompt_tokens']:,.0f} tokens in, "
        f"{figures['completion_tokens']:,.0f} tokens out, {shown}"
    )
    err.print(
        "without answers that are cached; --max-cost-usd stops the replay, which can continue", style="bright_black"
    )


def _rows(plan: ReplayPlan, settings: Settings) -> Iterator[Row]:
    items = RecordedInteractions(plan.recording, plan.selection).after(None)
    rows = (Row(number, item.interaction) for number, item in enumerate(islice(items, PLANNED), 1))
    return with_sessions(rows, session_criteria(settings), settings.clusters.quiet_s)
