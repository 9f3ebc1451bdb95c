"""The bar of a command that takes long, and the end of one that Ctrl-C interrupts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, Protocol

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from ..printing import err

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C: 128 and the number of the signal."""


class Shown(Protocol):
    """Shows the number of finished items, and a note such as the cost."""

    def __call__(self, done: int, note: str = "") -> None:
        """Draw the bar anew."""


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="bright_black")


def _bar(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), _Rate(),
        TimeRemainingColumn(), TextColumn("{task.fields[note]}", style="bright_black"),
    )  # fmt: skip
    return Progress(*columns, console=console, disable=not console.is_terminal)


class BarView:
    """A bar inside of another live screen, which draws it.

    Args:
        console: the terminal of that screen.
        title: the activity, such as comparing.
    """

    def __init__(self, console: Console, title: str) -> None:
        self._bar = _bar(console)
        self._task = self._bar.add_task(title, total=None, note="")

    def drawn(self, done: int, total: int, note: str = "") -> RenderableType:
        """Return the bar with the number of finished items, and the time left."""
        self._bar.update(self._task, completed=done, total=total, note=note)
        return self._bar.get_renderable()


@contextmanager
def progress_bar(title: str, total: int | None, console: Console = err) -> Iterator[Shown]:
    """Draw a bar with number, rate, time left and note; nothing if the output is not a terminal.

    Args:
        title: the activity, such as scoring.
        total: number of items; None if it is unknown.
    """
    with _bar(console) as bar:
        task = bar.add_task(title, total=total, note="")

        def show(done: int, note: str = "") -> None:
            bar.update(task, completed=done, note=note)

        yield show


def cost_note(cost_usd: float, done: int, total: int | None) -> str:
    """Return the cost so far, and of all items at that cost of an item; nothing without a cost.

    >>> cost_note(0.5, 10, 40), cost_note(0.0, 10, 40), cost_note(0.5, 40, 40)
    ('$0.50 of about $2.00', '', '$0.50')
    """
    if not cost_usd:
        return ""
    all_of_it = "" if total is None or not 0 < done < total else f" of about ${cost_usd / done * total:,.2f}"
    return f"${cost_usd:,.2f}{all_of_it}"


@contextmanager
def interruptible(kept: Callable[[], str]) -> Iterator[None]:
    """End the command after Ctrl-C with one sentence and the exit code 130.

    Args:
        kept: returns the sentence: the kept results, and the way to go on.
    """
    try:
        yield
    except KeyboardInterrupt:
        interrupted(kept())


def interrupted(sentence: str) -> NoReturn:
    """Print the sentence of an interrupted command, and end it.

    Raises:
        typer.Exit: always, with the exit code 130.
    """
    err.print(f"Stopped. {sentence}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(INTERRUPTED)
