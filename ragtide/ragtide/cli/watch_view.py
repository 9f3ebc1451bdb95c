"""The view of `ragtide watch` as a value: each key returns the next view. Reads no keys and draws nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ragtide_schemas import Headline
from ragtide_schemas.headline import HEADLINE_STATES

FILTER_CHARS: Final = 60
"""Most characters of a filter."""

KEYS: Final = "↑↓ choose  Enter open  s sort  / filter  q quit"
FILTER_KEYS: Final = "type a text  Enter keep the filter  Esc remove it"
OPENED_KEYS: Final = "↑↓ scroll  ←→ other pipeline  Esc back  q quit"


class Sort(StrEnum):
    """Orders of the pipelines."""

    NAME = "name"
    WORST = "worst state"
    CHANGE = "largest change"


@dataclass(frozen=True, slots=True)
class WatchView:
    """The part of the deployment on the screen."""

    sort: Sort = Sort.NAME
    text: str = ""
    """Only metrics whose pipeline, segment, metric or labeler contains this text."""
    typing: bool = False
    """Whether keys belong to the filter."""
    chosen: str | None = None
    """The pipeline under the cursor; None is the first."""
    opened: bool = False
    """Whether the chosen pipeline has the whole screen."""
    first_line: int = 0
    """Number of lines above the screen."""
    closed: bool = False
    """Whether the user has quit."""

    @property
    def keys(self) -> str:
        """The keys that have an effect now."""
        if self.typing:
            return FILTER_KEYS
        return OPENED_KEYS if self.opened else KEYS


def press(view: WatchView, key: str, pipelines: Sequence[str]) -> WatchView:
    """Return the view after a key.

    Args:
        view: the view before.
        key: a printable character, or a name: up, down, left, right, enter, escape, backspace, page-up, page-down.
        pipelines: the shown pipelines, in their order.
    """
    if view.typing:
        return _typed(view, key)
    if key == "q":
        return replace(view, closed=True)
    return _pressed_opened(view, key, pipelines) if view.opened else _pressed(view, key, pipelines)


def _typed(view: WatchView, key: str) -> WatchView:
    if key == "enter":
        return replace(view, typing=False)
    if key == "escape":
        return replace(view, typing=False, text="")
    if key == "backspace":
        return replace(view, text=view.text[:-1])
    if len(key) == 1 and len(view.text) < FILTER_CHARS:
        return replace(view, text=view.text + key)
    return view


def _pressed(view: WatchView, key: str, pipelines: Sequence[str]) -> WatchView:
    if key in {"up", "k"}:
        return _moved(view, -1, pipelines)
    if key in {"down", "j"}:
        return _moved(view, 1, pipelines)
    if key in {"enter", "right"} and pipelines:
        return replace(view, chosen=chosen_of(view, pipelines), opened=True, first_line=0)
    if key == "s":
        orders = list(Sort)
        return replace(view, sort=orders[(orders.index(view.sort) + 1) % len(orders)])
    if key == "/":
        return replace(view, typing=True)
    return replace(view, text="") if key == "escape" else view


def _pressed_opened(view: WatchView, key: str, pipelines: Sequence[str]) -> WatchView:
    scrolled = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -10, "page-down": 10}
    if key in scrolled:
        return replace(view, first_line=max(view.first_line + scrolled[key], 0))
    if key in {"escape", "backspace"}:
        return replace(view, opened=False, first_line=0)
    if key in {"left", "right"}:
        return replace(_moved(view, 1 if key == "right" else -1, pipelines), first_line=0)
    return view


def _moved(view: WatchView, steps: int, pipelines: Sequence[str]) -> WatchView:
    now = chosen_of(view, pipelines)
    if now is None:
        return view
    place = min(max(pipelines.index(now) + steps, 0), len(pipelines) - 1)
    return replace(view, chosen=pipelines[place])


def chosen_of(view: WatchView, pipelines: Sequence[str]) -> str | None:
    """Return the pipeline under the cursor: the first if the chosen pipeline is not shown; None without pipelines."""
    if view.chosen in pipelines:
        return view.chosen
    return pipelines[0] if pipelines else None


def matching(headlines: Iterable[Headline], text: str) -> list[Headline]:
    """Return the headlines whose pipeline, segment, metric or labeler contains a text, in any case."""
    wanted = text.casefold()
    return [
        headline
        for headline in headlines
        if any(
            wanted in name.casefold()
            for name in (headline.pipeline, headline.segment or "", headline.metric, headline.labeler)
        )
    ]


def by_pipeline(headlines: Iterable[Headline], sort: Sort) -> dict[str, list[Headline]]:
    """Return the headlines of each pipeline, with the pipelines in their order."""
    found: dict[str, list[Headline]] = {}
    for headline in headlines:
        found.setdefault(headline.pipeline, []).append(headline)

    def key(name: str) -> tuple[float, float, str]:
        if sort is Sort.WORST:
            place = min(map(_place, found[name]))
            return place, -sum(_place(headline) == place for headline in found[name]), name
        if sort is Sort.CHANGE:
            most = most_changed(found[name])
            return 0.0 if most is None else -change_of(most), 0.0, name
        return 0.0, 0.0, name

    return {name: found[name] for name in sorted(found, key=key)}


def worst_of(headlines: Iterable[Headline]) -> Headline | None:
    """Return the first headline in the worst state; None without headlines."""
    return min(headlines, key=_place, default=None)


def most_changed(headlines: Iterable[Headline]) -> Headline | None:
    """Return the headline that is farthest from its number over all time; None if each is over all time."""
    return max((headline for headline in headlines if change_of(headline) > 0), key=change_of, default=None)


def change_of(headline: Headline) -> float:
    """Return the distance of the number from that over all time, as a share of the metric's range."""
    whole = None if headline.all_time is None else headline.all_time.estimate
    if whole is None or headline.estimate is None:
        return 0.0
    lowest, highest = headline.value_range
    return abs(headline.estimate - whole) / (highest - lowest) if highest > lowest else 0.0


def _place(headline: Headline) -> int:
    return HEADLINE_STATES.index(headline.state)
