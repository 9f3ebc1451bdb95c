"""Published means beside those of an experiment's best config. No I/O."""

from ragtide_schemas.reference_results import reference_results

from ..experiments.board import Board
from .content import PublishedMean, PublishedMeans


def published_means(board: Board, dataset: str) -> PublishedMeans | None:
    """Return the published means of a data set for the metrics of the best config; None if no config has a score.

    Raises:
        ValueError: there are no published results of that data set.
    """
    results = reference_results(dataset)
    if board.leader is None:
        return None
    ours = board.leader.estimates
    means = [
        PublishedMean(metric, result.name, result.means[metric], found.estimate, found.lower, found.upper)
        for metric, found in ours.items()
        if found.n and found.estimate is not None
        for result in results
        if metric in result.means
    ]
    return PublishedMeans(dataset, list(dict.fromkeys(one.source for one in results)), board.leader.name, means)
