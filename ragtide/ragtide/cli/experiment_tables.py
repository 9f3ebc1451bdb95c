"""Renders the leaderboard of an experiment as a table; reads and prints nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from ragtide_offline.experiments.board import Board, BoardRow
from ragtide_offline.experiments.drafts import value_text
from ragtide_offline.experiments.projections import Projection
from ragtide_offline.experiments.verdict import stop_text
from ragtide_schemas.experiments import RACE
from ragtide_schemas.metric_definitions import OUTCOMES
from ragtide_schemas.printable import printable

from .drawing import interval_bar
from .fitting import Column, fitted, shortened
from .tables import interval_text

BAR_WIDTHS: Final = (24, 14)
"""Characters of an interval's bar, from a wide terminal to a narrow terminal."""

STYLES = {"running": "cyan", "complete": "bold green", "stopped": "bright_black"}

NAME_CHARS: Final = 12
"""Fewest characters of a config's name."""

TITLE_CHARS: Final = 8
"""Fewest characters of a parameter's name as the title of a column."""

VALUE_CHARS: Final = 24
"""Most characters of a parameter's value."""


def board_view(board: Board, width: int, others: Sequence[str] = (), *, driven: bool = True) -> RenderableType:
    """Return the leaderboard for a terminal.

    Args:
        board: leaderboard to draw.
        width: columns of the terminal.
        others: metrics to show besides the metric of the race.
        driven: whether a process runs the experiment.
    """
    rows, metric = board.rows, board.metric
    if not rows:
        return Group(_head(board, driven=driven), *_notes(board))
    styles = [STYLES.get(row.status, "") for row in rows]
    main = [row.estimates[metric] for row in rows]
    means = [_number(estimate.estimate) for estimate in main]
    failed = [Text(f"{row.n_failed:,}" if row.n_failed else "", style="red") for row in rows]
    names = [f"#{row.number}" if row.own_name is None else f"#{row.number} {row.own_name}" for row in rows]
    labels = [Text(printable(name), style=style) for name, style in zip(names, styles, strict=True)]
    columns = [
        Column("config", labels, yields=6, shortest=NAME_CHARS),
        *_parameters(rows),
        Column("status", [Text(row.status, style=style) for row, style in zip(rows, styles, strict=True)]),
        Column(_last(metric), means, right=True, yields=7, narrower=Column("mean", means, right=True)),
        Column(
            "interval", [interval_text((estimate.lower, estimate.upper), exact=estimate.exact) for estimate in main]
        ),
        _bars(main, styles),
        Column("n", [f"{estimate.n:,}" for estimate in main], right=True),
        *([Column("failed", failed, right=True, yields=7, stacks=True)] if any(row.n_failed for row in rows) else []),
        *(Column(_last(other), [_number(_mean(row, other)) for row in rows], right=True, yields=1) for other in others),
        Column("$ / item", [_cost(row) for row in rows], right=True, yields=2),
        *_per_dollar(board, rows),
        Column("p50 s", [_latency(row) for row in rows], right=True, yields=2),
        Column("behind", _behind(rows, long=True), yields=3, narrower=Column("behind", _behind(rows, long=False))),
    ]
    return Group(_head(board, driven=driven), Text(), fitted(columns, width), *_notes(board))


def _parameters(rows: Sequence[BoardRow]) -> list[Column]:
    """Return a column for each parameter that differs between configs."""
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    found = {name: [_value(row.parameters, name) for row in rows] for name in names}
    # A single config has no difference to show, so all its parameters are shown.
    return [
        Column(name, values, yields=8, shortest=max(TITLE_CHARS, *map(cell_len, values)), stacks=True)
        for name, values in found.items()
        if len(rows) == 1 or len(set(values)) > 1
    ]


def _value(parameters: Mapping[str, Any], name: str) -> str:
    return shortened(printable(value_text(parameters[name])), VALUE_CHARS) if name in parameters else ""


def _bars(found: Sequence[Projection], styles: Sequence[str]) -> Column:
    wide, narrow = (
        [
            interval_bar(
                projection.estimate,
                (projection.lower, projection.upper),
                projection.value_range,
                width,
                style or "cyan",
            )
            for projection, style in zip(found, styles, strict=True)
        ]
        for width in BAR_WIDTHS
    )
    return Column("", wide, yields=2, narrower=Column("", narrow, yields=4))


def _behind(rows: Sequence[BoardRow], *, long: bool) -> list[str]:
    numbers = {row.name: row.number for row in rows}
    cells: list[str] = []
    for row in rows:
        gap = row.behind
        short = "" if gap is None else f"{gap.estimate:z.3f}"
        if long and gap is not None:
            ends = interval_text((gap.lower, gap.upper), exact=gap.lower == gap.upper)
            short += f" ({ends}) to #{numbers.get(row.against or '', '?')}"
        cells.append(short)
    return cells


def _mean(row: BoardRow, metric: str) -> float | None:
    return row.estimates[metric].estimate if metric in row.estimates else None


def _cost(row: BoardRow) -> str:
    return f"{row.cost_per_item_usd:.5f}" if row.cost_usd else "—"


def _per_dollar(board: Board, rows: Sequence[BoardRow]) -> list[Column]:
    """Return the quality per dollar of the answers, if any config has costs."""
    found = [board.quality_per_usd(row) for row in rows]
    if not any(found):
        return []
    cells = ["—" if per is None or per.estimate is None else f"{per.estimate:,.4g}" for per in found]
    return [Column(f"{_last(board.metric)} / $", cells, right=True, yields=6)]


def _latency(row: BoardRow) -> str:
    return f"{row.latency_quantiles_s['p50']:.3f}" if row.latency_quantiles_s else "—"


def _last(metric: str) -> str:
    return metric.rpartition(".")[2]


def _head(board: Board, *, driven: bool) -> Text:
    going = "running" if driven else "waits for a driver"
    state = "complete" if board.completed else "paused" if board.paused else going
    text = Text.assemble(
        (board.run, "bold cyan"),
        f"   {state}   {board.compared:,} of {board.population_size:,} items   shard {board.shard} of {board.shards}",
        f"   {board.cost_usd:.4f} USD" if board.cost_usd else "",
        f"   {board.tokens:,} tokens" if board.tokens else "",
        f"\nby {board.metric}   {_work(board)}",
    )
    if board.paused and not board.completed:
        text.append(f"\n{board.paused}", style="yellow")
    if board.warning is not None:
        text.append(f"\n{printable(board.warning)}", style="yellow")
    return text


def _work(board: Board) -> str:
    """Return the calls that were made, saved and still to be made, which are all calls together."""
    saved = board.calls_saved / board.calls_total if board.calls_total else 0.0
    left = board.calls_total - board.executed - board.calls_saved
    to_come = f", {left:,} to come" if left > 0 else ""
    return f"{board.executed:,} of {board.calls_total:,} calls made, {board.calls_saved:,} saved ({saved:.0%}){to_come}"


def _notes(board: Board) -> list[Text]:
    """Return the lines below the table: the meaning of exact numbers, and why configs were stopped."""
    notes = []
    if any(row.estimates[board.metric].exact for row in board.rows):
        notes.append(f"exact: all {board.population_size:,} items have run. {_outlook(board)}".rstrip())
    titles = {row.name: row.title for row in board.rows}
    stopped = sorted((row for row in board.rows if row.stopped_by is not None), key=lambda row: row.n_items)
    notes += [_stop(row, board, titles) for row in stopped]
    if board.margin is not None and any(row.stopped_by == RACE for row in stopped):
        notes.append(
            f"The race stops a config once it is surely at most {board.margin:g} better than another (error "
            f"probability of all stops together: {board.alpha:.2g})."
        )
    return [Text(), *(Text(printable(note), style="bright_black") for note in notes)] if notes else []


def _outlook(board: Board) -> str:
    if board.outlook is None or board.leader is None:
        return ""
    ends = interval_text((board.outlook.lower, board.outlook.upper))
    return f"For other items like these {board.leader.title} has {ends}."


def _stop(row: BoardRow, board: Board, titles: Mapping[str, str]) -> str:
    leader = titles.get(row.against or "")
    if row.stopped_by == RACE and row.behind is not None and leader is not None:
        sure = stop_text(row.behind, leader, higher_is_better=board.higher_is_better)
        return f"{row.title} stopped after {row.n_items:,} items: {sure}"
    return f"{row.title} stopped by {row.stopped_by}{': ' if row.reason else ''}{row.reason}"


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"


def shown_metrics(board: Board, most: int = 3) -> list[str]:
    """Return the first few scored metrics besides the metric of the race, which get a column each.

    Outcomes such as an empty retrieval come last, because they say less about quality.
    """
    outcomes = {metric.name for metric in OUTCOMES}
    found = dict.fromkeys(metric for row in board.rows for metric, estimate in row.estimates.items() if estimate.n)
    shown = [metric for metric in found if metric != board.metric]
    return sorted(shown, key=lambda metric: metric in outcomes)[:most]
