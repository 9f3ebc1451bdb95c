"""How well two labelers separate clean interactions from spoilt ones, with the interval of the difference. Pure."""

from collections.abc import Sequence

import numpy as np

from ragtide_aggregator.statistics.tables import scipy_functions
from ragtide_consumers.labelers.local.correction_file import Separated

from .regression import Floats, PairScores


def separation(
    corruptions: Sequence[str], questions: Sequence[str], shipped: PairScores, fitted: PairScores, *, confidence: float
) -> Separated:
    """Return the mean gain in AUROC over corruptions, with an interval by Student's t over questions.

    Assumes: questions are independent. The fits that predicted the folds share most of their interactions, which the
    interval does not count. Raises: ValueError for fewer than two questions.
    Source: the placement values of DeLong, DeLong and Clarke-Pearson (1988), added by cluster as by Obuchowski (1997).

    Args:
        shipped: scores of the shipped labeler.
        fitted: scores of the fitted labeler, each predicted by a fit to other questions.
        confidence: level of the interval.
    """
    groups, members = np.unique(np.array(questions, dtype=object), return_inverse=True)
    names, kinds = np.unique(np.array(corruptions, dtype=object), return_inverse=True)
    n = len(groups)
    if n < 2:
        raise ValueError(f"there are {n} questions: an interval needs at least 2")
    means, influence = np.zeros(2), np.zeros(n)
    for kind in range(len(names)):
        mine = kinds == kind
        for number, scores in enumerate((shipped, fitted)):
            clean, spoilt = (side[mine] for side in scores)
            above = _share_below(clean, spoilt), 1 - _share_below(spoilt, clean)
            auroc = float(above[0].mean())
            means[number] += auroc / len(names)
            parts = (above[0] + above[1] - 2 * auroc) / (len(clean) * len(names))
            influence += (2 * number - 1) * np.bincount(members[mine], parts, n)
    gain = float(means[1] - means[0])
    deviation = (n / (n - 1) * float(influence @ influence)) ** 0.5
    half = float(scipy_functions.stdtrit(n - 1, (1 + confidence) / 2)) * deviation
    return Separated(
        pairs=len(questions),
        questions=n,
        corruptions=len(names),
        shipped=float(means[0]),
        fitted=float(means[1]),
        gain=gain,
        lower=max(gain - half, -1.0),
        upper=min(gain + half, 1.0),
    )


def _share_below(values: Floats, others: Floats) -> Floats:
    order = np.sort(others)
    places = np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right")
    return np.asarray(places / (2 * len(others)))
