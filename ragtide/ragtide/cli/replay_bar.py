"""Draws the progress bar of a replay, if the output is a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from ragtide_offline.replay.metrics_replay import ReplayProgress
from ragtide_offline.replay.relabeling import RelabelProgress
from ragtide_offline.replay.replay import Show


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="bright_black")


@contextmanager
def replay_bar(console: Console, total: int) -> Iterator[Show]:
    """Draw the progress, with the time of the last metric event, or with the cost of the interactions."""
    columns = (
        TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", style="bright_black"),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, note="")

        def show(progress: ReplayProgress | RelabelProgress) -> None:
            if isinstance(progress, RelabelProgress):
                bar.update(task, completed=progress.labeling.done, note=_cost(progress))
            else:
                bar.update(task, completed=progress.done, note=f"{progress.at:%Y-%m-%d %H:%M}" if progress.at else "")

        yield show


def _cost(progress: RelabelProgress) -> str:
    labeling, projected = progress.labeling, progress.projected_usd
    parts = []
    if labeling.prompt_tokens or labeling.completion_tokens:
        parts.append(f"{labeling.prompt_tokens + labeling.completion_tokens:,} tokens")
        parts.append(f"${labeling.cost_usd:.2f}" + ("" if projected is None else f" of about ${projected:.2f}"))
    if labeling.cache_hits:
        parts.append(f"{labeling.cache_hits:,} from the cache")
    if labeling.dead:
        parts.append(f"{labeling.dead:,} dead letters")
    return ", ".join(parts)
