"""Selects the items that an experiment's report shows: the worst, and those on which configs disagree. No I/O."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

from ragtide_schemas import RagInteraction

from ..experiments.state import ExperimentState
from .content import ItemAnswer, ItemView
from .reader import Texts

TEXT_CHARS: Final = 600
"""Most characters shown of a question, reference or response."""


@dataclass(frozen=True, slots=True)
class ScoredItem:
    """An item with its scores by config."""

    index: int
    scores: dict[str, float]
    unscored: int = 0
    """Configs that ran on it without a score, such as a failed call; the mean leaves them out."""

    @property
    def mean(self) -> float:
        """Mean score."""
        return sum(self.scores.values()) / len(self.scores)

    @property
    def spread(self) -> float:
        """Highest minus lowest score."""
        return max(self.scores.values()) - min(self.scores.values())


def scored_items(state: ExperimentState) -> list[ScoredItem]:
    """Return the items on which a config has a score of the race's metric, in the order in which items are run."""
    found: dict[int, dict[str, float]] = {}
    unscored: Counter[int] = Counter()
    for one in state.shown:
        for index, result in state.counted(one.config.name):
            if isnan(score := result.score(state.plan.metric)):
                unscored[index] += 1
            else:
                found.setdefault(index, {})[one.config.name] = score
    return [ScoredItem(index, found[index], unscored[index]) for index in sorted(found)]


def worst(items: Sequence[ScoredItem], count: int, *, higher_is_better: bool) -> list[ScoredItem]:
    """Return the items with the worst mean over configs, the worst first.

    An item without the score of a config comes after the others: its mean is over other configs than theirs.
    """
    sign = 1.0 if higher_is_better else -1.0
    return sorted(items, key=lambda item: (item.unscored > 0, sign * item.mean, item.index))[:count]


def disputed(items: Sequence[ScoredItem], count: int) -> list[ScoredItem]:
    """Return the items whose scores differ most between configs, the most disputed first."""
    differing = [item for item in items if item.spread > 0]
    return sorted(differing, key=lambda item: (-item.spread, item.index))[:count]


def texts_wanted(state: ExperimentState, items: Iterable[ScoredItem]) -> list[tuple[str, int]]:
    """Return the config and index of every answer to some items."""
    results = state.results.by_config
    wanted = [(name, item.index) for item in items for name in state.configs if item.index in results[name]]
    return list(dict.fromkeys(wanted))


def view(state: ExperimentState, item: ScoredItem, texts: Texts, names: Sequence[str]) -> ItemView:
    """Return an item with the answer of every config.

    Args:
        state: of the experiment.
        item: the item.
        texts: texts of answers.
        names: configs in the order to show them.
    """
    said = [texts[name, item.index] for name in names if (name, item.index) in texts]
    first: RagInteraction | None = said[0] if said else None
    results = (state.results.by_config[name].get(item.index) for name in names)
    item_id = next((result.execution.item_id for result in results if result and result.execution), str(item.index))
    return ItemView(
        place=item.index,
        item_id=item_id,
        question=None if first is None else shortened(first.question),
        reference=None if first is None or first.reference_answer is None else shortened(first.reference_answer),
        mean=item.mean,
        spread=item.spread,
        scored=len(item.scores),
        unscored=item.unscored,
        answers=[
            answered
            for name in names
            if (answered := _answered(state, item, name, texts.get((name, item.index)))) is not None
        ],
    )


def _answered(state: ExperimentState, item: ScoredItem, name: str, text: RagInteraction | None) -> ItemAnswer | None:
    result = state.results.by_config[name].get(item.index)
    if result is None or not (name in item.scores or state.configs[name].covers(item.index)):
        return None
    score = item.scores.get(name)
    failure = None if result.execution is None else result.execution.failure
    undefined = None if result.event is None else result.event.absent.get(state.plan.metric)
    if failure is not None:
        note = f"call failed: {failure}"
    elif result.unlabeled is not None:
        note = f"not labeled: {result.unlabeled}"
    elif score is None:
        note = "not labeled yet" if result.event is None else f"no score: {undefined or 'the labeler gave none'}"
    else:
        note = "" if text is not None else "its text is no longer on the stream"
    return ItemAnswer(name, score, None if text is None else shortened(text.response), note)


def shortened(text: str, most: int = TEXT_CHARS) -> str:
    """Return a text, cut if it is longer than `most`.

    >>> shortened("one two three", 8)
    'one two…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
