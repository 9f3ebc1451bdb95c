"""The progress bars of replays. On a terminal only."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from ragtide_offline.replay.aggregating import Progress as MetricsProgress
from ragtide_offline.replay.aggregating import Seen as SeenMetrics
from ragtide_offline.replay.relabeling import RelabelProgress
from ragtide_offline.replay.relabeling import Seen as SeenRelabeling


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="bright_black")


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", style="bright_black"),
    )  # fmt: skip
    return Progress(*columns, console=console, disable=not console.is_terminal)


@contextmanager
def metrics_bar(console: Console, total: int) -> Iterator[SeenMetrics]:
    """Draw how far a replay of metric events is, as it is told."""
    with _progress(console) as bar:
        task = bar.add_task("", total=total, note="")

        def seen(progress: MetricsProgress) -> None:
            bar.update(task, completed=progress.done, note=_time(progress.at))

        yield seen


@contextmanager
def relabel_bar(console: Console, total: int) -> Iterator[SeenRelabeling]:
    """Draw how far a replay of interactions is, with what it cost and will cost, as it is told."""
    with _progress(console) as bar:
        task = bar.add_task("", total=total, note="")

        def seen(progress: RelabelProgress) -> None:
            bar.update(task, completed=progress.tally.done, note=_spent(progress))

        yield seen


def _time(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"


def _spent(progress: RelabelProgress) -> str:
    tally, projected = progress.tally, progress.projected_usd
    parts = []
    if tally.prompt_tokens or tally.completion_tokens:
        parts.append(f"{tally.prompt_tokens + tally.completion_tokens:,} tokens")
        parts.append(f"${tally.cost_usd:.2f}" + ("" if projected is None else f" of about ${projected:.2f}"))
    if tally.cache_hits:
        parts.append(f"{tally.cache_hits:,} from the cache")
    if tally.dead:
        parts.append(f"{tally.dead:,} dead letters")
    return ", ".join(parts)
