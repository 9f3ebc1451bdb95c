"""The progress bar of a replay, drawn on a terminal only."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from ragtide_offline.replay.aggregating import Progress as ReplayProgress
from ragtide_offline.replay.relabeling import RelabelProgress
from ragtide_offline.replay.replay import Seen


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="bright_black")


@contextmanager
def replay_bar(console: Console, total: int) -> Iterator[Seen]:
    """Draw the progress: of metric events the time of the last one, of interactions the cost."""
    columns = (
        TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", style="bright_black"),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, note="")

        def seen(progress: ReplayProgress | RelabelProgress) -> None:
            if isinstance(progress, RelabelProgress):
                bar.update(task, completed=progress.tally.done, note=_cost(progress))
            else:
                bar.update(task, completed=progress.done, note=f"{progress.at:%Y-%m-%d %H:%M}" if progress.at else "")

        yield seen


def _cost(progress: RelabelProgress) -> str:
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
