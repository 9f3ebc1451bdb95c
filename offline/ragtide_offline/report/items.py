"""Which items of an experiment are worth a look: where all do badly, and where configs disagree. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

from ragtide_schemas import RagInteraction

from .content import Answered, ItemView
from .reader import Judged, Texts

TEXT_CHARS: Final = 600
"""Characters of a question, reference or response that are shown."""


@dataclass(frozen=True, slots=True)
class Scored:
    """An item with the scores it has."""

    place: int
    scores: dict[str, float]

    @property
    def mean(self) -> float:
        """Mean over the configs that have a score."""
        return sum(self.scores.values()) / len(self.scores)

    @property
    def spread(self) -> float:
        """Highest minus lowest."""
        return max(self.scores.values()) - min(self.scores.values())


def scored_items(judged: Judged) -> list[Scored]:
    """Return the items on which a config counts with a score of the raced metric, in the order of the permutation."""
    metric = judged.progress.plan.metric
    found: dict[int, dict[str, float]] = {}
    for name, standing in judged.progress.configs.items():
        if standing.status != "deleted":
            for place, cell in judged.book.counted(judged.progress, standing):
                if not isnan(score := cell.score(metric)):
                    found.setdefault(place, {})[name] = score
    return [Scored(place, found[place]) for place in sorted(found)]


def worst(items: Sequence[Scored], count: int, *, higher_is_better: bool) -> list[Scored]:
    """Return the items with the worst mean over configs, the worst first."""
    sign = 1.0 if higher_is_better else -1.0
    return sorted(items, key=lambda item: (sign * item.mean, item.place))[:count]


def disputed(items: Sequence[Scored], count: int) -> list[Scored]:
    """Return the items whose scores differ most between configs, the most disputed first."""
    differing = [item for item in items if item.spread > 0]
    return sorted(differing, key=lambda item: (-item.spread, item.place))[:count]


def texts_wanted(judged: Judged, items: Iterable[Scored]) -> list[tuple[str, int]]:
    """Return the answers whose texts are to be read for items."""
    cells = judged.book.cells
    wanted = [(name, item.place) for item in items for name in judged.progress.configs if item.place in cells[name]]
    return list(dict.fromkeys(wanted))


def view(judged: Judged, item: Scored, texts: Texts, names: Sequence[str]) -> ItemView:
    """Return an item with what every config made of it.

    Args:
        judged: the experiment.
        item: which one.
        texts: answers that were read.
        names: configs, in the order in which they are shown.
    """
    said = [texts[name, item.place] for name in names if (name, item.place) in texts]
    first: RagInteraction | None = said[0] if said else None
    executions = (judged.book.cells[name].get(item.place) for name in names)
    item_id = next((cell.execution.item_id for cell in executions if cell and cell.execution), str(item.place))
    return ItemView(
        place=item.place,
        item_id=item_id,
        question=None if first is None else shortened(first.question),
        reference=None if first is None or first.reference_answer is None else shortened(first.reference_answer),
        mean=item.mean,
        spread=item.spread,
        answers=[
            answered
            for name in names
            if (answered := _answered(judged, item, name, texts.get((name, item.place)))) is not None
        ],
    )


def _answered(judged: Judged, item: Scored, name: str, text: RagInteraction | None) -> Answered | None:
    cell = judged.book.cells[name].get(item.place)
    standing = judged.progress.configs[name]
    if cell is None or not (name in item.scores or standing.covers(item.place)):
        return None
    score = item.scores.get(name)
    failure = None if cell.execution is None else cell.execution.failure
    undefined = None if cell.event is None else cell.event.absent.get(judged.progress.plan.metric)
    if failure is not None:
        note = f"call failed: {failure}"
    elif cell.unlabeled is not None:
        note = f"not labeled: {cell.unlabeled}"
    elif score is None:
        note = "not labeled yet" if cell.event is None else f"no score: {undefined or 'the labeler gave none'}"
    else:
        note = "" if text is not None else "its text is no longer on the stream"
    return Answered(name, score, None if text is None else shortened(text.response), note)


def shortened(text: str, most: int = TEXT_CHARS) -> str:
    """Return a text, cut where it is too long to be shown.

    >>> shortened("one two three", 8)
    'one two…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
