"""The report of an experiment: reads its state and texts, and selects the items to show.

The items are the worst, and those on which configs disagree. Everything after reading is computed without I/O.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from typing import Final

from redis.asyncio import Redis

from ragtide_offline.score.reference_results import reference_results
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import RagInteraction, Workspace, utc_now

from ..experiments.board import Board, board
from ..experiments.execution_log import ExecutionLog
from ..experiments.reader import ExperimentReader, streams_of
from ..experiments.state import ExperimentState
from .content import ExperimentReport, ItemAnswer, ItemView, PublishedMean, PublishedMeans
from .findings import as_in_pairs, cautions_of, curves_of, failures_of, labeler_ids, pairs_of, parameters_of

Texts = Mapping[tuple[str, int], RagInteraction]
"""Answers by config and index of the item."""

TEXT_CHARS: Final = 600
"""Most characters shown of a question, reference or response."""

ITEMS = 10
"""Default number of items shown in each of the two lists: the worst and the disputed."""


async def read_experiment(redis: Redis, settings: Settings, info: Workspace) -> ExperimentState:
    """Return the state of an experiment with all its results so far.

    Raises:
        ConfigurationError: the workspace is no experiment, or its experiment has not begun.
    """
    reader = ExperimentReader(redis, streams_of(settings, info))
    await reader.read()
    return reader.state


async def read_texts(redis: Redis, settings: Settings, info: Workspace, wanted: Iterable[tuple[str, int]]) -> Texts:
    """Return the answers, by config and index of the item, that are still on the stream."""
    executions = ExecutionLog(redis, streams_of(settings, info), dedupe_window_s=settings.dedupe_window_s)
    texts: dict[tuple[str, int], RagInteraction] = {}
    for config, item in wanted:
        answer = await executions.answer(config, item)
        if answer is not None:
            texts[config, item] = answer
    return texts


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
    scores: dict[int, dict[str, float]] = {}
    unscored: Counter[int] = Counter()
    for status in state.shown:
        for index, result in state.counted(status.config.name):
            if isnan(score := result.score(state.plan.metric)):
                unscored[index] += 1
            else:
                scores.setdefault(index, {})[status.config.name] = score
    return [ScoredItem(index, scores[index], unscored[index]) for index in sorted(scores)]


def worst_items(items: Sequence[ScoredItem], count: int, *, higher_is_better: bool) -> list[ScoredItem]:
    """Return the items with the worst mean over configs, the worst first.

    An item without the score of a config comes after the others: its mean is over other configs than theirs.
    """
    sign = 1.0 if higher_is_better else -1.0
    return sorted(items, key=lambda item: (item.unscored > 0, sign * item.mean, item.index))[:count]


def disputed_items(items: Sequence[ScoredItem], count: int) -> list[ScoredItem]:
    """Return the items whose scores differ most between configs, the most disputed first."""
    differing = [item for item in items if item.spread > 0]
    return sorted(differing, key=lambda item: (-item.spread, item.index))[:count]


def item_view(state: ExperimentState, item: ScoredItem, texts: Texts, names: Sequence[str]) -> ItemView:
    """Return an item with the answer of every config.

    Args:
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
        question=None if first is None else shorten(first.question),
        reference=None if first is None or first.reference_answer is None else shorten(first.reference_answer),
        mean=item.mean,
        spread=item.spread,
        scored=len(item.scores),
        unscored=item.unscored,
        answers=[
            answered
            for name in names
            if (answered := _item_answer(state, item, name, texts.get((name, item.index)))) is not None
        ],
    )


def _item_answer(state: ExperimentState, item: ScoredItem, name: str, text: RagInteraction | None) -> ItemAnswer | None:
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
    return ItemAnswer(name, score, None if text is None else shorten(text.response), note)


def shorten(text: str, most: int = TEXT_CHARS) -> str:
    """Return a text, cut if it is longer than `most`.

    >>> shorten("one two three", 8)
    'one two…'
    """
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def chosen_items(state: ExperimentState, count: int = ITEMS) -> tuple[list[ScoredItem], list[ScoredItem]]:
    """Return the worst and the most disputed items, at most `count` of each."""
    items = scored_items(state)
    return worst_items(items, count, higher_is_better=state.plan.higher_is_better), disputed_items(items, count)


def wanted_texts(state: ExperimentState, items: Iterable[ScoredItem]) -> list[tuple[str, int]]:
    """Return the answers, by config and index of the item, whose texts the report needs."""
    results = state.results.by_config
    wanted = [(name, item.index) for item in items for name in state.configs if item.index in results[name]]
    return list(dict.fromkeys(wanted))


def experiment_report(
    info: Workspace,
    state: ExperimentState,
    items: tuple[Sequence[ScoredItem], Sequence[ScoredItem]],
    texts: Texts,
    *,
    made_at: datetime | None = None,
    published: str | None = None,
) -> ExperimentReport:
    """Return the content of an experiment's report.

    Args:
        info: workspace of the experiment.
        state: the experiment.
        items: the worst and the most disputed items, to be shown.
        texts: the answers to these items that are still on the stream.
        made_at: time of the report; now unless given.
        published: data set whose published results are shown beside the best config's.
    """
    worst, disputed = items
    leaderboard = board(state)
    names = [row.name for row in leaderboard.rows]
    pairs = pairs_of(state, leaderboard)
    leaderboard = as_in_pairs(leaderboard, pairs)
    labelers = labeler_ids(state)
    ends = [result.execution.at for result in state.results.executed() if result.execution is not None]
    return ExperimentReport(
        info=info,
        plan=state.plan,
        board=leaderboard,
        made_at=made_at or utc_now(),
        began_at=info.created_at,
        last_at=max(ends, default=None),
        instruments=labelers,
        commands=state.commands,
        refused=list(state.refused),
        pairs=pairs,
        curves=curves_of(state, leaderboard),
        worst=[item_view(state, item, texts, names) for item in worst],
        disputed=[item_view(state, item, texts, names) for item in disputed],
        parameters=parameters_of(state),
        failures=failures_of(state),
        cautions=cautions_of(state, leaderboard, labelers),
        published=None if published is None else _published_means(leaderboard, published),
    )


def _published_means(board: Board, dataset: str) -> PublishedMeans | None:
    results = reference_results(dataset)
    if board.leader is None:
        return None
    ours = board.leader.estimates
    means = [
        PublishedMean(metric, result.name, result.means[metric], mean.estimate, mean.lower, mean.upper)
        for metric, mean in ours.items()
        if mean.n and mean.estimate is not None
        for result in results
        if metric in result.means
    ]
    return PublishedMeans(
        results[0].title, list(dict.fromkeys(result.source for result in results)), board.leader.name, means
    )
