"""Renders the leaderboard of an experiment as a table; reads and prints nothing."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragtide_offline.experiments.board import Board, BoardRow
from ragtide_schemas.metric_definitions import OUTCOMES

from .tables import NARROW, NARROW_BAR_WIDTH, interval_bar

BAR_WIDTH = 24
"""Characters of an interval's bar."""

STYLES = {"running": "cyan", "complete": "bold green", "stopped": "bright_black"}

NAME_CHARS = 40
"""Most characters of a config's name in one line."""

NARROW_NAME_CHARS = 18


def board_view(board: Board, width: int, others: Sequence[str] = ()) -> RenderableType:
    """Return the leaderboard for a terminal.

    Args:
        board: leaderboard to draw.
        width: columns of the terminal.
        others: metrics to show besides the metric of the race.
    """
    narrow = width < NARROW
    others = () if narrow else others
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right", style="bright_black")
    table.add_column("config", overflow="fold", max_width=NARROW_NAME_CHARS if narrow else NAME_CHARS)
    table.add_column("", no_wrap=True)
    table.add_column(board.metric.rpartition(".")[2], justify="right")
    table.add_column("interval", no_wrap=True)
    table.add_column("n", justify="right")
    table.add_column("failed", justify="right")
    for metric in others:
        table.add_column(metric.rpartition(".")[2], justify="right")
    if not narrow:
        table.add_column("$ / item", justify="right")
        table.add_column("p50 s", justify="right")
    table.add_column("behind", no_wrap=True)
    for row in board.rows:
        _add(table, board, row, width, others)
    return Group(_head(board), Text(), table, *_notes(board))


def _head(board: Board) -> Text:
    state = "complete" if board.completed else "paused" if board.paused else "running"
    text = Text.assemble(
        (board.run, "bold cyan"),
        f"   {state}   {board.compared:,} of {board.population_size:,} items   shard {board.shard} of {board.shards}   "
        f"{board.executed:,} calls, {board.share_of_work:.0%} of all   {board.cost_usd:.4f} USD   "
        f"{board.tokens:,} tokens",
    )
    if board.paused and not board.completed:
        text.append(f"\n{board.paused}", style="yellow")
    return text


def _add(table: Table, board: Board, row: BoardRow, width: int, others: Sequence[str]) -> None:
    style = STYLES.get(row.status, "")
    main = row.estimates[board.metric]
    narrow = width < NARROW
    bar_width = NARROW_BAR_WIDTH if narrow else BAR_WIDTH
    gap = row.behind
    numbers = {one.name: one.number for one in board.rows}
    behind = "" if gap is None else f"{gap.estimate:.3f}"
    cost = f"{row.cost_per_item_usd:.5f}" if row.cost_usd else "—"
    latency = f"{row.latency_quantiles_s['p50']:.3f}" if row.latency_quantiles_s else "—"
    table.add_row(
        str(row.number),
        Text(row.name, style=style),
        Text(row.status, style=style),
        _number(main.estimate),
        Text.assemble(
            f"{main.lower:.3f} ",
            interval_bar(main.estimate, (main.lower, main.upper), main.value_range, bar_width, style or "cyan"),
            f" {main.upper:.3f}",
        ),
        f"{main.n:,}",
        Text(f"{row.n_failed:,}", style="red" if row.n_failed else "bright_black"),
        *(_number(row.estimates[metric].estimate if metric in row.estimates else None) for metric in others),
        *(() if narrow else (cost, latency)),
        behind
        if narrow or gap is None
        else f"{behind} [{gap.lower:.3f}, {gap.upper:.3f}] to #{numbers.get(row.against or '', '?')}",
    )


def _notes(board: Board) -> list[Text]:
    stopped = sorted((row for row in board.rows if row.stopped_by is not None), key=lambda row: row.n_items)
    notes = [
        Text(f"#{row.number} stopped by {row.stopped_by}{': ' if row.reason else ''}{row.reason}", style="bright_black")
        for row in stopped
    ]
    return [Text(), *notes] if notes else []


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"


def shown_metrics(board: Board, most: int = 3) -> list[str]:
    """Return the first few scored metrics besides the metric of the race, which get a column each.

    Outcomes such as an empty retrieval come last, because they say less about quality.
    """
    outcomes = {metric.name for metric in OUTCOMES}
    found = dict.fromkeys(metric for row in board.rows for metric, one in row.estimates.items() if one.n)
    shown = [metric for metric in found if metric != board.metric]
    return sorted(shown, key=lambda metric: metric in outcomes)[:most]
